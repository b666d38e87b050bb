"""Replace roles and numbers of mechanisms in docstrings by links, and describe options by their help."""

import ast
import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|data|func|meth|mod):`~?([\w.]+)`")


NUMBER = re.compile(r"(?<![\w`/#])([ME])([1-9]|[12]\d|3[0-6])\b(?![`.])")
"""The number of a mechanism or worked example of docs/mechanisms/numbers.md."""


def link_number(number: re.Match[str]) -> str:
    """Return a link to the row of a number in the list.

    Pages with docstrings are two folders deep.
    """
    return f'<a href="../../mechanisms/numbers/#{number[0].lower()}">{number[0]}</a>'


def _link(role: re.Match[str]) -> str:
    name = role[1]
    code = f"<code>{name.rsplit('.', 1)[-1]}</code>"
    if not name.startswith("uwaga."):
        return code
    return f'<autoref identifier="{name}" optional>{code}</autoref>'


def option_help(value: str) -> str:
    """Return the help and bounds of an option field from its source; empty for other attributes.

    Args:
        value: the field's value, such as ``field(default=5, metadata=option("Beam size", minimum=1))``.
    """
    if "option(" not in value:
        return ""
    calls = (node for node in ast.walk(ast.parse(value)) if isinstance(node, ast.Call))
    call = next(
        (node for node in calls if isinstance(node.func, ast.Name) and node.func.id == "option"), None
    )
    if call is None:
        return ""
    arguments = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
    bounds = [f"{words} {arguments[name]}" for name, words in BOUNDS.items() if name in arguments]
    default = [f"default: {ast.literal_eval(arguments['unset'])}"] if "unset" in arguments else []
    suffix = f" ({'; '.join((*bounds, *default))})" if bounds or default else ""
    return f"{ast.literal_eval(call.args[0])}{suffix}."


BOUNDS = {"minimum": "at least", "maximum": "at most"}


class DocstringRoles(griffe.Extension):
    """Rewrite docstrings before they become Markdown, and describe options by their metadata."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """See griffe's documentation of extensions."""
        help_text = option_help(str(attr.value or ""))
        if help_text:
            details = f"\n\n{attr.docstring.value}" if attr.docstring else ""
            attr.docstring = griffe.Docstring(help_text + details, parent=attr)

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """See griffe's documentation of extensions."""
        if obj.docstring:
            text = NUMBER.sub(link_number, obj.docstring.value)
            text = ROLE.sub(_link, text)
            obj.docstring.value = re.sub(r"::\n\n(?= )", ":\n\n", text)
