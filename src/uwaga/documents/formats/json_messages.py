"""JSON of messages, such as i18next's and Chrome's."""

from __future__ import annotations

from uwaga.documents.document import Reading, Source
from uwaga.documents.encodings import decode_text
from uwaga.documents.json_pieces import json_pieces
from uwaga.documents.keys import KeyChoice
from uwaga.documents.registry import Format


def read(source: Source) -> Reading:
    """Take a file apart into its values that are text, or those whose keys are chosen."""
    text, encoding, mark = decode_text(source.content, source.options.encoding, source.name)
    return Reading(json_pieces(text, KeyChoice(source.options.keys), source.name), encoding, mark=mark)


FORMAT = Format("json", (".json",), read)
