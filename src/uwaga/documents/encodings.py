"""From a document's bytes to its text and back, byte for byte."""

from __future__ import annotations

import codecs

from uwaga.errors import DataError, SettingsError, shown

MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
BLOCK = 1 << 16


def marked_encoding(content: bytes) -> tuple[bytes, str | None]:
    """The byte order mark that a document begins with, and the encoding it says."""
    for mark, encoding in MARKS:
        if content.startswith(mark):
            return mark, encoding
    return b"", None


def known_encoding(name: str, where: str) -> str:
    """The name of an encoding as Python has it.

    Raises:
        SettingsError: there is none, or it is none of text.
    """
    try:
        info = codecs.lookup(name)
        "".encode(info.name)
    except (LookupError, ValueError):
        raise SettingsError(
            f"{where}: {shown(name)} is no encoding of text that is known; try utf-8 or iso-8859-1"
        ) from None
    return info.name


def decode(content: bytes, encoding: str, where: str) -> str:
    """A document's text, from which its bytes can be made again.

    Args:
        content: without a byte order mark.
        encoding: as Python calls it.
        where: the file, for messages.

    Raises:
        DataError: a byte is not of the encoding: names byte and line; or the encoding writes it another way.
    """
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{where}: line {line}, byte {error.start + 1} of the file is not {encoding} "
            f"({shown(content[error.start : error.start + 4])}); name its encoding with --encoding, or save "
            "it as UTF-8"
        ) from None
    except UnicodeError:
        raise DataError(f"{where}: is not {encoding}; name its encoding with --encoding") from None
    if encoding not in ("utf-8", "ascii", "iso8859-1") and text.encode(encoding) != content:
        raise DataError(f"{where}: {encoding} writes it with other bytes; save it as UTF-8 first")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise DataError(f"{where}: line {line} holds a NUL, so this is no text in {encoding}")
    return text


def decode_text(content: bytes, encoding: str | None, where: str) -> tuple[str, str, bytes]:
    """A text, its encoding and its byte order mark; UTF-8 where nobody says another.

    Raises:
        DataError, SettingsError: as :func:`decode` and :func:`known_encoding`.
    """
    mark, marked = marked_encoding(content)
    name = marked or (known_encoding(encoding, where) if encoding else "utf-8")
    return decode(content[len(mark) :], name, where), name, mark
