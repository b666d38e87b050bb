"""Documents that are being translated: jobs in a folder that all workers share and that outlives them.

A job is a folder. It is filled under ``new``, waits and is worked on under ``open``, and ends under
``closed``; each step is one rename. Who works on it holds the lock of its file ``lock``, which the system
lets go of when the process dies: another worker then takes it up and goes on from the journal beside
``output``.
"""

from __future__ import annotations

import contextlib
import fcntl
import hmac
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO

from uwaga.documents.journal import journal_of
from uwaga.server.api_errors import NotReadyError, NotStoredError, QuotaError
from uwaga.server.document_order import DocumentOrder, DocumentStatus, State, key_sum
from uwaga.server.job_files import (
    CANCELLED,
    DOCUMENT,
    NO_DOCUMENT,
    ORDER,
    OUTPUT,
    STATE,
    JobNotes,
    is_locked,
    lock_of,
    read_file,
    read_notes,
    told_of_disk,
    write_file,
)

JOB_ID = re.compile(r"[0-9a-f]{32}")
NEW, OPEN, CLOSED, GONE = "new", "open", "closed", "gone"
ATTEMPTS = 5
"""How often a job is taken up that no worker gets on with: one that kills them must not do so for ever."""
PACE = 0.2
"""Seconds between two notes of how far a job is."""
REST = 30.0
"""Seconds until this process looks again at a job that it could not end."""

FILLING = 60.0
"""Seconds after which a folder under ``new`` whose lock is free is a killed worker's."""
SWEPT = 30.0
"""Seconds between two looks for what is too old."""


@dataclass(frozen=True)
class DocumentLimits:
    """``most``: jobs that are kept, ``most_of_owner``: of one owner; ``age``: seconds that they are kept."""

    most: int = 1000
    most_of_owner: int = 100
    age: float = 24 * 3600.0


NO_LIMITS = DocumentLimits()


class JobStopped(Exception):  # noqa: N818 (it is no error: the job is to go on elsewhere, or nowhere)
    """A worker is to leave a job: the server stops, or the owner has removed the document."""


class DocumentJobs:
    """The jobs in a folder.

    Args:
        folder: of this server and its workers alone; made if there is none.
        limits: what is kept.

    Raises:
        StorageError: the folder cannot be made.
    """

    def __init__(self, folder: Path, limits: DocumentLimits = NO_LIMITS) -> None:
        self._folder, self._limits = folder, limits
        self._orders: dict[str, DocumentOrder] = {}
        self._resting: dict[str, float] = {}
        self._swept = -SWEPT
        with told_of_disk():
            for name in (NEW, OPEN, CLOSED, GONE):
                (folder / name).mkdir(parents=True, exist_ok=True)

    def add(self, order: DocumentOrder, content: IO[bytes]) -> str:
        """Keep a document that is to be translated; returns the job's id.

        Raises:
            QuotaError: the owner, or the server, has too many.
            StorageError: it cannot be kept; nothing of it is left then.
        """
        self._sweep_seldom()
        job_id = secrets.token_hex(16)
        fresh = self._folder / NEW / job_id
        with told_of_disk():
            try:
                fresh.mkdir()
                with lock_of(fresh):
                    with (fresh / DOCUMENT).open("xb") as file:
                        shutil.copyfileobj(content, file, 1 << 20)
                        file.flush()
                        os.fsync(file.fileno())
                    write_file(fresh / ORDER, asdict(order))
                    with self._counting():
                        self._check_room(order.owner)
                        fresh.rename(self._folder / OPEN / job_id)
            except BaseException:
                shutil.rmtree(fresh, ignore_errors=True)
                raise
        return job_id

    def status(self, owner: str, job_id: str, key: str | None = None) -> DocumentStatus:
        """How far a job is.

        Args:
            owner: whose it is.
            job_id: which.
            key: the document's own key, None where it has none.

        Raises:
            NotStoredError: there is no such job of this owner and key.
            StorageError: it cannot be looked at.
        """
        return self._found(owner, job_id, key)[0]

    def result(self, owner: str, job_id: str, key: str | None = None) -> Path:
        """The translated document, which stays until the job is removed.

        Raises:
            NotStoredError: as :meth:`status`.
            NotReadyError: it is not translated, or could not be.
        """
        status, place = self._found(owner, job_id, key)
        if status.state != "done":
            why = (
                f"it could not be translated: {status.error}" if status.error else "it is not translated yet"
            )
            raise NotReadyError(why)
        return place / OUTPUT

    def remove(self, owner: str, job_id: str, key: str | None = None) -> None:
        """Remove a job, whatever its state; one that is being worked on is left by its worker soon.

        Raises:
            NotStoredError: as :meth:`status`.
        """
        _, place = self._found(owner, job_id, key)
        with told_of_disk():
            if place.parent.name == OPEN:
                (place / CANCELLED).touch()
                try:
                    with lock_of(place):
                        self._throw(place)
                except BlockingIOError:
                    return  # its worker sees the mark
            else:
                self._throw(place)

    def take(self) -> ClaimedJob | None:
        """A job that nobody works on, now this process's; the owner with the fewest running comes first."""
        self._sweep_seldom()
        waiting: list[tuple[int, str]] = []
        running: dict[str, int] = {}
        with told_of_disk():
            for entry in os.scandir(self._folder / OPEN):
                with contextlib.suppress(FileNotFoundError, NotStoredError):
                    owner = self._order(Path(entry.path)).owner
                    if is_locked(Path(entry.path)):
                        running[owner] = running.get(owner, 0) + 1
                    else:
                        waiting.append(((Path(entry.path) / ORDER).stat().st_mtime_ns, entry.name))
            places = [self._folder / OPEN / name for _, name in sorted(waiting)]
            for place in sorted(places, key=lambda one: running.get(self._order(one).owner, 0)):
                if self._resting.get(place.name, 0.0) > time.monotonic():
                    continue
                claimed = self._claim(place)
                if claimed is not None:
                    return claimed
        return None

    def waiting(self) -> int:
        """Jobs that are not ended."""
        with told_of_disk():
            return sum(1 for _ in os.scandir(self._folder / OPEN))

    def sweep(self) -> None:
        """Remove what is too old, what killed workers have left, and what nobody wants any more."""
        self._swept = time.monotonic()
        now = time.time()
        for parent in (CLOSED, OPEN, NEW, GONE):
            with contextlib.suppress(OSError):
                for entry in list(os.scandir(self._folder / parent)):
                    place = Path(entry.path)
                    with contextlib.suppress(OSError):
                        age = now - entry.stat().st_ctime
                        old = age > (FILLING if parent == NEW else self._limits.age)
                        if parent == GONE or (parent == CLOSED and old):
                            self._throw(place)
                        elif old or (place / CANCELLED).exists():
                            with lock_of(place):
                                self._throw(place)
        if len(self._orders) > 4 * self._limits.most:
            self._orders.clear()

    def _sweep_seldom(self) -> None:
        if time.monotonic() - self._swept > SWEPT:
            self.sweep()

    def _claim(self, place: Path) -> ClaimedJob | None:
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(lock_of(place))
            except (BlockingIOError, FileNotFoundError):
                return None
            if not place.exists():  # ended between the look and the lock
                return None
            if (place / CANCELLED).exists():
                self._throw(place)
                return None
            notes = read_notes(place)
            written = _written(place)
            attempts = 1 if written > notes.begun else notes.attempts + 1
            notes = replace(notes, attempts=attempts, begun=written, since=time.time())
            claimed = ClaimedJob(self, place, self._order(place), notes, stack.pop_all())
        if notes.attempts > ATTEMPTS:
            claimed.fail("its translation was begun again and again and got nowhere", "gave_up")
            return None
        claimed.note()
        return claimed

    def close(self, place: Path) -> None:
        """End a job that is this process's."""
        try:
            place.rename(self._folder / CLOSED / place.name)
        except OSError:
            self._resting[place.name] = time.monotonic() + REST

    def throw(self, place: Path) -> None:
        """Remove a job that is this process's."""
        with contextlib.suppress(OSError):
            self._throw(place)

    def _throw(self, place: Path) -> None:
        self._orders.pop(place.name, None)
        gone = self._folder / GONE / secrets.token_hex(16)
        if place.parent.name == GONE:
            gone = place
        else:
            place.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)

    def _found(self, owner: str, job_id: str, key: str | None) -> tuple[DocumentStatus, Path]:
        job_id = job_id.lower()
        if not JOB_ID.fullmatch(job_id):
            raise NotStoredError(NO_DOCUMENT)
        with told_of_disk():
            for parent in (OPEN, CLOSED, OPEN, CLOSED):  # it may be on its way
                place = self._folder / parent / job_id
                try:
                    order = self._order(place)
                    if not _is_of(order, owner, key) or (place / CANCELLED).exists():
                        break
                    return self._status(place, order), place
                except FileNotFoundError:
                    continue
        raise NotStoredError(NO_DOCUMENT)

    def _status(self, place: Path, order: DocumentOrder) -> DocumentStatus:
        notes, created = read_notes(place), (place / ORDER).stat().st_mtime
        closed = place.parent.name == CLOSED
        state: State = "running" if notes.attempts else "queued"
        error, code = notes.error, notes.code
        if closed:
            state = "done" if (place / OUTPUT).exists() else "failed"
            if state == "failed" and not error:
                error, code = "the server could not keep it: its disk is full", "storage_full"
        place.stat()  # a folder that has moved meanwhile is looked at again where it is now
        return DocumentStatus(
            place.name,
            order,
            state,
            notes.done,
            notes.of,
            notes.characters,
            error,
            code,
            notes.since,
            created,
        )

    def _order(self, place: Path) -> DocumentOrder:
        known = self._orders.get(place.name)
        if known is None:
            found = read_file(place / ORDER)
            try:
                known = DocumentOrder(**{**found, "glossaries": tuple(found["glossaries"])})
            except (TypeError, KeyError):
                raise NotStoredError(NO_DOCUMENT) from None
            self._orders[place.name] = known
        else:
            (place / ORDER).stat()
        return known

    def _check_room(self, owner: str) -> None:
        every = [Path(one.path) for name in (OPEN, CLOSED) for one in os.scandir(self._folder / name)]
        if len(every) >= self._limits.most:
            raise QuotaError("the server keeps no more documents now; try again later")
        own = 0
        for place in every:
            with contextlib.suppress(FileNotFoundError):
                own += self._order(place).owner == owner
        if own >= self._limits.most_of_owner:
            raise QuotaError(f"there are {own} documents of yours; delete one first")

    @contextlib.contextmanager
    def _counting(self) -> Iterator[None]:
        handle = os.open(self._folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


class ClaimedJob:
    """A job that is this process's until it is ended, left or the process dies."""

    def __init__(
        self,
        jobs: DocumentJobs,
        place: Path,
        order: DocumentOrder,
        notes: JobNotes,
        lock: contextlib.ExitStack,
    ) -> None:
        self.id, self.order = place.name, order
        self.document, self.output = place / DOCUMENT, place / OUTPUT
        self._jobs, self._place, self._notes, self._lock = jobs, place, notes, lock
        self._noted = 0.0
        self.stopping = False

    @property
    def characters(self) -> int | None:
        """The document's characters, None where nobody has counted them."""
        return self._notes.characters

    @property
    def resumed(self) -> bool:
        """Whether an earlier worker has left a journal."""
        return journal_of(self.output).exists()

    def count(self, characters: int) -> None:
        """Note the document's characters."""
        self._notes = replace(self._notes, characters=characters)
        self.note()

    def progress(self, done: int, of: int) -> None:
        """Note how many texts are done, and of how many.

        Raises:
            JobStopped: the job is to be left.
        """
        self._notes = replace(self._notes, done=done, of=of)
        if time.monotonic() - self._noted >= PACE:
            self.note()
        if self.stopping or (self._place / CANCELLED).exists():
            raise JobStopped

    def note(self) -> None:
        """Write down how far the job is, as well as the disk lets it."""
        self._noted = time.monotonic()
        with contextlib.suppress(OSError):
            write_file(self._place / STATE, asdict(self._notes))

    def begin_anew(self) -> None:
        """Forget what an earlier worker has done."""
        journal_of(self.output).unlink(missing_ok=True)

    def finish(self) -> None:
        """End the job: the translation is whole."""
        self._notes = replace(self._notes, done=max(self._notes.done, self._notes.of))
        self._end()

    def fail(self, error: str, code: str) -> None:
        """End the job without a translation."""
        self._notes = replace(self._notes, error=error or "it could not be translated", code=code)
        with contextlib.suppress(OSError):
            self.output.unlink(missing_ok=True)
            self.begin_anew()
        self._end()

    def leave(self) -> None:
        """Let another worker go on with it; one that its owner has removed goes."""
        if (self._place / CANCELLED).exists():
            self._jobs.throw(self._place)
        else:
            self._notes = replace(self._notes, attempts=max(0, self._notes.attempts - 1))
            self.note()
        self._lock.close()

    def _end(self) -> None:
        if (self._place / CANCELLED).exists():
            self._jobs.throw(self._place)
        else:
            self.note()
            with contextlib.suppress(OSError):
                self.document.unlink(missing_ok=True)
            self._jobs.close(self._place)
        self._lock.close()


def _is_of(order: DocumentOrder, owner: str, key: str | None) -> bool:
    same = hmac.compare_digest(order.owner.encode("utf-8", "replace"), owner.encode("utf-8", "replace"))
    return hmac.compare_digest(order.key, key_sum(key) if key else "") and same


def _written(place: Path) -> int:
    """Bytes of the journal of a job: who gets on with it, adds to it."""
    try:
        return journal_of(place / OUTPUT).stat().st_size
    except FileNotFoundError:
        return 0
