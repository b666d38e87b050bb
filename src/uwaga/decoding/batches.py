"""Sentences of like length decoded together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def length_batches(lengths: Sequence[int], rows: int, budget: int) -> Iterator[list[int]]:
    """Batches of sentence numbers, longest sentences first.

    A batch costs ``sentences * rows * longest``, padding counted, and stays within ``budget`` unless a
    single sentence alone does not.

    Args:
        lengths: source tokens of each sentence.
        rows: decoder rows per sentence.
        budget: tokens.
    """
    batch: list[int] = []
    for sentence in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        if batch and (len(batch) + 1) * rows * lengths[batch[0]] > budget:
            yield batch
            batch = []
        batch.append(sentence)
    if batch:
        yield batch
