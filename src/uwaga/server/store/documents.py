"""Documents to translate: their bytes in a folder, their state in the database.

A document is a folder ``documents/HASH`` with the upload ``document``, the translation ``output`` and, while
it is being translated, the journal from which another worker resumes. The worker holds the lock of the
folder's file ``lock``, which the system releases however the process ends. The row is what counts: a folder
without one is removed. Row and folder are named by a hash of the document's id, so that neither the log nor a
backup has what reaches the document.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import re
import secrets
import shutil
import time
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Literal

import sqlalchemy as sql

from uwaga.files.handles import make_private
from uwaga.files.lock import file_lock
from uwaga.files.resume import journal_path
from uwaga.server.api_errors import NotReadyError, NotStoredError, QuotaError, StorageError
from uwaga.server.store.database import DOCUMENTS, make_folder, owner_key, storage_errors
from uwaga.server.store.glossary import CONTROLS

DOCUMENT, OUTPUT, LOCK = "document", "output", "lock"
DOCUMENT_ID = re.compile(r"[0-9a-f]{32}")
NO_DOCUMENT = "no such document"
LONGEST_NAME = 200
ATTEMPTS = 5
"""Attempts without progress before a document is given up: it may be what kills the workers."""
PACE = 0.2
"""Minimum seconds between two writes of a document's progress."""
SWEEP = 30.0
"""Seconds between two removals of old documents and abandoned folders."""
ABANDONED = 60.0
"""Age in seconds at which a folder without a row is what a killed process has left."""

State = Literal["queued", "running", "done", "failed"]
ENDED = ("done", "failed")
Row = sql.Row[Any]


@dataclass(frozen=True)
class DocumentLimits:
    """Limits of stored documents.

    Attributes:
        total: maximum number of documents.
        per_owner: maximum number of one owner's documents.
        age: seconds until an ended or forgotten document is deleted.
    """

    total: int = 1000
    per_owner: int = 100
    age: float = 24 * 3600.0


NO_LIMITS = DocumentLimits()


@dataclass(frozen=True)
class DocumentSpec:
    """A document and how to translate it.

    Attributes:
        owner: whose it is.
        name: the client's file name, only ever shown.
        format: name in the registry of document formats.
        target: target language.
        source: source language; None to detect it.
        glossaries: ids of stored glossaries.
        key: hash of the document's own key; empty if it has none.
        linked: its own key alone reaches it, in the URL of its download, without its owner's.
        characters: the owner's limit of characters in total; 0 for none.
    """

    owner: str
    name: str
    format: str
    target: str
    source: str | None = None
    glossaries: tuple[str, ...] = ()
    key: str = ""
    linked: bool = False
    characters: int = 0


@dataclass(frozen=True)
class DocumentStatus:
    """State and progress of a document.

    Attributes:
        id: the id of the document.
        spec: how it is translated.
        state: ``queued``, ``running``, ``done`` or ``failed``.
        done: translated segments.
        of: segments in total; 0 until they are counted.
        characters: the number of characters of the document; None until they are counted.
        error: message if it failed.
        code: error code if it failed.
        started: when a worker took it, in seconds since 1970.
    """

    id: str
    spec: DocumentSpec
    state: State
    done: int = 0
    of: int = 0
    characters: int | None = None
    error: str = ""
    code: str = ""
    started: float = 0.0


class DocumentStopped(Exception):  # noqa: N818 (not an error: another worker resumes, or the owner deleted it)
    """A worker must stop: the server is shutting down, or the owner has deleted the document."""


class DocumentStore:
    """Documents of all owners.

    Args:
        engine: the database.
        folder: the folder of the documents' files, shared by all processes that share the database.
        limits: limits on the stored data.
    """

    def __init__(self, engine: sql.Engine, folder: Path, limits: DocumentLimits = NO_LIMITS) -> None:
        self._engine, self._folder, self._limits = engine, folder, limits
        self._swept = -SWEEP
        make_folder(folder, "state")
        for parent, folders, files in os.walk(folder):  # those of earlier versions
            for name in (*folders, *files):
                make_private(Path(parent, name))

    def add(self, spec: DocumentSpec, content: IO[bytes]) -> str:
        """Store a document to translate, and return its id.

        Where the owner, or the server, has too many documents, the oldest that was downloaded makes room.
        """
        self._sweep_if_due()
        document_id = secrets.token_hex(16)
        row_id = stored_id(document_id)
        place, row = self._folder / row_id, {"spec": json.dumps(asdict(spec)), "state": "queued"}
        row |= {"id": row_id, "owner": owner_key(spec.owner)}
        with storage_errors():
            try:
                place.mkdir(0o700)
                with (place / DOCUMENT).open("xb") as file:
                    make_private(place / DOCUMENT)
                    shutil.copyfileobj(content, file, 1 << 20)
                    file.flush()
                    os.fsync(file.fileno())
                with self._engine.begin() as connection:
                    connection.execute(DOCUMENTS.insert().values(created=time.time(), **row))
                    displaced = self._make_room(connection, owner_key(spec.owner))
            except BaseException:
                shutil.rmtree(place, ignore_errors=True)
                raise
        for other in displaced:
            self._remove_files(other)
        return document_id

    def status(self, owner: str | None, document_id: str, key: str | None = None) -> DocumentStatus:
        """Return a document's state and progress.

        Args:
            owner: whose it is; None for a document that its own key alone reaches.
            document_id: the id of the document.
            key: the document's own key; None if it has none.
        """
        row, spec = self._find(owner, document_id, key)
        progress = row.state, row.done, row.total, row.characters, row.error, row.code, row.started
        return DocumentStatus(document_id.lower(), spec, *progress)

    def result(self, owner: str | None, document_id: str, key: str | None = None) -> Path:
        """Return the file of a translated document, and note that it was downloaded."""
        status = self.status(owner, document_id, key)
        if status.state != "done":
            reason = f"the translation failed: {status.error}" if status.error else "not translated yet"
            raise NotReadyError(reason)
        row_id = stored_id(status.id)
        self.update(row_id, downloaded=True)
        return self._folder / row_id / OUTPUT

    def remove(
        self, owner: str | None, document_id: str, key: str | None = None, *, any_key: bool = False
    ) -> None:
        """Delete a document in any state; a worker that translates it stops soon.

        Args:
            owner: as of :meth:`status`, as are the id and the key.
            document_id: the id of the document.
            key: the document's own key.
            any_key: delete it whatever its own key, for an owner who has shown a key of the server.
        """
        row, _ = self._find(owner, document_id, key, any_key)
        with storage_errors(), self._engine.begin() as connection:
            connection.execute(DOCUMENTS.delete().where(DOCUMENTS.c.id == row.id))
        self._remove_files(row.id)

    def take(self) -> ClaimedDocument | None:
        """Claim a document that no process translates; the owner with the fewest running comes first."""
        self._sweep_if_due()
        columns = DOCUMENTS.c.id, DOCUMENTS.c.owner, DOCUMENTS.c.state
        query = sql.select(*columns).where(DOCUMENTS.c.state.not_in(ENDED)).order_by(DOCUMENTS.c.created)
        with storage_errors(), self._engine.connect() as connection:
            rows = connection.execute(query).all()
        locked = {row.id for row in rows if row.state == "running" and _is_locked(self._folder / row.id)}
        running: dict[str, int] = {}
        for row in rows:
            running[row.owner] = running.get(row.owner, 0) + (row.id in locked)
        waiting = [row for row in rows if row.id not in locked]
        for row in sorted(waiting, key=lambda row: running[row.owner]):
            claimed = self._claim(row.id)
            if claimed is not None:
                return claimed
        return None

    def waiting(self) -> int:
        """Return the number of documents that are queued or running."""
        query = sql.select(sql.func.count()).select_from(DOCUMENTS).where(DOCUMENTS.c.state.not_in(ENDED))
        with storage_errors(), self._engine.connect() as connection:
            return int(connection.execute(query).scalar() or 0)

    def sweep(self) -> None:
        """Delete documents that are too old, and folders left by killed processes."""
        self._swept = time.monotonic()
        oldest = time.time() - self._limits.age
        query = sql.select(DOCUMENTS.c.id, DOCUMENTS.c.state, DOCUMENTS.c.created, DOCUMENTS.c.ended)
        with storage_errors():
            with self._engine.connect() as connection:
                rows = {row.id: row for row in connection.execute(query)}
            for row in rows.values():
                ended = row.state in ENDED
                if (row.ended if ended else row.created) < oldest and not _is_locked(self._folder / row.id):
                    with self._engine.begin() as connection:
                        connection.execute(DOCUMENTS.delete().where(DOCUMENTS.c.id == row.id))
                    self._remove_files(row.id)
            for entry in list(os.scandir(self._folder)):
                with contextlib.suppress(OSError):
                    if entry.name not in rows and time.time() - entry.stat().st_mtime > ABANDONED:
                        self._remove_files(entry.name)

    def _sweep_if_due(self) -> None:
        if time.monotonic() - self._swept > SWEEP:
            self.sweep()

    def _make_room(self, connection: sql.Connection, owner: str) -> list[str]:
        """Delete downloaded documents beyond the limits, and return their ids."""
        displaced: list[str] = []
        every, own = sql.true(), DOCUMENTS.c.owner == owner
        for whose, limit, message in (
            (
                own,
                self._limits.per_owner,
                "you have {} documents; delete one, or wait until one is translated",
            ),
            (every, self._limits.total, "the server stores no more documents now; try again later"),
        ):
            count = connection.execute(
                sql.select(sql.func.count()).select_from(DOCUMENTS).where(whose)
            ).scalar()
            excess = (count or 0) - limit
            if excess <= 0:
                continue
            free = sql.or_(DOCUMENTS.c.downloaded, DOCUMENTS.c.state == "failed")
            query = (
                sql.select(DOCUMENTS.c.id).where(whose, own, free).order_by(DOCUMENTS.c.ended).limit(excess)
            )
            ids = [row.id for row in connection.execute(query)]
            if len(ids) < excess:
                raise QuotaError(message.format(limit))
            connection.execute(DOCUMENTS.delete().where(DOCUMENTS.c.id.in_(ids)))
            displaced += ids
        return displaced

    def _claim(self, row_id: str) -> ClaimedDocument | None:
        place = self._folder / row_id
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(_locked(place))
            except (BlockingIOError, FileNotFoundError):
                return None
            row = self._row(row_id)
            if row is None or row.state in ENDED:
                return None
            written = _journal_size(place)
            attempts = 1 if written > row.journal else row.attempts + 1
            started = {"started": time.time(), "attempts": attempts, "journal": written}
            if not self.update(row_id, state="running", **started):
                return None
            claimed = ClaimedDocument(self, place, _spec(row), row.characters, stack.pop_all())
        if claimed.output.exists():  # translated, but its process ended before it could say so
            claimed.finish()
            return None
        if attempts > ATTEMPTS:
            claimed.fail(f"the translation made no progress in {ATTEMPTS} attempts", "gave_up")
            return None
        return claimed

    def _find(
        self, owner: str | None, document_id: str, key: str | None, any_key: bool = False
    ) -> tuple[Row, DocumentSpec]:
        document_id = document_id.lower()
        row = self._row(stored_id(document_id)) if DOCUMENT_ID.fullmatch(document_id) else None
        if row is None:
            raise NotStoredError(NO_DOCUMENT)
        spec = _spec(row)
        allowed = spec.linked if owner is None else hmac.compare_digest(row.owner, owner_key(owner))
        if not (allowed and (any_key or hmac.compare_digest(spec.key, key_hash(key) if key else ""))):
            raise NotStoredError(NO_DOCUMENT)
        return row, spec

    def _row(self, row_id: str) -> Row | None:
        query = sql.select(DOCUMENTS).where(DOCUMENTS.c.id == row_id)
        with storage_errors(), self._engine.connect() as connection:
            return connection.execute(query).first()

    def update(self, row_id: str, **values: object) -> bool:
        """Change a row; return whether it exists."""
        update = DOCUMENTS.update().where(DOCUMENTS.c.id == row_id).values(**values)
        with storage_errors(), self._engine.begin() as connection:
            return bool(connection.execute(update).rowcount)

    def _remove_files(self, row_id: str) -> None:
        """Remove a folder without a row, unless a worker still has it: that removes it."""
        with contextlib.suppress(OSError), _locked(self._folder / row_id):
            shutil.rmtree(self._folder / row_id, ignore_errors=True)


class ClaimedDocument:
    """A document that this process translates, until it is finished, failed or released.

    Attributes:
        id: of its row and its folder, which does not reach the document: the log may have it.
        spec: how to translate it.
        document: file of the upload.
        output: file of the translation.
        characters: the number of characters of the document; None until :meth:`count`.
        stopping: set to make :meth:`progress` raise.
    """

    def __init__(
        self,
        store: DocumentStore,
        place: Path,
        spec: DocumentSpec,
        characters: int | None,
        lock: contextlib.ExitStack,
    ) -> None:
        self.id, self.spec, self.characters = place.name, spec, characters
        self.document, self.output = place / DOCUMENT, place / OUTPUT
        self._store, self._place, self._lock = store, place, lock
        self._written = 0.0
        self._progress = (0, 0)
        self.stopping = False

    @property
    def resumed(self) -> bool:
        """True if an earlier worker has left a journal."""
        return journal_path(self.output).exists()

    def count(self, characters: int) -> None:
        """Store the document's number of characters."""
        self.characters = characters
        self._store.update(self.id, characters=characters)

    def progress(self, done: int, of: int) -> None:
        """Store the number of translated segments and their total."""
        self._progress, exists = (done, of), True
        if time.monotonic() - self._written >= PACE:
            self._written = time.monotonic()
            with contextlib.suppress(StorageError):  # progress is for the client to see, no more
                exists = self._store.update(self.id, done=done, total=of)
        if self.stopping or not exists:
            raise DocumentStopped

    def restart(self) -> None:
        """Discard what an earlier worker has done."""
        journal_path(self.output).unlink(missing_ok=True)

    def finish(self) -> None:
        """End with the translation in :attr:`output`."""
        make_private(self.output)
        done, of = self._progress
        self._end(state="done", done=max(done, of), total=of)

    def fail(self, error: str, code: str) -> None:
        """End without a translation."""
        with contextlib.suppress(OSError):
            self.output.unlink(missing_ok=True)
            self.restart()
        self._end(state="failed", error=error or "it could not be translated", code=code)

    def release(self) -> None:
        """Let another worker resume; a deleted document is removed."""
        done, total = self._progress
        attempts = DOCUMENTS.c.attempts - 1  # this one has not failed
        with self._lock, contextlib.suppress(StorageError):
            if not self._store.update(self.id, state="queued", attempts=attempts, done=done, total=total):
                shutil.rmtree(self._place, ignore_errors=True)

    def _end(self, **values: object) -> None:
        with self._lock, contextlib.suppress(StorageError):  # still running then, and tried again
            if self._store.update(self.id, ended=time.time(), **values):
                self.document.unlink(missing_ok=True)
            else:
                shutil.rmtree(self._place, ignore_errors=True)


def stored_id(document_id: str) -> str:
    """Return the id of a document's row and folder."""
    return hashlib.sha256(document_id.encode()).hexdigest()[:32]


def key_hash(key: str) -> str:
    """Return what is stored of a document's own key."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def shown_name(name: str) -> str:
    """Return an untrusted file name without folders and control characters, to show and never to open."""
    name = "".join(char for char in re.split(r"[/\\]", name)[-1] if char not in CONTROLS)
    name = name.encode("utf-8", "replace").decode().strip(" .")
    stem, dot, suffix = name.rpartition(".")
    if len(name) > LONGEST_NAME:
        return f"{stem[: LONGEST_NAME - 40]}{dot}{suffix[:40]}"
    return name or "document"


def _spec(row: Row) -> DocumentSpec:
    fields = json.loads(row.spec)
    return DocumentSpec(**{**fields, "glossaries": tuple(fields["glossaries"])})


def _journal_size(place: Path) -> int:
    """Bytes of a document's journal: a worker that makes progress adds to it."""
    try:
        return journal_path(place / OUTPUT).stat().st_size
    except FileNotFoundError:
        return 0


def _locked(place: Path) -> AbstractContextManager[None]:
    """Hold a document's lock."""
    return file_lock(place / LOCK, wait=False)


def _is_locked(place: Path) -> bool:
    try:
        with _locked(place):
            return False
    except OSError as error:
        return isinstance(error, BlockingIOError)
