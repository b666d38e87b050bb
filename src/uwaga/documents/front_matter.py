"""The head of a Markdown document: YAML between lines of ``---``, or TOML between ``+++``, which stays."""

from __future__ import annotations

import re
from collections.abc import Sequence

from uwaga.documents.document import Piece
from uwaga.documents.formats.yaml import yaml_pieces
from uwaga.documents.messages import KeyChoice
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
