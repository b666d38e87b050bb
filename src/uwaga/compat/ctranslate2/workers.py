"""The batches of a model: loading and unloading, queued batches and their workers."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from uwaga.checkpoints.checkpoint import Task
from uwaga.compat.ctranslate2.errors import ArgumentError, RunError, as_argument_errors
from uwaga.compat.ctranslate2.loading import LoadedModel, Place
from uwaga.compat.ctranslate2.results import AsyncResult
from uwaga.errors import shown
from uwaga.search.length_batching import length_batches
from uwaga.settings.options import check_whole

Result = TypeVar("Result")
QUEUED = 4
"""Batches for each worker that wait by default."""
READ = 16
"""Batches that are read of an iterable to sort their inputs by length."""


class ModelWorkers:
    """A model with workers, each of which runs a batch at a time.

    Args:
        model_path: a CTranslate2 folder, or the folder or name of any model that uwaga runs.
        device: ``cpu``, ``cuda`` or ``auto``.
        device_index: 0 or, on CUDA, the number of the GPU.
        compute_type: a compute type of CTranslate2, or one for each device.
        inter_threads: batches that run at a time.
        intra_threads: CPU threads of a batch; 0 is all cores.
        max_queued_batches: batches that wait; further calls block. 0 is four for each worker, -1 no limit.
        flash_attention: False only.
        tensor_parallel: False only.
        files: the contents of the folder's files by name, as bytes or open files.

    Raises:
        ArgumentError: an argument is impossible, or one that uwaga does not have.
        RunError: there is no such model, or it is damaged or for another task.
        MissingExtraError: the model needs a library that is not installed.
    """

    task: ClassVar[Task]

    def __init__(
        self,
        model_path: str | Path,
        device: str = "cpu",
        *,
        device_index: int | Sequence[int] = 0,
        compute_type: str | Mapping[str, str] = "default",
        inter_threads: int = 1,
        intra_threads: int = 0,
        max_queued_batches: int = 0,
        flash_attention: bool = False,
        tensor_parallel: bool = False,
        files: Mapping[str, Any] | None = None,
    ) -> None:
        for name, value in (("flash_attention", flash_attention), ("tensor_parallel", tensor_parallel)):
            if value:
                raise ArgumentError(f"{name}={shown(value)}: uwaga does not have it: leave the option out")
        with as_argument_errors():
            check_whole("inter_threads", inter_threads, 1)
            check_whole("intra_threads", intra_threads, 0)
            check_whole("max_queued_batches", max_queued_batches, -1)
        self._place = Place.of(model_path, device, device_index, compute_type, intra_threads, files)
        self._workers = inter_threads
        most = max_queued_batches or QUEUED * inter_threads
        self._slots = threading.BoundedSemaphore(most + inter_threads) if most > 0 else None
        self._pool = ThreadPoolExecutor(inter_threads, thread_name_prefix="uwaga")
        self._lock = threading.Lock()
        self._active = self._waiting = 0
        self._model: LoadedModel | None = self._place.load(self.task)
        self._compute_type = self._model.compute_type

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._place.name!r}, {self.device!r})"

    @property
    def device(self) -> str:
        """``cpu`` or ``cuda``."""
        return self._place.device

    @property
    def device_index(self) -> list[int]:
        """The number of the GPU, 0 on the CPU."""
        return [self._place.device_index]

    @property
    def compute_type(self) -> str:
        """The number format that the model computes in."""
        return self._compute_type

    @property
    def tensor_parallel(self) -> bool:
        """Always False."""
        return False

    @property
    def model_is_loaded(self) -> bool:
        """True if the model is in memory."""
        return self._model is not None

    @property
    def num_active_batches(self) -> int:
        """Number of batches that wait or run."""
        return self._active

    @property
    def num_queued_batches(self) -> int:
        """Number of batches that wait."""
        return self._waiting

    def unload_model(self, to_cpu: bool = False) -> None:
        """Free the memory of the model, unless batches wait or run.

        Args:
            to_cpu: keep a model of the CPU in memory; on CUDA, it is refused.

        Raises:
            ArgumentError: ``to_cpu`` on CUDA.
        """
        if to_cpu and self.device != "cpu":
            raise ArgumentError("to_cpu=True: a model is not moved between devices")
        with self._lock:
            if not self._active and not to_cpu:
                self._model = None

    def load_model(self, keep_cache: bool = False) -> None:
        """Load the model again; ``keep_cache`` changes nothing.

        Raises:
            RunError: the model is not there any more.
        """
        if self._model is None:
            self._model = self._place.load(self.task)

    def _loaded(self) -> LoadedModel:
        """Return the model."""
        model = self._model
        if model is None:
            raise RunError("the model was unloaded: call load_model() first")
        return model

    def _run(
        self,
        kind: type[AsyncResult[Result]],
        work: Callable[[LoadedModel, list[int]], list[Result]],
        lengths: Sequence[int],
        max_batch_size: int,
        batch_type: str,
    ) -> list[AsyncResult[Result]]:
        """Start the batches of a call and return the result of each input.

        Args:
            kind: the class of the results.
            work: returns the results of the inputs of a batch, given by their numbers.
            lengths: tokens of each input, by which inputs are sorted.
            max_batch_size: most inputs or tokens of a batch; 0 for no limit.
            batch_type: ``examples`` or ``tokens``.
        """
        model = self._loaded()
        results: dict[int, AsyncResult[Result]] = {}
        for batch in _batches(lengths, max_batch_size, batch_type):
            future = self._submit(partial(work, model, batch))
            results |= {number: kind(future, place) for place, number in enumerate(batch)}
        return [results[number] for number in range(len(lengths))]

    def _submit(self, work: Callable[[], list[Result]]) -> Future[list[Result]]:
        if self._slots is not None:
            self._slots.acquire()
        with self._lock:
            self._active += 1
            self._waiting += 1

        def run() -> list[Result]:
            with self._lock:
                self._waiting -= 1
            try:
                return work()
            finally:
                with self._lock:
                    self._active -= 1
                if self._slots is not None:
                    self._slots.release()

        return self._pool.submit(run)


def _batches(lengths: Sequence[int], size: int, batch_type: str) -> Iterator[list[int]]:
    """Yield the numbers of the inputs of each batch, the longest inputs first."""
    check_batches(size, batch_type, 0)
    if not size:
        if lengths:
            yield list(range(len(lengths)))
    elif batch_type == "tokens":
        yield from length_batches(lengths, 1, size)
    else:
        order = sorted(range(len(lengths)), key=lambda number: -lengths[number])
        for at in range(0, len(order), size):
            yield order[at : at + size]


def check_batches(size: int, batch_type: str, least: int) -> None:
    """Check the size of a batch.

    Raises:
        ArgumentError: it is no number from ``least`` on, or of another type than examples or tokens.
    """
    with as_argument_errors():
        check_whole("max_batch_size", size, least)
    if batch_type not in ("examples", "tokens"):
        raise ArgumentError(f"batch_type={shown(batch_type)}: invalid batch type; use examples or tokens")


def each_result(
    start: Callable[..., list[AsyncResult[Result]]],
    inputs: Sequence[Iterable[Sequence[str]]],
    max_batch_size: int,
    batch_type: str,
) -> Iterator[Result]:
    """Yield the results of iterables, in order, while further inputs are read and run.

    Args:
        start: starts the batches of lists, one for each iterable.
        inputs: the iterables, of the same length.
        max_batch_size: most inputs or tokens of a batch.
        batch_type: ``examples`` or ``tokens``.

    Raises:
        ArgumentError: the iterables have different lengths, or an argument is impossible.
    """
    check_batches(max_batch_size, batch_type, 1)
    waiting: deque[AsyncResult[Result]] = deque()
    size = max_batch_size * READ if batch_type == "examples" else READ * READ
    rows = itertools.zip_longest(*inputs)
    while part := list(itertools.islice(rows, size)):
        if any(one is None for row in part for one in row) and len(inputs) > 1:
            raise ArgumentError("the iterables do not have the same length")
        waiting.extend(start(*map(list, zip(*part, strict=True))))
        while waiting and waiting[0].done():
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def tokenised(name: str, value: object) -> list[list[str]]:
    """Return a batch of lists of tokens.

    Raises:
        ArgumentError: it is something else; the message names the argument and the input.
    """
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ArgumentError(f"{name} must be a list of lists of tokens, not {shown(value)}")
    rows = list(value)
    for number, row in enumerate(rows, start=1):
        if isinstance(row, str) or not isinstance(row, Sequence) or not all(isinstance(t, str) for t in row):
            raise ArgumentError(f"{name}: input {number} must be a list of tokens, not {shown(row)}")
    return [list(row) for row in rows]
