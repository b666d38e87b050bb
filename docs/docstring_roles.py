"""Show roles and numbers of mechanisms in docstrings as links, and options with their help."""

import ast
import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|data|func|meth|mod):`~?([\w.]+)`")


NUMBER = re.compile(r"(?<![\w`/#])([ME])([1-9]|[12]\d|3[0-6])\b(?![`.])")
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


def option_help(value: str) -> str:
    """Return the help and bounds of an option record's field, from its source; empty for other attributes.

    Args:
        value: of the field, such as ``field(default=5, metadata=option("Beam size", minimum=1))``.
    """
    if "option(" not in value:
        return ""
    calls = (node for node in ast.walk(ast.parse(value)) if isinstance(node, ast.Call))
    found = next(
        (each for each in calls if isinstance(each.func, ast.Name) and each.func.id == "option"), None
    )
    if found is None:
        return ""
    given = {each.arg: ast.unparse(each.value) for each in found.keywords}
    bounds = [f"{words} {given[name]}" for name, words in BOUNDS.items() if name in given]
    default = [f"default: {ast.literal_eval(given['unset'])}"] if "unset" in given else []
    rest = f" ({'; '.join((*bounds, *default))})" if bounds or default else ""
    return f"{ast.literal_eval(found.args[0])}{rest}."


BOUNDS = {"minimum": "at least", "maximum": "at most"}


class DocstringRoles(griffe.Extension):
    """Rewrites each docstring before it becomes Markdown, and describes each option by its metadata."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """See griffe's documentation of extensions."""
        words = option_help(str(attr.value or ""))
        if words:
            more = f"\n\n{attr.docstring.value}" if attr.docstring else ""
            attr.docstring = griffe.Docstring(words + more, parent=attr)

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """See griffe's documentation of extensions."""
        if obj.docstring:
            text = NUMBER.sub(link_number, obj.docstring.value)
            text = ROLE.sub(_link, text)
            obj.docstring.value = re.sub(r"::\n\n(?= )", ":\n\n", text)
