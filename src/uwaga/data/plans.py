"""Plans: the batches of an epoch as a pure function of seed and epoch."""

from __future__ import annotations

import heapq
import sys
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from uwaga.data.mixture import Mixture
from uwaga.data.rows import Block, Column, SurfaceForms, TokenRows
from uwaga.decoder import Ids
from uwaga.tokenizers.subwords import TrainingSubwords
from uwaga.tokenizers.text import choose_forms, surface

STRIP_COUNTS = (0, 4, 8, 16, 32, 64, 128, 256)


def arrange_batches(source_widths: Ids, target_widths: Ids, budget: int, strips: int) -> list[Ids]:
    """Divide pairs into batches of pair indices; each side of a batch, with padding, is within the budget.

    Pairs are sorted into strips of similar target length and, within a strip, by source length, alternately
    ascending and descending. Fewer strips pad the targets more and the sources less.

    Args:
        source_widths: (pairs,) width of each source, at most ``budget``.
        target_widths: (pairs,) width of each target, at most ``budget``.
        budget: maximum product of a batch's number of sentences and the width of its widest side.
        strips: number of strips with about equally many target tokens; 0 makes one strip for each target
            length.
    """
    ascending_order = np.lexsort((source_widths, target_widths))  # (pairs,)
    strip = target_widths[ascending_order]  # (pairs,) sort key of the strips, ascending
    if strips:
        preceding_tokens = np.cumsum(strip, dtype=np.float64) - strip  # (pairs,) target tokens
        strip = np.floor(preceding_tokens * (strips / float(strip.sum()))).astype(np.int64)
    ascending_source = source_widths[ascending_order]  # (pairs,)
    alternating_source = np.where(strip % 2, ascending_source, -ascending_source)  # (pairs,)
    order = ascending_order[np.lexsort((alternating_source, strip))]
    return list(_cut_into_batches(order, source_widths, target_widths, budget))


def best_strips(source_widths: Ids, target_widths: Ids, budget: int) -> int:
    """Return the number of strips (see :func:`arrange_batches`) that gives these pairs the least padding."""

    def size(strips: int) -> int:
        batches = arrange_batches(source_widths, target_widths, budget, strips)
        return sum(
            len(batch) * int(source_widths[batch].max() + target_widths[batch].max()) for batch in batches
        )

    return min(STRIP_COUNTS, key=size)


def _cut_into_batches(indices: Ids, source_widths: Ids, target_widths: Ids, budget: int) -> Iterator[Ids]:
    """Yield consecutive slices of ``indices``, each with as many pairs as the budget allows."""
    width = np.maximum(source_widths[indices], target_widths[indices])  # (pairs,)
    start = 0
    while start < len(indices):
        stop = start + max(1, budget // int(width[start]))
        max_widths = np.maximum.accumulate(width[start:stop])  # (run,)
        size = max_widths * np.arange(1, len(max_widths) + 1)  # (run,) of the batch that ends here, ascending
        count = max(1, int(np.searchsorted(size, budget, side="right")))
        yield indices[start : start + count]
        start += count


def split_batches(batches: list[Ids], count: int) -> list[Ids]:
    """Halve the largest batch repeatedly until there are ``count`` batches, one per pair at most."""
    heap = [(-len(batch), index) for index, batch in enumerate(batches)]
    heapq.heapify(heap)
    parts = list(batches)
    while len(parts) < count:
        _, batch_index = heapq.heappop(heap)
        half = len(parts[batch_index]) // 2
        parts.append(parts[batch_index][half:])
        parts[batch_index] = parts[batch_index][:half]
        for index in (batch_index, len(parts) - 1):
            heapq.heappush(heap, (-len(parts[index]), index))
    return parts


FORM_SEED, BATCH_SEED = 1, 4  # seeds of the surface forms and of the order of batches
POOL_PAIRS = 1 << 16  # pairs arranged together: enough for little padding, few enough for randomness
MIN_SAMPLED_POOL = 1 << 13  # minimum number of pairs whose segmentations are sampled together
GROWTH_PAIRS = 512  # pairs from which the growth of sentences by sampled segmentations is estimated
GROWTH_MARGIN = 1.03  # factor by which the estimate is increased
LENGTH_CAPS = (2.0, 1.4, 1.0)  # tried in this order until a pool needs no more batches than planned


class BatchRows(NamedTuple):
    """The pairs of a batch: their row numbers in the mixture, and their tokens without start and end symbols.

    ``pairs`` are the row numbers (sentences,); ``forms`` (sentences,) is the surface form of each source, -1
    for the plain text.
    """

    pairs: Ids
    forms: Ids
    source: Block
    target: Block


class Pool(NamedTuple):
    """Pairs that are arranged together: their row numbers in the mixture and source forms, each (pairs,)."""

    pairs: Ids
    forms: Ids


class MixedSides(NamedTuple):
    """A mixture of stores, and the shares of the surface forms of its sources."""

    mixture: Mixture
    shares: Mapping[str, float]

    @property
    def source(self) -> SurfaceForms:
        """The sources in all surface forms."""
        return SurfaceForms(
            self.mixture.side("source"), [self.mixture.side("source", form) for form in self.shares]
        )

    @property
    def target(self) -> TokenRows:
        """The targets."""
        return self.mixture.side("target")


class Plan(Sequence[Ids]):
    """The batches of an epoch; each is given by the row numbers (sentences,) of its pairs.

    The pairs of the epoch are divided into consecutive pools, and each pool into batches of pairs of similar
    length, which are in random order. A pool is arranged when one of its batches is requested, so that
    neither time nor memory grows with the epoch. To find a batch, the batches of all earlier pools are
    counted; ``len`` counts the batches of all pools.
    """

    def __init__(self, sides: MixedSides, key: tuple[int, int], size: int) -> None:
        """Create a plan; ``key`` is the seed and the epoch, ``size`` is the number of pairs in a pool."""
        self._sides = sides
        self._key = key
        self._pool_size = size
        self.source, self.target = sides.source, sides.target
        self.pools = -(-sides.mixture.epoch_pairs // size)
        self._batch_ends: list[int] = []  # number of batches up to the end of each pool, as counted so far
        self._lock = Lock()

    @abstractmethod
    def count(self, pool_index: int) -> int:
        """Return the number of batches of a pool."""

    @abstractmethod
    def pool_rows(self, pool_index: int, index: int) -> BatchRows:
        """Return the rows of a batch, given the index of its pool and its index in the pool."""

    def pool(self, pool_index: int) -> Pool:
        """Return the pairs of a pool, which depend only on the seed, the epoch and the index of the pool."""
        start = pool_index * self._pool_size
        pairs = self._sides.mixture.order(*self._key, start, start + self._pool_size)
        uniforms = np.random.default_rng([*self._key, FORM_SEED, pool_index]).random(len(pairs))
        return Pool(pairs, choose_forms(self._sides.shares, uniforms))

    def find(self, index: int) -> tuple[int, int] | None:
        """Return the index of the pool of a batch and its index in the pool, or None after the last batch."""
        with self._lock:
            while (not self._batch_ends or self._batch_ends[-1] <= index) and len(
                self._batch_ends
            ) < self.pools:
                batch_count = self._batch_ends[-1] if self._batch_ends else 0
                self._batch_ends.append(batch_count + self.count(len(self._batch_ends)))
            if self._batch_ends[-1] <= index:
                return None
            pool_index = bisect_right(self._batch_ends, index)
            return pool_index, index - (self._batch_ends[pool_index - 1] if pool_index else 0)

    def rows(self, index: int) -> BatchRows:
        """Return the rows of a batch."""
        location = self.find(index) if index >= 0 else None
        if location is None:
            raise IndexError(f"no batch {index} in this epoch")
        return self.pool_rows(*location)

    def __len__(self) -> int:
        self.find(sys.maxsize)
        return self._batch_ends[-1]

    @overload
    def __getitem__(self, index: int) -> Ids: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Ids]: ...
    def __getitem__(self, index: int | slice) -> Ids | Sequence[Ids]:
        if isinstance(index, slice):
            return [self.rows(batch).pairs for batch in range(*index.indices(len(self)))]
        return self.rows(index if index >= 0 else range(len(self))[index]).pairs


class StoredPlan(Plan):
    """A plan whose batches contain the segmentations from the stores."""

    def __init__(self, sides: MixedSides, key: tuple[int, int], budget: int) -> None:
        """Create a plan.

        ``key`` is the seed and the epoch; ``budget`` is the maximum number of tokens on either side of a
        batch, including padding.
        """
        super().__init__(sides, key, POOL_PAIRS)
        self._budget = budget
        self._strips: int | None = None
        self._latest: tuple[int, Pool, list[Ids]] | None = None

    def count(self, pool_index: int) -> int:
        return len(self._arrangement(pool_index)[1])

    def pool_rows(self, pool_index: int, index: int) -> BatchRows:
        pool, batches = self._arrangement(pool_index)
        pairs, forms = pool.pairs[batches[index]], pool.forms[batches[index]]
        return BatchRows(pairs, forms, self.source.block(pairs, forms), self.target.block(pairs))

    def _arrangement(self, pool_index: int) -> tuple[Pool, list[Ids]]:
        """Return a pool, and its batches as arrays of indices into the pool."""
        latest_arrangement = self._latest  # read once: another thread may replace it
        if latest_arrangement is None or latest_arrangement[0] != pool_index:
            pool = self.pool(pool_index)
            widths = self._widths(pool)
            if self._strips is None:
                first_widths = widths if pool_index == 0 else self._widths(self.pool(0))
                self._strips = best_strips(*first_widths, self._budget)
            batches = arrange_batches(*widths, self._budget, self._strips)
            order = np.random.default_rng([*self._key, BATCH_SEED, pool_index]).permutation(len(batches))
            latest_arrangement = self._latest = (pool_index, pool, [batches[index] for index in order])
        return latest_arrangement[1], latest_arrangement[2]

    def _widths(self, pool: Pool) -> tuple[Ids, Ids]:
        """Return the numbers of source and of target tokens with the end symbol, each (pairs,)."""
        return self.source.row_lengths(*pool) + 1, self.target.row_lengths(pool.pairs) + 1


class SegmentationSampler:
    """Samples segmentations of the sources and targets of stored pairs (Kudo 2018; Provilkov et al. 2020)."""

    def __init__(
        self,
        mixture: Mixture,
        tokenisers: tuple[TrainingSubwords, TrainingSubwords],
        forms: Sequence[str],
        alpha: float,
        limits: tuple[int, int],
    ) -> None:
        """Create a sampler.

        ``forms`` are the names of the surface forms; ``limits`` are the maximum numbers of tokens of a row
        and of a side of a batch.
        """
        self._mixture = mixture
        self._tokenisers = tokenisers
        self._forms = forms
        self._alpha = alpha
        self.max_tokens = min(limits[0], limits[1] - 1)
        self.budget = limits[1]
        sampled_pairs = np.unique(np.linspace(0, len(mixture) - 1, GROWTH_PAIRS).astype(np.int64))  # (pairs,)
        sampled_pool = self.draw(Pool(sampled_pairs, np.full(len(sampled_pairs), -1)), (0, 0))
        stored_rows = [
            mixture.side("source").row_lengths(sampled_pairs),
            mixture.side("target").row_lengths(sampled_pairs),
        ]
        self._growth = [
            max(1.0, float(rows.lengths.sum()) / float(lengths.sum())) * GROWTH_MARGIN
            for rows, lengths in zip(sampled_pool, stored_rows, strict=True)
        ]

    def draw(self, pool: Pool, seeds: tuple[int, int]) -> tuple[Column, Column]:
        """Return sampled segmentations of the sources of a pool, with forms and tags, and of its targets."""
        texts = self._mixture.texts(pool.pairs)
        form_texts = [
            text if form < 0 else surface(text, self._forms[form])
            for (text, _, _), form in zip(texts, pool.forms.tolist(), strict=True)
        ]
        source = self._tokenisers[0].sample(form_texts, self._alpha, seeds[0])
        tagged = [[*tag, *row] if row else row for (_, _, tag), row in zip(texts, source, strict=True)]
        target = self._tokenisers[1].sample([text for _, text, _ in texts], self._alpha, seeds[1])
        return Column.from_rows(tagged), Column.from_rows(target)

    def expected_widths(self, source_lengths: Ids, target_lengths: Ids) -> tuple[Ids, Ids]:
        """Return the widths (pairs,) to reserve for sampled sources and targets, including the end symbol.

        Both arguments are lengths of stored rows, (pairs,).
        """
        source_width, target_width = (
            1 + np.minimum(np.ceil(lengths * growth).astype(np.int64), np.maximum(lengths, self.max_tokens))
            for lengths, growth in zip((source_lengths, target_lengths), self._growth, strict=True)
        )
        return source_width, target_width


class SampledPlan(Plan):
    """A plan whose segmentations are sampled for one pool at a time.

    The number of batches of a pool is computed from expected lengths, so that a batch can be found without
    sampling the pools before it.
    """

    def __init__(
        self, sampler: SegmentationSampler, sides: MixedSides, key: tuple[int, int], budget: int
    ) -> None:
        """Create a plan.

        ``key`` is the seed and the epoch; ``budget`` is the maximum number of tokens on either side of a
        batch, including padding.
        """
        super().__init__(sides, key, min(POOL_PAIRS, max(MIN_SAMPLED_POOL, 2 * budget)))
        self._sampler = sampler
        self._budget = budget
        self._strips = best_strips(*self._expected_widths(self.pool(0)), budget)
        self._latest: tuple[int, SampledPool] | None = None

    def count(self, pool_index: int) -> int:
        return len(self._planned_batches(self.pool(pool_index)))

    def pool_rows(self, pool_index: int, index: int) -> BatchRows:
        latest_pool = self._latest  # read once: another thread may replace it
        if latest_pool is None or latest_pool[0] != pool_index:
            latest_pool = self._latest = (pool_index, self._draw(pool_index))
        sampled_pool = latest_pool[1]
        indices = sampled_pool.batches[index]
        source, target = sampled_pool.source.block(indices), sampled_pool.target.block(indices)
        return BatchRows(sampled_pool.pool.pairs[indices], sampled_pool.pool.forms[indices], source, target)

    def _expected_widths(self, pool: Pool) -> tuple[Ids, Ids]:
        return self._sampler.expected_widths(
            self.source.row_lengths(*pool), self.target.row_lengths(pool.pairs)
        )

    def _planned_batches(self, pool: Pool) -> list[Ids]:
        return arrange_batches(*self._expected_widths(pool), self._budget, self._strips)

    def _draw(self, pool_index: int) -> SampledPool:
        pool = self.pool(pool_index)
        planned_batches = self._planned_batches(pool)
        expected_widths = self._expected_widths(pool)
        state = np.random.SeedSequence([*self._key, pool_index]).generate_state(3)
        sampled_pool = self._sampler.draw(pool, (int(state[0]), int(state[1])))
        stored_rows = (
            [self.source.row(*location) for location in zip(*(part.tolist() for part in pool), strict=True)],
            [self.target.row(pair) for pair in pool.pairs.tolist()],
        )
        batches: list[Ids] = planned_batches
        for cap in LENGTH_CAPS:
            source, target = (
                _cap_lengths(rows, stored_rows, width, cap, self._sampler.max_tokens)
                for rows, stored_rows, width in zip(sampled_pool, stored_rows, expected_widths, strict=True)
            )
            widths = (source.lengths.astype(np.int64) + 1, target.lengths.astype(np.int64) + 1)
            arranged = arrange_batches(*widths, self._budget, self._strips)
            if len(arranged) <= len(planned_batches):
                batches = split_batches(arranged, len(planned_batches))
                break
        order = np.random.default_rng(int(state[2])).permutation(len(batches))
        return SampledPool(pool, source, target, [batches[index] for index in order])


class SampledPool(NamedTuple):
    """A pool, the sampled rows of its pairs, and its batches as arrays of indices into the pool."""

    pool: Pool
    source: Column
    target: Column
    batches: list[Ids]


def _cap_lengths(
    sampled_column: Column,
    stored_rows: Sequence[NDArray[Any]],
    expected_width: Ids,
    cap: float,
    max_tokens: int,
) -> Column:
    """Return the sampled rows, with stored rows for those that are empty or exceed the capped width.

    The capped width is ``cap`` times the expected width, and at most ``max_tokens``.

    With a cap of 1, no row exceeds its expected width, so the rows fit the planned batches.
    """
    limit = np.minimum(np.floor(cap * expected_width).astype(np.int64) - 1, max_tokens)  # (pairs,)
    is_short_enough = (sampled_column.lengths > 0) & (sampled_column.lengths <= limit)  # (pairs,)
    return Column.from_rows(
        [
            sampled_column.row(index) if is_short else stored_rows[index]
            for index, is_short in enumerate(is_short_enough.tolist())
        ]
    )
