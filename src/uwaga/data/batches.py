"""Batches of like-long pairs under a token budget, in an order that depends on seed and epoch alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, overload

import numpy as np
from numpy.typing import NDArray

from uwaga.config import DataSettings
from uwaga.contracts import Ids
from uwaga.data.prefetch import prefetch
from uwaga.data.store import Column, Store
from uwaga.errors import DataError, SettingsError
from uwaga.text.augmentation import choose_forms, surface
from uwaga.text.tokeniser import Tokeniser

__all__ = ["Batch", "Batches", "Plan", "prefetch"]

POOL = 1 << 16  # pairs sorted together: enough for little padding, few enough for random batches
GROWTH_PAIRS = 512
GROWTH_QUANTILE = 0.95


@dataclass(frozen=True)
class Batch:
    """Some training pairs, padded.

    ``source`` (sentences, source) each with its end symbol; ``source_lengths`` (sentences,) end symbol
    included; ``target_in`` (sentences, target) starts with the start symbol; ``target_out`` (sentences,
    target) ends with the end symbol; ``target_lengths`` (sentences,) of both; ``pairs`` (sentences,)
    the places in the store. All int64, padding after.
    """

    source: Ids
    source_lengths: Ids
    target_in: Ids
    target_out: Ids
    target_lengths: Ids
    pairs: Ids

    @property
    def sentences(self) -> int:
        """Number of pairs."""
        return len(self.pairs)

    @property
    def tokens(self) -> int:
        """Number of tokens to be predicted, end symbols included, padding not."""
        return int(self.target_lengths.sum())


class Plan(Sequence[Ids]):
    """An epoch: for each batch the (sentences,) places of its pairs in the store.

    ``forms`` (pairs,) is the surface form of each source in this epoch, -1 for the text as it is.
    Workers that share an epoch take ``range(rank, count // world * world, world)`` of its batches.
    """

    def __init__(self, batches: list[Ids], forms: NDArray[np.int64]) -> None:
        self._batches = batches
        self.forms = forms

    def __len__(self) -> int:
        return len(self._batches)

    @overload
    def __getitem__(self, index: int) -> Ids: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Ids]: ...
    def __getitem__(self, index: int | slice) -> Ids | Sequence[Ids]:
        return self._batches[index]


class Batches:
    """The batches of a store. ``batch(epoch, index)`` is a pure function, so training resumes anywhere."""

    def __init__(
        self,
        store: Store,
        tokenisers: tuple[Tokeniser, Tokeniser],
        data: DataSettings,
        seed: int,
        batch_tokens: int,
    ) -> None:
        """``batch_tokens`` is the most tokens a batch may hold on either side, padding included.

        Raises:
            SettingsError: a pair alone exceeds ``batch_tokens``.
            DataError: the store lacks the texts or surface forms that ``data`` asks for.
        """
        self._store = store
        self._tokenisers = tokenisers
        self._seed = seed % (1 << 64)
        self._budget = batch_tokens
        self._most = data.max_tokens
        self._alpha = data.subword_sampling
        self._shares: dict[str, float] = {
            form: share for form, share in sorted(data.augment.items()) if share > 0
        }
        if missing := set(self._shares) - set(store.forms):
            raise DataError(f"{store.folder}: no surface form {', '.join(sorted(missing))}; build it again")
        if self._alpha and not store.has_text:
            raise DataError(f"{store.folder}: no texts, which data.subword_sampling needs; build it again")
        self._columns = [store.side("source", form) for form in self._shares] + [store.side("source")]
        longest = 1 + max(int(column.lengths.max()) for column in [*self._columns, store.side("target")])
        if longest > batch_tokens:
            raise SettingsError(
                f"training.batch_tokens: {batch_tokens} is too small for the longest sentence, which has "
                f"{longest} tokens with its end symbol; raise it or lower data.max_tokens"
            )
        self._growth = (self._measure("source"), self._measure("target")) if self._alpha else (1.0, 1.0)
        self._latest: tuple[int, Plan] | None = None

    def epoch(self, number: int) -> Plan:
        """The plan of an epoch: every pair once. Depends on seed and number alone."""
        latest = self._latest  # read once: another thread may replace it
        if latest is None or latest[0] != number:
            latest = self._latest = (number, self._plan(number))
        return latest[1]

    def count(self, epoch: int) -> int:
        """Number of batches in an epoch."""
        return len(self.epoch(epoch))

    def batch(self, epoch: int, index: int) -> Batch:
        """One batch. Depends on seed, epoch and index alone."""
        plan = self.epoch(epoch)
        pairs = plan[index]
        forms = plan.forms[pairs]  # (sentences,)
        source, source_lengths = self._plain_sources(pairs, forms)
        target, target_lengths = _block(self._store.side("target"), pairs)
        if self._alpha:
            seeds = np.random.SeedSequence([self._seed, epoch, index]).generate_state(2)
            names = list(self._shares)
            texts = [
                text if form < 0 else surface(text, names[form])
                for text, form in zip(map(self._store.source_text, pairs), forms, strict=True)
            ]
            source, source_lengths = self._sampled(0, texts, int(seeds[0]), source, source_lengths)
            texts = [self._store.target_text(pair) for pair in pairs]
            target, target_lengths = self._sampled(1, texts, int(seeds[1]), target, target_lengths)
        symbols = [tokeniser.symbols for tokeniser in self._tokenisers]
        starts = np.full((len(pairs), 1), symbols[1].start, dtype=np.int64)  # (sentences, 1)
        target_in = np.where(_real(target, target_lengths), target, symbols[1].pad)
        return Batch(
            source=_with_end(source, source_lengths, symbols[0].end, symbols[0].pad),
            source_lengths=source_lengths + 1,
            target_in=np.concatenate([starts, target_in], axis=1),
            target_out=_with_end(target, target_lengths, symbols[1].end, symbols[1].pad),
            target_lengths=target_lengths + 1,
            pairs=pairs,
        )

    def _plan(self, epoch: int) -> Plan:
        generator = np.random.default_rng([self._seed, epoch])
        count = len(self._store)
        order = generator.permutation(count)  # (pairs,)
        forms = choose_forms(self._shares, generator.random(count))  # (pairs,)
        plain = np.arange(count)
        source = self._planned(_lengths_of(self._columns, plain, forms), self._growth[0])  # (pairs,)
        target = self._planned(self._store.target_lengths, self._growth[1])  # (pairs,)
        batches: list[Ids] = []
        for start in range(0, count, POOL):
            pool = order[start : start + POOL]
            # Sources rise and fall in turn within the targets' lengths, so that a batch that spans two
            # target lengths still holds sources of like length.
            turned = np.where(target[pool] % 2, source[pool], -source[pool])
            pool = pool[np.lexsort((turned, target[pool]))]
            batches.extend(_cut(pool, source[pool], target[pool], self._budget))
        return Plan([batches[place] for place in generator.permutation(len(batches))], forms)

    def _planned(self, lengths: NDArray[np.integer], growth: float) -> Ids:
        """(pairs,) the width to reserve for rows of these lengths, end symbol included."""
        grown = np.ceil(lengths * growth).astype(np.int64)  # (pairs,)
        width: Ids = 1 + np.minimum(grown, np.maximum(lengths, min(self._most, self._budget - 1)))
        return width

    def _measure(self, side: Literal["source", "target"]) -> float:
        """How much longer sampled rows are, at the 95th percentile of some pairs."""
        pairs = np.unique(np.linspace(0, len(self._store) - 1, GROWTH_PAIRS).astype(np.int64))
        text = self._store.source_text if side == "source" else self._store.target_text
        tokeniser = self._tokenisers[0 if side == "source" else 1]
        drawn = tokeniser.sample([text(pair) for pair in pairs], self._alpha, seed=0)
        lengths = np.fromiter(map(len, drawn), np.float64)  # (pairs,)
        ratio = lengths / np.maximum(1, self._store.side(side).lengths[pairs])  # (pairs,)
        return max(1.0, float(np.quantile(ratio, GROWTH_QUANTILE)))

    def _plain_sources(self, pairs: Ids, forms: Ids) -> tuple[Ids, Ids]:
        """(sentences, source) and (sentences,): the sources in their surface forms, as stored."""
        lengths = _lengths_of(self._columns, pairs, forms)  # (sentences,)
        block = np.zeros((len(pairs), int(lengths.max())), dtype=np.int64)  # (sentences, source)
        for form in np.unique(forms):
            rows = np.flatnonzero(forms == form)
            part, _ = _block(self._columns[form], pairs[rows])
            block[rows, : part.shape[1]] = part
        return block, lengths

    def _sampled(
        self, side: Literal[0, 1], texts: list[str], seed: int, plain: Ids, lengths: Ids
    ) -> tuple[Ids, Ids]:
        """The texts in a drawn segmentation; the plain one where the drawn one breaks a limit."""
        most = min(self._most, self._budget // len(texts) - 1)
        drawn = self._tokenisers[side].sample(texts, self._alpha, seed)
        rows = [
            row if 0 < len(row) <= most else plain[place, : lengths[place]].tolist()
            for place, row in enumerate(drawn)
        ]
        counts = np.fromiter(map(len, rows), np.int64, count=len(rows))  # (sentences,)
        block = np.zeros((len(rows), int(counts.max())), dtype=np.int64)  # (sentences, tokens)
        block[_real(block, counts)] = np.fromiter(chain.from_iterable(rows), np.int64)
        return block, counts


def _lengths_of(columns: Sequence[Column], pairs: Ids, forms: Ids) -> Ids:
    """(pairs,) tokens of each source in its surface form; the last column holds the plain text."""
    lengths = columns[-1].lengths[pairs].astype(np.int64)  # (pairs,)
    for form, column in enumerate(columns[:-1]):
        rows = forms == form
        lengths[rows] = column.lengths[pairs[rows]]
    return lengths


def _real(block: Ids, lengths: Ids) -> NDArray[np.bool_]:
    """(sentences, tokens) true where a row has a token."""
    real: NDArray[np.bool_] = np.arange(block.shape[1]) < lengths[:, None]
    return real


def _block(column: Column, pairs: Ids) -> tuple[Ids, Ids]:
    """(sentences, tokens) and (sentences,): rows of a column, 0 after each, and their lengths."""
    lengths = column.lengths[pairs].astype(np.int64)  # (sentences,)
    block = np.zeros((len(pairs), int(lengths.max())), dtype=np.int64)  # (sentences, tokens)
    before = np.cumsum(lengths) - lengths  # (sentences,)
    places = np.repeat(column.offsets[pairs] - before, lengths) + np.arange(int(lengths.sum()))  # (tokens,)
    block[_real(block, lengths)] = column.values[places]
    return block, lengths


def _with_end(block: Ids, lengths: Ids, end: int, pad: int) -> Ids:
    """(sentences, tokens + 1): the end symbol after each row, padding after that."""
    wide = np.full((block.shape[0], block.shape[1] + 1), pad, dtype=np.int64)
    np.copyto(wide[:, :-1], block, where=_real(block, lengths))
    wide[np.arange(len(lengths)), lengths] = end
    return wide


def _cut(pairs: Ids, source: Ids, target: Ids, budget: int) -> Iterator[Ids]:
    """Cut sorted pairs into the longest runs whose padded size is within the budget on either side."""
    start = 0
    while start < len(pairs):
        stop = start + max(1, budget // int(target[start]))
        width = np.maximum.accumulate(np.maximum(source[start:stop], target[start:stop]))  # (pairs,)
        size = width * np.arange(1, len(width) + 1)  # (pairs,) of the batch that ends here; rising
        count = int(np.searchsorted(size, budget, side="right"))
        yield pairs[start : start + count]
        start += count
