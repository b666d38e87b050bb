"""The index of a memory: finds the sources that may be similar enough to a text.

The edit distance of two texts is at least the number of tokens of the longer text that the other lacks, so
the number of common tokens bounds the score. The index has a list of texts for each term; a look-up counts
how many of the text's lists contain each source (ScanCount: Li, Lu and Lu 2008). No source that reaches the
threshold is omitted, unless more than :data:`MAX_CANDIDATES` sources may reach it; then those with the
highest bounds are compared.

Texts are numbered within *blocks* of up to 65,536 texts of similar length, of which a look-up reads those of
its own length. A list consists of the 16-bit numbers of its texts or is a bitmap, whichever is shorter
(Chambi, Lemire, Kaser and Godin 2016). The second occurrence of a term in a text counts as a different term,
so that a text is a set of terms.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, compress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uwaga_memory.similarity import ComparableText

SCHEMA = """
CREATE TABLE blocks (block INTEGER PRIMARY KEY, words BLOB NOT NULL);
CREATE TABLE postings (key INTEGER PRIMARY KEY, slots BLOB NOT NULL);
"""
"""The number of a block has 31 bits: its bucket, by the length of its texts, and a serial number of 24 bits.
``words`` has the number of words of each text, in 16 bits. ``key`` consists of a term of 32 bits and a block;
``slots`` is the list of the texts of the block that have the term."""
SLOT_BITS = 16
"""Bits of a slot, which is the number of a text in its block; block and slot together are its position."""
SERIAL_BITS = 24
BLOCK_BITS = 31
TERM_BITS = 32
OCCURRENCE = 0x9E3779B2
"""Number added to a term for each repetition. It is even, since the lowest bit of a term marks words."""
BLOCK_TEXTS = 1 << SLOT_BITS
MAX_CANDIDATES = 1_000
"""Maximum number of texts compared in a look-up."""
MAX_PENDING = 4_000_000
"""Maximum number of list entries in memory while texts are added."""
TOLERANCE = 1e-6
"""Maximum difference between two computations of a score."""
Integers = NDArray[np.integer[Any]]


class Postings(NamedTuple):
    """List entries: the key of each, and the slot of its text."""

    keys: NDArray[np.int64]
    slots: NDArray[np.uint16]


class Entry(NamedTuple):
    """A text in the index: its position and its number of words."""

    position: int
    words: int


class Candidate(NamedTuple):
    """The position of a text in the index, and an upper bound of its score."""

    position: int
    bound: float


class Index:
    """The index in the database of a memory, which has :func:`merged_postings` as an SQL function."""

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
        """Add the lengths of new texts to blocks, and return the positions of the texts."""
        positions = np.empty(words.size, np.int64)
        buckets = bucket_of(words)
        for bucket in np.unique(buckets).tolist():
            texts = np.flatnonzero(buckets == bucket)
            first = self._next_position(bucket)
            positions[texts] = np.arange(first, first + texts.size)
            lengths = words[texts].astype(np.uint16)
            for block in range(first >> SLOT_BITS, (first + texts.size - 1 >> SLOT_BITS) + 1):
                start = max(0, (block << SLOT_BITS) - first)
                stop = (block + 1 << SLOT_BITS) - first
                self._database.execute(
                    "INSERT INTO blocks VALUES (?, ?) "
                    "ON CONFLICT DO UPDATE SET words = CAST(words || excluded.words AS BLOB)",
                    (block, lengths[start:stop].tobytes()),
                )
        return positions

    def _next_position(self, bucket: int) -> int:
        row = self._database.execute(
            "SELECT block, length(words) / 2 FROM blocks "
            "WHERE block BETWEEN ? AND ? ORDER BY block DESC LIMIT 1",
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

    def similar(self, text: ComparableText, threshold: float) -> list[Candidate]:
        """Return the texts whose score may reach a threshold, without penalties, the highest bounds first.

        Args:
            text: the text.
            threshold: the minimum score, in percent.
        """
        blocks = self._blocks(length_range(text, threshold))
        if not blocks.numbers.size:
            return []
        needed = np.array([min_common(max(len(text.terms), words), threshold) for words in blocks.min_words])
        needed_words = np.array(
            [max(1, min_common(max(len(text.stems), words), threshold)) for words in blocks.min_words]
        )
        terms = distinct_terms([text.terms])[1]
        word_terms, mark_terms = terms[terms & 1 == 1], terms[terms & 1 == 0]
        min_lists = np.minimum(needed_words, needed - mark_terms.size)
        words = blocks.counts(self._lists(word_terms, blocks, blocks.numbers), min_lists)
        promising = blocks.numbers[np.maximum.reduceat(words, blocks.starts) >= min_lists]
        if not promising.size:
            return []
        marks = blocks.counts(self._lists(mark_terms, blocks, promising))
        texts = np.flatnonzero(
            (words >= np.repeat(needed_words, blocks.sizes))
            | (words + marks >= np.repeat(needed, blocks.sizes))
        )
        words, marks = words[texts].astype(int), marks[texts].astype(int)
        block_indices = np.searchsorted(blocks.starts, texts, side="right") - 1
        lengths = blocks.lengths[texts].astype(int)
        bounds = 100 * np.maximum(
            words / np.maximum(lengths, max(1, len(text.stems))),
            (words + marks) / np.maximum(lengths + marks, len(text.terms)),
        )
        positions = (blocks.numbers[block_indices] << SLOT_BITS) + texts - blocks.starts[block_indices]
        order = np.argsort(-bounds, kind="stable")[:MAX_CANDIDATES]
        order = order[bounds[order] >= threshold - TOLERANCE]
        return list(map(Candidate, positions[order].tolist(), bounds[order].tolist()))

    def _blocks(self, words: tuple[int, int]) -> Blocks:
        """Return the blocks of the texts whose number of words is in a range (minimum, maximum)."""
        shortest, longest = bucket_of(np.array(words)).tolist()
        rows = self._database.execute(
            "SELECT block, words FROM blocks WHERE block BETWEEN ? AND ? ORDER BY block",
            (shortest << SERIAL_BITS, (longest + 1 << SERIAL_BITS) - 1),
        ).fetchall()
        lengths = [np.frombuffer(content, np.uint16) for _, content in rows]
        return Blocks(
            np.array([number for number, _ in rows], np.int64),
            np.array([content.size for content in lengths], np.int64),
            np.concatenate([np.zeros(0, np.uint16), *lengths]),
        )

    def _lists(self, terms: Integers, blocks: Blocks, numbers: Integers) -> Lists:
        """Return the lists of terms in a range of blocks, from the first to the last of ``numbers``."""
        rows = self._database.execute(
            "SELECT postings.key, slots FROM json_each(?) AS term "
            "CROSS JOIN postings ON postings.key BETWEEN term.value + ? AND term.value + ?",
            (json.dumps((terms << BLOCK_BITS).tolist()), int(numbers[0]), int(numbers[-1])),
        ).fetchall()
        keys = np.array([key for key, _ in rows], np.int64) % (1 << BLOCK_BITS)
        return Lists(np.searchsorted(blocks.numbers, keys), [slots for _, slots in rows])


class Lists(NamedTuple):
    """Lists of texts, and the index of the block of each."""

    blocks: Integers
    slots: list[bytes]


@dataclass
class Blocks:
    """The blocks that a look-up reads, in ascending order, with their texts numbered from 0.

    Attributes:
        numbers: the number of each block.
        sizes: the number of texts of each block.
        lengths: the number of words of each text.
    """

    numbers: NDArray[np.int64]
    sizes: NDArray[np.int64]
    lengths: NDArray[np.uint16]

    @cached_property
    def starts(self) -> Integers:
        """The index of the first text of each block."""
        return np.cumsum(self.sizes) - self.sizes

    @cached_property
    def min_words(self) -> list[int]:
        """The minimum number of words of the texts of each block."""
        return [min_words(number >> SERIAL_BITS) for number in self.numbers.tolist()]

    def counts(self, lists: Lists, minimum: Integers | int = 1) -> Integers:
        """Return the number of lists that contain each text.

        Args:
            lists: the lists.
            minimum: minimum number of lists of a block; the texts of other blocks are not counted.
        """
        of_block = np.bincount(lists.blocks, minlength=self.numbers.size)
        counted = of_block >= minimum
        integer = np.uint8 if of_block.max() < 128 else np.uint16
        sizes = np.fromiter(map(len, lists.slots), np.int64, len(lists.slots))
        bitmap = sizes % 2 == 1
        short = ~bitmap & counted[lists.blocks]
        slots = np.frombuffer(b"".join(compress(lists.slots, short.tolist())), np.uint16)
        first = np.repeat(self.starts[lists.blocks[short]], sizes[short] // slots.itemsize)
        counts: Integers = np.bincount(slots + first, minlength=self.lengths.size).astype(integer)
        bitmaps = defaultdict[int, list[bytes]](list)
        for index in np.flatnonzero(bitmap & counted[lists.blocks]).tolist():
            bitmaps[int(lists.blocks[index])].append(lists.slots[index])
        for block, contents in bitmaps.items():
            start, size = int(self.starts[block]), int(self.sizes[block])
            width = bitmap_bytes(size)
            joined = b"".join([content.ljust(width, b"\0") for content in contents])
            bits = np.unpackbits(np.frombuffer(joined, np.uint8)).reshape(len(contents), -1)
            counted_bits = np.add.reduce(bits, axis=0, dtype=integer)
            counts[start : start + size] += counted_bits[:size]
        return counts


def distinct_terms(texts: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the terms of texts; repetitions of a term in a text become different terms.

    Args:
        texts: the terms of each text.

    Returns:
        The index of the text of each term, in ascending order, and the terms.
    """
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    terms = np.fromiter(chain.from_iterable(texts), np.int64, int(lengths.sum()))
    rows = np.repeat(np.arange(len(texts), dtype=np.int64), lengths)
    keys = np.sort(rows << TERM_BITS | terms)
    starts = _starts(keys)
    repetitions = np.arange(keys.size) - np.repeat(starts, np.diff(starts, append=keys.size))
    terms = (keys + repetitions * OCCURRENCE) % (1 << TERM_BITS)
    return keys >> TERM_BITS, terms


def _starts(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the index of the first key of each run of equal keys."""
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
    """Encode a list with 16 bits for each text, or as a bitmap, which has an odd number of bytes."""
    width = bitmap_bytes(int(slots.max()) + 1)
    if slots.size * 2 < width:
        return slots.astype(np.uint16).tobytes()
    bits = np.zeros(width * 8, np.uint8)
    bits[slots] = 1
    return np.packbits(bits).tobytes()


def _decoded(content: bytes) -> Integers:
    if len(content) % 2 == 0:
        return np.frombuffer(content, np.uint16)
    return np.flatnonzero(np.unpackbits(np.frombuffer(content, np.uint8)))


def bitmap_bytes(texts: int) -> int:
    """Return the number of bytes of a bitmap of texts, which is odd to mark it as a bitmap."""
    return texts + 7 >> 3 | 1


def bucket_of(words: Integers) -> Integers:
    """Return the buckets of numbers of words; numbers with the same two leading bits share a bucket."""
    shift: Integers = np.maximum(0, np.frexp(words)[1] - 2)
    return (shift << 1) + (words >> shift)


def min_words(bucket: int) -> int:
    """Return the minimum number of words of the texts of a bucket."""
    shift = max(0, (bucket >> 1) - 1)
    return bucket - (shift << 1) << shift


def min_common(count: int, threshold: float) -> int:
    """Return the minimum number of tokens of a text that a text with this similarity also has."""
    return math.ceil(count * threshold / 100 - TOLERANCE)


def length_range(text: ComparableText, threshold: float) -> tuple[int, int]:
    """Return the minimum and maximum number of words of the texts whose similarity reaches a threshold.

    If stems are compared, such a text has at least t % of the words, and at most their number / t %. If all
    tokens are compared, it has ``ceil(t * n)`` tokens in common, some of which are marks, and at most ``(1 -
    t) * n / t`` others.
    """
    words, tokens, share = len(text.stems), len(text.terms), threshold / 100
    lowest = min(min_common(words, threshold), max(0, min_common(tokens, threshold) - (tokens - words)))
    return lowest, math.floor(words + (1 - share) / share * tokens + TOLERANCE)
