"""gettext PO: entries that lack a translation get one; everything else is byte-equal."""

from __future__ import annotations

from uwaga.documents.document import DocumentSource, Reading
from uwaga.documents.encodings import decode, known_encoding, marked_encoding
from uwaga.documents.po_pieces import CHARSET, po_pieces
from uwaga.documents.registry import DocumentFormat
from uwaga.errors import SettingsError


def read(source: DocumentSource) -> Reading:
    """Take a catalogue apart into the entries that are not translated or fuzzy, or into all if asked."""
    mark, encoding = marked_encoding(source.content)
    stated = CHARSET.search(source.content[:16384])
    if encoding is None and source.options.encoding:
        encoding = known_encoding(source.options.encoding, source.name)
    if encoding is None and stated and stated[1] != b"CHARSET":
        try:
            encoding = known_encoding(stated[1].decode("ascii"), source.name)
        except SettingsError:
            encoding = None
    text = decode(source.content[len(mark) :], encoding or "utf-8", source.name)
    return Reading(po_pieces(text, source), encoding or "utf-8", mark=mark)


FORMAT = DocumentFormat("po", (".po", ".pot"), read)
