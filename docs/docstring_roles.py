"""Let docstrings keep reStructuredText's roles, which editors know, and show them as links here."""

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|data|func|meth|mod):`~?([\w.]+)`")


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
            text = ROLE.sub(_link, obj.docstring.value)
            obj.docstring.value = re.sub(r"::\n\n(?= )", ":\n\n", text)
