"""Sharding of the batches of an update over the processes of a run.

An update consists of ``training.accumulate`` batches, whatever the number of processes: process r of W takes
batches r, r + W, ... The gradients of all batches are summed and divided by their total number of tokens. The
number of processes therefore changes only the order of summation, not the batches of an update.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from uwaga.data.batches import Batch
from uwaga.errors import SettingsError
from uwaga.settings import TrainingSettings
from uwaga.training.ranks import Ranks

_SIZE_FIELDS = 3  # number of fields of a BatchSize


class BatchSize(NamedTuple):
    """Numbers of sentences, source tokens and target tokens in a batch, including end symbols."""

    sentences: int
    source_tokens: int
    target_tokens: int

    @classmethod
    def from_batch(cls, batch: Batch) -> BatchSize:
        """Create the size of a batch."""
        return cls(batch.sentences, int(batch.source_lengths.sum()), batch.tokens)


@dataclass(frozen=True)
class BatchSharding:
    """The batches of an update and their distribution over the processes.

    Attributes:
        sizes: sizes of all batches, in the order in which a single process would read them.
        local: indices of the batches of this process.
    """

    sizes: tuple[BatchSize, ...]
    local: range

    @classmethod
    def single_process(cls, batches: Sequence[Batch]) -> BatchSharding:
        """Create the sharding for a single process, which computes all batches."""
        return cls(tuple(map(BatchSize.from_batch, batches)), range(len(batches)))

    @property
    def tokens(self) -> int:
        """The number of target tokens in the update."""
        return sum(size.target_tokens for size in self.sizes)

    @property
    def source_tokens(self) -> int:
        """The number of source tokens in the update."""
        return sum(size.source_tokens for size in self.sizes)

    def first_part_numbers(self, parts: int) -> list[int]:
        """Return the number of the first part of each local batch if batches are split into ``parts`` parts.

        A batch with fewer than ``parts`` sentences has one part for each sentence. Parts are numbered
        consecutively over all batches of an update. The random state of a part depends on its number, not on
        the process that computes it.
        """
        starts = [0]
        for size in self.sizes:
            starts.append(starts[-1] + min(parts, size.sentences))
        return [starts[index] for index in self.local]


def shard_batches(
    ranks: Ranks, batches: Sequence[Batch], is_stopping: bool, accumulate: int
) -> tuple[BatchSharding, bool]:
    """Exchange the sizes of the batches of an update, and stop requests, between the processes.

    Args:
        ranks: the processes.
        batches: the batches of this process.
        is_stopping: whether this process has been asked to stop.
        accumulate: number of batches in an update, over all processes.

    Returns:
        the sharding of the update, and whether any process has been asked to stop.
    """
    values = ranks.exchange(
        [int(is_stopping), *(number for batch in batches for number in BatchSize.from_batch(batch))]
    )
    sizes = []
    for index in range(accumulate):
        start = 1 + index // ranks.world * _SIZE_FIELDS
        sizes.append(BatchSize(*values[index % ranks.world][start : start + _SIZE_FIELDS]))
    sharding = BatchSharding(tuple(sizes), range(ranks.rank, accumulate, ranks.world))
    return sharding, any(row[0] for row in values)


def check_process_count(training: TrainingSettings, world: int) -> None:
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
        f"{' or '.join(divisors)} processes; or start a run with --set training.accumulate={rounded} --set "
        f"training.batch_tokens={max(1, tokens // rounded)}, whose updates have the same size"
    )
