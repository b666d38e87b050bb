"""YAML of messages, such as Rails' and Symfony's; comments and everything else stay."""

from __future__ import annotations

from uwaga.documents.document import DocumentSource, Reading
from uwaga.documents.encodings import decode_text
from uwaga.documents.keys import KeyChoice
from uwaga.documents.registry import DocumentFormat
from uwaga.documents.yaml_pieces import yaml_pieces


def read(source: DocumentSource) -> Reading:
    """Take a file apart into its values that are text; a key whose value is a number or a date is left.

    A mapping of plural forms, as Rails has them, gets those of the target language.
    """
    text, encoding, mark = decode_text(source.content, source.options.encoding, source.name)
    chosen, target = KeyChoice(source.options.keys), source.options.target
    return Reading(yaml_pieces(text, chosen, source.name, target), encoding, mark=mark)


FORMAT = DocumentFormat("yaml", (".yaml", ".yml"), read)
