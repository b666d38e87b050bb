"""Workers on the nodes of a Ray cluster: actors that each load the models.

Ray Data is not used: it splits, merges and reorders blocks, and its blocks have no names by which a later run
could resume. These are plain actors that receive one block at a time.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import sys
from typing import Any

from uwaga.child_processes import safe_import_path
from uwaga.errors import MissingExtraError, ModelError, SettingsError, UwagaError, reason
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

POLL_SECONDS = 2.0
"""Seconds between two checks of whether the job was closed."""


class RayTranslator:
    """The class of the actors: each loads the models on its node and translates tasks."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self._spec = TranslationSpec.from_dict(spec)
        self._translator: TaskTranslator | None = None

    def load(self) -> dict[str, Any]:
        """Load the models, and return the fingerprint of the worker or an error."""
        try:
            self._translator = TaskTranslator(self._spec)
            return {"answer": tuple(worker_fingerprint(self._spec))}
        except UwagaError as error:
            return _failure(error)

    def translate(self, *task: Any) -> dict[str, Any]:
        """Translate the texts of a task, and return the translations or an error."""
        assert self._translator is not None
        try:
            return {"answer": [tuple(text) for text in self._translator.translate(Task(*task))]}
        except UwagaError as error:
            return _failure(error)


class RayCluster:
    """A connection to a Ray cluster, which is started if the address is ``local``.

    Args:
        address: ``auto`` for the cluster on this machine or in RAY_ADDRESS, ``local`` for a new one on the
            cores of this machine, or ``HOST:PORT``.
    """

    def __init__(self, address: str) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage reports
        try:
            import ray
        except ImportError:
            raise MissingExtraError("--ray needs ray: pip install 'uwaga[batch]' on every node") from None
        self._ray: Any = ray
        self._owns_connection = not ray.is_initialized()
        if self._owns_connection:
            try:
                with safe_import_path(), contextlib.chdir(sys.prefix):  # Ray's workers import from there
                    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
            except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
                raise SettingsError(
                    f"no Ray cluster at {address}: {reason(error)}; start one with `ray start --head`, or "
                    "use --ray local for this machine alone"
                ) from None

    @property
    def cores(self) -> int:
        """The number of CPU cores of all nodes."""
        return int(self._ray.cluster_resources().get("CPU", 1))

    def worker(self, spec: TranslationSpec) -> RayWorker:
        """Start a worker on a node with as many free cores as its models have threads."""
        return RayWorker(self._ray, spec)

    def close(self) -> None:
        """Leave the cluster, and stop it if this object started it."""
        if self._owns_connection:
            self._ray.shutdown()


class RayWorker:
    """A worker that sends its tasks to an actor of the cluster."""

    def __init__(self, ray: Any, spec: TranslationSpec) -> None:
        self._ray = ray
        self._is_closed = False
        # The pool replaces a lost actor. If Ray restarted it, its task would wait until a node has free
        # cores.
        actor_class = ray.remote(num_cpus=max(1, spec.load.threads), max_restarts=0, max_task_retries=0)(
            RayTranslator
        )
        self._actor = actor_class.remote(spec.to_dict())

    def load(self) -> WorkerFingerprint:
        return WorkerFingerprint.from_values(self._answer(self._actor.load.remote()))

    def translate(self, task: Task) -> list[TranslatedText]:
        return [TranslatedText(*values) for values in self._answer(self._actor.translate.remote(*task))]

    def close(self) -> None:
        self._is_closed = True
        try:
            self._ray.kill(self._actor)
        except Exception:  # the actor or Ray itself has ended
            return

    def _answer(self, reference: Any) -> Any:
        errors = self._ray.exceptions
        while True:
            try:
                answer = self._ray.get(reference, timeout=POLL_SECONDS)
                break
            except errors.GetTimeoutError:
                if self._is_closed:
                    raise WorkerLostError("the job has ended") from None
            except errors.RayTaskError as error:
                raise ModelError(f"a worker failed: {reason(error.cause or error)}") from None
            except errors.RayError as error:
                raise WorkerLostError(reason(error)) from None
        if "error" in answer:
            kind, message = answer["error"]
            raise unpack_error([kind, f"{answer['node']}: {message}"])
        return answer["answer"]


def _failure(error: UwagaError) -> dict[str, Any]:
    return {"error": pack_error(error), "node": f"node {socket.gethostname()}"}
