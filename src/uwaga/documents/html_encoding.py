"""The encoding of an HTML page: its byte order mark, what it states, or what the user says."""

from __future__ import annotations

import re

from uwaga.documents.document import DocumentSource
from uwaga.documents.encodings import decode, known_encoding, marked_encoding
from uwaga.errors import SettingsError

STATED = re.compile(
    rb"""<meta[^>]*?charset\s*=\s*["']?\s*([A-Za-z0-9._:-]+)|^\s*<\?xml[^>]*?encoding\s*=\s*["']([A-Za-z0-9._-]+)""",
    re.IGNORECASE,
)
LOOKED = 4096
"""Bytes in which a page states its encoding; the standard asks for 1024."""
SUPERSETS = {"iso8859-1": "cp1252", "ascii": "cp1252"}
"""What browsers read these as."""
NO_MARK = {"utf-16", "utf-16-le", "utf-16-be", "utf-32"}
"""A page that states one of these in bytes that could be read is in UTF-8 (WHATWG encoding, 4.2)."""


def html_text(source: DocumentSource) -> tuple[str, str, bytes]:
    """The text of a page, its encoding and its byte order mark.

    Raises:
        DataError: a byte is not of the encoding.
        SettingsError: the user names an encoding that nobody knows.
    """
    mark, encoding = marked_encoding(source.content)
    if encoding is None and source.options.encoding:
        encoding = known_encoding(source.options.encoding, source.name)
    if encoding is None:
        encoding = _stated(source)
    content = source.content[len(mark) :]
    if encoding == "cp1252" and any(byte in content for byte in b"\x81\x8d\x8f\x90\x9d"):
        encoding = "iso8859-1"
    return decode(content, encoding, source.name), encoding, mark


def _stated(source: DocumentSource) -> str:
    found = STATED.search(source.content[:LOOKED])
    if found is None:
        return "utf-8"
    try:
        name = known_encoding((found[1] or found[2]).decode("ascii"), source.name)
    except SettingsError:
        return "utf-8"
    return "utf-8" if name in NO_MARK else SUPERSETS.get(name, name)
