"""Markdown (CommonMark with tables and strikethrough): byte-equal outside the texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from uwaga.documents.document import DocumentSource, Piece, Reading, text_unit
from uwaga.documents.encodings import decode_text
from uwaga.documents.front_matter import front_matter
from uwaga.documents.html_pieces import html_pieces
from uwaga.documents.markdown_blocks import TextBlock, text_blocks
from uwaga.documents.markdown_inline import read_inline, write_block
from uwaga.documents.markdown_parser import MarkdownParser
from uwaga.documents.registry import DocumentFormat


def read(source: DocumentSource) -> Reading:
    """Take a Markdown document apart into its paragraphs, headings and cells.

    Raises:
        MissingExtraError: markdown-it-py is not installed.
    """
    text, encoding, mark = decode_text(source.content, source.options.encoding, source.name)
    return Reading(_pieces(text, source.options.keys), encoding, mark=mark)


def _pieces(text: str, keys: Sequence[str]) -> Iterator[Piece]:
    head, body = front_matter(text, keys)
    yield from head
    parser = MarkdownParser()
    at = 0
    for block in text_blocks(parser, body):
        yield body[at : block.start]
        if block.kind == "html":
            yield from html_pieces(body[block.start : block.end])
        else:
            yield _unit(parser, body, block)
        at = block.end
    yield body[at:]


def _unit(parser: MarkdownParser, body: str, block: TextBlock) -> Piece:
    raw = body[block.start : block.end]
    inline = read_inline(parser, block)
    return text_unit(raw, inline, lambda made: write_block(parser, block, made))


FORMAT = DocumentFormat("markdown", (".md", ".markdown", ".mdown", ".mkd"), read)
