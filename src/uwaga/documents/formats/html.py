"""HTML: whole pages, soup too, byte-equal outside the texts."""

from __future__ import annotations

from uwaga.documents.document import Reading, Source
from uwaga.documents.html_encoding import html_text
from uwaga.documents.html_pieces import html_pieces
from uwaga.documents.registry import Format


def read(source: Source) -> Reading:
    """Take a page apart into the texts of its blocks and of the attributes that are read."""
    text, encoding, mark = html_text(source)
    return Reading(html_pieces(text), encoding, "xmlcharrefreplace", mark)


FORMAT = Format("html", (".html", ".htm", ".xhtml"), read)
