"""The index of a memory: which sources can be as similar to a text as a threshold asks.

The edit distance of two texts is at least the number of tokens of the longer one that the other lacks, so
the tokens in common bound the score. The index has, for each term, the list of the texts with it; a look-up
counts in how many of the text's lists each source is (ScanCount: Li, Lu and Lu 2008). No source that reaches
the threshold is left out unless more than :data:`MAX_CANDIDATES` could; then those with the highest bounds
are compared.

Texts are numbered within *blocks* of up to 65,536 texts of similar length, of which a look-up reads those of
its own length. A list of fewer than 4,096 texts of a block has their 16-bit numbers, a longer one is a bitmap
(Chambi, Lemire, Kaser and Godin 2016). The second occurrence of a term in a text is a term of its own, so
that a text is a set of terms.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uwaga_memory.similarity import Readings

SCHEMA = """
CREATE TABLE blocks (block INTEGER PRIMARY KEY, words BLOB NOT NULL);
CREATE TABLE postings (key INTEGER PRIMARY KEY, slots BLOB NOT NULL);
"""
"""A block has 31 bits: its bucket, which says how long its texts are, and a serial number of 24 bits.
``words`` is the number of words of each text, less the least of the bucket, in 8 bits. ``key`` is a term of
32 bits and a block; ``slots`` is the list of the texts of the block that have the term."""
SLOT_BITS = 16
"""Bits of a text's number in its block. With the block above them, they are the text's position."""
SERIAL_BITS = 24
BLOCK_BITS = 31
TERM_BITS = 32
OCCURRENCE = 0x9E3779B2
"""What each repetition of a term adds to it. It is even: the lowest bit says whether a term is a word's."""
BLOCK_TEXTS = 1 << SLOT_BITS
BITMAP_BYTES = BLOCK_TEXTS // 8
MIN_BITMAP_TEXTS = BITMAP_BYTES // 2
"""Texts of the shortest list that is a bitmap."""
MAX_CANDIDATES = 1_000
"""Texts that are compared in a look-up."""
MAX_PENDING = 4_000_000
"""Entries of lists that are kept in memory while texts are added."""
TOLERANCE = 1e-6
Integers = NDArray[np.integer[Any]]


class Postings(NamedTuple):
    """Entries of lists: the key of each, and the slot of its text."""

    keys: NDArray[np.int64]
    slots: NDArray[np.uint16]


class Entry(NamedTuple):
    """A text in the index: its position, and the number of its words."""

    position: int
    words: int


class Candidate(NamedTuple):
    """The position of a text in the index, and a score that it does not exceed."""

    position: int
    bound: float


class Index:
    """The index in the database of a memory, where :func:`merged_postings` is a function of SQL."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._pending: list[Postings] = []

    def add(self, texts: Sequence[Sequence[int]]) -> list[Entry]:
        """Add texts. :meth:`flush` completes the additions of a transaction.

        Args:
            texts: the terms of each text.
        """
        rows, terms = distinct_terms(texts)
        words = np.bincount(rows[terms & 1 == 1], minlength=len(texts))
        positions = self._positions(words)
        blocks, slots = positions >> SLOT_BITS, (positions % BLOCK_TEXTS).astype(np.uint16)
        self._pending.append(Postings(terms << BLOCK_BITS | blocks[rows], slots[rows]))
        if sum(postings.keys.size for postings in self._pending) >= MAX_PENDING:
            self.flush()
        return list(map(Entry, positions.tolist(), words.tolist()))

    def _positions(self, words: Integers) -> NDArray[np.int64]:
        """Return the positions of new texts, whose lengths are added to their blocks."""
        positions = np.empty(words.size, np.int64)
        buckets = bucket_of(words)
        for bucket in np.unique(buckets).tolist():
            texts = np.flatnonzero(buckets == bucket)
            first = self._next_position(bucket)
            positions[texts] = np.arange(first, first + texts.size)
            offsets = (words[texts] - least_words(bucket)).astype(np.uint8)
            for block in range(first >> SLOT_BITS, (first + texts.size - 1 >> SLOT_BITS) + 1):
                start = max(0, (block << SLOT_BITS) - first)
                stop = (block + 1 << SLOT_BITS) - first
                self._database.execute(
                    "INSERT INTO blocks VALUES (?, ?) "
                    "ON CONFLICT DO UPDATE SET words = CAST(words || excluded.words AS BLOB)",
                    (block, offsets[start:stop].tobytes()),
                )
        return positions

    def _next_position(self, bucket: int) -> int:
        row = self._database.execute(
            "SELECT block, length(words) FROM blocks WHERE block BETWEEN ? AND ? ORDER BY block DESC LIMIT 1",
            (bucket << SERIAL_BITS, (bucket + 1 << SERIAL_BITS) - 1),
        ).fetchone()
        block, count = row or (bucket << SERIAL_BITS, 0)
        return (block << SLOT_BITS) + count

    def flush(self) -> None:
        """Write the added texts to the database."""
        if self._pending:
            keys, slots = map(np.concatenate, zip(*self._pending, strict=True))
            self._database.executemany(
                "INSERT INTO postings VALUES (?, ?) "
                "ON CONFLICT DO UPDATE SET slots = merged_postings(slots, excluded.slots)",
                _lists(Postings(keys, slots)),
            )
        self._pending.clear()

    def remove(self, position: int, terms: Sequence[int]) -> None:
        """Remove a text.

        Args:
            position: its position.
            terms: its terms.
        """
        block, slot = position >> SLOT_BITS, position % BLOCK_TEXTS
        for term in distinct_terms([terms])[1].tolist():
            key = term << BLOCK_BITS | block
            for (content,) in self._database.execute("SELECT slots FROM postings WHERE key = ?", (key,)):
                slots = _decoded(content)
                slots = slots[slots != slot]
                self._database.execute("DELETE FROM postings WHERE key = ?", (key,))
                if slots.size:
                    self._database.execute("INSERT INTO postings VALUES (?, ?)", (key, _encoded(slots)))

    def similar(self, text: Readings, threshold: float) -> list[Candidate]:
        """Return the texts that may reach a threshold, without penalties, the highest bounds first.

        Args:
            text: the text.
            threshold: the lowest score, in percent.
        """
        shortest, longest = bucket_of(np.array(length_range(text, threshold))).tolist()
        first, last = shortest << SERIAL_BITS, (longest + 1 << SERIAL_BITS) - 1
        rows = self._database.execute("SELECT * FROM blocks WHERE block BETWEEN ? AND ?", (first, last))
        blocks = {number: Block(number, np.frombuffer(words, np.uint8)) for number, words in rows}
        for term in distinct_terms([text.terms])[1].tolist():
            rows = self._database.execute(
                "SELECT key, slots FROM postings WHERE key BETWEEN ? AND ?",
                (term << BLOCK_BITS | first, term << BLOCK_BITS | last),
            )
            for key, slots in rows:
                block = blocks[key % (1 << BLOCK_BITS)]
                (block.words if term & 1 else block.marks).append(slots)
        candidates = [
            candidate for block in blocks.values() for candidate in block.candidates(text, threshold)
        ]
        return sorted(candidates, key=lambda candidate: -candidate.bound)[:MAX_CANDIDATES]


@dataclass
class Block:
    """The part of the index that a look-up reads of a block.

    Attributes:
        number: its number.
        lengths: the number of words of each text, less the least of the bucket.
        words: the lists of the words that are looked up.
        marks: the lists of the marks.
    """

    number: int
    lengths: NDArray[np.uint8]
    words: list[bytes] = field(default_factory=list)
    marks: list[bytes] = field(default_factory=list)

    def candidates(self, text: Readings, threshold: float) -> list[Candidate]:
        """Return the texts that may reach a threshold, those with the highest bounds first."""
        shortest = least_words(self.number >> SERIAL_BITS)
        needed = common(max(len(text.terms), shortest), threshold)
        needed_words = max(1, common(max(len(text.stems), shortest), threshold))
        if len(self.words) < needed_words and len(self.words) + len(self.marks) < needed:
            return []
        words = self._counts(self.words)
        if words.max() < min(needed_words, needed - len(self.marks)):
            return []
        marks = self._counts(self.marks)
        slots = np.flatnonzero((words >= needed_words) | (words + marks >= needed))
        words, marks = words[slots].astype(int), marks[slots].astype(int)
        lengths = self.lengths[slots].astype(int) + shortest
        bounds = 100 * np.maximum(
            words / np.maximum(lengths, max(1, len(text.stems))),
            (words + marks) / np.maximum(lengths + marks, len(text.terms)),
        )
        order = np.argsort(-bounds, kind="stable")[:MAX_CANDIDATES]
        positions = (self.number << SLOT_BITS) + slots[order]
        return [
            Candidate(position, bound)
            for position, bound in zip(positions.tolist(), bounds[order].tolist(), strict=True)
            if bound >= threshold - TOLERANCE
        ]

    def _counts(self, lists: Sequence[bytes]) -> Integers:
        """Return in how many lists each text is."""
        most = len(self.words) + len(self.marks)
        integer: type[np.unsignedinteger[Any]] = np.uint8 if most < 256 else np.uint16
        counts = np.zeros(self.lengths.size, integer)
        numbers = b"".join([content for content in lists if len(content) != BITMAP_BYTES])
        if numbers:
            counts = np.bincount(np.frombuffer(numbers, np.uint16), minlength=counts.size).astype(integer)
        bitmaps = b"".join([content for content in lists if len(content) == BITMAP_BYTES])
        if bitmaps:
            bits = np.unpackbits(np.frombuffer(bitmaps, np.uint8)).reshape(-1, BLOCK_TEXTS)
            counts = counts + np.add.reduce(bits, axis=0, dtype=integer)[: counts.size]
        return counts


def distinct_terms(texts: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the terms of texts, cut to 32 bits; a repetition of a term in a text is a term of its own.

    Args:
        texts: the terms of each text.

    Returns:
        The index of the text of each term, in ascending order, and the terms.
    """
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    terms = np.fromiter(chain.from_iterable(texts), np.int64, int(lengths.sum()))
    rows = np.repeat(np.arange(len(texts), dtype=np.int64), lengths)
    keys = np.sort(rows << TERM_BITS | terms % (1 << TERM_BITS))
    starts = _starts(keys)
    repetitions = np.arange(keys.size) - np.repeat(starts, np.diff(starts, append=keys.size))
    terms = (keys + repetitions * OCCURRENCE) % (1 << TERM_BITS)
    return keys >> TERM_BITS, terms


def _starts(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the index of the first of each run of equal keys."""
    return np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: keys.size])


def merged_postings(content: bytes, other: bytes) -> bytes:
    """Return the union of two lists."""
    return _encoded(np.concatenate([_decoded(content), _decoded(other)]))


def _lists(postings: Postings) -> Iterator[tuple[int, bytes]]:
    """Yield the list of each key."""
    order = np.argsort(postings.keys, kind="stable")
    keys, slots = postings.keys[order], postings.slots[order]
    starts = _starts(keys)
    stops = np.append(starts, keys.size)[1:]
    for key, start, stop in zip(keys[starts].tolist(), starts.tolist(), stops.tolist(), strict=True):
        yield key, _encoded(slots[start:stop])


def _encoded(slots: Integers) -> bytes:
    if slots.size < MIN_BITMAP_TEXTS:
        return slots.astype(np.uint16).tobytes()
    bits = np.zeros(BLOCK_TEXTS, np.uint8)
    bits[slots] = 1
    return np.packbits(bits).tobytes()


def _decoded(content: bytes) -> Integers:
    if len(content) != BITMAP_BYTES:
        return np.frombuffer(content, np.uint16)
    return np.flatnonzero(np.unpackbits(np.frombuffer(content, np.uint8)))


def bucket_of(words: Integers) -> Integers:
    """Return the buckets of numbers of words: numbers with the same three leading bits are in the same."""
    shift: Integers = np.maximum(0, np.frexp(words)[1] - 3)
    return (shift << 2) + (words >> shift)


def least_words(bucket: int) -> int:
    """Return the least number of words of the texts of a bucket."""
    shift = max(0, (bucket >> 2) - 1)
    return bucket - (shift << 2) << shift


def common(count: int, threshold: float) -> int:
    """Return how many of the tokens of a text another has at least, if it is as similar as a threshold."""
    return math.ceil(count * threshold / 100 - TOLERANCE)


def length_range(text: Readings, threshold: float) -> tuple[int, int]:
    """Return the least and largest number of words of a text that is as similar as a threshold.

    By its stems, a text has at least t % of the words, and at most their number / t %. By everything, it has
    ``ceil(t * n)`` tokens in common, of which some are marks, and at most ``(1 - t) * n / t`` others.
    """
    words, tokens, share = len(text.stems), len(text.terms), threshold / 100
    lowest = min(common(words, threshold), max(0, common(tokens, threshold) - (tokens - words)))
    return lowest, math.floor(words + (1 - share) / share * tokens + TOLERANCE)
