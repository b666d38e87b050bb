"""Workers on the nodes of a Ray cluster, each an actor with a model of its own.

Ray Data cuts, joins and reorders blocks as it likes, and has no name for one that a later job could
go on with; so these are plain actors, which are given a block each, and no more than they have in hand.
"""

from __future__ import annotations

import logging
import os
import socket
from typing import Any

from uwaga.errors import MissingExtraError, ModelError, SettingsError, UwagaError, reason
from uwaga.jobs.tables.pool import WorkerLostError
from uwaga.jobs.tables.rows import TranslatedCell
from uwaga.jobs.tables.work import (
    BatchTranslator,
    Identity,
    Task,
    Work,
    identity,
    packed_error,
    unpacked_error,
)

POLL = 2.0  # seconds between looks at whether the job still runs


class RayTranslator:
    """The actor's side: the models, on whatever node it came to."""

    def __init__(self, work: dict[str, Any]) -> None:
        self._work = Work.from_dict(work)
        self._translator: BatchTranslator | None = None

    def begin(self) -> dict[str, Any]:
        """Load the models and say what they are."""
        try:
            self._translator = BatchTranslator(self._work)
            return {"answer": tuple(identity(self._work))}
        except UwagaError as error:
            return {"error": packed_error(error), "where": _node()}

    def translate(self, number: int, rows: list[int], texts: list[str]) -> dict[str, Any]:
        """Translate the texts of a block."""
        assert self._translator is not None
        try:
            return {"answer": [tuple(cell) for cell in self._translator.translate(Task(number, rows, texts))]}
        except UwagaError as error:
            return {"error": packed_error(error), "where": _node()}


class RayCluster:
    """A Ray cluster that this process has joined, or begun for itself alone.

    Args:
        address: ``auto`` for the one that runs here or that RAY_ADDRESS names, ``local`` for one of this
            machine's cores, or ``HOST:PORT``.

    Raises:
        MissingExtraError: ray is not installed.
        SettingsError: there is no such cluster.
    """

    def __init__(self, address: str) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is told to anybody
        try:
            import ray
        except ImportError:
            raise MissingExtraError("--ray needs ray: pip install 'uwaga[batch]' on every node") from None
        self._ray: Any = ray
        self._joined = not ray.is_initialized()
        if self._joined:
            try:
                ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
            except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
                raise SettingsError(
                    f"no Ray cluster at {address}: {reason(error)}; `ray start --head` begins one, "
                    "--ray local one of this machine alone"
                ) from None

    @property
    def cores(self) -> int:
        """Cores of all its nodes."""
        return int(self._ray.cluster_resources().get("CPU", 1))

    def worker(self, work: Work) -> RayWorker:
        """A worker on some node with as many free cores as its models have threads."""
        return RayWorker(self._ray, work)

    def close(self) -> None:
        """Leave the cluster; one that was begun here ends."""
        if self._joined:
            self._ray.shutdown()


class RayWorker:
    """The job's side of an actor."""

    def __init__(self, ray: Any, work: Work) -> None:
        self._ray = ray
        self._closed = False
        # A lost one is not begun again by Ray, which would hold its block until it finds room.
        kind = ray.remote(num_cpus=max(1, work.models.load.threads), max_restarts=0, max_task_retries=0)(
            RayTranslator
        )
        self._actor = kind.remote(work.to_dict())

    def begin(self) -> Identity:
        return Identity.of(self._answer(self._actor.begin.remote()))

    def translate(self, task: Task) -> list[TranslatedCell]:
        return [TranslatedCell(*values) for values in self._answer(self._actor.translate.remote(*task))]

    def close(self) -> None:
        self._closed = True
        try:
            self._ray.kill(self._actor)
        except Exception:  # it is gone, or Ray is
            return

    def _answer(self, reference: Any) -> Any:
        errors = self._ray.exceptions
        while True:
            try:
                answer = self._ray.get(reference, timeout=POLL)
                break
            except errors.GetTimeoutError:
                if self._closed:
                    raise WorkerLostError("the job has ended") from None
            except errors.RayTaskError as error:
                raise ModelError(f"a worker failed: {reason(error.cause or error)}") from None
            except errors.RayError as error:
                raise WorkerLostError(reason(error)) from None
        if "error" in answer:
            kind, message = answer["error"]
            raise unpacked_error([kind, f"{answer['where']}: {message}"])
        return answer["answer"]


def _node() -> str:
    return f"node {socket.gethostname()}"
