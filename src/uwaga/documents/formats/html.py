"""HTML: whole pages, soup too, byte-equal outside the texts."""

from __future__ import annotations

from uwaga.documents.document import DocumentSource, Reading
from uwaga.documents.encodings import html_text
from uwaga.documents.registry import DocumentFormat
from uwaga.markup.html import html_pieces


def read(source: DocumentSource) -> Reading:
    """Take a page apart into the texts of its blocks and of the attributes that are read."""
    text, encoding, mark = html_text(source)
    return Reading(html_pieces(text), encoding, "xmlcharrefreplace", mark)


FORMAT = DocumentFormat("html", (".html", ".htm", ".xhtml"), read)
