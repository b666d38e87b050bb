"""The formats that a string may be in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from uwaga.markup.fragments import Fragment

Format = Literal["text", "html", "xml", "markdown"]


def reader(name: Format) -> Callable[[str, frozenset[str]], Fragment]:
    """What takes a string of a format apart; imported when it is asked for.

    Args:
        name: any but ``text``, which has nothing to take apart.
    """
    if name == "xml":
        from uwaga.markup.xml import read_xml

        return read_xml
    if name == "markdown":
        from uwaga.markup.markdown import read_markdown

        return read_markdown
    from uwaga.markup.html import read_html

    return read_html
