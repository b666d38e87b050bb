"""The processes that train a run together, started by `torchrun`, and the collective operations among them.

A run of one process uses the same code, with operations that return at once.
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
    """Return True if each process holds only a shard of the tensor: a ``DTensor``."""
    return hasattr(tensor, "full_tensor")


def whole(tensor: Tensor) -> Tensor:
    """Return the full tensor, unchanged if it is not sharded; all processes must call this."""
    return tensor.full_tensor() if is_shared(tensor) else tensor  # type: ignore[attr-defined]


def whole_tensors(tensors: Mapping[str, Tensor], keep: bool) -> dict[str, Tensor]:
    """Return the full tensors, or nothing unless ``keep``; all processes must call this."""
    full = {}
    for name, tensor in tensors.items():
        full_tensor = whole(tensor.detach())
        if keep:
            full[name] = full_tensor.cpu() if is_shared(tensor) else full_tensor
    return full


@torch.no_grad()
def placed(tensor: Tensor, like: Tensor) -> Tensor:
    """Return the tensor on the device, of the type and with the sharding of ``like``."""
    moved = tensor.to(like.device, like.dtype)
    if not is_shared(like):
        return moved
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(like, DTensor)
    # Each process has the full tensor and takes its shard, so that none waits for one that failed to read it.
    return distribute_tensor(moved, like.device_mesh, like.placements, src_data_rank=None)


Made = TypeVar("Made")
_BUCKET = 25 * 2**20  # bytes that are summed together


class Ranks:
    """A process, number ``rank`` of ``world``, and number ``local`` of ``local_world`` on its machine.

    The methods that communicate are collective: all processes must call them in the same order.
    """

    def __init__(
        self,
        rank: int = 0,
        world: int = 1,
        local: int = 0,
        local_world: int = 1,
        messages: RankMessages | None = None,
    ) -> None:
        self.rank, self.world, self.local, self.local_world = rank, world, local, local_world
        self._messages = messages
        self._connected = False

    @property
    def first(self) -> bool:
        """True for rank 0, the only one that writes, validates and prints."""
        return self.rank == 0

    def threads(self, requested: int) -> int:
        """Return ``requested`` CPU threads, or for 0 an equal share of the machine's cores."""
        return requested or max(1, usable_cores() // self.local_world)

    def agree(self, work: Callable[[], Made]) -> Made:
        """Run ``work`` in every process and return its result; if it fails in one, it raises in all."""
        if self._messages is None:
            return work()
        failure: Exception | None = None
        try:
            result = work()
        except (FailedElsewhereError, RankLostError):
            raise
        except Exception as error:
            failure = error
        reasons = self._messages.gather("" if failure is None else reason(failure))
        failed = [rank for rank, text in enumerate(reasons) if text]
        reported = isinstance(failure, UwagaError | OSError)
        if failure is not None and (failed[0] == self.rank or not reported):
            raise failure
        if failed:
            raise FailedElsewhereError(f"rank {failed[0]}: {reasons[failed[0]]}")
        return result

    def lead(self, work: Callable[[], Made]) -> Made:
        """Run ``work`` in rank 0 and return its result, which must be JSON-serialisable, in all processes."""
        if self._messages is None:
            return work()
        if not self.first:
            done, result = json.loads(self._messages.receive())
            if not done:
                raise FailedElsewhereError(f"rank 0: {result}")
            return result  # type: ignore[no-any-return]
        try:
            result = work()
        except Exception as error:
            self._messages.send(json.dumps([False, reason(error)]))
            raise
        self._messages.send(json.dumps([True, result]))
        return result

    def in_turn(self, work: Callable[[], Made]) -> Made:
        """Run ``work`` in rank 0, which writes files, then in the others, which read them; return the result."""
        results: list[Made] = []
        self.lead(lambda: results.append(work()))
        return self.agree(lambda: results[0] if results else work())

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all processes by rank; they must be JSON-serialisable."""
        if self._messages is None:
            return [value]
        return [json.loads(text) for text in self._messages.gather(json.dumps(value))]

    def hurry_when(self, stopping: Callable[[], bool]) -> None:
        """Wait only for a moment for a silent process once ``stopping`` returns True."""
        if self._messages is not None:
            self._messages.hurried = stopping

    def describe(self, rank: int) -> str:
        """Return a rank with its process and host, for messages."""
        return f"rank {rank}" if self._messages is None else self._messages.describe(rank)

    def connect(self, device: torch.device, timeout: float) -> None:
        """Initialise the process group for tensors on this device."""
        if self._messages is None:
            return
        self._messages.timeout = timeout
        with self.reporting_loss():
            distributed.init_process_group(
                "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo",
                store=self._messages.store,
                rank=self.rank,
                world_size=self.world,
                timeout=timedelta(seconds=timeout),
            )
            self._connected = True

    def exchange(self, numbers: Sequence[int]) -> list[list[int]]:
        """Return the numbers of all processes by rank; each must pass equally many."""
        if self._messages is None:
            return [list(numbers)]
        local = torch.tensor(numbers, dtype=torch.int64)
        gathered = [torch.empty_like(local) for _ in range(self.world)]
        with self.reporting_loss():
            distributed.all_gather(gathered, local)
        return [values.tolist() for values in gathered]

    def add(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor with its sum over all processes.

        The buckets are the same in every update. Those of DistributedDataParallel change after the first one,
        and with them the order of sums, so that a resumed run would end with other bits.
        """
        if self._messages is None:
            return
        with self.reporting_loss():
            waiting = []
            for bucket in _buckets(tensors):
                flat = torch.cat([tensor.reshape(-1) for tensor in bucket])
                waiting.append((bucket, flat, distributed.all_reduce(flat, async_op=True)))
            for bucket, flat, work in waiting:
                work.wait()
                sizes = [tensor.numel() for tensor in bucket]
                for tensor, part in zip(bucket, torch.split(flat, sizes), strict=True):
                    tensor.copy_(part.view_as(tensor))

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor with that of rank 0."""
        if self._messages is not None:
            with self.reporting_loss():
                for tensor in tensors:
                    distributed.broadcast(tensor, 0)

    @contextlib.contextmanager
    def reporting_loss(self) -> Iterator[None]:
        """Report a connection that breaks within the block as the loss of the process that has ended."""
        try:
            yield
        except RuntimeError as error:
            if self._messages is None or not _broken(error):
                raise
            raise self._messages.lost("time" in str(error).lower()) from None

    def leave(self) -> None:
        """Wait until all processes have finished the run, and disconnect."""
        if self._messages is not None:
            self._messages.gather("")
            if self._connected:
                distributed.destroy_process_group()
            self._messages.depart()


ALONE = Ranks()
"""The only process of a run."""


@contextlib.contextmanager
def join_ranks(environment: Mapping[str, str] = os.environ) -> Iterator[Ranks]:
    """Join the processes that `torchrun` has started with this one; without it, yield :data:`ALONE`."""
    world = int(environment.get("WORLD_SIZE", "1"))
    if world == 1:
        yield ALONE
        return
    rank = int(environment["RANK"])
    messages = RankMessages.join(rank, world)
    local, local_world = (int(environment.get(f"LOCAL_{name}", "0")) for name in ("RANK", "WORLD_SIZE"))
    try:
        ranks = Ranks(rank, world, local, max(1, local_world), messages)
        yield ranks
        ranks.leave()
    except FailedElsewhereError:
        raise
    except BaseException:
        messages.fail()
        raise
    finally:
        messages.close()


def _buckets(tensors: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Yield the tensors in order, in lists of one type and at most :data:`_BUCKET` bytes (or one tensor)."""
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
    """Return True for an error of the connections between processes."""
    text = str(error).lower()
    return isinstance(error, distributed.DistError) or any(name in text for name in ("gloo", "nccl"))
