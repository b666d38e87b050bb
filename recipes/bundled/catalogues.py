"""Read GNU message catalogues (.mo); see https://www.gnu.org/software/gettext/manual."""

from __future__ import annotations

import re
import struct
from pathlib import Path

from paragraphs import Pairs

MAGIC = 0x950412DE


def catalogue(path: Path) -> Pairs:
    """Yield each message without plurals and its translation; nothing if the file is not a catalogue."""
    yield from messages(path.read_bytes(), plurals=False)


def messages(data: bytes, plurals: bool = True) -> Pairs:
    """Yield each message and its translation; for messages with plurals, the singular."""
    order = next((order for order in "<>" if data[:4] == struct.pack(f"{order}I", MAGIC)), None)
    if order is None:
        return
    count, keys, values = struct.unpack_from(f"{order}3I", data, 8)
    charset = "ascii"
    for number in range(count):
        key, value = (
            data[start : start + length]
            for length, start in (
                struct.unpack_from(f"{order}2I", data, offset + 8 * number) for offset in (keys, values)
            )
        )
        if not key:  # the catalogue's own header
            named = re.search(rb"charset=([\w-]+)", value)
            charset = named[1].decode() if named else charset
        elif plurals or b"\0" not in key:
            text = key.partition(b"\0")[0].decode(charset)
            translation = value.partition(b"\0")[0].decode(charset)
            yield text.split("\x04")[-1].split("^")[-1], translation  # behind its context
