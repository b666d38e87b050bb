"""The batches of an epoch as a pure function of seed and epoch."""

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
from uwaga.data.rows import Block, Column, Forms, TokenRows
from uwaga.decoder import Ids
from uwaga.tokenizers.subwords import TrainingSubwords
from uwaga.tokenizers.text import choose_forms, surface

STRIPS = (0, 4, 8, 16, 32, 64, 128, 256)


def arrange(source: Ids, target: Ids, budget: int, strips: int) -> list[Ids]:
    """Cut pairs into batches of indices, each within the budget on either side, including padding.

    Pairs are sorted into strips of similar target length and, within a strip, by source length, alternately
    ascending and descending. Fewer strips pad the targets more and the sources less.

    Args:
        source: (pairs,) width of each source, at most ``budget``.
        target: (pairs,) width of each target, at most ``budget``.
        budget: maximum of sentences times width in a batch.
        strips: number of strips of equally many target tokens; 0 for one for each target length.
    """
    rising = np.lexsort((source, target))  # (pairs,)
    strip = target[rising]  # (pairs,) the strip of each, rising
    if strips:
        before = np.cumsum(strip, dtype=np.float64) - strip  # (pairs,) target tokens
        strip = np.floor(before * (strips / float(strip.sum()))).astype(np.int64)
    zigzag = np.where(strip % 2, source[rising], -source[rising])  # (pairs,)
    return list(_cut(rising[np.lexsort((zigzag, strip))], source, target, budget))


def best_strips(source: Ids, target: Ids, budget: int) -> int:
    """Return the number of strips that needs the least padding for these pairs."""

    def size(strips: int) -> int:
        batches = arrange(source, target, budget, strips)
        return sum(len(batch) * int(source[batch].max() + target[batch].max()) for batch in batches)

    return min(STRIPS, key=size)


def _cut(indices: Ids, source: Ids, target: Ids, budget: int) -> Iterator[Ids]:
    """Yield the longest runs whose padded size is within the budget on either side."""
    width = np.maximum(source[indices], target[indices])  # (pairs,)
    start = 0
    while start < len(indices):
        stop = start + max(1, budget // int(width[start]))
        widest = np.maximum.accumulate(width[start:stop])  # (run,)
        size = widest * np.arange(1, len(widest) + 1)  # (run,) of the batch that ends here, rising
        count = max(1, int(np.searchsorted(size, budget, side="right")))
        yield indices[start : start + count]
        start += count


def split(batches: list[Ids], count: int) -> list[Ids]:
    """Halve the largest batches until there are ``count``; there must be at least ``count`` pairs."""
    heap = [(-len(batch), number) for number, batch in enumerate(batches)]
    heapq.heapify(heap)
    done = list(batches)
    while len(done) < count:
        _, number = heapq.heappop(heap)
        half = len(done[number]) // 2
        done.append(done[number][half:])
        done[number] = done[number][:half]
        for place in (number, len(done) - 1):
            heapq.heappush(heap, (-len(done[place]), place))
    return done


FORMS, BATCHES = 1, 4  # distinguish the random numbers of forms and batches from those of the order
POOL = 1 << 16  # pairs arranged together: enough for little padding, few enough for random batches
DRAWN_POOL = 1 << 13  # minimum of pairs whose segmentation is sampled together
GROWTH_PAIRS = 512  # sampled to estimate the growth of the segmentations
GROWTH_ROOM = 1.03
CAPS = (2.0, 1.4, 1.0)  # tried in this order until a pool fits


class Rows(NamedTuple):
    """The pairs of a batch, (sentences,) row numbers in the stores, and their tokens without symbols.

    ``forms`` (sentences,) is the surface form of each source, -1 for the plain text.
    """

    pairs: Ids
    forms: Ids
    source: Block
    target: Block


class Pool(NamedTuple):
    """Pairs that are arranged together: their rows (pairs,), and the surface form of each, or -1."""

    pairs: Ids
    forms: Ids


class MixedSides(NamedTuple):
    """The mixed stores, and the shares of the surface forms of their sources."""

    mixture: Mixture
    shares: Mapping[str, float]

    @property
    def source(self) -> Forms:
        """The sources in all forms."""
        return Forms(self.mixture.side("source"), [self.mixture.side("source", form) for form in self.shares])

    @property
    def target(self) -> TokenRows:
        """The targets."""
        return self.mixture.side("target")


class Plan(Sequence[Ids]):
    """The batches of an epoch, each the row numbers (sentences,) of its pairs.

    The order of the epoch is cut into consecutive pools, and each pool into batches of similar length in
    random order. A pool is arranged when one of its batches is requested, so that neither time nor memory
    grows with the epoch; to find a batch the pools before it are counted, and for the length all pools.
    """

    def __init__(self, sides: MixedSides, key: tuple[int, int], size: int) -> None:
        """``key`` is seed and epoch, ``size`` the pairs of a pool."""
        self._sides = sides
        self._key = key
        self._size = size
        self.source, self.target = sides.source, sides.target
        self.pools = -(-sides.mixture.epoch_pairs // size)
        self._ends: list[int] = []  # batches before the end of each pool counted so far
        self._counting = Lock()

    @abstractmethod
    def count(self, number: int) -> int:
        """Return the number of batches of a pool."""

    @abstractmethod
    def rows_of(self, number: int, index: int) -> Rows:
        """Return the tokens of a batch of a pool."""

    def pool(self, number: int) -> Pool:
        """Return the pairs of a pool, which depend only on seed, epoch and number."""
        start = number * self._size
        pairs = self._sides.mixture.order(*self._key, start, start + self._size)
        draws = np.random.default_rng([*self._key, FORMS, number]).random(len(pairs))
        return Pool(pairs, choose_forms(self._sides.shares, draws))

    def find(self, index: int) -> tuple[int, int] | None:
        """Return the pool of a batch and its position there, None beyond the end."""
        with self._counting:
            while (not self._ends or self._ends[-1] <= index) and len(self._ends) < self.pools:
                before = self._ends[-1] if self._ends else 0
                self._ends.append(before + self.count(len(self._ends)))
            if self._ends[-1] <= index:
                return None
            number = bisect_right(self._ends, index)
            return number, index - (self._ends[number - 1] if number else 0)

    def rows(self, index: int) -> Rows:
        """The tokens of a batch."""
        place = self.find(index) if index >= 0 else None
        if place is None:
            raise IndexError(f"no batch {index} in this epoch")
        return self.rows_of(*place)

    def __len__(self) -> int:
        self.find(sys.maxsize)
        return self._ends[-1]

    @overload
    def __getitem__(self, index: int) -> Ids: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Ids]: ...
    def __getitem__(self, index: int | slice) -> Ids | Sequence[Ids]:
        if isinstance(index, slice):
            return [self.rows(place).pairs for place in range(*index.indices(len(self)))]
        return self.rows(index if index >= 0 else range(len(self))[index]).pairs


class StoredPlan(Plan):
    """A plan of the stored segmentations."""

    def __init__(self, sides: MixedSides, key: tuple[int, int], budget: int) -> None:
        """``key`` is seed and epoch, ``budget`` the maximum of tokens of a side of a batch, including
        padding.
        """
        super().__init__(sides, key, POOL)
        self._budget = budget
        self._strips: int | None = None
        self._latest: tuple[int, Pool, list[Ids]] | None = None

    def count(self, number: int) -> int:
        return len(self._arranged(number)[1])

    def rows_of(self, number: int, index: int) -> Rows:
        pool, batches = self._arranged(number)
        pairs, forms = pool.pairs[batches[index]], pool.forms[batches[index]]
        return Rows(pairs, forms, self.source.block(pairs, forms), self.target.block(pairs))

    def _arranged(self, number: int) -> tuple[Pool, list[Ids]]:
        """Return a pool and its batches, as indices in it."""
        latest = self._latest  # read once: another thread may replace it
        if latest is None or latest[0] != number:
            pool = self.pool(number)
            widths = self._widths(pool)
            if self._strips is None:
                first = widths if number == 0 else self._widths(self.pool(0))
                self._strips = best_strips(*first, self._budget)
            batches = arrange(*widths, self._budget, self._strips)
            order = np.random.default_rng([*self._key, BATCHES, number]).permutation(len(batches))
            latest = self._latest = (number, pool, [batches[place] for place in order])
        return latest[1], latest[2]

    def _widths(self, pool: Pool) -> tuple[Ids, Ids]:
        """Return source and target lengths with the end symbol, (pairs,) each."""
        return self.source.lengths_of(*pool) + 1, self.target.lengths_of(pool.pairs) + 1


class SegmentationSampler:
    """Samples segmentations of stored pairs, each side independently (Kudo 2018; Provilkov et al. 2020)."""

    def __init__(
        self,
        mixture: Mixture,
        tokenisers: tuple[TrainingSubwords, TrainingSubwords],
        forms: Sequence[str],
        alpha: float,
        limits: tuple[int, int],
    ) -> None:
        """``forms`` names the surface forms; ``limits`` are the maxima of tokens of a row and of a batch."""
        self._mixture = mixture
        self._tokenisers = tokenisers
        self._forms = forms
        self._alpha = alpha
        self.most = min(limits[0], limits[1] - 1)
        self.budget = limits[1]
        some = np.unique(np.linspace(0, len(mixture) - 1, GROWTH_PAIRS).astype(np.int64))  # (pairs,)
        drawn = self.draw(Pool(some, np.full(len(some), -1)), (0, 0))
        stored = [mixture.side("source").lengths_of(some), mixture.side("target").lengths_of(some)]
        self._growth = [
            max(1.0, float(rows.lengths.sum()) / float(lengths.sum())) * GROWTH_ROOM
            for rows, lengths in zip(drawn, stored, strict=True)
        ]

    def draw(self, pool: Pool, seeds: tuple[int, int]) -> tuple[Column, Column]:
        """Sample the segmentation of a pool's pairs in its surface forms; tags precede the sources."""
        texts = self._mixture.texts(pool.pairs)
        shown = [
            text if form < 0 else surface(text, self._forms[form])
            for (text, _, _), form in zip(texts, pool.forms.tolist(), strict=True)
        ]
        source = self._tokenisers[0].sample(shown, self._alpha, seeds[0])
        tagged = [[*tag, *row] if row else row for (_, _, tag), row in zip(texts, source, strict=True)]
        target = self._tokenisers[1].sample([text for _, text, _ in texts], self._alpha, seeds[1])
        return Column.of(tagged), Column.of(target)

    def expected(self, source: Ids, target: Ids) -> tuple[Ids, Ids]:
        """Return the widths to reserve for rows of these stored lengths, including the end symbol, (pairs,)
        each.
        """
        source_width, target_width = (
            1 + np.minimum(np.ceil(lengths * growth).astype(np.int64), np.maximum(lengths, self.most))
            for lengths, growth in zip((source, target), self._growth, strict=True)
        )
        return source_width, target_width


class DrawnPlan(Plan):
    """A plan of newly sampled segmentations, pool by pool.

    The number of batches of a pool is fixed in advance from expected lengths, so that any batch can be found
    without sampling the pools before it.
    """

    def __init__(
        self, sampler: SegmentationSampler, sides: MixedSides, key: tuple[int, int], budget: int
    ) -> None:
        """``key`` is seed and epoch, ``budget`` the maximum of tokens of a side of a batch, including
        padding.
        """
        super().__init__(sides, key, min(POOL, max(DRAWN_POOL, 2 * budget)))
        self._sampler = sampler
        self._budget = budget
        self._strips = best_strips(*self._expected(self.pool(0)), budget)
        self._latest: tuple[int, Drawn] | None = None

    def count(self, number: int) -> int:
        return len(self._planned(self.pool(number)))

    def rows_of(self, number: int, index: int) -> Rows:
        latest = self._latest  # read once: another thread may replace it
        if latest is None or latest[0] != number:
            latest = self._latest = (number, self._draw(number))
        drawn = latest[1]
        indices = drawn.batches[index]
        source, target = drawn.source.block(indices), drawn.target.block(indices)
        return Rows(drawn.pool.pairs[indices], drawn.pool.forms[indices], source, target)

    def _expected(self, pool: Pool) -> tuple[Ids, Ids]:
        return self._sampler.expected(self.source.lengths_of(*pool), self.target.lengths_of(pool.pairs))

    def _planned(self, pool: Pool) -> list[Ids]:
        return arrange(*self._expected(pool), self._budget, self._strips)

    def _draw(self, number: int) -> Drawn:
        pool = self.pool(number)
        planned = self._planned(pool)
        expected = self._expected(pool)
        state = np.random.SeedSequence([*self._key, number]).generate_state(3)
        drawn = self._sampler.draw(pool, (int(state[0]), int(state[1])))
        stored = (
            [self.source.row(*place) for place in zip(*(part.tolist() for part in pool), strict=True)],
            [self.target.row(pair) for pair in pool.pairs.tolist()],
        )
        batches: list[Ids] = planned
        for cap in CAPS:
            source, target = (
                _capped(rows, plain, width, cap, self._sampler.most)
                for rows, plain, width in zip(drawn, stored, expected, strict=True)
            )
            widths = (source.lengths.astype(np.int64) + 1, target.lengths.astype(np.int64) + 1)
            arranged = arrange(*widths, self._budget, self._strips)
            if len(arranged) <= len(planned):
                batches = split(arranged, len(planned))
                break
        order = np.random.default_rng(int(state[2])).permutation(len(batches))
        return Drawn(pool, source, target, [batches[place] for place in order])


class Drawn(NamedTuple):
    """A pool, the rows of its pairs, and its batches as indices within it."""

    pool: Pool
    source: Column
    target: Column
    batches: list[Ids]


def _capped(drawn: Column, plain: Sequence[NDArray[Any]], width: Ids, cap: float, most: int) -> Column:
    """Return the sampled rows, replaced by the stored ones where empty or longer than ``cap`` times expected.

    With a cap of 1 no row exceeds its expected width, so the planned batches hold them.
    """
    limit = np.minimum(np.floor(cap * width).astype(np.int64) - 1, most)  # (pairs,)
    fits = (drawn.lengths > 0) & (drawn.lengths <= limit)  # (pairs,)
    return Column.of([drawn.row(place) if fit else plain[place] for place, fit in enumerate(fits.tolist())])
