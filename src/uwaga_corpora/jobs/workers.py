"""Workers that translate the tasks of a job: a local thread, local processes, or actors of a Ray cluster.

A pool gives each idle worker a task. If a worker is lost, because its process was killed or its node failed,
its task is given to another worker.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from uwaga.child_processes import python_command
from uwaga.engine.cpu import usable_cores
from uwaga.errors import DataError, ModelError, UwagaError
from uwaga_corpora.jobs.translation import (
    Task,
    TaskTranslator,
    TranslatedText,
    TranslationSpec,
    WorkerFingerprint,
    WorkerLostError,
    pack_error,
    unpack_error,
    worker_fingerprint,
)

if TYPE_CHECKING:
    from uwaga_corpora.jobs.ray_cluster import RayCluster

MAX_ATTEMPTS = 5
"""If this number of workers is lost on one task, the task is assumed to be the cause."""
MAX_STARTS = 3
"""If this number of consecutive workers is lost before they are ready, the job fails."""
READY_TIMEOUT = 1800.0
"""Seconds to wait while no worker is ready."""


class Worker(Protocol):
    """A worker, which translates tasks.

    The methods raise :class:`WorkerLostError` if the worker has ended.
    """

    def load(self) -> WorkerFingerprint:
        """Load the models and return the worker's fingerprint."""
        ...

    def translate(self, task: Task) -> list[TranslatedText]:
        """Return the translations (texts,) of a task."""
        ...

    def close(self) -> None:
        """End the worker, even in the middle of a task."""
        ...


class LocalWorker:
    """A worker in a thread of this process, with all threads of the engine."""

    def __init__(self, spec: TranslationSpec, on_texts: Callable[[int], None]) -> None:
        self._spec, self._on_texts = spec, on_texts
        self._translator: TaskTranslator | None = None

    def load(self) -> WorkerFingerprint:
        self._translator = TaskTranslator(self._spec)
        return worker_fingerprint(self._spec)

    def translate(self, task: Task) -> list[TranslatedText]:
        assert self._translator is not None
        return self._translator.translate(task, self._on_texts)

    def close(self) -> None:
        """Do nothing: its thread ends with its task."""


class ProcessWorker:
    """A worker in a child process, which reads and writes lines of JSON and ends with this process."""

    def __init__(self, spec: TranslationSpec) -> None:
        self._spec = spec
        self._process = subprocess.Popen(  # noqa: S603 (this module)
            python_command("-m", "uwaga_corpora.jobs.workers"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is handled by this process
        )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def load(self) -> WorkerFingerprint:
        return WorkerFingerprint.from_values(self._request(self._spec.to_dict()))

    def translate(self, task: Task) -> list[TranslatedText]:
        return [TranslatedText(*values) for values in self._request(task._asdict())]

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _request(self, request: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
            answer = json.loads(line) if line.endswith(b"\n") else None
        except (OSError, ValueError) as error:
            raise WorkerLostError(str(error)) from None
        if answer is None:
            raise WorkerLostError(f"process {self.pid} ended with status {self._process.wait()}")
        if "error" in answer:
            raise unpack_error(answer["error"])
        return answer["answer"]


def _serve() -> None:
    """Answer each line of standard input: first the specification, then tasks."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keep the output of libraries out of the answers
    translator: TaskTranslator | None = None
    for line in sys.stdin.buffer:
        request = json.loads(line)
        try:
            if translator is None:
                spec = TranslationSpec.from_dict(request)
                translator = TaskTranslator(spec)
                answer: object = {"answer": worker_fingerprint(spec)}
            else:
                answer = {"answer": translator.translate(Task(**request))}
        except UwagaError as error:
            answer = {"error": pack_error(error)}
        output.write(json.dumps(answer).encode() + b"\n")
        output.flush()


class TaskResult(NamedTuple):
    """The number of a task and the translations (texts,) of its texts."""

    number: int
    translations: list[TranslatedText]


class WorkerPool:
    """Workers that take tasks as they become idle; each worker is supervised by a thread.

    Args:
        start_worker: returns a worker whose models are not loaded yet; called again when a worker is lost.
        count: number of workers.
        expected_fingerprint: the fingerprint that each worker must have.
    """

    def __init__(
        self, start_worker: Callable[[], Worker], count: int, expected_fingerprint: WorkerFingerprint
    ) -> None:
        self.count = count
        self._start, self._expected = start_worker, expected_fingerprint
        self._tasks: queue.Queue[tuple[Task, int] | None] = queue.Queue()
        self._results: queue.Queue[TaskResult | BaseException] = queue.Queue()
        self._workers: dict[int, Worker] = {}
        self._ready = 0
        self._lock = threading.Lock()
        self._is_closed = False
        self._threads = [
            threading.Thread(target=self._supervise, args=(index,), daemon=True, name=f"uwaga-batch-{index}")
            for index in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def put(self, task: Task) -> None:
        """Queue a task."""
        self._tasks.put((task, 1))

    def get_result(self) -> TaskResult:
        """Wait for a result and return it; results may come in any order."""
        idle_seconds = 0.0
        while True:
            try:
                result = self._results.get(timeout=1.0)
            except queue.Empty:
                idle_seconds = 0.0 if self._ready else idle_seconds + 1.0
                if idle_seconds >= READY_TIMEOUT:
                    raise ModelError(
                        f"no worker has been ready for {READY_TIMEOUT / 60:.0f} minutes: does a node have "
                        "the resources for one? Run the same command to resume"
                    ) from None
                continue
            if isinstance(result, BaseException):
                raise result
            return result

    def close(self) -> None:
        """End all workers."""
        with self._lock:
            self._is_closed = True
            workers = list(self._workers.values())
        for _ in self._threads:
            self._tasks.put(None)
        for worker in workers:
            worker.close()
        for thread in self._threads:
            thread.join(timeout=5.0)

    def _supervise(self, index: int) -> None:
        """Keep one worker running; replace it when it is lost."""
        failed_starts = 0
        try:
            while not self._is_closed:
                try:
                    self._run(index)
                    return
                except WorkerLostError as error:
                    if self._is_closed:
                        return
                    failed_starts = 0 if error.ready else failed_starts + 1
                    if failed_starts >= MAX_STARTS:
                        raise ModelError(
                            f"{failed_starts} consecutive workers were lost before they were ready: {error}"
                        ) from None
        except BaseException as error:  # raised again by get_result
            self._results.put(error)

    def _run(self, index: int) -> None:
        """Run one worker until there is no more work or it is lost."""
        worker = self._start()
        with self._lock:
            self._workers[index] = worker
        try:
            self._expected.check(worker.load())
            with self._lock:
                self._ready += 1
            try:
                self._work(worker)
            finally:
                with self._lock:
                    self._ready -= 1
        finally:
            with self._lock:
                self._workers.pop(index, None)
            worker.close()

    def _work(self, worker: Worker) -> None:
        while (entry := self._tasks.get()) is not None:
            task, attempt = entry
            try:
                self._results.put(TaskResult(task.number, worker.translate(task)))
            except WorkerLostError as error:
                if attempt >= MAX_ATTEMPTS:
                    raise DataError(
                        f"{attempt} workers were lost on {task.unit}s {task.rows[0]} to {task.rows[-1]} "
                        f"of part {task.number}: does each worker have enough memory?"
                    ) from None
                self._tasks.put((task, attempt + 1))
                raise WorkerLostError(str(error), ready=True) from None


class Workers:
    """A context manager that starts the workers of a job when they are needed.

    Args:
        count: number of processes, or of actors with ``ray``; None for one worker in this process with all
            cores, or one actor per core.
        ray: address of a cluster, as for :class:`uwaga_corpora.jobs.ray_cluster.RayCluster`; None to use no
            cluster.
        on_texts: called by the thread of a worker in this process with the number of texts translated since
            the last call.
    """

    def __init__(
        self,
        count: int | None = None,
        ray: str | None = None,
        on_texts: Callable[[int], None] = lambda count: None,
    ) -> None:
        self._count, self._address, self._on_texts = count, ray, on_texts
        self._cluster: RayCluster | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._cluster is not None:
            self._cluster.close()

    def pool(self, spec: TranslationSpec, fingerprint: WorkerFingerprint) -> WorkerPool:
        """Start the workers, which must have the fingerprint of this process, and return their pool."""
        threads = spec.load.threads
        if self._address is not None:
            from uwaga_corpora.jobs.ray_cluster import RayCluster

            cluster = self._cluster = RayCluster(self._address)
            actor_spec = spec.with_threads(threads or 1)
            count = self._count or max(1, cluster.cores // actor_spec.load.threads)
            return WorkerPool(lambda: cluster.worker(actor_spec), count, fingerprint)
        if self._count is None:
            return WorkerPool(lambda: LocalWorker(spec, self._on_texts), 1, fingerprint)
        process_spec = spec.with_threads(threads or max(1, usable_cores() // self._count))
        return WorkerPool(lambda: ProcessWorker(process_spec), self._count, fingerprint)


if __name__ == "__main__":
    _serve()
