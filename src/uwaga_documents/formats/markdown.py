"""Markdown (CommonMark with tables and strikethrough); everything except the texts is copied byte for
byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from uwaga.errors import DataError
from uwaga.markup.markdown import markdown_pieces
from uwaga.markup.units import Piece
from uwaga_documents.document import DocumentFormat, DocumentSource, ParsedDocument
from uwaga_documents.encodings import decode_text
from uwaga_documents.formats.yaml import yaml_pieces
from uwaga_documents.messages import KeyChoice

FRONT_MATTER = re.compile(
    r"(---[ \t]*\r?\n)(.*?)(^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z))", re.DOTALL | re.MULTILINE
)
TOML = re.compile(r"\+\+\+[ \t]*\r?\n.*?^\+\+\+[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
TEXT_KEYS = ("title", "subtitle", "description", "summary", "excerpt", "abstract", "linkTitle")
"""Keys of front matter whose values are displayed to readers."""


def front_matter(text: str, keys: Sequence[str] = ()) -> tuple[list[Piece], str]:
    """Return the pieces of the front matter of a document, and the remaining text.

    The front matter is YAML between lines of ``---``, or TOML between lines of ``+++``, which is copied.

    Args:
        text: the document.
        keys: the keys whose values are translated; if empty, the keys in :data:`TEXT_KEYS`.
    """
    if match := TOML.match(text):
        return [match[0]], text[match.end() :]
    match = FRONT_MATTER.match(text)
    if match is None or ":" not in match[2]:
        return [], text
    try:
        pieces = list(yaml_pieces(match[2], KeyChoice(keys or TEXT_KEYS), "front matter"))
    except DataError:
        pieces = [match[2]]  # front matter with template tags may not be YAML, and is copied
    return [match[1], *pieces, match[3]], text[match.end() :]


def read(source: DocumentSource) -> ParsedDocument:
    """Read a document, whose texts are its paragraphs, headings and table cells."""
    decoded = decode_text(source)
    return decoded.parsed(_pieces(decoded.text, source.options.keys))


def _pieces(text: str, keys: Sequence[str]) -> Iterator[Piece]:
    head, body = front_matter(text, keys)
    yield from head
    yield from markdown_pieces(body)


FORMAT = DocumentFormat("markdown", (".md", ".markdown", ".mdown", ".mkd", ".mdx"), read)
