"""Several stores as one, and the order in which an epoch shows their pairs.

The draws of a corpus, over all epochs, go through random orders of its pairs one after another, each pair
once in each. An epoch takes the next ``draws`` of them, and shows those of all corpora in random order. So
after any number of epochs every pair of a corpus has been shown as often as any other of it, or once more.
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

ROUNDS = 8
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
Words = NDArray[np.uint64]


def make_key(*numbers: int | Ids) -> Words:
    """(keys,) a key for each row of the numbers, which are single or (keys,) each."""
    key = np.zeros(1, dtype=np.uint64)
    for number in numbers:
        word = np.atleast_1d(np.asarray(number)).astype(np.uint64)
        key = _mixed((key + _STEP) ^ _mixed(word))
    return key


def permuted(places: Ids, size: int, keys: Words) -> Ids:
    """(places,) what a random order of ``range(size)`` holds at some places.

    Args:
        places: (places,) below ``size``.
        size: length of the order, 1 or more.
        keys: (places,) or (1,) says which order it is, for each place.
    """
    side = np.uint64(math.isqrt(size - 1) + 1)  # the smallest with side * side >= size
    found = places.astype(np.uint64)
    keys = np.broadcast_to(keys, found.shape)
    outside = np.arange(len(found))
    while len(outside):
        found[outside] = _network(found[outside], side, keys[outside])
        outside = outside[found[outside] >= np.uint64(size)]
    return found.astype(np.int64)


def _network(numbers: Words, side: np.uint64, keys: Words) -> Words:
    """A permutation of ``range(side * side)``: in each round one digit gains a function of the other."""
    left, right = numbers // side, numbers % side
    for turn in _STEP * np.arange(1, ROUNDS + 1, dtype=np.uint64):
        word = _mixed(right ^ _mixed(keys + turn))
        left, right = right, (left + word % side) % side
    return left * side + right


def _mixed(words: Words) -> Words:
    words = (words ^ (words >> np.uint64(30))) * _FIRST
    words = (words ^ (words >> np.uint64(27))) * _SECOND
    return words ^ (words >> np.uint64(31))


EPOCH, CORPUS = 2, 3  # tell the keys of orders of epochs from those of corpora


class Mixture:
    """Stores as one: rows are numbered through, in the stores' order.

    Attributes:
        stores: one a corpus.
        draws: pairs that an epoch shows of each.
    """

    def __init__(
        self,
        stores: Sequence[Store],
        weights: Sequence[float] | None = None,
        temperature: float | None = None,
    ) -> None:
        """Mix stores, by default every pair once in an epoch.

        Args:
            stores: one a corpus.
            weights: times that the pairs of each are shown in an epoch.
            temperature: instead, draw corpora of n pairs in proportion to ``n ** (1 / temperature)``
                (Arivazhagan et al. 2019, section 4; 1 is as they are, large is equal shares); an epoch
                shows as many pairs as there are.
        """
        self.stores = list(stores)
        sizes = [len(store) for store in self.stores]
        self._sizes = sizes
        self._starts = np.cumsum([0, *sizes])  # (stores + 1,)
        if temperature is not None:
            self.draws = tempered(sizes, temperature)
        else:
            times = weights or [1.0] * len(sizes)
            self.draws = [max(1, round(weight * size)) for weight, size in zip(times, sizes, strict=True)]
        self._ends = np.cumsum(self.draws)  # (stores,) of their draws in an epoch

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def epoch_pairs(self) -> int:
        """Pairs that an epoch shows."""
        return int(self._ends[-1])

    def order(self, seed: int, epoch: int, start: int, stop: int) -> Ids:
        """(pairs,) the rows that an epoch shows from place ``start`` to ``stop``; depends on these alone."""
        places = np.arange(start, min(stop, self.epoch_pairs))
        drawn = permuted(places, self.epoch_pairs, make_key(seed, EPOCH, epoch))
        corpus = np.searchsorted(self._ends, drawn, side="right")  # (pairs,)
        rows = np.empty_like(drawn)
        for number in np.unique(corpus):
            here = np.flatnonzero(corpus == number)
            draws, size = self.draws[number], self._sizes[number]
            draw = (
                epoch * draws + drawn[here] - (self._ends[number] - draws)
            )  # of the corpus, over all epochs
            keys = make_key(seed, CORPUS, int(number), draw // size)
            rows[here] = self._starts[number] + permuted(draw % size, size, keys)
        return rows

    def side(self, side: Literal["source", "target"], form: str = "") -> TokenRows:
        """The tokens of all sources or targets; the sources also in a surface form."""
        columns: list[Column] = [store.side(side, form) for store in self.stores]
        return columns[0] if len(columns) == 1 else JoinedColumn(columns)

    def longest(self, forms: Sequence[str]) -> int:
        """Tokens of the longest row of either side, the sources in these surface forms too."""
        names = ["source", "target", *(f"source.{form}" for form in forms)]
        return max(store.longest(name) for store in self.stores for name in names)

    def require(self, forms: Sequence[str], text: bool) -> None:
        """Refuse stores without these surface forms, or without texts where these are wanted (DataError)."""
        for store in self.stores:
            if missing := set(forms) - set(store.forms):
                raise DataError(
                    f"{store.folder}: no surface form {', '.join(sorted(missing))}; build it again"
                )
            if text and not store.has_text:
                raise DataError(
                    f"{store.folder}: no texts, which data.subword_sampling and training.guided_alignment "
                    "need; build it again"
                )

    def texts(self, rows: Ids) -> list[tuple[str, str, tuple[int, ...]]]:
        """Source, target and the ids of the tag of some rows."""
        found = [
            (store.source_text(index), store.target_text(index), store.tag) for store, index in self._at(rows)
        ]
        for store in self.stores:
            store.give_back()
        return found

    def links(self, rows: Ids) -> list[tuple[Ids, WordKind]]:
        """The word links of some rows, (links, 2) each: source word and target word; and how words count."""
        found = [(store.links(index), store.link_words) for store, index in self._at(rows)]
        for store in self.stores:
            store.give_back()
        return found

    def _at(self, rows: Ids) -> Iterator[tuple[Store, int]]:
        """The store of each row, and its number there."""
        numbers = np.searchsorted(self._starts, rows, side="right") - 1  # (rows,)
        for row, number in zip(rows.tolist(), numbers.tolist(), strict=True):
            yield self.stores[number], row - int(self._starts[number])

    def describe(self) -> str:
        """How much there is, which differs where a corpus does."""
        total = ", ".join(
            f"{store.tokens('source'):,} and {store.tokens('target'):,}" for store in self.stores
        )
        pairs = " + ".join(f"{len(store):,}" for store in self.stores)
        return f"{pairs} pairs of {total} tokens"


def tempered(sizes: Sequence[int], temperature: float) -> list[int]:
    """Draws of each corpus in an epoch of as many pairs as there are, at least one of each.

    Shares of ``p_i ∝ n_i ** (1 / temperature)``, rounded so that the sum is kept (largest remainders).
    """
    scale = np.asarray(sizes, dtype=np.float64) / max(sizes)
    shares = scale ** (1.0 / temperature)
    exact = shares / shares.sum() * sum(sizes)  # (corpora,)
    draws = np.maximum(1, np.floor(exact)).astype(np.int64)
    for number in np.argsort(draws - exact, kind="stable")[: max(0, sum(sizes) - int(draws.sum()))]:
        draws[number] += 1
    return [int(count) for count in draws]
