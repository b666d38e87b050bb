"""Works on the jobs of documents, one after the other, beside the requests of a process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator

from uwaga.documents import DocumentOptions, document_job, job_texts
from uwaga.errors import UwagaError
from uwaga.server.api_errors import StorageError, api_error
from uwaga.server.document_jobs import ClaimedJob, DocumentJobs, JobStopped
from uwaga.server.document_order import DocumentOrder

LOG = logging.getLogger("uwaga.server")
POLL = 1.0
"""Seconds until a job is noticed that another process has taken in or has left."""
LATER = frozenset({"busy", "stopping"})
"""Codes of problems that pass."""
SAMPLE = 4000
"""Characters of a document by which its language is found out."""

Run = Callable[[ClaimedJob], Awaitable[None]]
"""Translates a job's document into its output; tells its progress by :meth:`ClaimedJob.progress`."""
Charge = Callable[[DocumentOrder, int], Awaitable[None]]
"""Counts the characters of a document; raises where they are too many for its owner."""


class DocumentWorker:
    """Takes jobs and runs them.

    Args:
        jobs: where they lie.
        run: does the work.
        charge: told of a document's characters once, before it is translated.
        most: jobs at once.
    """

    def __init__(self, jobs: DocumentJobs, run: Run, charge: Charge, most: int = 1) -> None:
        self.jobs, self._run, self._charge, self._most = jobs, run, charge, most
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._current: set[ClaimedJob] = set()
        self._stopped = False

    def start(self) -> None:
        """Begin, in the running event loop."""
        self._tasks = [asyncio.create_task(self._work()) for _ in range(self._most)]

    def wake(self) -> None:
        """Look for a job at once."""
        self._wake.set()

    async def stop(self) -> None:
        """Leave the running jobs after the texts that are being translated; others go on with them."""
        self._stopped = True
        for one in self._current:
            one.stopping = True
        self._wake.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _work(self) -> None:
        while not self._stopped:
            try:
                claimed = await asyncio.to_thread(self.jobs.take)
            except UwagaError as error:
                LOG.error("documents", extra={"reason": str(error)})
                claimed = None
            if claimed is not None:
                self._current.add(claimed)
                await self._one(claimed)
                self._current.discard(claimed)
                continue
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), POLL)

    async def _one(self, claimed: ClaimedJob) -> None:
        claimed.stopping = self._stopped
        extra: dict[str, object] = {"document": claimed.id, "format": claimed.order.format}
        try:
            if claimed.characters is None:
                await self._count(claimed)
            await self._translated(claimed)
        except asyncio.CancelledError:
            await asyncio.to_thread(claimed.leave)
            raise
        except Exception as error:
            if _stopped(error):
                await asyncio.to_thread(claimed.leave)
                return
            problem = api_error(_disk(error) or error)
            if problem.code in LATER:
                await asyncio.to_thread(claimed.leave)
                await asyncio.sleep(POLL)
                return
            message = problem.message.replace(str(claimed.document), claimed.order.name)
            message = message.replace(str(claimed.output), claimed.order.name)
            await asyncio.to_thread(claimed.fail, message, problem.code)
            if problem.status == 500:
                LOG.error("document failed", extra=extra, exc_info=error)
            else:
                LOG.info("document refused", extra={**extra, "code": problem.code})
        else:
            await asyncio.to_thread(claimed.finish)
            LOG.info("document done", extra=extra)

    async def _count(self, claimed: ClaimedJob) -> None:
        characters = await asyncio.to_thread(_characters, claimed)
        await asyncio.to_thread(claimed.count, characters)
        await self._charge(claimed.order, characters)

    async def _translated(self, claimed: ClaimedJob) -> None:
        """Go on where an earlier worker was; from the beginning where its work is of no use any more."""
        resumed = claimed.resumed
        try:
            await self._run(claimed)
        except Exception as error:
            if not resumed or _stopped(error) or api_error(error).status >= 500:
                raise
            await asyncio.to_thread(claimed.begin_anew)
            await self._run(claimed)


def document_sample(claimed: ClaimedJob) -> str:
    """The first texts of a document.

    Raises:
        DataError, MissingExtraError: it is not what its format says, or a library is missing.
    """
    found: list[str] = []
    size = 0
    for text in _texts(claimed):
        found.append(text)
        size += len(text)
        if size >= SAMPLE:
            break
    return "\n".join(found)[:SAMPLE]


def _characters(claimed: ClaimedJob) -> int:
    return sum(map(len, _texts(claimed)))


def _texts(claimed: ClaimedJob) -> Iterator[str]:
    order = claimed.order
    options = DocumentOptions(source=order.source, target=order.target)
    return job_texts(document_job(claimed.document, claimed.output, order.format, options))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error, what it was raised from or while handling."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _stopped(error: BaseException) -> bool:
    return any(isinstance(one, JobStopped) for one in _causes(error))


def _disk(error: BaseException) -> StorageError | None:
    """What a full disk of the server's is to whoever sent a document."""
    if any(isinstance(one, OSError) for one in _causes(error)):
        return StorageError("the server cannot keep the translation: its disk is full or refuses")
    return None
