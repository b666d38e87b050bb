"""Cutting pairs into batches of like length under a token budget, with little padding."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import numpy as np

from uwaga.decoder import Ids

STRIPS = (0, 4, 8, 16, 32, 64, 128, 256)


def arrange(source: Ids, target: Ids, budget: int, strips: int) -> list[Ids]:
    """Batches of indices, each within the budget on either side, padding included.

    Pairs are sorted into strips of like target length and, within a strip, by source length, rising and
    falling in turn. Few strips pad the targets more and the sources less.

    Args:
        source: (pairs,) width of each source, at most ``budget``.
        target: (pairs,) width of each target, at most ``budget``.
        budget: sentences times width of a batch, at most.
        strips: how many, each of as many target tokens; 0 for one per target length.
    """
    rising = np.lexsort((source, target))  # (pairs,)
    strip = target[rising]  # (pairs,) the strip of each, rising
    if strips:
        before = np.cumsum(strip, dtype=np.float64) - strip  # (pairs,) target tokens
        strip = np.floor(before * (strips / float(strip.sum()))).astype(np.int64)
    turned = np.where(strip % 2, source[rising], -source[rising])  # (pairs,)
    return list(_cut(rising[np.lexsort((turned, strip))], source, target, budget))


def best_strips(source: Ids, target: Ids, budget: int) -> int:
    """The number of strips that pads these pairs least."""

    def size(strips: int) -> int:
        batches = arrange(source, target, budget, strips)
        return sum(len(batch) * int(source[batch].max() + target[batch].max()) for batch in batches)

    return min(STRIPS, key=size)


def _cut(indices: Ids, source: Ids, target: Ids, budget: int) -> Iterator[Ids]:
    """The longest runs whose padded size is within the budget on either side."""
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
    """The same pairs in ``count`` batches, of which there are too few: the largest are halved.

    There must be at least ``count`` pairs.
    """
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
