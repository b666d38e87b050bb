"""The formats of strings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from uwaga.markup.units import Fragment

if TYPE_CHECKING:
    from uwaga.markup.xml_text import XmlOutline

Format = Literal["text", "html", "xml", "markdown", "message"]
TAG = re.compile(
    r"</?(?:[A-Za-z][\w:.-]*+|\d++)"
    r"(?>(?:\s++[A-Za-z_:@][\w:.-]*+(?:=(?:\"[^\"<]*+\"|'[^'<]*+'|[^\s\"'<>=]++))?)*)\s*+/?>"
)
"""A complete tag of HTML, or of a placeholder."""


def text_format(text: str) -> Format:
    """Return the format of a text without a stated format: ``message`` if it has tags, else ``text``."""
    return "message" if TAG.search(text) else "text"


def read_fragment(
    text: str,
    format: Format,  # noqa: A002 (the name of the option)
    ignored: frozenset[str] = frozenset(),
    outline: XmlOutline | None = None,
) -> Fragment:
    """Read a string in a format, whose module is imported on demand.

    Args:
        text: the string.
        format: its format; ``text`` has no markup, ``message`` is a text of a program with HTML tags, in
            which white space is significant.
        ignored: for html and xml, names of elements that are never translated, in lower case.
        outline: for xml, which elements separate texts; None if the string is a single text.
    """
    if format == "html":
        from uwaga.markup.html import read_html

        return read_html(text, ignored)
    if format == "message":
        from uwaga.markup.html import html_pieces

        return Fragment(tuple(html_pieces(text, ignored, message=True)))
    if format == "xml":
        from uwaga.markup.xml_text import read_xml

        return read_xml(text, ignored, outline)
    if format == "markdown":
        from uwaga.markup.markdown import read_markdown

        return read_markdown(text)
    return Fragment.plain(text)
