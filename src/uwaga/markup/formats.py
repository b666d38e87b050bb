"""The formats of strings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from uwaga.markup.units import Fragment

if TYPE_CHECKING:
    from uwaga.markup.xml_text import XmlOutline

Format = Literal["text", "html", "xml", "markdown"]


def read_fragment(
    text: str,
    format: Format,  # noqa: A002 (the name of the option)
    ignored: frozenset[str] = frozenset(),
    outline: XmlOutline | None = None,
) -> Fragment:
    """Read a string in a format, whose module is imported on demand.

    Args:
        text: the string.
        format: its format; ``text`` has no markup.
        ignored: for html and xml, names of elements that are never translated, in lower case.
        outline: for xml, which elements separate texts; None if the string is a single text.
    """
    if format == "html":
        from uwaga.markup.html import read_html

        return read_html(text, ignored)
    if format == "xml":
        from uwaga.markup.xml_text import read_xml

        return read_xml(text, ignored, outline)
    if format == "markdown":
        from uwaga.markup.markdown import read_markdown

        return read_markdown(text)
    return Fragment.plain(text)
