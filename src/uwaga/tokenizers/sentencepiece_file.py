"""What a SentencePiece model file says of its pieces: its own library tells neither kinds nor types.

A serialised protocol buffer: ``ModelProto`` of ``sentencepiece_model.proto``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum


class PieceType(IntEnum):
    """``ModelProto.SentencePiece.Type``."""

    normal = 1
    unknown = 2
    control = 3
    user_defined = 4
    unused = 5
    byte = 6


UNIGRAM, BPE = 1, 2
"""``TrainerSpec.ModelType``."""


@dataclass(frozen=True)
class PieceTable:
    """The pieces by id, the score and type of each, and the model's kind, as its file numbers it."""

    pieces: tuple[str, ...]
    scores: tuple[float, ...]
    types: tuple[int, ...]
    kind: int


def read_pieces(model: bytes) -> PieceTable:
    """The pieces of a model that its own library has read.

    Raises:
        ValueError: the bytes are no such model.
    """
    pieces, scores, types, kind = list[str](), list[float](), list[int](), UNIGRAM
    for number, value in _fields(model):
        if number == 1 and isinstance(value, bytes):
            piece, score, of_type = "", 0.0, int(PieceType.normal)
            for own, content in _fields(value):
                if own == 1 and isinstance(content, bytes):
                    piece = content.decode("utf-8", "replace")
                elif own == 2 and isinstance(content, bytes):
                    [score] = struct.unpack("<f", content)
                elif own == 3 and isinstance(content, int):
                    of_type = content
            pieces.append(piece)
            scores.append(score)
            types.append(of_type)
        elif number == 2 and isinstance(value, bytes):
            kind = next((content for own, content in _fields(value) if own == 3), kind)  # type: ignore[assignment]
    return PieceTable(tuple(pieces), tuple(scores), tuple(types), kind)


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: number, and a whole number or the bytes of anything else."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        wire = key & 7
        if wire == 0:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if wire == 2:
            size, at = _varint(message, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise ValueError(f"a field of the wire type {wire}")
        if at + size > len(message):
            raise ValueError("a field is cut")
        yield key >> 3, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            raise ValueError("a number is cut")
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("a number of more than ten bytes")
