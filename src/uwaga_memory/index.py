"""Inverted index that finds the sources of a memory that may be similar enough to a text.

The edit distance of two texts is at least the number of tokens of the longer text that the shorter one lacks,
so the number of common tokens gives an upper bound on the score. The index has a posting list for each term;
a look-up counts how many of the posting lists of its terms contain each source (ScanCount: Li, Lu and Lu
2008). No source that reaches the threshold is omitted, unless more than :data:`MAX_CANDIDATES` sources may
reach it; in that case, the sources with the highest bounds are compared.

Texts are numbered within *blocks* of up to 65,536 texts of similar length; a look-up counts only the blocks
of suitable lengths. A posting list consists of the 16-bit numbers of its texts or is a bitmap, whichever is
shorter (Chambi, Lemire, Kaser and Godin 2016). The second occurrence of a term in a text counts as a
different term, so that a text is a set of terms.
"""

from __future__ import annotations

import json
import math
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain, count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uwaga_memory.similarity import ComparableText, is_word

SCHEMA = """
CREATE TABLE blocks (block INTEGER PRIMARY KEY, words BLOB NOT NULL);
CREATE TABLE postings (key INTEGER PRIMARY KEY, slots BLOB NOT NULL);
"""
"""The tables of the index.

The number of a block has 31 bits: its length bucket and a serial number of 24 bits. ``words`` contains the
number of words of each text, with 16 bits for each. ``key`` consists of a 32-bit term and a block number;
``slots`` is the posting list of the term in the block.
"""
SLOT_BITS = 16
"""Number of bits of a slot, which is the number of a text in its block; a block and a slot form a
position."""
SERIAL_BITS = 24
BLOCK_BITS = 31
TERM_BITS = 32
OCCURRENCE_FACTOR = 0x9E3779B2
"""Number added to a term for each repetition; it is even, since the lowest bit of a term marks words."""
MAX_BLOCK_TEXTS = 1 << SLOT_BITS
MAX_CANDIDATES = 1_000
"""Maximum number of texts compared in a look-up."""
MAX_CACHED_BYTES = 64 << 20
"""Maximum number of bytes of the posting lists that are cached for a memory."""
LIST_OVERHEAD_BYTES = 200
"""Overhead of a cached posting list in bytes, in addition to its array."""
MAX_PENDING_POSTINGS = 4_000_000
"""Maximum number of postings in memory while texts are added."""
TOLERANCE = 1e-6
"""Tolerance for rounding errors when scores are compared."""
Integers = NDArray[np.integer[Any]]


class Postings(NamedTuple):
    """Postings as two parallel arrays: the key of each posting, and the slot of its text."""

    keys: NDArray[np.int64]
    slots: NDArray[np.uint16]


class Entry(NamedTuple):
    """An indexed text: its position in the index and its number of words."""

    position: int
    words: int


class Candidates(NamedTuple):
    """Positions of texts in the index and upper bounds on their scores, in descending order of the bounds."""

    positions: Integers
    bounds: NDArray[np.float64]


class Index:
    """The index in the database of a memory.

    Args:
        database: the database, with :func:`merged_postings` registered as an SQL function.
        lists: cached posting lists for look-ups; None to read them for each look-up.
    """

    def __init__(self, database: sqlite3.Connection, lists: TermLists | None = None) -> None:
        self._database, self._lists = database, lists
        self._pending_postings: list[Postings] = []

    def add(self, texts: Sequence[Sequence[int]]) -> list[Entry]:
        """Add texts and return their entries; call :meth:`flush` at the end of the transaction.

        Args:
            texts: the terms of each text.
        """
        term_lists = list(map(distinct_terms, texts))
        lengths = np.fromiter(map(len, term_lists), np.int64, len(texts))
        rows = np.repeat(np.arange(len(texts)), lengths)
        terms = np.fromiter(chain.from_iterable(term_lists), np.int64, rows.size)
        words = np.bincount(rows[terms & 1 == 1], minlength=len(texts))
        positions = self._assign_positions(words)
        blocks, slots = positions >> SLOT_BITS, (positions % MAX_BLOCK_TEXTS).astype(np.uint16)
        self._pending_postings.append(Postings(terms << BLOCK_BITS | blocks[rows], slots[rows]))
        if sum(postings.keys.size for postings in self._pending_postings) >= MAX_PENDING_POSTINGS:
            self.flush()
        return list(map(Entry, positions.tolist(), words.tolist()))

    def _assign_positions(self, words: Integers) -> NDArray[np.int64]:
        """Assign new texts to blocks by their number of words, and return their positions."""
        positions = np.empty(words.size, np.int64)
        buckets = number_buckets(words)
        for bucket in np.unique(buckets).tolist():
            texts = np.flatnonzero(buckets == bucket)
            first_position = self._next_position(bucket)
            positions[texts] = np.arange(first_position, first_position + texts.size)
            lengths = words[texts].astype(np.uint16)
            for block in range(
                first_position >> SLOT_BITS, (first_position + texts.size - 1 >> SLOT_BITS) + 1
            ):
                start = max(0, (block << SLOT_BITS) - first_position)
                stop = (block + 1 << SLOT_BITS) - first_position
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
        """Write the postings of the added texts to the database."""
        if self._pending_postings:
            keys, slots = map(np.concatenate, zip(*self._pending_postings, strict=True))
            self._database.executemany(
                "INSERT INTO postings VALUES (?, ?) "
                "ON CONFLICT DO UPDATE SET slots = merged_postings(slots, excluded.slots)",
                _encode_lists(Postings(keys, slots)),
            )
        self._pending_postings.clear()

    def remove(self, position: int, terms: Sequence[int]) -> None:
        """Remove a text.

        Args:
            position: the position of the text in the index.
            terms: the terms of the text.
        """
        block, slot = position >> SLOT_BITS, position % MAX_BLOCK_TEXTS
        for term in distinct_terms(terms):
            key = term << BLOCK_BITS | block
            for (content,) in self._database.execute("SELECT slots FROM postings WHERE key = ?", (key,)):
                slots = _decode_list(content)
                slots = slots[slots != slot]
                self._database.execute("DELETE FROM postings WHERE key = ?", (key,))
                if slots.size:
                    self._database.execute("INSERT INTO postings VALUES (?, ?)", (key, _encode_list(slots)))

    def find_candidates(self, text: ComparableText, threshold: float) -> Candidates:
        """Return the texts whose score, before penalties, may reach a threshold.

        Args:
            text: the text.
            threshold: the minimum score, in percent.
        """
        lists = self._lists or TermLists(self._database)
        start, stop = lists.text_range(*length_range(text, threshold))
        terms = distinct_terms(text.terms)
        word_terms = [term for term in terms if is_word(term)]
        mark_terms = [term for term in terms if not is_word(term)]
        min_words = max(1, min_common_tokens(len(text.stems), threshold))
        min_terms = min_common_tokens(len(terms), threshold)
        words = lists.counts(self._database, word_terms, start, stop)
        if words.max(initial=0) < min(min_words, min_terms - len(mark_terms)):
            return Candidates(np.zeros(0, np.int64), np.zeros(0))
        marks = lists.counts(self._database, mark_terms, start, stop)
        texts = np.flatnonzero((words >= min_words) | (words + marks >= min_terms))
        words, marks = words[texts].astype(int), marks[texts].astype(int)
        texts += start
        lengths = lists.lengths[texts].astype(int)
        bounds = 100 * np.maximum(
            words / np.maximum(lengths, max(1, len(text.stems))),
            (words + marks) / np.maximum(lengths + marks, len(terms)),
        )
        possible_texts = np.flatnonzero(bounds >= threshold - TOLERANCE)
        order = possible_texts[np.argsort(-bounds[possible_texts], kind="stable")[:MAX_CANDIDATES]]
        return Candidates(lists.positions(texts[order]), bounds[order])


class TermLists:
    """Cache of the posting lists in one state of the index; it is thread-safe.

    The cache contains at most :data:`MAX_CACHED_BYTES`; the lists that were read first are removed first.

    Texts are numbered from 0 over all blocks; the number of a block's first text is a multiple of 8. A
    posting list is an array of text numbers or a bitmap, whichever is shorter.

    Args:
        database: the database of the memory.

    Attributes:
        lengths: the number of words of each text.
    """

    def __init__(self, database: sqlite3.Connection) -> None:
        rows = database.execute("SELECT block, words FROM blocks ORDER BY block").fetchall()
        self._blocks = np.array([block for block, _ in rows], np.int64)
        contents = [content.ljust(-len(content) % 16 + len(content), b"\0") for _, content in rows]
        self.lengths = np.frombuffer(b"".join(contents), np.uint16)
        self._starts = np.cumsum([0, *(len(content) // 2 for content in contents)])
        self._first_texts = dict(zip(self._blocks.tolist(), self._starts.tolist(), strict=False))
        self._lists: dict[int, Integers] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    def text_range(self, shortest: int, longest: int) -> tuple[int, int]:
        """Return the range of texts (start, stop) in the blocks that may contain texts of these lengths.

        Args:
            shortest: the minimum number of words.
            longest: the maximum number of words.
        """
        first_bucket, last_bucket = number_buckets(np.array([shortest, longest])).tolist()
        blocks = np.searchsorted(self._blocks, [first_bucket << SERIAL_BITS, last_bucket + 1 << SERIAL_BITS])
        start, stop = self._starts[blocks].tolist()
        return start, stop

    def positions(self, texts: Integers) -> Integers:
        """Return the positions in the index of texts with these numbers."""
        blocks = np.searchsorted(self._starts, texts, side="right") - 1
        positions: Integers = (self._blocks[blocks] << SLOT_BITS) + texts - self._starts[blocks]
        return positions

    def counts(
        self, database: sqlite3.Connection, terms: Sequence[int], first_text: int, stop: int
    ) -> Integers:
        """Return the number of the given terms that each text in a range contains.

        Args:
            database: the database, in the same state as the cached lists.
            terms: the terms.
            first_text: the number of the first text, a multiple of 8.
            stop: the end of the range (exclusive), a multiple of 8.
        """
        lists = self._read_lists(database, terms)
        integer = np.uint8 if len(lists) < 128 else np.uint16  # the counts in arrays and in bitmaps are added
        ends = np.array([first_text, stop], np.int32)
        parts = [
            term_list[slice(*term_list.searchsorted(ends))]
            for term_list in lists
            if term_list.dtype == np.int32
        ]
        texts = np.concatenate([np.zeros(0, np.int32), *parts]) - first_text
        counts: Integers = np.bincount(texts, minlength=stop - first_text).astype(integer)
        bitmaps = [
            term_list[first_text >> 3 : stop >> 3] for term_list in lists if term_list.dtype == np.uint8
        ]
        for start in range(0, stop - first_text if bitmaps else 0, MAX_BLOCK_TEXTS):
            end = min(start + MAX_BLOCK_TEXTS, stop - first_text)
            joined_bitmaps = np.concatenate([term_list[start >> 3 : end >> 3] for term_list in bitmaps])
            bits = np.unpackbits(joined_bitmaps).reshape(len(bitmaps), -1)
            counts[start:end] += np.add.reduce(bits, axis=0, dtype=integer)
        return counts

    def _read_lists(self, database: sqlite3.Connection, terms: Sequence[int]) -> list[Integers]:
        """Return the posting list of each term."""
        lists = {term: texts for term in terms if (texts := self._lists.get(term)) is not None}
        missing_terms = [term for term in terms if term not in lists]
        if missing_terms:
            rows = database.execute(
                "SELECT term.key, postings.key - term.value, slots FROM json_each(?) AS term "
                "CROSS JOIN postings ON postings.key BETWEEN term.value AND term.value + ?",
                (json.dumps([term << BLOCK_BITS for term in missing_terms]), (1 << BLOCK_BITS) - 1),
            )
            contents: list[list[tuple[int, bytes]]] = [[] for _ in missing_terms]
            for index, block, content in rows:
                contents[index].append((self._first_texts[block], content))
            for term, block_contents in zip(missing_terms, contents, strict=True):
                lists[term] = self._join_lists(block_contents)
                self._cache_list(term, lists[term])
        return [lists[term] for term in terms]

    def _join_lists(self, blocks: Sequence[tuple[int, bytes]]) -> Integers:
        """Return the posting list of a term over all blocks.

        Args:
            blocks: pairs of the number of a block's first text and the encoded posting list in the block.
        """
        bitmaps = [(first_text, content) for first_text, content in blocks if len(content) % 2]
        arrays = [(first_text, content) for first_text, content in blocks if len(content) % 2 == 0]
        count = sum(len(content) // 2 for _, content in arrays)
        count += sum(int.from_bytes(content).bit_count() for _, content in bitmaps)
        is_bitmap = count * 32 > self.lengths.size
        decoded_blocks = arrays if is_bitmap else blocks
        slots = [_decode_list(content) for _, content in decoded_blocks]
        first_texts = np.array([first_text for first_text, _ in decoded_blocks], np.int64)
        texts = np.concatenate([np.zeros(0, np.uint16), *slots])
        texts = texts + np.repeat(first_texts, [block_slots.size for block_slots in slots])
        if not is_bitmap:
            return texts.astype(np.int32)
        bitmap = np.zeros((self.lengths.size >> 3) + 1, np.uint8)
        for first_text, content in bitmaps:
            bitmap[first_text >> 3 : (first_text >> 3) + len(content)] |= np.frombuffer(content, np.uint8)
        np.bitwise_or.at(bitmap, texts >> 3, (128 >> (texts & 7)).astype(np.uint8))
        return bitmap

    def _cache_list(self, term: int, texts: Integers) -> None:
        with self._lock:
            if term not in self._lists:
                self._lists[term] = texts
                self._bytes += texts.nbytes + LIST_OVERHEAD_BYTES
            while self._bytes > MAX_CACHED_BYTES:
                oldest_term = next(iter(self._lists))
                self._bytes -= self._lists.pop(oldest_term).nbytes + LIST_OVERHEAD_BYTES


def distinct_terms(terms: Sequence[int]) -> list[int]:
    """Return the terms of a text, with repeated terms replaced by different terms."""
    occurrences = defaultdict[int, Iterator[int]](count)
    return [(term + next(occurrences[term]) * OCCURRENCE_FACTOR) % (1 << TERM_BITS) for term in terms]


def _run_starts(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the index of the first key of each run of equal keys."""
    return np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: keys.size])


def merged_postings(content: bytes, other: bytes) -> bytes:
    """Return the union of two encoded posting lists."""
    return _encode_list(np.concatenate([_decode_list(content), _decode_list(other)]))


def _encode_lists(postings: Postings) -> Iterator[tuple[int, bytes]]:
    """Yield each key with its encoded posting list."""
    order = np.argsort(postings.keys, kind="stable")
    keys, slots = postings.keys[order], postings.slots[order]
    starts = _run_starts(keys)
    stops = np.append(starts, keys.size)[1:]
    for key, start, stop in zip(keys[starts].tolist(), starts.tolist(), stops.tolist(), strict=True):
        yield key, _encode_list(slots[start:stop])


def _encode_list(slots: Integers) -> bytes:
    """Encode a posting list as 16-bit numbers or as a bitmap (an odd number of bytes), if that is shorter."""
    width = bitmap_bytes(int(slots.max()) + 1)
    if slots.size * 2 < width:
        return slots.astype(np.uint16).tobytes()
    bits = np.zeros(width * 8, np.uint8)
    bits[slots] = 1
    return np.packbits(bits).tobytes()


def _decode_list(content: bytes) -> Integers:
    if len(content) % 2 == 0:
        return np.frombuffer(content, np.uint16)
    return np.flatnonzero(np.unpackbits(np.frombuffer(content, np.uint8)))


def bitmap_bytes(text_count: int) -> int:
    """Return the size in bytes of a bitmap for a number of texts; it is odd, which marks it as a bitmap."""
    return text_count + 7 >> 3 | 1


def number_buckets(words: Integers) -> Integers:
    """Return the length bucket for each number of words.

    Numbers with the same bit length and the same two leading bits share a bucket.
    """
    shift: Integers = np.maximum(0, np.frexp(words)[1] - 2)
    return (shift << 1) + (words >> shift)


def min_common_tokens(count: int, threshold: float) -> int:
    """Return the minimum number of common tokens of two texts whose similarity reaches a threshold.

    Args:
        count: the number of tokens of one text.
        threshold: the similarity in percent.
    """
    return math.ceil(count * threshold / 100 - TOLERANCE)


def length_range(text: ComparableText, threshold: float) -> tuple[int, int]:
    """Return the minimum and maximum number of words of texts that may be similar enough to a text.

    Let t be the threshold as a fraction. If stems are compared, a similar text has at least ``t`` times and
    at most ``1 / t`` times as many words. If all n tokens are compared, it has at least ``ceil(t * n)``
    tokens in common with the text, some of which may be marks, and at most ``(1 - t) * n / t`` other tokens.
    """
    words, tokens, share = len(text.stems), len(text.terms), threshold / 100
    lowest = min(
        min_common_tokens(words, threshold), max(0, min_common_tokens(tokens, threshold) - (tokens - words))
    )
    return lowest, math.floor(words + (1 - share) / share * tokens + TOLERANCE)
