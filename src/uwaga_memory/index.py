r"""The index of a memory: which sources can be as similar to a text as a threshold asks.

A source with a score of t % has at least ``c = ceil(t * n / 100)`` of the n tokens of a text, in one of the
two readings that are compared. So of any ``n - c + k`` tokens of the text it has at least k, and the rarest
make the shortest lists (prefix filter: Chaudhuri, Ganti and Kaushik 2006; with k > 1: Wang, Li and Feng
2012). The index has the *terms* of all tokens: equal tokens have equal terms.

It also has the bigrams of the stems, which are rarer. An edit changes at most two of a text's bigrams, so
that a similar text has at least ``w - 1 - 2 * (1 - t / 100) * n`` of those of its w words, for t of 50 and
more (q-gram filter: Ukkonen 1992). What makes the shorter lists is looked up. The index is FTS5's; the number
of a row has the number of words of the text in its high bits, so that only texts of similar length are looked
at.

No text that reaches the threshold is left out unless there are more than :data:`MAX_CANDIDATES`.
"""

from __future__ import annotations

import math
import sqlite3
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

from uwaga_memory.similarity import MAX_STEMMED_LENGTH, Readings, Stemmer, is_word, ratio, tokens_of

SCHEMA = """
CREATE VIRTUAL TABLE texts USING fts5(terms, content='', detail='none', columnsize=0, tokenize='ascii');
INSERT INTO texts (texts, rank) VALUES ('hashsize', 33554432);
CREATE TABLE frequencies (term TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID;
"""
MAX_CANDIDATES = 20_000
"""Texts that are compared term by term in a look-up."""
BIGRAM_HASHES = 1 << 20
"""Number of the terms of bigrams, each a character of Unicode's planes 1 to 16; those of other bigrams with
the same term are looked at for nothing."""
FIRST_BIGRAM = 0x10000
BIGRAM_FACTOR = 31
ASSOCIATION = 1
"""How much more frequent a bigram may be than its words suggest, in the estimate of its frequency."""
LENGTH_SHIFT = 40
"""Bits of the number of a pair in the number of its row in the index."""
COST_OF_CANDIDATE = 3
"""Time of comparing a text, in times of reading its number in a list."""
EVEN = 50.0
"""Threshold below which insertions change more bigrams than other edits."""
MAX_COMMON = 2
"""Terms in common that are looked for."""
INSERT = "INSERT INTO texts (rowid, terms) VALUES (?, ?)"
DELETE = "INSERT INTO texts (texts, rowid, terms) VALUES ('delete', ?, ?)"


class IndexedText(NamedTuple):
    """The number of a pair, and the terms of its source."""

    id: int
    terms: str

    @classmethod
    def of(cls, id_: int, text: str, stemmer: Stemmer) -> IndexedText:
        """Return the terms of a text."""
        return cls(id_, " ".join(stemmer.terms(tokens_of(text))))

    def entry(self) -> tuple[int, str]:
        """Return the number of the row in the index, and its terms and bigrams."""
        stems = [term for term in self.terms.split(" ") if is_word(term)]
        return len(stems) << LENGTH_SHIFT | self.id, " ".join([self.terms, *bigrams(stems)])


class Index:
    """The index in the database of a memory."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._changes: Counter[str] = Counter()

    def add(self, texts: Sequence[IndexedText]) -> None:
        """Add texts. :meth:`store_frequencies` completes the additions of a transaction."""
        self._database.executemany(INSERT, sorted(text.entry() for text in texts))
        self._changes.update(chain.from_iterable(set(text.terms.split(" ")) for text in texts))

    def remove(self, text: IndexedText) -> None:
        """Remove a text."""
        self._database.execute(DELETE, text.entry())
        self._changes.subtract(set(text.terms.split(" ")))

    def store_frequencies(self) -> None:
        """Store in how many texts each term is."""
        self._database.executemany(
            "INSERT INTO frequencies VALUES (?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count",
            self._changes.items(),
        )
        self._changes.clear()

    def optimise(self) -> None:
        """Write the index in one piece, which is faster to read."""
        self._database.execute("INSERT INTO texts (texts) VALUES ('optimize')")

    def similar(self, text: Readings, threshold: float) -> list[int]:
        """Return the pairs whose sources may reach a threshold, without penalties, compared by terms."""
        rows = self._candidates(text, threshold)
        candidates: list[int] = []
        everything, stems = " ".join(text.terms).split(), list(text.stems)
        different, repeated = set(everything), len(everything) - len(set(everything))
        needed = min(common(len(everything), threshold), common(len(stems), threshold)) - repeated
        for row, terms in rows:
            others = terms.split()
            if len(different.intersection(others)) < needed:
                continue
            other_stems = [term for term in others if is_word(term)]
            if ratio(stems, other_stems, threshold) or ratio(everything, others, threshold):
                candidates.append(row)
        return candidates

    def _candidates(self, text: Readings, threshold: float) -> list[tuple[int, str]]:
        """Return the pairs that have enough terms in common, with their terms."""
        expression = self._expression(text, threshold)
        if not expression:
            return []
        lowest, highest = lengths(text, threshold)
        rows = self._select(expression, lowest, highest, MAX_CANDIDATES + 1)
        if len(rows) <= MAX_CANDIDATES:
            return rows
        rows = []
        for length in sorted(range(lowest, highest + 1), key=lambda length: abs(length - len(text.stems))):
            rows += self._select(expression, length, length, MAX_CANDIDATES - len(rows))
            if len(rows) >= MAX_CANDIDATES:
                break
        return rows

    def _select(self, expression: str, lowest: int, highest: int, limit: int) -> list[tuple[int, str]]:
        return self._database.execute(
            "SELECT pairs.id, pairs.terms FROM texts CROSS JOIN pairs ON pairs.id = texts.rowid & ? "
            "WHERE texts MATCH ? AND texts.rowid BETWEEN ? AND ? LIMIT ?",
            (
                (1 << LENGTH_SHIFT) - 1,
                expression,
                lowest << LENGTH_SHIFT,
                (highest + 1 << LENGTH_SHIFT) - 1,
                limit,
            ),
        ).fetchall()

    def _expression(self, text: Readings, threshold: float) -> str:
        """Return the query for the texts with enough of the rarest terms; empty if there are none."""
        words, grams = Counter(text.terms), Counter(bigrams(text.stems))
        order, stem_order = self._rarest(words), self._rarest(Counter(text.stems))
        gram_order = self._rarest_bigrams(text.stems, {term: frequency for frequency, term in stem_order})
        needed, needed_stems = common(len(text.terms), threshold), common(len(text.stems), threshold)
        needed_grams = common_bigrams(text, threshold)
        expression, lowest = "", math.inf
        for count in range(1, MAX_COMMON + 1):
            plans = []
            if count == 1 or count <= min(needed, needed_stems):
                selected = _prefix(order, words, needed, count)
                selected |= _prefix(stem_order, Counter(text.stems), needed_stems, count)
                plans.append((selected, order, words))
            if count <= needed_grams:
                plans.append((_prefix(gram_order, grams, needed_grams, count), gram_order, grams))
            for selected, terms, counts in plans:
                if not selected:
                    return ""
                cost = sum(frequency for frequency, term in terms if term in selected)
                cost *= COST_OF_CANDIDATE if count == 1 else 1
                if cost < lowest:
                    lowest = cost
                    expression = _at_least(count, [term for _, term in terms if term in selected], counts)
        return expression

    def _rarest(self, counts: Counter[str]) -> list[tuple[int, str]]:
        """Return those of some terms that the index has, in how many texts it has them, the rarest first."""
        return sorted((frequency, term) for term in counts if (frequency := self._frequency(term)))

    def _rarest_bigrams(self, stems: Sequence[str], frequencies: Mapping[str, int]) -> list[tuple[int, str]]:
        """Return the bigrams that the index may have, with estimated frequencies, the rarest first."""
        [(texts,)] = self._database.execute("SELECT coalesce(max(id), 0) FROM pairs")
        estimates = {}
        for (first, second), term in zip(pairwise(stems), bigrams(stems), strict=True):
            if first in frequencies and second in frequencies:
                product = ASSOCIATION * frequencies[first] * frequencies[second] // max(texts, 1)
                estimates[term] = min(frequencies[first], frequencies[second], product + 1)
        return sorted((estimate, term) for term, estimate in estimates.items())

    def _frequency(self, term: str) -> int:
        row = self._database.execute("SELECT count FROM frequencies WHERE term = ?", (term,)).fetchone()
        return 0 if row is None else int(row[0])


def common(count: int, threshold: float) -> int:
    """Return how many of the tokens of a text another has at least, if it is as similar as a threshold."""
    return math.ceil(count * threshold / 100 - 1e-6)


def bigrams(stems: Sequence[str]) -> list[str]:
    """Return the terms of the pairs of neighbouring stems."""
    hashes = _hashes(stems)
    return [
        chr(FIRST_BIGRAM + (BIGRAM_FACTOR * first + second) % BIGRAM_HASHES)
        for first, second in pairwise(hashes)
    ]


_HASHES: dict[str, int] = {}
MAX_HASHES = 500_000
"""Stems whose hashes are remembered."""


def _hashes(stems: Sequence[str]) -> list[int]:
    """Return a number for each stem, the same in every process."""
    try:
        return [_HASHES[stem] for stem in stems]
    except KeyError:
        pass
    hashes = {stem: zlib.crc32(stem.encode()) % BIGRAM_HASHES for stem in stems}
    if len(_HASHES) < MAX_HASHES and max(map(len, stems)) <= MAX_STEMMED_LENGTH:
        _HASHES.update(hashes)
    return [hashes[stem] for stem in stems]


def common_bigrams(text: Readings, threshold: float) -> int:
    """Return how many of a text's bigrams a text as similar as a threshold has; 0 for unknown.

    If everything of the other is compared, there are at most ``(1 - t) * n`` edits of the n tokens, which
    change two bigrams each, or ``(1 - t) / t * n`` insertions, which change one. Edits of stems are fewer.
    """
    if threshold < EVEN:
        return 0
    return max(0, len(text.stems) - 1 - math.floor(2 * (1 - threshold / 100) * len(text.terms) + 1e-6))


def lengths(text: Readings, threshold: float) -> tuple[int, int]:
    """Return the least and largest number of words of a text that is as similar as a threshold.

    By its stems, a text has at least t % of the words, and at most their number / t %. By everything, it has
    ``ceil(t * n)`` tokens in common, of which some are marks, and at most ``(1 - t) * n / t`` others.
    """
    words, tokens, share = len(text.stems), len(text.terms), threshold / 100
    lowest = min(common(words, threshold), max(0, common(tokens, threshold) - (tokens - words)))
    return lowest, math.floor(words + (1 - share) / share * tokens + 1e-6)


def _prefix(order: Sequence[tuple[int, str]], counts: Counter[str], needed: int, count: int) -> set[str]:
    """Return the rarest terms of which a similar text has at least ``count``.

    Args:
        order: the terms that the index has, rarest first.
        counts: how often each term is in the text.
        needed: the tokens that a similar text has.
        count: the tokens of the result that it has.
    """
    terms = [term for _, term in order]
    absent = counts.total() - sum(counts[term] for term in terms)
    missing = counts.total() - needed + count - absent
    selected = set()
    for term in terms:
        if missing <= 0:
            break
        selected.add(term)
        missing -= counts[term]
    return selected


def _at_least(count: int, terms: Sequence[str], counts: Counter[str]) -> str:
    """Return the query for texts that have ``count`` of some tokens; a term may be several of them."""
    alternatives = []
    for number, term in enumerate(terms):
        left = count - counts[term]
        if left <= 0:
            alternatives.append(f'"{term}"')
        elif others := _at_least(left, terms[number + 1 :], counts):
            alternatives.append(f'("{term}" AND ({others}))')
    return " OR ".join(alternatives)
