"""JSON of messages, such as i18next's and Chrome's."""

from __future__ import annotations

from uwaga.documents.document import DocumentSource, Reading
from uwaga.documents.encodings import decode_text
from uwaga.documents.json_pieces import json_pieces
from uwaga.documents.keys import KeyChoice
from uwaga.documents.registry import DocumentFormat


def read(source: DocumentSource) -> Reading:
    """Take a file apart into its values that are text, or those whose keys are chosen."""
    text, encoding, mark = decode_text(source.content, source.options.encoding, source.name)
    return Reading(json_pieces(text, KeyChoice(source.options.keys), source.name), encoding, mark=mark)


FORMAT = DocumentFormat("json", (".json",), read)
