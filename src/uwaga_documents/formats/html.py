"""HTML pages, including malformed pages, and EPUB books."""

from __future__ import annotations

import re
from collections.abc import Mapping

from uwaga.errors import DataError
from uwaga.files.zip import Archive
from uwaga.markup.html import html_pieces
from uwaga.markup.xml import text_elements
from uwaga_documents.document import DocumentFormat, DocumentSource, ParsedDocument, Reader
from uwaga_documents.encodings import html_text, xml_reader
from uwaga_documents.language import html_in_target


def read_html(source: DocumentSource) -> ParsedDocument:
    """Read a page, whose texts are its blocks and its attributes with human-readable text."""
    decoded = html_text(source)
    return decoded.parsed(html_pieces(html_in_target(decoded.text, source.options)), "xmlcharrefreplace")


HTML = DocumentFormat("html", (".html", ".htm", ".xhtml"), read_html)


PAGE_SUFFIXES = (".xhtml", ".html", ".htm")
CONTAINER = "META-INF/container.xml"
ENCRYPTED_PAGE = re.compile(rb"<(?:\w+:)?CipherReference\b[^<>]*?\sURI=[\"'][^\"'<]*\.x?html?[\"']")


def members(archive: Archive) -> Mapping[str, Reader]:
    """Return the readers of the members of a book that contain text: pages, table of contents, title and
    description.
    """
    if CONTAINER not in archive:
        raise DataError(f"{archive.path}: not an EPUB book: the archive lacks {CONTAINER}")
    encryption = "META-INF/encryption.xml"
    if encryption in archive and ENCRYPTED_PAGE.search(archive.read(encryption)):
        raise DataError(f"{archive.path}: the pages of the book are encrypted (DRM)")
    readers: dict[str, Reader] = {}
    for name in archive.names:
        if name.lower().endswith(PAGE_SUFFIXES):
            readers[name] = _page
        elif name.lower().endswith(".ncx"):
            readers[name] = xml_reader(lambda text: text_elements(text, ("text",)))
        elif name.lower().endswith(".opf"):
            readers[name] = xml_reader(lambda text: text_elements(text, ("dc:title", "dc:description")))
    return readers


def _page(source: DocumentSource) -> ParsedDocument:
    if b"<!ENTITY" in source.content:
        raise DataError(
            f"{source.name}: declares entities, which are never expanded; write the text itself instead"
        )
    return read_html(source)


EPUB = DocumentFormat("epub", (".epub",), members=members)
