"""ARB, the messages of Flutter: JSON whose keys with an @ describe the others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from uwaga.documents.document import DocumentSource, Piece, Reading
from uwaga.documents.encodings import decode_text
from uwaga.documents.json_pieces import check_json, json_pieces, json_texts
from uwaga.documents.keys import KeyChoice
from uwaga.documents.registry import DocumentFormat


def read(source: DocumentSource) -> Reading:
    """Take a file apart into its messages; ``@@locale`` becomes the target language, where that is known."""
    text, encoding, mark = decode_text(source.content, source.options.encoding, source.name)
    check_json(text, source.name)
    if source.options.target:
        text = _in_language(text, source.options.target)
    chosen = KeyChoice(source.options.keys)

    def wanted(path: Sequence[str]) -> bool:
        return not path[0].startswith("@") and chosen(path)

    pieces: Iterator[Piece] = json_pieces(text, wanted, source.name)
    return Reading(pieces, encoding, mark=mark)


def _in_language(text: str, target: str) -> str:
    for one in json_texts(text):
        if one.path == ("@@locale",):
            return text[: one.start] + json.dumps(target.replace("-", "_")) + text[one.end :]
    return text


FORMAT = DocumentFormat("arb", (".arb",), read)
