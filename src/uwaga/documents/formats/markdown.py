"""Markdown (CommonMark with tables and strikethrough); everything but the texts is copied byte for byte."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from uwaga.documents.document import DocumentSource, Piece, Reading, text_unit
from uwaga.documents.encodings import decode_text
from uwaga.documents.formats.yaml import yaml_pieces
from uwaga.documents.html_pieces import html_pieces
from uwaga.documents.markdown_blocks import TextBlock, text_blocks
from uwaga.documents.markdown_inline import read_inline, write_block
from uwaga.documents.markdown_parser import MarkdownParser
from uwaga.documents.messages import KeyChoice
from uwaga.documents.registry import DocumentFormat
from uwaga.errors import DataError

HEAD = re.compile(r"(---[ \t]*\r?\n)(.*?)(^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z))", re.DOTALL | re.MULTILINE)
TOML = re.compile(r"\+\+\+[ \t]*\r?\n.*?^\+\+\+[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
READ = ("title", "subtitle", "description", "summary", "excerpt", "abstract", "linkTitle")
"""Keys whose values a site shows to readers."""


def front_matter(text: str, keys: Sequence[str] = ()) -> tuple[list[Piece], str]:
    """The pieces of a document's head, and the rest of it.

    Args:
        text: the document.
        keys: those of the head that are translated; none for what sites show.
    """
    if found := TOML.match(text):
        return [found[0]], text[found.end() :]
    found = HEAD.match(text)
    if found is None or ":" not in found[2]:
        return [], text
    try:
        pieces = list(yaml_pieces(found[2], KeyChoice(keys or READ), "front matter"))
    except DataError:
        pieces = [found[2]]  # templates write heads that no YAML reader takes: left alone
    return [found[1], *pieces, found[3]], text[found.end() :]


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
