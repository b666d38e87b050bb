"""Store of documents to translate, with their content in a folder and their state in the database.

A document has a folder ``documents/HASH`` with the uploaded file ``document``, the translation ``output``
and, during translation, a journal from which another worker can resume. The worker holds a lock on the file
``lock`` in the folder, which the operating system releases when the process ends. A folder without a row in
the database is removed. The row and the folder are named by a hash of the document's id, so that logs and
backups do not give access to the document.
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
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Literal

import sqlalchemy as sql

from uwaga.files.handles import make_private
from uwaga.files.lock import file_lock
from uwaga.files.resume import journal_path
from uwaga.translator.memories import DEFAULT_THRESHOLD
from uwaga_server.api_errors import NotReadyError, NotStoredError, QuotaError, StorageError
from uwaga_server.store.database import DOCUMENTS, make_folder, owner_key, storage_errors
from uwaga_server.store.glossary import CONTROL_CHARACTERS

DOCUMENT_FILE, OUTPUT_FILE, LOCK_FILE, UNTRANSLATED_FILE = "document", "output", "lock", "untranslated"
DOCUMENT_ID = re.compile(r"[0-9a-f]{32}")
NO_DOCUMENT = "no such document"
MAX_NAME_LENGTH = 200
MAX_ATTEMPTS = 5
"""Maximum number of attempts to translate a document without progress; a document may crash the worker."""
PROGRESS_INTERVAL = 0.2
"""Minimum seconds between two writes of a document's progress."""
SWEEP_INTERVAL = 30.0
"""Seconds between two removals of old documents and abandoned folders."""
ABANDONED_AGE = 60.0
"""Age in seconds at which a folder without a row, left by a killed process, is removed."""

State = Literal["queued", "running", "done", "failed"]
ENDED_STATES = ("done", "failed")
Row = sql.Row[Any]


@dataclass(frozen=True)
class DocumentLimits:
    """Limits on stored documents.

    Attributes:
        total: maximum number of documents.
        per_owner: maximum number of documents of one owner.
        age: seconds until a document is deleted, counted from the end of its translation, or from the upload
            if the translation has not ended.
    """

    total: int = 1000
    per_owner: int = 100
    age: float = 24 * 3600.0


NO_LIMITS = DocumentLimits()


@dataclass(frozen=True)
class DocumentSpec:
    """A document and the options for its translation.

    Attributes:
        owner: the owner of the document.
        name: the file name sent by the client, for display only.
        format: name of the document format in the registry of formats.
        target: target language.
        source: source language; None to detect it.
        glossaries: ids of stored glossaries.
        key: hash of the document's key; empty if it has none.
        linked: whether the document's key, in the download URL, gives access without the owner's API key.
        characters: the owner's limit on the total number of characters; 0 for no limit.
        memory_id: id of a stored translation memory; empty if none is used.
        memory_threshold: minimum similarity in percent of the memory's pairs to use.
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
    memory_id: str = ""
    memory_threshold: float = DEFAULT_THRESHOLD


@dataclass(frozen=True)
class DocumentStatus:
    """State and progress of the translation of a document.

    Attributes:
        id: the id of the document.
        spec: the document and the options for its translation.
        state: ``queued``, ``running``, ``done`` or ``failed``.
        translated: number of translated segments.
        total: total number of segments; 0 until they have been counted.
        characters: number of characters of the document; None until they have been counted.
        error: the error message if the translation failed.
        code: the error code if the translation failed.
        started: time at which a worker claimed the document, in seconds since 1970.
        untranslated: after the translation, the number of untranslated texts for each reason.
    """

    id: str
    spec: DocumentSpec
    state: State
    translated: int = 0
    total: int = 0
    characters: int | None = None
    error: str = ""
    code: str = ""
    started: float = 0.0
    untranslated: Mapping[str, int] = field(default_factory=dict)


class DocumentStopped(Exception):  # noqa: N818 (not an error: another worker resumes, or the owner deleted it)
    """Raised in a worker that must stop, since the server shuts down or the document was deleted."""


class DocumentStore:
    """Store of the documents of all owners.

    Args:
        engine: the database.
        folder: the folder of the documents' files, shared by all processes that share the database.
        limits: limits on stored documents.
    """

    def __init__(self, engine: sql.Engine, folder: Path, limits: DocumentLimits = NO_LIMITS) -> None:
        self._engine, self._folder, self._limits = engine, folder, limits
        self._last_sweep = -SWEEP_INTERVAL
        make_folder(folder, "state")
        for parent, folders, files in os.walk(folder):  # created by earlier versions
            for name in (*folders, *files):
                make_private(Path(parent, name))

    def add(self, spec: DocumentSpec, content: IO[bytes]) -> str:
        """Store a document for translation and return its id.

        If the owner or the server has too many documents, the owner's oldest downloaded or failed document is
        deleted.
        """
        self._sweep_if_due()
        document_id = secrets.token_hex(16)
        row_id = stored_id(document_id)
        folder, row = self._folder / row_id, {"spec": json.dumps(asdict(spec)), "state": "queued"}
        row |= {"id": row_id, "owner": owner_key(spec.owner)}
        with storage_errors():
            try:
                folder.mkdir(0o700)
                with (folder / DOCUMENT_FILE).open("xb") as file:
                    make_private(folder / DOCUMENT_FILE)
                    shutil.copyfileobj(content, file, 1 << 20)
                    file.flush()
                    os.fsync(file.fileno())
                with self._engine.begin() as connection:
                    connection.execute(DOCUMENTS.insert().values(created=time.time(), **row))
                    removed_ids = self._make_room(connection, owner_key(spec.owner))
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
        for removed_id in removed_ids:
            self._remove_files(removed_id)
        return document_id

    def status(self, owner: str | None, document_id: str, key: str | None = None) -> DocumentStatus:
        """Return the state and progress of a document.

        Args:
            owner: the owner; None to access the document with its key only.
            document_id: the id of the document.
            key: the key of the document; None if it has none.
        """
        row, spec = self._find_document(owner, document_id, key)
        progress = row.state, row.done, row.total, row.characters, row.error, row.code, row.started
        untranslated: dict[str, int] = {}
        if row.state == "done":
            with contextlib.suppress(OSError, ValueError):
                untranslated = json.loads((self._folder / row.id / UNTRANSLATED_FILE).read_text("utf-8"))
        return DocumentStatus(document_id.lower(), spec, *progress, untranslated)

    def result(self, owner: str | None, document_id: str, key: str | None = None) -> Path:
        """Return the file of a translated document and mark it as downloaded."""
        status = self.status(owner, document_id, key)
        if status.state != "done":
            reason = f"the translation failed: {status.error}" if status.error else "not translated yet"
            raise NotReadyError(reason)
        row_id = stored_id(status.id)
        self.update(row_id, downloaded=True)
        return self._folder / row_id / OUTPUT_FILE

    def remove(
        self, owner: str | None, document_id: str, key: str | None = None, *, any_key: bool = False
    ) -> None:
        """Delete a document in any state; a worker that is translating the document stops soon.

        Args:
            owner: the owner, as for :meth:`status`.
            document_id: the id of the document.
            key: the key of the document, as for :meth:`status`.
            any_key: whether to allow access without the document's key, for an owner with an API key.
        """
        row, _ = self._find_document(owner, document_id, key, any_key)
        with storage_errors(), self._engine.begin() as connection:
            connection.execute(DOCUMENTS.delete().where(DOCUMENTS.c.id == row.id))
        self._remove_files(row.id)

    def claim_next(self) -> ClaimedDocument | None:
        """Claim and return the next document to translate; None if no document is waiting.

        Documents of owners with the fewest running documents come first.
        """
        self._sweep_if_due()
        columns = DOCUMENTS.c.id, DOCUMENTS.c.owner, DOCUMENTS.c.state
        query = (
            sql.select(*columns).where(DOCUMENTS.c.state.not_in(ENDED_STATES)).order_by(DOCUMENTS.c.created)
        )
        with storage_errors(), self._engine.connect() as connection:
            rows = connection.execute(query).all()
        locked_ids = {row.id for row in rows if row.state == "running" and _is_locked(self._folder / row.id)}
        running_counts: dict[str, int] = {}
        for row in rows:
            running_counts[row.owner] = running_counts.get(row.owner, 0) + (row.id in locked_ids)
        waiting_rows = [row for row in rows if row.id not in locked_ids]
        for row in sorted(waiting_rows, key=lambda row: running_counts[row.owner]):
            document = self._claim(row.id)
            if document is not None:
                return document
        return None

    def count_unfinished(self) -> int:
        """Return the number of documents that are queued or running."""
        query = (
            sql.select(sql.func.count()).select_from(DOCUMENTS).where(DOCUMENTS.c.state.not_in(ENDED_STATES))
        )
        with storage_errors(), self._engine.connect() as connection:
            return int(connection.execute(query).scalar() or 0)

    def sweep(self) -> None:
        """Delete folders left by killed processes, and documents that are too old."""
        self._last_sweep = time.monotonic()
        oldest_time = time.time() - self._limits.age
        query = sql.select(DOCUMENTS.c.id, DOCUMENTS.c.state, DOCUMENTS.c.created, DOCUMENTS.c.ended)
        with storage_errors():
            with self._engine.connect() as connection:
                rows = {row.id: row for row in connection.execute(query)}
            for row in rows.values():
                is_ended = row.state in ENDED_STATES
                if (row.ended if is_ended else row.created) < oldest_time and not _is_locked(
                    self._folder / row.id
                ):
                    with self._engine.begin() as connection:
                        connection.execute(DOCUMENTS.delete().where(DOCUMENTS.c.id == row.id))
                    self._remove_files(row.id)
            for entry in list(os.scandir(self._folder)):
                with contextlib.suppress(OSError):
                    if entry.name not in rows and time.time() - entry.stat().st_mtime > ABANDONED_AGE:
                        self._remove_files(entry.name)

    def _sweep_if_due(self) -> None:
        if time.monotonic() - self._last_sweep > SWEEP_INTERVAL:
            self.sweep()

    def _make_room(self, connection: sql.Connection, owner: str) -> list[str]:
        """Delete rows of an owner's downloaded or failed documents to keep the limits, and return the ids."""
        removed_ids: list[str] = []
        all_documents, of_owner = sql.true(), DOCUMENTS.c.owner == owner
        for condition, limit, message in (
            (
                of_owner,
                self._limits.per_owner,
                "you already have {} documents; delete one, or download a translated one",
            ),
            (all_documents, self._limits.total, "the server has no room for more documents; try again later"),
        ):
            count = connection.execute(
                sql.select(sql.func.count()).select_from(DOCUMENTS).where(condition)
            ).scalar()
            excess = (count or 0) - limit
            if excess <= 0:
                continue
            is_deletable = sql.or_(DOCUMENTS.c.downloaded, DOCUMENTS.c.state == "failed")
            query = (
                sql.select(DOCUMENTS.c.id)
                .where(condition, of_owner, is_deletable)
                .order_by(DOCUMENTS.c.ended)
                .limit(excess)
            )
            ids = [row.id for row in connection.execute(query)]
            if len(ids) < excess:
                raise QuotaError(message.format(limit))
            connection.execute(DOCUMENTS.delete().where(DOCUMENTS.c.id.in_(ids)))
            removed_ids += ids
        return removed_ids

    def _claim(self, row_id: str) -> ClaimedDocument | None:
        folder = self._folder / row_id
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(_hold_lock(folder))
            except (BlockingIOError, FileNotFoundError):
                return None
            row = self._find_row(row_id)
            if row is None or row.state in ENDED_STATES:
                return None
            journal_size = _journal_size(folder)
            attempts = 1 if journal_size > row.journal else row.attempts + 1
            changes = {"started": time.time(), "attempts": attempts, "journal": journal_size}
            if not self.update(row_id, state="running", **changes):
                return None
            document = ClaimedDocument(self, folder, _parse_spec(row), row.characters, stack.pop_all())
        if document.output.exists():  # translated, but the process ended before it updated the row
            document.finish()
            return None
        if attempts > MAX_ATTEMPTS:
            document.fail(f"the translation made no progress in {MAX_ATTEMPTS} attempts", "gave_up")
            return None
        return document

    def _find_document(
        self, owner: str | None, document_id: str, key: str | None, any_key: bool = False
    ) -> tuple[Row, DocumentSpec]:
        document_id = document_id.lower()
        row = self._find_row(stored_id(document_id)) if DOCUMENT_ID.fullmatch(document_id) else None
        if row is None:
            raise NotStoredError(NO_DOCUMENT)
        spec = _parse_spec(row)
        is_allowed = spec.linked if owner is None else hmac.compare_digest(row.owner, owner_key(owner))
        if not (is_allowed and (any_key or hmac.compare_digest(spec.key, key_hash(key) if key else ""))):
            raise NotStoredError(NO_DOCUMENT)
        return row, spec

    def _find_row(self, row_id: str) -> Row | None:
        query = sql.select(DOCUMENTS).where(DOCUMENTS.c.id == row_id)
        with storage_errors(), self._engine.connect() as connection:
            return connection.execute(query).first()

    def update(self, row_id: str, **values: object) -> bool:
        """Update columns of a row, and return whether the row exists."""
        update = DOCUMENTS.update().where(DOCUMENTS.c.id == row_id).values(**values)
        with storage_errors(), self._engine.begin() as connection:
            return bool(connection.execute(update).rowcount)

    def _remove_files(self, row_id: str) -> None:
        """Remove the folder of a deleted row, unless it is locked by a worker, which will remove it."""
        with contextlib.suppress(OSError), _hold_lock(self._folder / row_id):
            shutil.rmtree(self._folder / row_id, ignore_errors=True)


class ClaimedDocument:
    """A document that this process translates, until the document is finished, failed or released.

    Attributes:
        id: the id of the row and the folder, which may be logged since it gives no access to the document.
        spec: the document and the options for its translation.
        document: the uploaded file.
        output: the file of the translation.
        characters: number of characters of the document; None until :meth:`count` is called.
        stopping: if set to True, :meth:`progress` raises :class:`DocumentStopped`.
    """

    def __init__(
        self,
        store: DocumentStore,
        folder: Path,
        spec: DocumentSpec,
        characters: int | None,
        lock: contextlib.ExitStack,
    ) -> None:
        self.id, self.spec, self.characters = folder.name, spec, characters
        self.document, self.output = folder / DOCUMENT_FILE, folder / OUTPUT_FILE
        self._store, self._folder, self._lock = store, folder, lock
        self._last_write = 0.0
        self._progress = (0, 0)
        self.stopping = False

    @property
    def is_resumed(self) -> bool:
        """True if an earlier worker left a journal."""
        return journal_path(self.output).exists()

    def count(self, characters: int) -> None:
        """Store the number of characters of the document."""
        self.characters = characters
        self._store.update(self.id, characters=characters)

    def progress(self, translated: int, total: int) -> None:
        """Store the number of translated segments and the total number of segments.

        Raises:
            DocumentStopped: the server is shutting down, or the document was deleted.
        """
        self._progress, exists = (translated, total), True
        if time.monotonic() - self._last_write >= PROGRESS_INTERVAL:
            self._last_write = time.monotonic()
            with contextlib.suppress(StorageError):  # progress is only for the client's information
                exists = self._store.update(self.id, done=translated, total=total)
        if self.stopping or not exists:
            raise DocumentStopped

    def restart(self) -> None:
        """Discard the journal of earlier workers."""
        journal_path(self.output).unlink(missing_ok=True)

    def finish(self, untranslated: Mapping[str, int] | None = None) -> None:
        """Mark the document as done, with the translation in :attr:`output`.

        Args:
            untranslated: number of untranslated texts for each reason.
        """
        make_private(self.output)
        if untranslated:
            (self._folder / UNTRANSLATED_FILE).write_text(json.dumps(untranslated), "utf-8")
            make_private(self._folder / UNTRANSLATED_FILE)
        translated_count, total = self._progress
        self._record_end(state="done", done=max(translated_count, total), total=total)

    def fail(self, error: str, code: str) -> None:
        """Mark the document as failed, with an error message and an error code."""
        with contextlib.suppress(OSError):
            self.output.unlink(missing_ok=True)
            self.restart()
        self._record_end(state="failed", error=error or "it could not be translated", code=code)

    def release(self) -> None:
        """Release the document to other workers, or remove its files if it was deleted."""
        translated_count, total = self._progress
        attempts = DOCUMENTS.c.attempts - 1  # this attempt has not failed
        with self._lock, contextlib.suppress(StorageError):
            if not self._store.update(
                self.id, state="queued", attempts=attempts, done=translated_count, total=total
            ):
                shutil.rmtree(self._folder, ignore_errors=True)

    def _record_end(self, **values: object) -> None:
        with self._lock, contextlib.suppress(StorageError):  # the row stays "running", so it is retried
            if self._store.update(self.id, ended=time.time(), **values):
                self.document.unlink(missing_ok=True)
            else:
                shutil.rmtree(self._folder, ignore_errors=True)


def stored_id(document_id: str) -> str:
    """Return the id of a document's row and folder, which is a hash of the document's id."""
    return hashlib.sha256(document_id.encode()).hexdigest()[:32]


def key_hash(key: str) -> str:
    """Return the stored hash of a document's key."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def display_name(name: str) -> str:
    """Return an untrusted file name, shortened and without folders and control characters, for display."""
    name = "".join(char for char in re.split(r"[/\\]", name)[-1] if char not in CONTROL_CHARACTERS)
    name = name.encode("utf-8", "replace").decode().strip(" .")
    stem, dot, suffix = name.rpartition(".")
    if len(name) > MAX_NAME_LENGTH:
        return f"{stem[: MAX_NAME_LENGTH - 40]}{dot}{suffix[:40]}"
    return name or "document"


def _parse_spec(row: Row) -> DocumentSpec:
    fields = json.loads(row.spec)
    return DocumentSpec(**{**fields, "glossaries": tuple(fields["glossaries"])})


def _journal_size(folder: Path) -> int:
    """Return the size in bytes of a document's journal; 0 if there is none."""
    try:
        return journal_path(folder / OUTPUT_FILE).stat().st_size
    except FileNotFoundError:
        return 0


def _hold_lock(folder: Path) -> AbstractContextManager[None]:
    """Return a context manager that holds the lock of a document, and fails if it is already held."""
    return file_lock(folder / LOCK_FILE, wait=False)


def _is_locked(folder: Path) -> bool:
    try:
        with _hold_lock(folder):
            return False
    except OSError as error:
        return isinstance(error, BlockingIOError)
