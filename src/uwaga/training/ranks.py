"""The processes of a run, started by torchrun, and their collective operations.

A run with a single process uses the same code; the operations then return immediately.
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


def is_sharded(tensor: Tensor) -> bool:
    """Return True for a ``DTensor``, of which each process holds only a shard."""
    return hasattr(tensor, "full_tensor")


def to_full_tensor(tensor: Tensor) -> Tensor:
    """Return a tensor with all its shards gathered; all processes must call this together."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor  # type: ignore[attr-defined]


def full_tensors(tensors: Mapping[str, Tensor], keep: bool) -> dict[str, Tensor]:
    """Return the full tensors by name if ``keep`` is True, otherwise an empty dict.

    All processes must call this together.
    """
    tensors_on_cpu = {}
    for name, tensor in tensors.items():
        full_tensor = to_full_tensor(tensor.detach())
        if keep:
            tensors_on_cpu[name] = full_tensor.cpu() if is_sharded(tensor) else full_tensor
    return tensors_on_cpu


@torch.no_grad()
def distribute_like(tensor: Tensor, reference: Tensor) -> Tensor:
    """Return the tensor with the device, type and sharding of ``reference``."""
    converted = tensor.to(reference.device, reference.dtype)
    if not is_sharded(reference):
        return converted
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(reference, DTensor)
    # Each process has the full tensor and takes its shard, so that none waits for a process that failed to
    # read it.
    return distribute_tensor(converted, reference.device_mesh, reference.placements, src_data_rank=None)


Result = TypeVar("Result")
_BUCKET_BYTES = 25 * 2**20  # maximum size of the tensors that are summed in one operation


class Ranks:
    """The processes of a run, as seen by the process with number ``rank`` of ``world``.

    On its machine, this process has number ``local_rank`` of ``local_world``; numbers are counted from 0. The
    methods that communicate are collective: all processes must call them in the same order.
    """

    def __init__(
        self,
        rank: int = 0,
        world: int = 1,
        local_rank: int = 0,
        local_world: int = 1,
        messages: RankMessages | None = None,
    ) -> None:
        self.rank, self.world, self.local, self.local_world = rank, world, local_rank, local_world
        self._messages = messages
        self._connected = False

    @property
    def is_first(self) -> bool:
        """True for rank 0, the only process that writes files, validates and prints."""
        return self.rank == 0

    def thread_count(self, requested_count: int) -> int:
        """Return ``requested_count`` or, if it is 0, this process's share of the usable cores, at least 1."""
        return requested_count or max(1, usable_cores() // self.local_world)

    def run_on_all(self, call: Callable[[], Result]) -> Result:
        """Run ``call`` in every process and return its result; if one process fails, all raise an error."""
        if self._messages is None:
            return call()
        failure: Exception | None = None
        try:
            result = call()
        except (FailedElsewhereError, RankLostError):
            raise
        except Exception as error:
            failure = error
        reasons = self._messages.gather("" if failure is None else reason(failure))
        failed_ranks = [rank for rank, text in enumerate(reasons) if text]
        is_reported = isinstance(failure, UwagaError | OSError)
        if failure is not None and (failed_ranks[0] == self.rank or not is_reported):
            raise failure
        if failed_ranks:
            raise FailedElsewhereError(f"rank {failed_ranks[0]}: {reasons[failed_ranks[0]]}")
        return result

    def run_on_rank_0(self, call: Callable[[], Result]) -> Result:
        """Run ``call`` on rank 0 and return its result, which must be JSON-serialisable, in all processes."""
        if self._messages is None:
            return call()
        if not self.is_first:
            succeeded, result = json.loads(self._messages.receive())
            if not succeeded:
                raise FailedElsewhereError(f"rank 0: {result}")
            return result  # type: ignore[no-any-return]
        try:
            result = call()
        except Exception as error:
            self._messages.send(json.dumps([False, reason(error)]))
            raise
        self._messages.send(json.dumps([True, result]))
        return result

    def run_rank_0_first(self, call: Callable[[], Result]) -> Result:
        """Run ``call`` on rank 0, which writes files, and then on all other ranks, which read these files."""
        results: list[Result] = []
        self.run_on_rank_0(lambda: results.append(call()))
        return self.run_on_all(lambda: results[0] if results else call())

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all processes by rank; they must be JSON-serialisable."""
        if self._messages is None:
            return [value]
        return [json.loads(text) for text in self._messages.gather(json.dumps(value))]

    def set_stop_condition(self, is_stopping: Callable[[], bool]) -> None:
        """Set a function; once it returns True, this process stops waiting for silent processes."""
        if self._messages is not None:
            self._messages.is_stopping = is_stopping

    def describe(self, rank: int) -> str:
        """Return a text with a rank, its process and its host, for messages."""
        return f"rank {rank}" if self._messages is None else self._messages.describe(rank)

    def connect(self, device: torch.device, timeout: float) -> None:
        """Initialise torch's process group for tensors on this device; ``timeout`` is in seconds."""
        if self._messages is None:
            return
        self._messages.timeout = timeout
        with self.connection_errors():
            distributed.init_process_group(
                "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo",
                store=self._messages.store,
                rank=self.rank,
                world_size=self.world,
                timeout=timedelta(seconds=timeout),
            )
            self._connected = True

    def exchange(self, numbers: Sequence[int]) -> list[list[int]]:
        """Return the integers of each process by rank; all processes must pass the same number of them."""
        if self._messages is None:
            return [list(numbers)]
        local_numbers = torch.tensor(numbers, dtype=torch.int64)
        parts = [torch.empty_like(local_numbers) for _ in range(self.world)]
        with self.connection_errors():
            distributed.all_gather(parts, local_numbers)
        return [values.tolist() for values in parts]

    def sum_tensors(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor with its sum over all processes.

        Tensors are summed in the same order in every update. DistributedDataParallel changes the order after
        the first update, so that a resumed run would not be bit-identical.
        """
        if self._messages is None:
            return
        with self.connection_errors():
            pending_buckets = []
            for bucket in _buckets(tensors):
                flat_tensor = torch.cat([tensor.reshape(-1) for tensor in bucket])
                pending_buckets.append(
                    (bucket, flat_tensor, distributed.all_reduce(flat_tensor, async_op=True))
                )
            for bucket, flat_tensor, handle in pending_buckets:
                handle.wait()
                sizes = [tensor.numel() for tensor in bucket]
                for tensor, part in zip(bucket, torch.split(flat_tensor, sizes), strict=True):
                    tensor.copy_(part.view_as(tensor))

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor with the values that it has on rank 0."""
        if self._messages is not None:
            with self.connection_errors():
                for tensor in tensors:
                    distributed.broadcast(tensor, 0)

    @contextlib.contextmanager
    def connection_errors(self) -> Iterator[None]:
        """Convert a connection error within the block to an error that names the processes that ended."""
        try:
            yield
        except RuntimeError as error:
            if self._messages is None or not _is_connection_error(error):
                raise
            raise self._messages.connection_error("time" in str(error).lower()) from None

    def leave(self) -> None:
        """Wait until all processes have finished the run, then disconnect."""
        if self._messages is not None:
            self._messages.gather("")
            if self._connected:
                distributed.destroy_process_group()
            self._messages.disconnect()


SINGLE_PROCESS = Ranks()
"""Ranks of a run with a single process."""


@contextlib.contextmanager
def join_ranks(environment: Mapping[str, str] = os.environ) -> Iterator[Ranks]:
    """Yield the processes of the run started by torchrun, or :data:`SINGLE_PROCESS` without torchrun."""
    world = int(environment.get("WORLD_SIZE", "1"))
    if world == 1:
        yield SINGLE_PROCESS
        return
    rank = int(environment["RANK"])
    messages = RankMessages.join(rank, world)
    local_rank, local_world = (int(environment.get(f"LOCAL_{name}", "0")) for name in ("RANK", "WORLD_SIZE"))
    try:
        ranks = Ranks(rank, world, local_rank, max(1, local_world), messages)
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
    """Yield lists of successive tensors of one type and at most :data:`_BUCKET_BYTES` bytes."""
    bucket: list[Tensor] = []
    size = 0
    for tensor in tensors:
        tensor_bytes = tensor.numel() * tensor.element_size()
        if bucket and (size + tensor_bytes > _BUCKET_BYTES or tensor.dtype != bucket[0].dtype):
            yield bucket
            bucket, size = [], 0
        bucket.append(tensor)
        size += tensor_bytes
    if bucket:
        yield bucket


def _is_connection_error(error: RuntimeError) -> bool:
    """Return True if an error was caused by the connection between processes."""
    text = str(error).lower()
    return isinstance(error, distributed.DistError) or any(name in text for name in ("gloo", "nccl"))
