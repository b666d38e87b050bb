"""Markdown (CommonMark with tables and strikethrough); everything but the texts is copied byte for byte."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from uwaga.documents.document import DocumentFormat, DocumentSource, Reading
from uwaga.documents.encodings import decode_text
from uwaga.documents.formats.yaml import yaml_pieces
from uwaga.documents.messages import KeyChoice
from uwaga.errors import DataError
from uwaga.markup.markdown import markdown_pieces
from uwaga.markup.units import Piece

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
    yield from markdown_pieces(body)


FORMAT = DocumentFormat("markdown", (".md", ".markdown", ".mdown", ".mkd"), read)
