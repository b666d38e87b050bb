"""Which workers a job gets: this process, processes beside it, or actors of a Ray cluster."""

from __future__ import annotations

from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING

from uwaga.engine.cpu import usable_cores
from uwaga.jobs.tables.local import OwnWorker, ProcessWorker
from uwaga.jobs.tables.pool import WorkerPool
from uwaga.jobs.tables.work import Identity, Work

if TYPE_CHECKING:
    from uwaga.jobs.tables.on_ray import RayCluster


class Workers:
    """Makes the workers of a job within its ``with`` block, when they are needed.

    Args:
        count: of workers; None is this process alone with all its cores, on a cluster one a core.
        ray: the address of a cluster, as :class:`uwaga.jobs.tables.on_ray.RayCluster` has it; None for none.
    """

    def __init__(self, count: int | None = None, ray: str | None = None) -> None:
        self._count, self._address = count, ray
        self._cluster: RayCluster | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._cluster is not None:
            self._cluster.close()

    def pool(self, work: Work, own: Identity) -> WorkerPool:
        """Workers that do this work, and are like this process.

        Raises:
            MissingExtraError: ray is asked for and not installed.
            SettingsError: there is no such cluster.
        """
        if self._address is not None:
            from uwaga.jobs.tables.on_ray import RayCluster

            cluster = self._cluster = RayCluster(self._address)
            lean = _with_threads(work, work.models.load.threads or 1)
            count = self._count or max(1, cluster.cores // lean.models.load.threads)
            return WorkerPool(lambda: cluster.worker(lean), count, own)
        if self._count is None:
            return WorkerPool(lambda: OwnWorker(work), 1, own)
        share = _with_threads(work, work.models.load.threads or max(1, usable_cores() // self._count))
        return WorkerPool(lambda: ProcessWorker(share), self._count, own)


def _with_threads(work: Work, threads: int) -> Work:
    """The same work by so many threads, on which no result depends."""
    return replace(work, models=replace(work.models, load=work.models.load._replace(threads=threads)))
