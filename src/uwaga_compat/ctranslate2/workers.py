"""Models with worker threads that process queued batches."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from uwaga.checkpoints.checkpoint import Task
from uwaga.errors import quoted
from uwaga.search.length_batching import length_batches
from uwaga.settings.options import check_integer
from uwaga_compat.ctranslate2.errors import ArgumentError, RunError, as_argument_errors
from uwaga_compat.ctranslate2.loading import LoadedModel, ModelArguments
from uwaga_compat.ctranslate2.results import AsyncResult

Result = TypeVar("Result")
QUEUED_PER_WORKER = 4
"""Default number of queued batches per worker."""
READ_AHEAD_BATCHES = 16
"""Number of batches for which inputs are read from an iterable and sorted by length together."""


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """Options for a model and its workers, with CTranslate2's names and defaults.

    Attributes:
        device_index: index of the GPU; 0 on the CPU.
        compute_type: a compute type of CTranslate2, or a mapping from devices to compute types.
        inter_threads: number of batches that run in parallel.
        intra_threads: number of CPU threads per batch; 0 for all cores.
        max_queued_batches: maximum number of queued batches, beyond which calls block; 0 for four per worker,
            -1 for no limit.
        flash_attention: only False is supported.
        tensor_parallel: only False is supported.
        files: the contents of the folder's files by name, as bytes or open files.
    """

    device_index: int | Sequence[int] = 0
    compute_type: str | Mapping[str, str] = "default"
    inter_threads: int = 1
    intra_threads: int = 0
    max_queued_batches: int = 0
    flash_attention: bool = False
    tensor_parallel: bool = False
    files: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        for name in ("flash_attention", "tensor_parallel"):
            if value := getattr(self, name):
                raise ArgumentError(f"{name}={quoted(value)}: not supported by uwaga; omit the option")
        with as_argument_errors():
            check_integer("inter_threads", self.inter_threads, 1)
            check_integer("intra_threads", self.intra_threads, 0)
            check_integer("max_queued_batches", self.max_queued_batches, -1)

    @property
    def max_queued(self) -> int:
        """Maximum number of queued batches; negative if there is no limit."""
        return self.max_queued_batches or QUEUED_PER_WORKER * self.inter_threads


class ModelWorkers:
    """A model with workers, each of which runs one batch at a time.

    Args:
        model_path: a CTranslate2 folder, or the folder or name of any model that uwaga runs.
        device: ``cpu``, ``cuda`` or ``auto``.
        **options: the fields of :class:`WorkerOptions` by name.

    Raises:
        ArgumentError: if an argument is invalid or not supported by uwaga.
        RunError: if there is no such model, or it is damaged or for another task.
        MissingExtraError: if the model requires a library that is not installed.
    """

    task: ClassVar[Task]

    def __init__(self, model_path: str | Path, device: str = "cpu", **options: Any) -> None:
        worker = WorkerOptions(**options)
        self._spec = ModelArguments.from_arguments(
            model_path, device, worker.device_index, worker.compute_type, worker.intra_threads, worker.files
        )
        self._workers, max_queued = worker.inter_threads, worker.max_queued
        self._slots = threading.BoundedSemaphore(max_queued + self._workers) if max_queued > 0 else None
        self._pool = ThreadPoolExecutor(self._workers, thread_name_prefix="uwaga")
        self._lock = threading.Lock()
        self._active = self._waiting = 0
        self._model: LoadedModel | None = self._spec.load(self.task)
        self._compute_type = self._model.compute_type

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._spec.name!r}, {self.device!r})"

    @property
    def device(self) -> str:
        """The device, ``cpu`` or ``cuda``."""
        return self._spec.device

    @property
    def device_index(self) -> list[int]:
        """A list that contains the index of the GPU, or 0 on the CPU."""
        return [self._spec.device_index]

    @property
    def compute_type(self) -> str:
        """The number format of the computation, by CTranslate2's name."""
        return self._compute_type

    @property
    def tensor_parallel(self) -> bool:
        """Always False, since uwaga does not support tensor parallelism."""
        return False

    @property
    def model_is_loaded(self) -> bool:
        """True if the model is in memory."""
        return self._model is not None

    @property
    def num_active_batches(self) -> int:
        """Number of queued and running batches."""
        return self._active

    @property
    def num_queued_batches(self) -> int:
        """Number of queued batches."""
        return self._waiting

    def unload_model(self, to_cpu: bool = False) -> None:
        """Free the memory of the model, unless batches are queued or running.

        Args:
            to_cpu: True to keep a model on the CPU in memory; not supported on CUDA.

        Raises:
            ArgumentError: if ``to_cpu`` is True on CUDA.
        """
        if to_cpu and self.device != "cpu":
            raise ArgumentError("to_cpu=True: models cannot be moved between devices")
        with self._lock:
            if not self._active and not to_cpu:
                self._model = None

    def load_model(self, keep_cache: bool = False) -> None:
        """Load the model again if it has been unloaded; ``keep_cache`` has no effect.

        Raises:
            RunError: if the model no longer exists.
        """
        if self._model is None:
            self._model = self._spec.load(self.task)

    def _loaded_model(self) -> LoadedModel:
        """Return the model, or raise RunError if it has been unloaded."""
        model = self._model
        if model is None:
            raise RunError("the model has been unloaded; call load_model() first")
        return model

    def _run(
        self,
        kind: type[AsyncResult[Result]],
        function: Callable[[LoadedModel, list[int]], list[Result]],
        lengths: Sequence[int],
        max_batch_size: int,
        batch_type: str,
    ) -> list[AsyncResult[Result]]:
        """Start the batches of a call and return an asynchronous result for each input.

        Args:
            kind: class of the results.
            function: returns the results of a batch, given the model and the indices of the inputs.
            lengths: number of tokens of each input, used for sorting.
            max_batch_size: maximum number of inputs or tokens per batch; 0 for a single batch.
            batch_type: ``examples`` or ``tokens``.
        """
        model = self._loaded_model()
        results: dict[int, AsyncResult[Result]] = {}
        for batch in _batches(lengths, max_batch_size, batch_type):
            future = self._submit(partial(function, model, batch))
            results |= {index: kind(future, position) for position, index in enumerate(batch)}
        return [results[index] for index in range(len(lengths))]

    def _submit(self, function: Callable[[], list[Result]]) -> Future[list[Result]]:
        if self._slots is not None:
            self._slots.acquire()

        def run() -> list[Result]:
            with self._lock:
                self._waiting -= 1
            try:
                return function()
            finally:
                with self._lock:
                    self._active -= 1
                if self._slots is not None:
                    self._slots.release()

        with self._lock:  # the batch starts at the end of this call, so that `unload_model` finds it active
            self._active += 1
            self._waiting += 1
            return self._pool.submit(run)


def _batches(lengths: Sequence[int], size: int, batch_type: str) -> Iterator[list[int]]:
    """Yield the indices of the inputs of each batch, in decreasing order of length."""
    check_batch_options(size, batch_type, 0)
    if not size:
        if lengths:
            yield list(range(len(lengths)))
    elif batch_type == "tokens":
        yield from length_batches(lengths, 1, size)
    else:
        order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
        for start in range(0, len(order), size):
            yield order[start : start + size]


def check_batch_options(size: int, batch_type: str, minimum: int) -> None:
    """Check the maximum size and the type of batches.

    Raises:
        ArgumentError: if the size is less than ``minimum``, or the type is not ``examples`` or ``tokens``.
    """
    with as_argument_errors():
        check_integer("max_batch_size", size, minimum)
    if batch_type not in ("examples", "tokens"):
        raise ArgumentError(f"batch_type={quoted(batch_type)}: invalid batch type; use examples or tokens")


def iterate_results(
    start: Callable[..., list[AsyncResult[Result]]],
    inputs: Sequence[Iterable[Sequence[str]]],
    max_batch_size: int,
    batch_type: str,
) -> Iterator[Result]:
    """Yield results in the order of the inputs, while further inputs are read and processed.

    Args:
        start: function that starts batches and returns their results, given a list of inputs from each
            iterable.
        inputs: the iterables, which must have equal lengths.
        max_batch_size: maximum number of inputs or tokens per batch.
        batch_type: ``examples`` or ``tokens``.

    Raises:
        ArgumentError: if the iterables have different lengths, or an argument is invalid.
    """
    check_batch_options(max_batch_size, batch_type, 1)
    waiting_results: deque[AsyncResult[Result]] = deque()
    size = (
        max_batch_size * READ_AHEAD_BATCHES
        if batch_type == "examples"
        else READ_AHEAD_BATCHES * READ_AHEAD_BATCHES
    )
    rows = itertools.zip_longest(*inputs)
    while chunk := list(itertools.islice(rows, size)):
        if any(tokens is None for row in chunk for tokens in row) and len(inputs) > 1:
            raise ArgumentError("the iterables do not have the same length")
        waiting_results.extend(start(*map(list, zip(*chunk, strict=True))))
        while waiting_results and waiting_results[0].done():
            yield waiting_results.popleft().result()
    while waiting_results:
        yield waiting_results.popleft().result()


def check_tokens(name: str, value: object) -> list[list[str]]:
    """Return a value after checking that it is an iterable of lists of tokens.

    Raises:
        ArgumentError: if the value has another type; the message names the argument and the input.
    """
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ArgumentError(f"{name} must be a list of lists of tokens, not {quoted(value)}")
    rows = list(value)
    for row_number, row in enumerate(rows, start=1):
        if (
            isinstance(row, str)
            or not isinstance(row, Sequence)
            or not all(isinstance(token, str) for token in row)
        ):
            raise ArgumentError(f"{name}: input {row_number} must be a list of tokens, not {quoted(row)}")
    return [list(row) for row in rows]
