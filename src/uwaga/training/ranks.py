"""The processes that train one run together, as `torchrun` starts them: what each may do, and what all know.

A run of one process is the same code with nobody to talk to.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed

from uwaga.engine.cpu import usable_cores
from uwaga.errors import FailedElsewhereError, RankLostError, UwagaError, reason
from uwaga.training.rank_messages import RankMessages


def is_shared(tensor: Tensor) -> bool:
    """Whether a process holds only a share of it: a ``DTensor``."""
    return hasattr(tensor, "full_tensor")


def whole(tensor: Tensor) -> Tensor:
    """The whole tensor, which all processes must ask for; one that is not shared is what it was."""
    return tensor.full_tensor() if is_shared(tensor) else tensor  # type: ignore[attr-defined]


def whole_tensors(tensors: Mapping[str, Tensor], keep: bool) -> dict[str, Tensor]:
    """The whole of each, on the CPU where it was shared; none where not to ``keep``, but all must ask."""
    found = {}
    for name, tensor in tensors.items():
        made = whole(tensor.detach())
        if keep:
            found[name] = made.cpu() if is_shared(tensor) else made
    return found


@torch.no_grad()
def placed(tensor: Tensor, like: Tensor) -> Tensor:
    """The tensor as ``like`` is: on its device, of its type, and shared as it is."""
    moved = tensor.to(like.device, like.dtype)
    if not is_shared(like):
        return moved
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(like, DTensor)
    # Each process has the whole and takes its share: nobody waits for another that could not read it.
    return distribute_tensor(moved, like.device_mesh, like.placements, src_data_rank=None)


Made = TypeVar("Made")
_BUCKET = 25 * 2**20  # bytes that are summed together


class Ranks:
    """One process, ``rank`` of ``world``, which is ``local`` of ``local_world`` on its machine.

    What all processes call, they must call in the same order.
    """

    def __init__(
        self,
        rank: int = 0,
        world: int = 1,
        local: int = 0,
        local_world: int = 1,
        notices: RankMessages | None = None,
    ) -> None:
        self.rank, self.world, self.local, self.local_world = rank, world, local, local_world
        self._notices = notices
        self._connected = False

    @property
    def first(self) -> bool:
        """Whether this is rank 0, which alone writes, validates and prints."""
        return self.rank == 0

    def threads(self, asked: int) -> int:
        """CPU cores of this process: as many as are asked for, or a fair share of the machine's."""
        return asked or max(1, usable_cores() // self.local_world)

    def agree(self, work: Callable[[], Made]) -> Made:
        """What the work makes, which every process does for itself; where it fails in one, all end.

        Raises:
            FailedElsewhereError: it has failed in another, or in one of lower rank too.
        """
        if self._notices is None:
            return work()
        failure: Exception | None = None
        try:
            made = work()
        except (FailedElsewhereError, RankLostError):
            raise
        except Exception as error:
            failure = error
        told = self._notices.gather("" if failure is None else reason(failure))
        failed = [rank for rank, text in enumerate(told) if text]
        ours = isinstance(failure, UwagaError | OSError)
        if failure is not None and (failed[0] == self.rank or not ours):
            raise failure
        if failed:
            raise FailedElsewhereError(f"rank {failed[0]}: {told[failed[0]]}")
        return made

    def lead(self, work: Callable[[], Made]) -> Made:
        """What the work makes, which rank 0 does for all; it must be what JSON can hold.

        Raises:
            FailedElsewhereError: it has failed there.
        """
        if self._notices is None:
            return work()
        if not self.first:
            done, made = json.loads(self._notices.hear())
            if not done:
                raise FailedElsewhereError(f"rank 0: {made}")
            return made  # type: ignore[no-any-return]
        try:
            made = work()
        except Exception as error:
            self._notices.post(json.dumps([False, reason(error)]))
            raise
        self._notices.post(json.dumps([True, made]))
        return made

    def in_turn(self, work: Callable[[], Made]) -> Made:
        """What the work makes: first in rank 0, which leaves files, then in the others, which read them.

        Raises:
            FailedElsewhereError: it has failed in another.
        """
        made: list[Made] = []
        self.lead(lambda: made.append(work()))
        return self.agree(lambda: made[0] if made else work())

    def tell(self, value: Any) -> list[Any]:
        """The values of all processes by rank; they must be what JSON can hold."""
        if self._notices is None:
            return [value]
        return [json.loads(text) for text in self._notices.gather(json.dumps(value))]

    def heed(self, ending: Callable[[], bool]) -> None:
        """Wait no longer for a process that shows no life, once this one is asked to end."""
        if self._notices is not None:
            self._notices.hurried = ending

    def named(self, rank: int) -> str:
        """A rank with its process and host."""
        return f"rank {rank}" if self._notices is None else self._notices.named(rank)

    def connect(self, device: torch.device, timeout: float) -> None:
        """Connect the processes for tensors on this device.

        Raises:
            RankLostError: one of them is not there.
        """
        if self._notices is None:
            return
        self._notices.timeout = timeout
        with self.together():
            distributed.init_process_group(
                "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo",
                store=self._notices.store,
                rank=self.rank,
                world_size=self.world,
                timeout=timedelta(seconds=timeout),
            )
            self._connected = True

    def exchange(self, numbers: Sequence[int]) -> list[list[int]]:
        """The numbers of all processes, by rank; as many from each.

        Raises:
            RankLostError: a process has ended, or has not answered in time.
        """
        if self._notices is None:
            return [list(numbers)]
        own = torch.tensor(numbers, dtype=torch.int64)
        found = [torch.empty_like(own) for _ in range(self.world)]
        with self.together():
            distributed.all_gather(found, own)
        return [one.tolist() for one in found]

    def add(self, tensors: Sequence[Tensor]) -> None:
        """Put into each tensor the sum over all processes.

        In buckets that are the same in every update: those of DistributedDataParallel change after the first,
        and with them the order of the sums, so that a run which was stopped would end with other bits.

        Raises:
            RankLostError: a process has ended, or has not answered in time.
        """
        if self._notices is None:
            return
        with self.together():
            waiting = []
            for bucket in _buckets(tensors):
                flat = torch.cat([tensor.reshape(-1) for tensor in bucket])
                waiting.append((bucket, flat, distributed.all_reduce(flat, async_op=True)))
            for bucket, flat, work in waiting:
                work.wait()
                sizes = [tensor.numel() for tensor in bucket]
                for tensor, part in zip(bucket, torch.split(flat, sizes), strict=True):
                    tensor.copy_(part.view_as(tensor))

    def spread(self, tensors: Sequence[Tensor]) -> None:
        """Put into each tensor what it holds in rank 0."""
        if self._notices is not None:
            with self.together():
                for tensor in tensors:
                    distributed.broadcast(tensor, 0)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Inside, a connection that breaks is told as the process that has ended.

        Raises:
            RankLostError: in one of the processes that are left.
            FailedElsewhereError: in the others.
        """
        try:
            yield
        except RuntimeError as error:
            if self._notices is None or not _broken(error):
                raise
            raise self._notices.lost("time" in str(error).lower()) from None

    def leave(self) -> None:
        """The run is done, in every process."""
        if self._notices is not None:
            self._notices.gather("")
            if self._connected:
                distributed.destroy_process_group()
            self._notices.depart()


ALONE = Ranks()
"""A process that trains by itself."""


@contextlib.contextmanager
def joined(environment: Mapping[str, str] = os.environ) -> Iterator[Ranks]:
    """The processes that `torchrun` has started with this one; :data:`ALONE` where it has not.

    Raises:
        RankLostError: they cannot be reached.
    """
    world = int(environment.get("WORLD_SIZE", "1"))
    if world == 1:
        yield ALONE
        return
    rank = int(environment["RANK"])
    notices = RankMessages.join(rank, world)
    local, local_world = (int(environment.get(f"LOCAL_{name}", "0")) for name in ("RANK", "WORLD_SIZE"))
    try:
        ranks = Ranks(rank, world, local, max(1, local_world), notices)
        yield ranks
        ranks.leave()
    except FailedElsewhereError:
        raise
    except BaseException:
        notices.fail()
        raise
    finally:
        notices.close()


def _buckets(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """The tensors in order, in lists of one type and of at most :data:`_BUCKET` bytes or one tensor."""
    bucket: list[Tensor] = []
    size = 0
    for tensor in tensors:
        more = tensor.numel() * tensor.element_size()
        if bucket and (size + more > _BUCKET or tensor.dtype != bucket[0].dtype):
            yield bucket
            bucket, size = [], 0
        bucket.append(tensor)
        size += more
    if bucket:
        yield bucket


def _broken(error: RuntimeError) -> bool:
    """Whether an error is one of the connections between processes."""
    text = str(error).lower()
    return isinstance(error, distributed.DistError) or any(name in text for name in ("gloo", "nccl"))
