"""HTML: whole pages, soup too, byte-equal outside the texts."""

from __future__ import annotations

from uwaga.documents.document import DocumentSource, Reading
from uwaga.documents.html_encoding import html_text
from uwaga.documents.html_pieces import html_pieces
from uwaga.documents.registry import DocumentFormat


def read(source: DocumentSource) -> Reading:
    """Take a page apart into the texts of its blocks and of the attributes that are read."""
    text, encoding, mark = html_text(source)
    return Reading(html_pieces(text), encoding, "xmlcharrefreplace", mark)


FORMAT = DocumentFormat("html", (".html", ".htm", ".xhtml"), read)
