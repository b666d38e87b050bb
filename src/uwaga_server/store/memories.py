"""Store of translation memories as files in a folder, and of the jobs that import and export them."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal

from uwaga.errors import DataError, UwagaError
from uwaga.files.atomic import new_file
from uwaga.languages.codes import base_language
from uwaga_memory.files.file import TranslationFile
from uwaga_memory.files.tmx import read_tmx, write_tmx
from uwaga_memory.store import AddedCounts, Memory, Pair
from uwaga_server.api_errors import ApiError, NotStoredError

SUFFIXES = (".uwm", ".memory", ".sqlite")
"""File name extensions of translation memories."""
CLIENTS_FOLDER, JOBS_FOLDER = "clients", "jobs"
"""Names of the folders for clients' memories and for jobs."""
ID_NAMESPACE = uuid.UUID("6d2f2ac5-70a6-4b2a-9d5e-5f2e9b1f7c31")
"""UUID namespace for the ids of memories whose file name is not a UUID."""
NO_MEMORY = "no such translation memory"
NO_JOB = "no such job"
UPLOAD_SECONDS, DOWNLOAD_SECONDS = 3600.0, 86400.0
"""Numbers of seconds for which the URL of an upload and the URL of a download are valid."""
MAX_OPEN_MEMORIES = 64
"""Maximum number of memories that a process keeps open."""
MAX_JOBS = 1000
"""Maximum number of stored jobs."""
TMX_HEAD_BYTES = 1 << 18
"""Number of bytes at the beginning of a TMX file that are searched for its languages."""
SOURCE_LANGUAGE = re.compile(
    rb"<header\b[^<>]{0,4000}?\bsrclang\s*=\s*[\"']([\w*-]{1,40})[\"']", re.IGNORECASE
)
VARIANT_LANGUAGE = re.compile(
    rb"<tuv\b[^<>]{0,1000}?\b(?:xml:)?lang\s*=\s*[\"']([\w-]{1,40})[\"']", re.IGNORECASE
)
JobStatus = Literal["awaiting_input", "processing", "completed", "downloaded", "failed", "expired"]


@dataclass(frozen=True)
class StoredMemory:
    """A memory in the store.

    Attributes:
        id: the id of the memory, a UUID.
        path: the file of the memory.
        shared: whether all clients may use the memory, but not change it.
    """

    id: str
    path: Path
    shared: bool


@dataclass
class MemoryJob:
    """A job that imports or exports a memory.

    Attributes:
        id: the id of the job, a UUID.
        owner: the owner of the memory.
        operation: ``import`` or ``export``.
        token: the secret token in the URL of the upload or download.
        created: time of creation, in seconds since 1970.
        updated: time of the last change, in seconds since 1970.
        status: the status of the job.
        memory: id of the memory; empty for an import that has not been processed.
        name: for an import, the name of the new memory.
        content_type: for an import, the media type of the file.
        content_length: for an import, the size of the file in bytes.
        pairs: for an export, the number of exported pairs, which shows whether the export is up to date.
        skipped: for an import, the number of skipped units.
        error: the reason why the job failed; empty if it has not failed.
    """

    id: str
    owner: str
    operation: Literal["import", "export"]
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    created: float = field(default_factory=time.time)
    updated: float = field(default_factory=time.time)
    status: JobStatus = "awaiting_input"
    memory: str = ""
    name: str = ""
    content_type: str = "application/xml"
    content_length: int = 0
    pairs: int = 0
    skipped: int = 0
    error: str = ""

    @property
    def expires(self) -> float:
        """The time at which the URL of the upload or download becomes invalid, in seconds since 1970."""
        return self.created + (UPLOAD_SECONDS if self.operation == "import" else DOWNLOAD_SECONDS)


class MemoryStore:
    """Store of translation memories in a folder.

    Memories directly in the folder are available to all clients; on a server with keys, clients cannot change
    shared memories. A memory that a client creates or imports is available only to that client.

    Args:
        folder: the folder, created if missing.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._jobs_folder = folder / JOBS_FOLDER
        self._open_memories: OrderedDict[tuple[Path, int], Memory] = OrderedDict()
        self._lock = threading.Lock()

    def list(self, owner: str) -> list[StoredMemory]:
        """Return the memories that an owner may use, with shared memories first."""
        memories = [self._stored_memory(path, bool(owner)) for path in _memory_files(self._folder)]
        if owner:
            memories += [
                self._stored_memory(path, False) for path in _memory_files(self._client_folder(owner))
            ]
        return memories

    def find(self, owner: str, memory_id: str) -> StoredMemory:
        """Return the memory with the given id.

        Raises:
            NotStoredError: the owner has no access to a memory with this id.
        """
        normalised_id = memory_id.lower()
        for memory in self.list(owner):
            if memory.id == normalised_id:
                return memory
        raise NotStoredError(NO_MEMORY)

    def open(self, stored_memory: StoredMemory) -> Memory:
        """Open a memory, which threads may share; memories are kept open for later calls."""
        try:
            key = stored_memory.path, stored_memory.path.stat().st_ino
        except FileNotFoundError:
            raise NotStoredError(NO_MEMORY) from None
        with self._lock:
            memory = self._open_memories.get(key) or Memory(stored_memory.path)
            self._open_memories[key] = memory
            self._open_memories.move_to_end(key)
            while len(self._open_memories) > MAX_OPEN_MEMORIES:
                self._open_memories.popitem(
                    last=False
                )  # not closed here, since a translation may still use it
        return memory

    def for_languages(self, owner: str, memory_id: str, target: str, source: str | None = None) -> Memory:
        """Open a memory for a translation between two languages.

        Raises:
            NotStoredError: there is no such memory, or it has other languages.
        """
        memory = self.open(self.find(owner, memory_id))
        for language, stored_language in ((source, memory.languages[0]), (target, memory.languages[1])):
            if language is not None and base_language(language) != base_language(stored_language):
                languages = " to ".join(memory.languages)
                raise NotStoredError(f"{NO_MEMORY} for these languages: {memory_id} is from {languages}")
        return memory

    def create(self, owner: str, name: str, source: str, target: str) -> StoredMemory:
        """Create an empty memory for an owner."""
        memory_id = str(uuid.uuid4())
        path = self._client_folder(owner) / f"{memory_id}{SUFFIXES[0]}"
        Memory.create(path, source, target, name).close()
        return StoredMemory(memory_id, path, False)

    def confirm(self, stored_memory: StoredMemory, pairs: Sequence[Pair]) -> AddedCounts:
        """Add confirmed pairs to a memory, unless it is shared."""
        _check_not_shared(stored_memory)
        return self.open(stored_memory).confirm(pairs)

    def delete(self, owner: str, memory_id: str) -> None:
        """Delete a memory, unless it is shared."""
        stored_memory = self.find(owner, memory_id)
        _check_not_shared(stored_memory)
        with self._lock:
            for key in [key for key in self._open_memories if key[0] == stored_memory.path]:
                del self._open_memories[key]
            for suffix in ("", "-wal", "-shm"):
                stored_memory.path.with_name(stored_memory.path.name + suffix).unlink(missing_ok=True)

    def add_job(self, job: MemoryJob) -> MemoryJob:
        """Store a job, and delete jobs that have expired."""
        self._jobs_folder.mkdir(exist_ok=True)
        job_files = list(self._jobs_folder.glob("*.json"))
        for path in job_files:
            old_job = _read_job(path)
            if old_job is None or time.time() > old_job.created + DOWNLOAD_SECONDS:
                path.unlink(missing_ok=True)
                self._export_path(path.stem).unlink(missing_ok=True)
        if len(job_files) >= MAX_JOBS and len(list(self._jobs_folder.glob("*.json"))) >= MAX_JOBS:
            raise ApiError(
                429, "too_many_jobs", f"the server already has {MAX_JOBS} jobs; try again in a few hours"
            )
        self._write_job(job)
        return job

    def job(self, job_id: str, owner: str | None = None, token: str | None = None) -> MemoryJob:
        """Return the job with the given id, if the token matches or, without a token, the owner matches.

        Raises:
            NotStoredError: there is no such job, or the token or the owner does not match.
        """
        try:
            path = self._jobs_folder / f"{uuid.UUID(job_id)}.json"
        except ValueError:
            raise NotStoredError(NO_JOB) from None
        job = _read_job(path)
        if job is None or (token is None and job.owner != owner):
            raise NotStoredError(NO_JOB)
        if token is not None and not secrets.compare_digest(token.encode(), job.token.encode()):
            raise NotStoredError(NO_JOB)
        expirable_statuses = ("awaiting_input",) if job.operation == "import" else ("completed", "downloaded")
        if time.time() > job.expires and job.status in expirable_statuses:
            job.status = "expired"
        return job

    def run_import(self, job: MemoryJob, content: bytes) -> None:
        """Create a memory from the file of an import job; if the import fails, the memory is deleted."""
        if job.status != "awaiting_input":
            raise ApiError(409, "not_awaited", f"the job does not accept a file: its status is {job.status}")
        job.status = "processing"
        self._write_job(job)
        upload = self._jobs_folder / f"{job.id}.tmx"
        upload.write_bytes(content)
        stored_memory = None
        try:
            languages = tmx_languages(content)
            stored_memory = self.create(job.owner, job.name, *languages)
            file = TranslationFile(upload, languages)
            memory = Memory(stored_memory.path)
            counts = memory.add(_with_origin(read_tmx(file), upload.name, job.name))
            memory.close()
            job.skipped = file.skipped.total() + counts.skipped.total()
            job.memory, job.status = stored_memory.id, "completed"
        except UwagaError as error:
            job.status, job.error = "failed", str(error).replace(str(upload), job.name)
        except BaseException:
            job.status, job.error = "failed", "the server could not import the file"
            raise
        finally:
            if job.status == "failed" and stored_memory is not None:
                self.delete(job.owner, stored_memory.id)
            upload.unlink(missing_ok=True)
            self._write_job(job)

    def export(self, owner: str, memory_id: str) -> tuple[MemoryJob, bool]:
        """Return an export job of a memory, and whether an existing export is reused."""
        stored_memory = self.find(owner, memory_id)
        memory = self.open(stored_memory)
        count, change_time = len(memory), _change_time(stored_memory.path)
        for path in self._jobs_folder.glob("*.json") if self._jobs_folder.is_dir() else ():
            old_job = _read_job(path)
            if (
                old_job is not None
                and (old_job.owner, old_job.operation, old_job.memory, old_job.pairs)
                == (owner, "export", stored_memory.id, count)
                and old_job.created > change_time
                and time.time() < old_job.expires - UPLOAD_SECONDS
                and self._export_path(old_job.id).is_file()
            ):
                return old_job, True
        job = MemoryJob(
            str(uuid.uuid4()), owner, "export", memory=stored_memory.id, pairs=count, status="completed"
        )
        self._jobs_folder.mkdir(exist_ok=True)
        with new_file(self._export_path(job.id)) as file:
            write_tmx(file, (pair for _, pair in memory.pairs()), memory.languages)
        return self.add_job(job), False

    def export_file(self, job: MemoryJob) -> Path:
        """Return the file of an export job, and mark the job as downloaded."""
        path = self._export_path(job.id)
        if job.operation != "export" or job.status == "expired" or not path.is_file():
            raise NotStoredError(NO_JOB)
        job.status = "downloaded"
        self._write_job(job)
        return path

    def _export_path(self, job_id: str) -> Path:
        return self._jobs_folder / f"{job_id}.export.tmx"

    def _write_job(self, job: MemoryJob) -> None:
        job.updated = time.time()
        with new_file(self._jobs_folder / f"{job.id}.json") as file:
            file.write(json.dumps(asdict(job)).encode())

    def _client_folder(self, owner: str) -> Path:
        if not owner:
            return self._folder
        return self._folder / CLIENTS_FOLDER / hashlib.sha256(owner.encode()).hexdigest()[:32]

    def _stored_memory(self, path: Path, is_shared: bool) -> StoredMemory:
        try:
            memory_id = str(uuid.UUID(path.stem))
        except ValueError:
            memory_id = str(uuid.uuid5(ID_NAMESPACE, path.name))
        return StoredMemory(memory_id, path, is_shared)


def tmx_languages(content: bytes) -> tuple[str, str]:
    """Return the languages of a TMX file: the source language and the first other language.

    Raises:
        DataError: the beginning of the file does not contain two languages.
    """
    head = content[:TMX_HEAD_BYTES]
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        head = head.decode("utf-16", "replace").encode()
    header = SOURCE_LANGUAGE.search(head)
    codes = dict.fromkeys(match[1].decode() for match in VARIANT_LANGUAGE.finditer(head))
    source = "" if header is None else header[1].decode()
    if not source or source.lower() == "*all*":
        source = next(iter(codes), "")
    target = next((code for code in codes if base_language(code) != base_language(source)), "")
    if not source or not target:
        raise DataError("the file is not a TMX file, or its first units are not in two languages")
    return source.lower(), target.lower()


def _with_origin(pairs: Iterable[Pair], upload_name: str, name: str) -> Iterator[Pair]:
    """Yield pairs with the name of the memory as their origin, unless the file states another origin.

    Args:
        pairs: the pairs.
        upload_name: the name of the temporary file, which is the origin of pairs without a stated origin.
        name: the name of the memory.
    """
    for pair in pairs:
        yield replace(pair, origin=name) if pair.origin in ("", upload_name) else pair


def _check_not_shared(stored_memory: StoredMemory) -> None:
    if stored_memory.shared:
        raise ApiError(
            403, "shared", "the translation memory is shared by all clients; only the operator can change it"
        )


def _memory_files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file())


def _change_time(path: Path) -> float:
    """Return the time of the last change to a memory, in seconds since 1970."""
    paths = [path, path.with_name(path.name + "-wal")]
    return max(file.stat().st_mtime for file in paths if file.exists())


def _read_job(path: Path) -> MemoryJob | None:
    try:
        return MemoryJob(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
