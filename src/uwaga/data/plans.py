"""The order of an epoch: a pure function of seed and epoch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from uwaga.contracts import Ids
from uwaga.data.arrangement import arrange, best_strips, split
from uwaga.data.rows import Block, Column, Forms
from uwaga.data.store import Store
from uwaga.text.augmentation import surface
from uwaga.text.tokeniser import Tokeniser

POOL = 1 << 16  # pairs arranged together: enough for little padding, few enough for random batches
DRAWN_POOL = 1 << 13  # at least, of which a segmentation is drawn at one time
GROWTH_PAIRS = 512  # drawn to see how much longer segmentations become
GROWTH_ROOM = 1.03
CAPS = (2.0, 1.4, 1.0)  # tried in turn until a pool fits


class Rows(NamedTuple):
    """The pairs of a batch, (sentences,) indices in the store, and their tokens, without symbols."""

    pairs: Ids
    source: Block
    target: Block


class Plan(Sequence[Ids]):
    """An epoch: for each batch the (sentences,) indices of its pairs in the store.

    Workers that share an epoch take ``range(rank, count // world * world, world)`` of its batches.
    """

    @abstractmethod
    def rows(self, index: int) -> Rows:
        """The tokens of a batch."""

    @overload
    def __getitem__(self, index: int) -> Ids: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Ids]: ...
    def __getitem__(self, index: int | slice) -> Ids | Sequence[Ids]:
        if isinstance(index, slice):
            return [self.rows(place).pairs for place in range(*index.indices(len(self)))]
        return self.rows(range(len(self))[index]).pairs


class StoredPlan(Plan):
    """The tokens as stored; all batches of the epoch in random order."""

    def __init__(self, source: Forms, target: Column, key: tuple[int, int], budget: int) -> None:
        """``key`` is seed and epoch."""
        generator = np.random.default_rng(key)
        self._source = source
        self._target = target
        batches: list[Ids] = []
        strips: int | None = None
        for pool in _pools(len(target), POOL, generator):
            widths = (source.lengths[pool].astype(np.int64) + 1, target.lengths[pool].astype(np.int64) + 1)
            strips = best_strips(*widths, budget) if strips is None else strips
            batches.extend(pool[batch] for batch in arrange(*widths, budget, strips))
        self._batches = [batches[place] for place in generator.permutation(len(batches))]

    def __len__(self) -> int:
        return len(self._batches)

    def rows(self, index: int) -> Rows:
        pairs = self._batches[index]
        return Rows(pairs, self._source.block(pairs), self._target.block(pairs))


class SegmentationSampler:
    """Draws a segmentation of stored pairs (Kudo 2018; Provilkov et al. 2020), each side on its own."""

    def __init__(
        self,
        store: Store,
        tokenisers: tuple[Tokeniser, Tokeniser],
        forms: Sequence[str],
        alpha: float,
        limits: tuple[int, int],
    ) -> None:
        """``forms`` names the surface forms; ``limits`` are the most tokens of a row and of a batch."""
        self._store = store
        self._tokenisers = tokenisers
        self._forms = forms
        self._alpha = alpha
        self.most = min(limits[0], limits[1] - 1)
        self.budget = limits[1]
        some = np.unique(np.linspace(0, len(store) - 1, GROWTH_PAIRS).astype(np.int64))  # (pairs,)
        plain = Forms(store.side("source"), [], np.full(len(store), -1))
        drawn = self.draw(some, plain.chosen, (0, 0))
        stored = (store.source_lengths[some], store.target_lengths[some])
        self._growth = [
            max(1.0, float(rows.lengths.sum()) / float(lengths.sum())) * GROWTH_ROOM
            for rows, lengths in zip(drawn, stored, strict=True)
        ]

    def draw(self, pairs: Ids, chosen: Ids, seeds: tuple[int, int]) -> tuple[Column, Column]:
        """The rows of some pairs, (pairs,) in surface forms (all pairs,), segmented anew."""
        sources = [
            text if form < 0 else surface(text, self._forms[form])
            for text, form in zip(map(self._store.source_text, pairs), chosen[pairs], strict=True)
        ]
        targets = [self._store.target_text(pair) for pair in pairs]
        source = self._tokenisers[0].sample(sources, self._alpha, seeds[0])
        return Column.of(source), Column.of(self._tokenisers[1].sample(targets, self._alpha, seeds[1]))

    def expected(self, source: Ids, target: Ids) -> tuple[Ids, Ids]:
        """(pairs,) twice: widths to reserve for rows of these stored lengths, end symbol included."""
        source_width, target_width = (
            1 + np.minimum(np.ceil(lengths * growth).astype(np.int64), np.maximum(lengths, self.most))
            for lengths, growth in zip((source, target), self._growth, strict=True)
        )
        return source_width, target_width


class DrawnPlan(Plan):
    """A segmentation drawn anew: pool after pool, as one pool's rows must be drawn to arrange them.

    How many batches a pool makes is fixed beforehand from what lengths are expected, so that any batch can
    be found without drawing the pools before it.
    """

    def __init__(
        self,
        sampler: SegmentationSampler,
        source: Forms,
        target: Column,
        key: tuple[int, int],
        budget: int,
    ) -> None:
        """``key`` is seed and epoch."""
        self._sampler = sampler
        self._source = source
        self._target = target
        self._key = key
        self._budget = budget
        size = min(POOL, max(DRAWN_POOL, 2 * budget))
        self._pools = _pools(len(target), size, np.random.default_rng(key))
        self._strips = best_strips(*self._expected(0), budget)
        counts = [len(self._planned(pool)) for pool in range(len(self._pools))]
        self._ends = np.cumsum(counts)  # (pools,)
        self._latest: tuple[int, Drawn] | None = None

    def __len__(self) -> int:
        return int(self._ends[-1])

    def rows(self, index: int) -> Rows:
        pool = int(np.searchsorted(self._ends, index, side="right"))
        latest = self._latest  # read once: another thread may replace it
        if latest is None or latest[0] != pool:
            latest = self._latest = (pool, self._draw(pool))
        drawn = latest[1]
        indices = drawn.batches[index - int(self._ends[pool])]  # counted from the pool's end
        return Rows(self._pools[pool][indices], drawn.source.block(indices), drawn.target.block(indices))

    def _expected(self, pool: int) -> tuple[Ids, Ids]:
        pairs = self._pools[pool]
        source, target = self._source.lengths[pairs], self._target.lengths[pairs]
        return self._sampler.expected(source.astype(np.int64), target.astype(np.int64))

    def _planned(self, pool: int) -> list[Ids]:
        return arrange(*self._expected(pool), self._budget, self._strips)

    def _draw(self, pool: int) -> Drawn:
        pairs = self._pools[pool]
        planned = self._planned(pool)
        expected = self._expected(pool)
        state = np.random.SeedSequence([*self._key, pool]).generate_state(3)
        drawn = self._sampler.draw(pairs, self._source.chosen, (int(state[0]), int(state[1])))
        stored = (
            [self._source.row(pair) for pair in pairs],
            [self._target.row(pair) for pair in pairs],
        )
        batches: list[Ids] = planned
        for cap in CAPS:
            source, target = (
                _capped(rows, plain, width, cap, self._sampler.most)
                for rows, plain, width in zip(drawn, stored, expected, strict=True)
            )
            widths = (source.lengths.astype(np.int64) + 1, target.lengths.astype(np.int64) + 1)
            found = arrange(*widths, self._budget, self._strips)
            if len(found) <= len(planned):
                batches = split(found, len(planned))
                break
        order = np.random.default_rng(int(state[2])).permutation(len(batches))
        return Drawn(source, target, [batches[place] for place in order])


class Drawn(NamedTuple):
    """A pool: its rows, and its batches as indices within it."""

    source: Column
    target: Column
    batches: list[Ids]


def _capped(drawn: Column, plain: Sequence[NDArray[Any]], width: Ids, cap: float, most: int) -> Column:
    """The drawn rows, but the plain one where the drawn is empty or longer than ``cap`` times expected.

    With a cap of 1 no row exceeds its expected width, so that the planned batches hold them.
    """
    limit = np.minimum(np.floor(cap * width).astype(np.int64) - 1, most)  # (pairs,)
    fits = (drawn.lengths > 0) & (drawn.lengths <= limit)  # (pairs,)
    return Column.of([drawn.row(place) if fit else plain[place] for place, fit in enumerate(fits.tolist())])


def _pools(count: int, size: int, generator: np.random.Generator) -> list[Ids]:
    order = generator.permutation(count)  # (pairs,)
    return [order[start : start + size] for start in range(0, count, size)]
