"""Event files for TensorBoard, written in the thread that trains.

TensorBoard's own writer has a thread, which dies silently when the disk is full and is then waited for
without end. What a run logs is one kind of record, so it is written here: TFRecords (length, masked CRC-32C,
content, masked CRC-32C) of ``tensorflow.Event`` messages in the wire format of protocol buffers.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from uwaga.training.disk import append

_POLYNOMIAL = 0x82F63B78  # Castagnoli's, reflected
_VERSION = b"brain.Event:2"


def _table() -> tuple[int, ...]:
    found = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        found.append(value)
    return tuple(found)


_CRC = _table()


class EventFile:
    """An event file in ``folder``, made with its first record.

    ``start`` is the step that the run goes on from: TensorBoard drops what earlier files of the folder say of
    later ones.
    """

    def __init__(self, folder: Path, start: int) -> None:
        self.folder, self.start = folder, start
        self.path = folder / f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
        self._begun = False

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Write the values of a step, by their tags.

        Raises:
            OSError: it cannot be written; the file is then as it was.
        """
        content = b""
        if not self._begun:
            self.folder.mkdir(parents=True, exist_ok=True)
            started = _bytes(7, _integer(1, 1))  # SessionLog.START
            content += _record(_event(_bytes(3, _VERSION)))
            content += _record(_event(_integer(2, self.start + 1) + started))
        scalars = b"".join(
            _bytes(1, _bytes(1, tag.encode()) + _key(2, 5) + _float(value)) for tag, value in values.items()
        )
        append(self.path, content + _record(_event(_integer(2, step) + _bytes(5, scalars))))
        self._begun = True


def crc32c(content: bytes) -> int:
    """The cyclic redundancy check with Castagnoli's polynomial (RFC 3720 appendix B.4)."""
    value = 0xFFFFFFFF
    for byte in content:
        value = _CRC[(value ^ byte) & 0xFF] ^ value >> 8
    return value ^ 0xFFFFFFFF


def _record(content: bytes) -> bytes:
    length = struct.pack("<Q", len(content))
    return length + _masked(length) + content + _masked(content)


def _masked(content: bytes) -> bytes:
    value = crc32c(content)
    return struct.pack("<I", ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _event(fields: bytes) -> bytes:
    return _key(1, 1) + struct.pack("<d", time.time()) + fields


def _key(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _integer(number: int, value: int) -> bytes:
    return _key(number, 0) + _varint(value)


def _bytes(number: int, content: bytes) -> bytes:
    return _key(number, 2) + _varint(len(content)) + content


def _float(value: float) -> bytes:
    with np.errstate(over="ignore"):  # infinite, where float32 ends
        return bytes(np.float64(value).astype("<f4").data)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
