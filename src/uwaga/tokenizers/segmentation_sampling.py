"""Sampling of segmentations: unigram models (Kudo 2018, section 3) and BPE dropout (Provilkov 2020).

SentencePiece can also sample, but newer releases seed its generator differently in every process, so that a
resumed run would use other data. Here a sample depends only on the text, the strength and the seed.
"""

from __future__ import annotations

import math
import re
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from random import Random


class PieceType(IntEnum):
    """The types of pieces, numbered as in ``ModelProto.SentencePiece.Type``."""

    normal = 1
    unknown = 2
    control = 3
    user_defined = 4
    unused = 5
    byte = 6


UNIGRAM, BPE = 1, 2
"""Model types, numbered as in ``TrainerSpec.ModelType``."""


@dataclass(frozen=True)
class PieceTable:
    """The pieces by id, with their scores and types, and the number of the model type in the file."""

    pieces: tuple[str, ...]
    scores: tuple[float, ...]
    types: tuple[int, ...]
    kind: int


def read_pieces(model: bytes) -> PieceTable:
    """Read the pieces of a serialised SentencePiece model."""
    pieces, scores, types, kind = list[str](), list[float](), list[int](), UNIGRAM
    for field_number, value in _fields(model):
        if field_number == 1 and isinstance(value, bytes):
            piece, score, piece_type = "", 0.0, int(PieceType.normal)
            for field, content in _fields(value):
                if field == 1 and isinstance(content, bytes):
                    piece = content.decode("utf-8", "replace")
                elif field == 2 and isinstance(content, bytes):
                    [score] = struct.unpack("<f", content)
                elif field == 3 and isinstance(content, int):
                    piece_type = content
            pieces.append(piece)
            scores.append(score)
            types.append(piece_type)
        elif field_number == 2 and isinstance(value, bytes):
            model_types = (content for field, content in _fields(value) if field == 3)
            kind = next(model_types, kind)  # type: ignore[assignment]
    return PieceTable(tuple(pieces), tuple(scores), tuple(types), kind)


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and value of each field of a protobuf message; a value is an integer or bytes."""
    position = 0
    while position < len(message):
        key, position = _read_varint(message, position)
        wire = key & 7
        if wire == 0:
            value, position = _read_varint(message, position)
            yield key >> 3, value
            continue
        if wire == 2:
            size, position = _read_varint(message, position)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise ValueError(f"unknown wire type {wire}")
        if position + size > len(message):
            raise ValueError("truncated field")
        yield key >> 3, message[position : position + size]
        position += size


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(message):
            raise ValueError("truncated number")
        byte = message[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
    raise ValueError("a number of more than ten bytes")


UNKNOWN_PENALTY = 10.0
"""Amount in nats by which the score of an unknown character is below the lowest score of any piece
(``kUnkPenalty``).
"""
USER_DEFINED_PENALTY = 0.1
"""Amount subtracted from a user-defined piece's score, which is its length times the best normal score."""
MAX_CACHED_WORDS = 1 << 16
MAX_CACHED_LENGTH = 64
"""Maximum number of characters of a word whose lattice is cached."""
NO_MERGE = -math.inf

Lattice = list[tuple[list[float], list[int], list[tuple[int, ...]]]]
"""Cumulative probabilities, start positions and ids of the pieces that end at each position of a word."""


class PieceSampler:
    """A sampler of segmentations of normalised texts, with U+2581 for spaces.

    Args:
        table: the pieces.
        alpha: for unigram models, the exponent of the probabilities (0 gives a uniform distribution); for
            BPE, the probability of dropping a merge.
    """

    def __init__(self, table: PieceTable, alpha: float) -> None:
        mark = "\u2581"
        self._alpha = alpha
        ordinary = {PieceType.normal, PieceType.user_defined}
        usable_pieces = [
            (piece, token_id, score, kind)
            for token_id, (piece, score, kind) in enumerate(
                zip(table.pieces, table.scores, table.types, strict=True)
            )
            if kind in ordinary and piece
        ]
        self._scores = {piece: score for piece, _, score, _ in usable_pieces}
        self._ids = {piece: token_id for piece, token_id, _, _ in usable_pieces}
        self._unknown = table.types.index(PieceType.unknown)
        self._bytes = [
            token_id for token_id, kind in enumerate(table.types) if kind == PieceType.byte
        ]  # in order of value
        self._max_piece_length = max(map(len, self._ids), default=0)
        normal = [score for _, _, score, kind in usable_pieces if kind == PieceType.normal] or [0.0]
        self._unknown_score = min(normal) - UNKNOWN_PENALTY
        user_defined = sorted(
            (piece for piece, *_, kind in usable_pieces if kind == PieceType.user_defined), key=len
        )
        for piece in user_defined:
            self._scores[piece] = len(piece) * max(normal) - USER_DEFINED_PENALTY
        self._unmergeable = frozenset(user_defined)
        self._symbol_pattern = re.compile("|".join([*map(re.escape, reversed(user_defined)), "."]), re.DOTALL)
        # No piece crosses a word boundary, so words are sampled one by one.
        pieces_within_words = all(mark not in piece[1:] for piece in self._ids)
        self._word_pattern = re.compile(
            f"{mark}?[^{mark}]+|{mark}" if pieces_within_words else ".+", re.DOTALL
        )
        self._lattices: dict[str, Lattice] = {}
        self._draw: Callable[[str, Random], list[tuple[int, ...]]]
        self._draw = self._sample_bpe if table.kind == BPE else self._sample_unigram

    def draw(self, text: str, random: Random) -> list[int]:
        """Return the ids of a sampled segmentation.

        Unknown characters become byte pieces if the model has them; otherwise a run of unknown characters
        becomes one unknown symbol.
        """
        ids: list[int] = []
        for word in self._word_pattern.findall(text):
            for piece in self._draw(word, random):
                if piece != (self._unknown,) or ids[-1:] != [self._unknown]:
                    ids.extend(piece)
        return ids

    def _spell(self, character: str) -> tuple[int, ...]:
        """Return the ids that spell a character without a piece: its bytes, or the unknown symbol."""
        if len(self._bytes) != 256:
            return (self._unknown,)
        return tuple(self._bytes[byte] for byte in character.encode("utf-8"))

    def _sample_unigram(self, word: str, random: Random) -> list[tuple[int, ...]]:
        """Sample the pieces of a word from its end to its start.

        The probability of a piece is the share of all segmentations that end with it.
        """
        lattice = self._lattices.get(word)
        if lattice is None:
            lattice = self._build_lattice(word)
            if len(word) <= MAX_CACHED_LENGTH:
                if len(self._lattices) >= MAX_CACHED_WORDS:
                    self._lattices.clear()
                self._lattices[word] = lattice
        pieces: list[tuple[int, ...]] = []
        end = len(word)
        while end:
            cumulative, starts, ids = lattice[end]
            index = min(bisect_right(cumulative, random.random()), len(starts) - 1) if len(starts) > 1 else 0
            pieces.append(ids[index])
            end = starts[index]
        return pieces[::-1]

    def _build_lattice(self, word: str) -> Lattice:
        """Return the sums of forward filtering for a word, for backward sampling (Kudo 2018, section 3.3)."""
        sums = [0.0]
        lattice: Lattice = [([], [], [])]
        for end in range(1, len(word) + 1):
            gains, starts, ids = list[float](), list[int](), list[tuple[int, ...]]()
            for start in range(max(0, end - self._max_piece_length), end):
                piece = word[start:end]
                if piece in self._ids:
                    gains.append(sums[start] + self._alpha * self._scores[piece])
                    ids.append((self._ids[piece],))
                elif end - start == 1:
                    gains.append(sums[start] + self._alpha * self._unknown_score)
                    ids.append(self._spell(piece))
                else:
                    continue
                starts.append(start)
            best_gain = max(gains)
            shares = [math.exp(gain - best_gain) for gain in gains]
            total = math.fsum(shares)
            sums.append(best_gain + math.log(total))
            cumulative, cumulative_share = list[float](), 0.0
            for share in shares:
                cumulative_share += share / total
                cumulative.append(cumulative_share)
            lattice.append((cumulative, starts, ids))
        return lattice

    def _sample_bpe(self, word: str, random: Random) -> list[tuple[int, ...]]:
        """Merge symbols, the best merge first (leftmost on ties); drop each with probability ``alpha``."""
        symbols: list[str] = self._symbol_pattern.findall(word)
        scores = [self._merge_score(left, right) for left, right in pairwise(symbols)]
        while scores and (best_score := max(scores)) > NO_MERGE:
            index = scores.index(best_score)
            if self._alpha and random.random() < self._alpha:
                scores[index] = NO_MERGE
                continue
            symbols[index : index + 2] = [symbols[index] + symbols[index + 1]]
            del scores[index]
            if index:
                scores[index - 1] = self._merge_score(symbols[index - 1], symbols[index])
            if index < len(scores):
                scores[index] = self._merge_score(symbols[index], symbols[index + 1])
        return [(self._ids[left],) if left in self._ids else self._spell(left) for left in symbols]

    def _merge_score(self, left: str, right: str) -> float:
        """Return the score of merging two symbols."""
        if self._unmergeable and (left in self._unmergeable or right in self._unmergeable):
            return NO_MERGE
        return self._scores.get(left + right, NO_MERGE)
