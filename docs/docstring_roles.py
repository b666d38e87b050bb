"""Let docstrings keep reStructuredText's roles and mechanisms' numbers, and show both as links here."""

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|data|func|meth|mod):`~?([\w.]+)`")


NUMBER = re.compile(r"(?<![\w`/#])([ME])([1-9]|1\d|2[0-5])\b(?![`.])")
"""A mechanism or worked example by its number, as docs/mechanisms/numbers.md lists them."""


def link_number(number: re.Match[str]) -> str:
    """To its row in the list; pages that show docstrings lie two folders deep."""
    return f'<a href="../../mechanisms/numbers/#{number[0].lower()}">{number[0]}</a>'


def _link(role: re.Match[str]) -> str:
    name = role[1]
    shown = f"<code>{name.rsplit('.', 1)[-1]}</code>"
    if not name.startswith("uwaga."):
        return shown
    return f'<autoref identifier="{name}" optional>{shown}</autoref>'


class DocstringRoles(griffe.Extension):
    """Rewrites each docstring before it becomes Markdown."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """See griffe's documentation of extensions."""
        if obj.docstring:
            text = NUMBER.sub(link_number, obj.docstring.value)
            text = ROLE.sub(_link, text)
            obj.docstring.value = re.sub(r"::\n\n(?= )", ":\n\n", text)
