"""JSON of messages, such as i18next's and Chrome's."""

from __future__ import annotations

from uwaga.documents.document import DocumentSource, Reading
from uwaga.documents.encodings import decode_text
from uwaga.documents.json_pieces import json_pieces
from uwaga.documents.keys import KeyChoice
from uwaga.documents.registry import DocumentFormat


def read(source: DocumentSource) -> Reading:
    """Take a file apart into its values that are text, or those whose keys are chosen.

    Plurals of i18next (``files_one``, ``files_other``) become those of the target language.
    """
    text, encoding, mark = decode_text(source.content, source.options.encoding, source.name)
    chosen, target = KeyChoice(source.options.keys), source.options.target
    return Reading(json_pieces(text, chosen, source.name, target), encoding, mark=mark)


FORMAT = DocumentFormat("json", (".json",), read)
