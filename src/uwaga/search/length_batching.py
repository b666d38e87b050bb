"""Batches of sentences of similar length."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from uwaga.decoder import Ids

Result = TypeVar("Result")


def length_batches(lengths: Sequence[int], rows: int, budget: int) -> Iterator[list[int]]:
    """Yield batches of sentence indices, longest sentences first.

    A batch costs ``sentences * rows * longest`` tokens, counting padding, and stays within ``budget`` unless
    it is a single sentence.

    Args:
        lengths: number of source tokens of each sentence.
        rows: number of decoder rows per sentence.
        budget: maximum number of tokens of a batch.
    """
    batch: list[int] = []
    for sentence in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if batch and (len(batch) + 1) * rows * lengths[batch[0]] > budget:
            yield batch
            batch = []
        batch.append(sentence)
    if batch:
        yield batch


def map_batches(
    function: Callable[[list[int]], Iterable[Result]], lengths: Sequence[int], budget: int
) -> list[Result]:
    """Call a function with each batch of :func:`length_batches` and return the results in input order.

    Args:
        function: function that returns a result for each sentence index of a batch.
        lengths: number of tokens of each sentence.
        budget: maximum number of tokens of a batch, counting padding.
    """
    results: dict[int, Result] = {}
    for indices in length_batches(lengths, 1, budget):
        results |= zip(indices, function(indices), strict=True)
    return [results[index] for index in range(len(lengths))]


def free_slots(running_lengths: Ids, waiting_lengths: Ids, rows: int, budget: int) -> int:
    """Return the number of waiting sentences to admit.

    Sentences enter in groups when a quarter of the budget is free, since encoding many at once is faster.

    Args:
        running_lengths: (sentences,) number of source tokens of each sentence being decoded.
        waiting_lengths: (sentences,) number of source tokens of each waiting sentence, in order.
        rows: number of decoder rows per sentence.
        budget: maximum number of tokens of a batch.
    """
    used_tokens = rows * int(running_lengths.sum())
    if not len(waiting_lengths) or (4 * used_tokens > 3 * budget and len(running_lengths)):
        return 0
    fitting_count = int(
        np.searchsorted(np.cumsum(waiting_lengths * rows), budget - used_tokens, side="right")
    )
    return max(fitting_count, 0 if len(running_lengths) else 1)


def admission_threshold(waiting_lengths: Ids, rows: int, budget: int) -> int:
    """Return the maximum number of running source tokens at which :func:`free_slots` admits sentences.

    The result is 0 if no sentence is waiting.
    """
    return 3 * budget // (4 * rows) if len(waiting_lengths) else 0
