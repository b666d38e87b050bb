"""OpenDocument (.odt, .odp, .ods): paragraphs and headings, with notes, frames and comments inside them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from uwaga.errors import DataError
from uwaga.files.zip import Archive
from uwaga.markup import Inline, Tag
from uwaga.markup.inline import join_parts
from uwaga.markup.units import Piece, balance_tags, text_unit
from uwaga.markup.xml import Element, Token, Treatment, content_pieces, write_xml, xml_inline
from uwaga_documents.document import DocumentFormat, Reader
from uwaga_documents.encodings import xml_reader
from uwaga_documents.runs import MAX_PARAGRAPH_DEPTH

BLOCKS = ("text:p", "text:h")
COPIED = ("text:tracked-changes", "office:scripts", "office:font-face-decls", "office:automatic-styles")
PAIRED = frozenset(("text:span", "text:a", "text:meta", "text:ruby", "text:ruby-base"))
BREAK = re.compile(r"<text:(?:line-break|tab)(?![\w-])")
WHITE_SPACE = re.compile(r"[ \t\r\n]+")
MEMBERS = ("content.xml", "styles.xml")


def members(archive: Archive) -> Mapping[str, Reader]:
    """Return the members that hold text: the content, and the styles with headers and footers."""
    if "content.xml" not in archive or "META-INF/manifest.xml" not in archive:
        raise DataError(
            f"{archive.path}: not an OpenDocument file: the archive lacks content.xml or a manifest"
        )
    if b"encryption-data" in archive.read("META-INF/manifest.xml"):
        raise DataError(f"{archive.path}: is encrypted; remove the password")
    return {name: xml_reader(_pieces) for name in MEMBERS if name in archive}


def _pieces(text: str, depth: int = 1) -> Iterator[Piece]:
    if depth > MAX_PARAGRAPH_DEPTH:
        raise DataError(f"more than {MAX_PARAGRAPH_DEPTH} paragraphs are inside each other")

    def read(element: Element) -> Iterator[Piece]:
        yield element.content(text) if element.name in COPIED else _block(text, element, depth)

    return content_pieces(text, (*BLOCKS, *COPIED), read)


def _block(text: str, element: Element, depth: int) -> Piece:
    def treat(token: Token, raw: str) -> Treatment:
        return "pair" if token.name in PAIRED and token.kind == "open" else "void"

    inline: Inline = join_parts(
        WHITE_SPACE.sub(" ", part)
        if isinstance(part, str)
        else Tag(part.kind, part.raw, "\n" if BREAK.match(part.raw) else "")
        for part in xml_inline(text, element.inner, element.inner_end, treat)
    )
    inner = {
        part.raw: list(_pieces(part.raw, depth + 1))
        for part in inline
        if isinstance(part, Tag) and part.kind == "void" and ("<text:p" in part.raw or "<text:h" in part.raw)
    }
    return text_unit(element.content(text), balance_tags(inline), write_xml, inner)


FORMAT = DocumentFormat("odt", (".odt", ".ott", ".odp", ".ods"), members=members)
