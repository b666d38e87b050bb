"""Detection of a string's format, and the choice of the reader for each format."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from uwaga.markup.units import Fragment

if TYPE_CHECKING:
    from uwaga.markup.xml_text import XmlOutline

Format = Literal["text", "html", "xml", "markdown", "message"]
TAG = (
    r"</?(?:[A-Za-z][\w:.-]*+|\d++)"
    r"(?>(?:\s++[A-Za-z_:@][\w:.-]*+(?:=(?:\"[^\"<]*+\"|'[^'<]*+'|[^\s\"'<>=]++))?)*)\s*+/?>"
)
"""A complete HTML tag, or a placeholder tag such as ``<0>``, as a regular expression."""


def text_format(text: str) -> Format:
    """Return the format of a text whose format is not given: ``message`` if it has tags, otherwise
    ``text``.
    """
    return "message" if "<" in text and re.search(TAG, text) else "text"


def read_fragment(
    text: str,
    format: Format,  # noqa: A002 (the name of the option)
    ignored_elements: frozenset[str] = frozenset(),
    outline: XmlOutline | None = None,
) -> Fragment:
    """Read a string in the given format; the module of the format is imported on demand.

    Args:
        text: the string.
        format: its format; ``text`` has no markup, and ``message`` is a string of a user interface, which may
            have HTML tags and in which white space is significant.
        ignored_elements: for html and xml, names of elements that are never translated, in lower case.
        outline: for xml, which elements separate texts; None if the string is a single text.
    """
    if format == "html":
        from uwaga.markup.html import read_html

        return read_html(text, ignored_elements)
    if format == "message":
        from uwaga.markup.html import html_pieces

        return Fragment(tuple(html_pieces(text, ignored_elements, message=True)))
    if format == "xml":
        from uwaga.markup.xml_text import read_xml

        return read_xml(text, ignored_elements, outline)
    if format == "markdown":
        from uwaga.markup.markdown import read_markdown

        return read_markdown(text)
    return Fragment.plain(text)
