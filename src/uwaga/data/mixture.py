"""A mixture of stores, and the random order of an epoch's pairs.

Over all epochs, the draws from a corpus go through successive permutations of its pairs. An epoch takes the
next ``draws`` pairs of each corpus, in random order. So after any number of epochs, no pair of a corpus has
been drawn more than once more often than another. Permutations are computed position by position and never
stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from uwaga.alignment.words import WordKind
from uwaga.data.rows import Column, JoinedColumn, TokenRows
from uwaga.data.store import Store
from uwaga.decoder import Ids
from uwaga.errors import DataError

FEISTEL_ROUNDS = 8
_KEY_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST_MULTIPLIER, _SECOND_MULTIPLIER = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
UnsignedInts = NDArray[np.uint64]


def make_key(*numbers: int | Ids) -> UnsignedInts:
    """Return an array (keys,) of hash keys, of which key i is computed from element i of each argument.

    Each argument is an array (keys,), or a scalar that is used for all keys.
    """
    key = np.zeros(1, dtype=np.uint64)
    for number in numbers:
        word = np.atleast_1d(np.asarray(number)).astype(np.uint64)
        key = _mix_bits((key + _KEY_STEP) ^ _mix_bits(word))
    return key


def permute(positions: Ids, size: int, keys: UnsignedInts) -> Ids:
    """Return the elements of a random permutation of ``range(size)`` at the given positions, (positions,).

    Args:
        positions: (positions,) less than ``size``.
        size: length of the permutation, at least 1.
        keys: (positions,) or (1,), the key of the permutation for each position.
    """
    side = np.uint64(math.isqrt(size - 1) + 1)  # the smallest integer with side * side >= size
    numbers = positions.astype(np.uint64)
    keys = np.broadcast_to(keys, numbers.shape)
    outside_indices = np.arange(len(numbers))
    while len(outside_indices):
        numbers[outside_indices] = _apply_feistel_network(
            numbers[outside_indices], side, keys[outside_indices]
        )
        outside_indices = outside_indices[numbers[outside_indices] >= np.uint64(size)]
    return numbers.astype(np.int64)


def _apply_feistel_network(numbers: UnsignedInts, side: np.uint64, keys: UnsignedInts) -> UnsignedInts:
    """Apply a Feistel network, a permutation of ``range(side * side)``, to two digits in base ``side``."""
    left, right = numbers // side, numbers % side
    for round_key in _KEY_STEP * np.arange(1, FEISTEL_ROUNDS + 1, dtype=np.uint64):
        word = _mix_bits(right ^ _mix_bits(keys + round_key))
        left, right = right, (left + word % side) % side
    return left * side + right


def _mix_bits(words: UnsignedInts) -> UnsignedInts:
    words = (words ^ (words >> np.uint64(30))) * _FIRST_MULTIPLIER
    words = (words ^ (words >> np.uint64(27))) * _SECOND_MULTIPLIER
    return words ^ (words >> np.uint64(31))


EPOCH_KEY, CORPUS_KEY = 2, 3  # distinguish the keys of epochs from those of corpora


class Mixture:
    """Several stores combined, with consecutive row numbers in the order of the stores.

    Attributes:
        stores: the stores, one for each corpus.
        draws: number of pairs drawn from each store in an epoch.
    """

    def __init__(
        self,
        stores: Sequence[Store],
        weights: Sequence[float] | None = None,
        temperature: float | None = None,
    ) -> None:
        """Mix stores; by default each pair occurs once in an epoch.

        Args:
            stores: the stores, one for each corpus.
            weights: average number of times that a pair of each store occurs in an epoch; 1 by default.
            temperature: replaces ``weights``: corpora of n pairs are sampled in proportion to
                ``n ** (1 / temperature)`` (Arivazhagan et al. 2019, section 4); 1 keeps the proportions, and
                large values approach equal shares. An epoch has as many pairs as all corpora have together.
        """
        self.stores = list(stores)
        sizes = [len(store) for store in self.stores]
        self._sizes = sizes
        self._starts = np.cumsum([0, *sizes])  # (stores + 1,)
        if temperature is not None:
            self.draws = temperature_draws(sizes, temperature)
        else:
            factors = weights or [1.0] * len(sizes)
            self.draws = [max(1, round(weight * size)) for weight, size in zip(factors, sizes, strict=True)]
        self._ends = np.cumsum(self.draws)  # (stores,) end of the draws of each store in an epoch

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def epoch_pairs(self) -> int:
        """The number of pairs in an epoch."""
        return int(self._ends[-1])

    def order(self, seed: int, epoch: int, start: int, stop: int) -> Ids:
        """Return the rows at positions ``start`` to ``stop - 1`` of an epoch, (pairs,); a pure function."""
        positions = np.arange(start, min(stop, self.epoch_pairs))
        shuffled_rows = permute(positions, self.epoch_pairs, make_key(seed, EPOCH_KEY, epoch))
        corpus = np.searchsorted(self._ends, shuffled_rows, side="right")  # (pairs,)
        rows = np.empty_like(shuffled_rows)
        for corpus_index in np.unique(corpus):
            indices = np.flatnonzero(corpus == corpus_index)
            draws, size = self.draws[corpus_index], self._sizes[corpus_index]
            # numbers of the draws from the corpus over all epochs
            draw_numbers = epoch * draws + shuffled_rows[indices] - (self._ends[corpus_index] - draws)
            keys = make_key(seed, CORPUS_KEY, int(corpus_index), draw_numbers // size)
            rows[indices] = self._starts[corpus_index] + permute(draw_numbers % size, size, keys)
        return rows

    def side(self, side: Literal["source", "target"], form: str = "") -> TokenRows:
        """Return the tokens of all sources, optionally in a surface form, or of all targets."""
        columns: list[Column] = [store.side(side, form) for store in self.stores]
        return columns[0] if len(columns) == 1 else JoinedColumn(columns)

    def longest(self, forms: Sequence[str]) -> int:
        """Return the length of the longest row on either side, including the sources' surface forms."""
        names = ["source", "target", *(f"source.{form}" for form in forms)]
        return max(store.longest(name) for store in self.stores for name in names)

    def check_contents(self, forms: Sequence[str], text: bool) -> None:
        """Raise DataError unless all stores have these surface forms and, if ``text`` is True, the texts."""
        for store in self.stores:
            if missing_forms := set(forms) - set(store.forms):
                raise DataError(
                    f"{store.folder}: no surface form {', '.join(sorted(missing_forms))}; build the store "
                    "again"
                )
            if text and not store.has_text:
                raise DataError(
                    f"{store.folder}: the store has no texts, which data.subword_sampling and "
                    "training.guided_alignment need; build it again"
                )

    def texts(self, rows: Ids) -> list[tuple[str, str, tuple[int, ...]]]:
        """Return the source text, the target text and the ids of the tag for each of the given rows."""
        texts = [
            (store.source_text(index), store.target_text(index), store.tag)
            for store, index in self._locate(rows)
        ]
        for store in self.stores:
            store.release_pages()
        return texts

    def links(self, rows: Ids) -> list[tuple[Ids, WordKind]]:
        """Return, for each given row, the links (links, 2) of source and target words, and the word kind."""
        links = [(store.links(index), store.link_words) for store, index in self._locate(rows)]
        for store in self.stores:
            store.release_pages()
        return links

    def _locate(self, rows: Ids) -> Iterator[tuple[Store, int]]:
        """Yield the store of each row, and its index in the store."""
        store_indices = np.searchsorted(self._starts, rows, side="right") - 1  # (rows,)
        for row, store_index in zip(rows.tolist(), store_indices.tolist(), strict=True):
            yield self.stores[store_index], row - int(self._starts[store_index])

    def describe(self) -> str:
        """Return the numbers of pairs and tokens as text, to detect changes to the corpora."""
        total = ", ".join(
            f"{store.tokens('source'):,} and {store.tokens('target'):,}" for store in self.stores
        )
        pairs = " + ".join(f"{len(store):,}" for store in self.stores)
        return f"{pairs} pairs of {total} tokens"


def temperature_draws(sizes: Sequence[int], temperature: float) -> list[int]:
    """Return the number of draws from each corpus, at least one; their sum is the total number of pairs.

    The shares ``p_i ∝ n_i ** (1 / temperature)`` are rounded by the largest remainder method, which keeps
    their sum.
    """
    scale = np.asarray(sizes, dtype=np.float64) / max(sizes)
    shares = scale ** (1.0 / temperature)
    exact_counts = shares / shares.sum() * sum(sizes)  # (corpora,)
    draw_counts = np.maximum(1, np.floor(exact_counts)).astype(np.int64)
    for index in np.argsort(draw_counts - exact_counts, kind="stable")[
        : max(0, sum(sizes) - int(draw_counts.sum()))
    ]:
        draw_counts[index] += 1
    return [int(count) for count in draw_counts]
