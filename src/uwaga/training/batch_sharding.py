"""How the batches of an update are dealt to the processes of a run.

An update is ``training.accumulate`` batches, however many processes there are: process r of W takes those
numbered r, r + W, ... Their gradients are summed and divided by the tokens of all. So one process or several
see the same batches in the same updates, and the number of processes changes nothing but the order of sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from uwaga.data.batches import Batch
from uwaga.errors import SettingsError
from uwaga.settings import TrainingSettings
from uwaga.training.ranks import Ranks

_NUMBERS = 3  # of a size


class Size(NamedTuple):
    """Of a batch: its sentences, and its source and target tokens, end symbols included."""

    sentences: int
    source: int
    target: int

    @classmethod
    def of(cls, batch: Batch) -> Size:
        """The batch's."""
        return cls(batch.sentences, int(batch.source_lengths.sum()), batch.tokens)


@dataclass(frozen=True)
class BatchSharding:
    """An update as all processes know it.

    Attributes:
        sizes: of all its batches, in the order of a single process.
        own: which of them are this process's.
    """

    sizes: tuple[Size, ...]
    own: range

    @classmethod
    def whole(cls, batches: Sequence[Batch]) -> BatchSharding:
        """Of a single process."""
        return cls(tuple(map(Size.of, batches)), range(len(batches)))

    @property
    def tokens(self) -> int:
        """Target tokens of the update."""
        return sum(size.target for size in self.sizes)

    @property
    def source_tokens(self) -> int:
        """Source tokens of the update."""
        return sum(size.source for size in self.sizes)

    def first_parts(self, parts: int) -> list[int]:
        """The number of the first part of each own batch, where each is cut into at most ``parts``.

        The parts of an update are counted through all its batches; what is drawn at random for one depends on
        its number and so not on the process that computes it.
        """
        before = [0]
        for size in self.sizes:
            before.append(before[-1] + min(parts, size.sentences))
        return [before[number] for number in self.own]


def deal_out(
    ranks: Ranks, batches: Sequence[Batch], stopping: bool, accumulate: int
) -> tuple[BatchSharding, bool]:
    """Tell the other processes the sizes of this one's batches, and learn theirs.

    Args:
        ranks: the processes.
        batches: of this process.
        stopping: whether this process is asked to stop.
        accumulate: batches of an update, of all processes together.

    Returns:
        the update, and whether any process is asked to stop.

    Raises:
        RankLostError: a process has ended, or has not answered in time.
    """
    told = ranks.exchange([int(stopping), *(number for batch in batches for number in Size.of(batch))])
    sizes = []
    for number in range(accumulate):
        start = 1 + number // ranks.world * _NUMBERS
        sizes.append(Size(*told[number % ranks.world][start : start + _NUMBERS]))
    deal = BatchSharding(tuple(sizes), range(ranks.rank, accumulate, ranks.world))
    return deal, any(one[0] for one in told)


def check_world(training: TrainingSettings, world: int) -> None:
    """Refuse a number of processes that an update's batches cannot be dealt to evenly.

    Raises:
        SettingsError: says which numbers there can be, and what would keep the size of an update.
    """
    batches = training.accumulate
    if batches % world == 0:
        return
    fitting = [str(number) for number in range(1, batches + 1) if batches % number == 0]
    whole = training.batch_tokens * batches
    near = -(-batches // world) * world
    raise SettingsError(
        f"training.accumulate: an update is {batches} batch{'es' if batches > 1 else ''} of "
        f"{training.batch_tokens:,} tokens, which cannot be dealt evenly to {world} processes. Start "
        f"{' or '.join(fitting)} of them; or begin a run with --set training.accumulate={near} --set "
        f"training.batch_tokens={max(1, whole // near)}, whose updates are as large"
    )
