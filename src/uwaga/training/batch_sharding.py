"""Sharding of the batches of an update over the processes of a run.

An update consists of ``training.accumulate`` batches, however many processes there are: process r of W takes
batches r, r + W, ... Their gradients are summed and divided by their total number of tokens. The number of
processes therefore does not change the batches of an update, only the order of summation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from uwaga.data.batches import Batch
from uwaga.errors import SettingsError
from uwaga.settings import TrainingSettings
from uwaga.training.ranks import Ranks

_SIZE_FIELDS = 3  # of a Size


class Size(NamedTuple):
    """Size of a batch: sentences, and source and target tokens with their end symbols."""

    sentences: int
    source: int
    target: int

    @classmethod
    def from_batch(cls, batch: Batch) -> Size:
        """Return the size of a batch."""
        return cls(batch.sentences, int(batch.source_lengths.sum()), batch.tokens)


@dataclass(frozen=True)
class BatchSharding:
    """The batches of an update and their distribution over the processes.

    Attributes:
        sizes: sizes of all batches, in the order of a single process.
        local: numbers of the batches of this process.
    """

    sizes: tuple[Size, ...]
    local: range

    @classmethod
    def single_process(cls, batches: Sequence[Batch]) -> BatchSharding:
        """Return the sharding of a single process, which gets all batches."""
        return cls(tuple(map(Size.from_batch, batches)), range(len(batches)))

    @property
    def tokens(self) -> int:
        """Target tokens of the update."""
        return sum(size.target for size in self.sizes)

    @property
    def source_tokens(self) -> int:
        """Source tokens of the update."""
        return sum(size.source for size in self.sizes)

    def first_part_numbers(self, parts: int) -> list[int]:
        """Return the number of the first part of each local batch, each split into at most ``parts``.

        Parts are numbered consecutively over all batches of an update. The random state of a part depends on
        its number, not on the process that computes it.
        """
        starts = [0]
        for size in self.sizes:
            starts.append(starts[-1] + min(parts, size.sentences))
        return [starts[number] for number in self.local]


def shard_batches(
    ranks: Ranks, batches: Sequence[Batch], stopping: bool, accumulate: int
) -> tuple[BatchSharding, bool]:
    """Exchange the sizes of the batches of an update between the processes.

    Args:
        ranks: the processes.
        batches: the batches of this process.
        stopping: True if this process has been asked to stop.
        accumulate: batches of an update over all processes.

    Returns:
        the sharding of the update, and whether any process has been asked to stop.
    """
    values = ranks.exchange(
        [int(stopping), *(number for batch in batches for number in Size.from_batch(batch))]
    )
    sizes = []
    for number in range(accumulate):
        start = 1 + number // ranks.world * _SIZE_FIELDS
        sizes.append(Size(*values[number % ranks.world][start : start + _SIZE_FIELDS]))
    sharding = BatchSharding(tuple(sizes), range(ranks.rank, accumulate, ranks.world))
    return sharding, any(row[0] for row in values)


def check_world(training: TrainingSettings, world: int) -> None:
    """Check that the batches of an update can be divided evenly among the processes."""
    batches = training.accumulate
    if batches % world == 0:
        return
    divisors = [str(number) for number in range(1, batches + 1) if batches % number == 0]
    tokens = training.batch_tokens * batches
    rounded = -(-batches // world) * world
    raise SettingsError(
        f"training.accumulate: an update is {batches} batch{'es' if batches > 1 else ''} of "
        f"{training.batch_tokens:,} tokens, which cannot be divided evenly among {world} processes. Start "
        f"{' or '.join(divisors)} of them; or start a run with --set training.accumulate={rounded} --set "
        f"training.batch_tokens={max(1, tokens // rounded)}, whose updates have the same size"
    )
