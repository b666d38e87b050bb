"""Reading and writing of local files and, with fsspec, of objects in object stores.

fsspec supports ``s3://`` with s3fs, ``gs://`` with gcsfs, ``abfs://`` with adlfs, ``https://`` with aiohttp,
and others. Failed calls are retried, and failed reads resume at the same byte.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from uwaga.errors import DataError, MissingExtraError, UwagaError, reason
from uwaga.files.atomic import new_file
from uwaga.files.retry import retry

URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*::)*[A-Za-z][A-Za-z0-9+.-]*://")
_CREDENTIALS = re.compile(r"(://)(?:[^/@\s]*@)?([^?\s]*)(?:\?\S*)?")
MAX_ATTEMPTS = 6
"""Maximum number of calls to an object store before its failure is reported."""
PAUSE = 0.25  # seconds before the second attempt; doubled before each further one
BLOCK_BYTES = 1 << 17
VERSION_KEYS = (
    "etag",
    "version_id",
    "generation",
    "checksum",
    "content-md5",
    "last-modified",
    "lastmodified",
)
TIME_KEYS = ("mtime", "modified", "last_modified", "created")
"""Keys under which stores report an object's version (:data:`VERSION_KEYS`) and modification time."""
FOLDER_PROTOCOLS = ("ftp", "hdfs", "sftp", "smb", "ssh", "webhdfs")
"""Protocols in which a file's folder must be created first; in others, folders are only part of names."""
PERMANENT_ERRORS = (FileNotFoundError, ImportError, IsADirectoryError, PermissionError, UwagaError)
"""Errors that a retry would raise again."""
Result = TypeVar("Result")


class StoreRefusedError(DataError):
    """An object store does not respond or denies access, so that nothing is known about the object."""


class StoredFile(NamedTuple):
    """A file in a store: the name relative to the store, with slashes, and the size in bytes."""

    name: str
    size: int


class FileStore(Protocol):
    """A folder or a single file, local or in an object store.

    All methods raise a DataError whose message names the file.

    Attributes:
        name: the location without credentials, for messages.
    """

    name: str

    def files(self) -> list[StoredFile]:
        """Return all files of a folder, sorted by name, or the single file; if none exists, an empty list."""
        ...

    def open(self, name: str) -> io.BufferedReader:
        """Open a file for reading; the returned stream is seekable."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Replace the content of a file; after an error, it is unchanged or missing."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        ...

    def contains(self, other: FileStore) -> bool:
        """Return whether another location is this one or inside it."""
        ...


def is_url(name: str | Path) -> bool:
    """Return whether a name is a URL: ``s3://bucket/key``, ``memory://a``, ``https://host/path``."""
    return isinstance(name, str) and URL.match(name) is not None


def hide_credentials(url: str) -> str:
    """Return a URL without its credentials and query, for messages and records."""
    return _CREDENTIALS.sub(r"\1\2", url).rstrip("/")


def identify(name: str | Path) -> dict[str, Any]:
    """Return a dict with the ``name``, ``size`` and ``version`` of a file, which identify its content.

    All are JSON values. The version of a local file is its modification time; that of an object is its ETag
    or the store's equivalent, or None if there is none.
    """
    if is_url(name):
        return {"name": name, **_identify(hide_credentials(str(name)), *_filesystem(str(name)))}
    local_path = Path(name)
    try:
        stat = local_path.stat()
    except FileNotFoundError:
        raise DataError(f"{local_path}: no such file") from None
    except OSError as error:
        raise DataError(f"{local_path}: cannot be read: {error.strerror}") from None
    return {"name": str(local_path.resolve()), "size": stat.st_size, "version": str(stat.st_mtime_ns)}


def open_stream(name: str | Path) -> io.BufferedReader:
    """Open a local file or an object for reading; it is seekable unless it is a pipe or its size is unknown.

    A failed read of an object is retried from the same byte. Reads raise DataError if the retries also
    fail or the object has changed.
    """
    if is_url(name):
        return io.BufferedReader(
            _RemoteFile(hide_credentials(str(name)), *_filesystem(str(name))), BLOCK_BYTES
        )
    try:
        return io.BufferedReader(Path(name).open("rb", buffering=0), BLOCK_BYTES)
    except FileNotFoundError:
        raise DataError(f"{name}: no such file") from None
    except OSError as error:
        raise DataError(f"{name}: cannot be read: {error.strerror}") from None


def open_store(location: str) -> FileStore:
    """Open the store at a path or URL (``s3://bucket/folder``), which need not exist."""
    if not is_url(location):
        return LocalStore(Path(location))
    if location.startswith("file://"):
        return LocalStore(Path(unquote(urlsplit(location).path)))
    return ObjectStore(location)


class LocalStore:
    """A local file or folder."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.path = path

    @property
    def folder(self) -> Path:
        """The folder itself, or the folder that contains the file."""
        return self.path.parent if self.path.is_file() else self.path

    def files(self) -> list[StoredFile]:
        try:
            if self.path.is_file():
                return [StoredFile(self.path.name, self.path.stat().st_size)]
            return sorted(
                StoredFile(path.relative_to(self.path).as_posix(), path.stat().st_size)
                for path in self.path.rglob("*")
                if path.is_file()
            )
        except OSError as error:
            raise DataError(f"{error.filename}: cannot be read: {error.strerror}") from None

    def open(self, name: str) -> io.BufferedReader:
        return open_stream(self.folder / name)

    def write(self, name: str, content: bytes) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"{self.path}: cannot be written: {error.strerror}") from None
        with new_file(self.path / name) as file:
            file.write(content)

    def remove(self, name: str) -> None:
        try:
            (self.path / name).unlink(missing_ok=True)
        except OSError as error:
            raise DataError(f"{self.path / name}: cannot be removed: {error.strerror}") from None

    def contains(self, other: FileStore) -> bool:
        return isinstance(other, LocalStore) and other.path.resolve().is_relative_to(self.path.resolve())


class ObjectStore:
    """A location in an object store; objects are written atomically."""

    def __init__(self, url: str) -> None:
        self.name = hide_credentials(url)
        self._url = url.rstrip("/")
        self._filesystem, path = _filesystem(url)
        self._path = path.rstrip("/")
        self._is_file = False

    def files(self) -> list[StoredFile]:
        def find() -> Mapping[str, Mapping[str, Any]]:
            self._filesystem.invalidate_cache()
            with contextlib.suppress(FileNotFoundError):
                return dict(self._filesystem.find(self._path, detail=True))
            return {}

        entries = _call(self.name, find)
        files = {
            path.rstrip("/"): entry["size"] for path, entry in entries.items() if entry["type"] == "file"
        }
        self._is_file = list(files) == [self._path]
        if self._is_file:
            return [StoredFile(self._path.rpartition("/")[2], files[self._path])]
        return sorted(StoredFile(path[len(self._path) + 1 :], size) for path, size in files.items())

    def open(self, name: str) -> io.BufferedReader:
        path = self._path if self._is_file else f"{self._path}/{name}"
        return io.BufferedReader(_RemoteFile(self._location(name), self._filesystem, path), BLOCK_BYTES)

    def write(self, name: str, content: bytes) -> None:
        path = f"{self._path}/{name}"

        def upload() -> None:
            if self._url.startswith(tuple(f"{protocol}://" for protocol in FOLDER_PROTOCOLS)):
                self._filesystem.makedirs(self._path, exist_ok=True)
            self._filesystem.pipe_file(path, content)
            self._filesystem.invalidate_cache()
            size = self._filesystem.info(path)["size"]
            if size != len(content):
                raise OSError(f"only {size} of {len(content)} bytes were stored")

        _call(self._location(name), upload)

    def remove(self, name: str) -> None:
        def delete() -> None:
            with contextlib.suppress(FileNotFoundError):
                self._filesystem.rm_file(f"{self._path}/{name}")

        _call(self._location(name), delete)

    def contains(self, other: FileStore) -> bool:
        if not isinstance(other, ObjectStore) or self._filesystem != other._filesystem:
            return False
        return f"{other._path}/".startswith(f"{self._path}/")

    def _location(self, name: str) -> str:
        return self.name if self._is_file else f"{self.name}/{name}"


class _RemoteFile(io.RawIOBase):
    """An object that is reopened at the current byte after a failure."""

    def __init__(self, name: str, filesystem: Any, path: str) -> None:
        self._name, self._filesystem, self._path = name, filesystem, path
        self._identity = _identify(name, filesystem, path)
        self._size: int | None = self._identity["size"]
        self._file: Any = None
        self._offset = 0  # the next byte of this file
        self._file_offset = 0  # the next byte of the opened object

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._size is not None

    def tell(self) -> int:
        return self._offset

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if self._size is None:
            raise io.UnsupportedOperation(f"{self._name}: its size is unknown")
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._offset, os.SEEK_END: self._size}[whence]
        self._offset = max(0, start + offset)
        return self._offset

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)

        def read() -> bytes:
            try:
                return self._read(len(view))
            except Exception:
                self._drop()
                raise

        try:
            content = retry(read, MAX_ATTEMPTS, PAUSE, _is_transient)
        except UwagaError:
            raise
        except Exception as error:  # of any of fsspec's libraries
            attempts = f" {MAX_ATTEMPTS} times" if _is_transient(error) else ""
            raise StoreRefusedError(
                f"{self._name}: reading failed{attempts} at byte {self._offset} of {self._size}: "
                f"{_message(error)}; run the same command again"
            ) from None
        view[: len(content)] = content
        self._offset += len(content)
        self._file_offset = self._offset
        return len(content)

    def _read(self, size: int) -> bytes:
        if self._size is not None and self._offset >= self._size:
            return b""
        if self._file is None:
            if self._offset and _identify(self._name, self._filesystem, self._path) != self._identity:
                raise DataError(f"{self._name}: the object changed while it was being read; start again")
            self._file, self._file_offset = self._filesystem.open(self._path, "rb"), 0
        if self._file_offset != self._offset:
            self._seek_file()
        content: bytes = self._file.read(size)
        if not content and size and self._size is not None:
            raise EOFError(f"it ended at byte {self._offset}")
        return content

    def _seek_file(self) -> None:
        """Seek to the current byte of the opened object; without range requests, read up to this byte."""
        try:
            self._file.seek(self._offset)
        except (OSError, ValueError, NotImplementedError):
            self._drop()
            self._file = self._filesystem.open(self._path, "rb")
            remaining_bytes = self._offset
            while remaining_bytes and (skipped_bytes := self._file.read(min(remaining_bytes, BLOCK_BYTES))):
                remaining_bytes -= len(skipped_bytes)
        self._file_offset = self._offset

    def _drop(self) -> None:
        file, self._file = self._file, None
        with contextlib.suppress(Exception):  # it may have failed already
            if file is not None:
                file.close()

    def close(self) -> None:
        self._drop()
        super().close()


def _filesystem(name: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it."""
    public_name = hide_credentials(name)
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise MissingExtraError(f"{public_name}: URLs need fsspec: `pip install fsspec`") from None
    try:
        filesystem, path = url_to_fs(name)
        return filesystem, str(path)
    except ImportError as error:  # "Install s3fs to access S3"
        raise MissingExtraError(f"{public_name}: {_message(error)}, with pip") from None
    except Exception as error:  # of any of fsspec's libraries
        raise DataError(f"{public_name}: {_message(error)}") from None


def _identify(name: str, filesystem: Any, path: str) -> dict[str, Any]:
    def fetch_info() -> Mapping[str, Any]:
        filesystem.invalidate_cache()
        info: Mapping[str, Any] = filesystem.info(path)
        return info

    info = _call(name, fetch_info)
    if info.get("type") == "directory":
        raise DataError(f"{name}: this is a folder, not a file; give the files in it")
    size = info.get("size")
    values = {str(key).lower(): value for key, value in info.items() if value is not None}
    version = next((str(values[key]) for key in (*VERSION_KEYS, *TIME_KEYS) if key in values), None)
    return {"size": None if size is None else int(size), "version": version}


def _call(location: str, call: Callable[[], Result]) -> Result:
    """Call an object store, and retry the call after transient errors."""
    try:
        return retry(call, MAX_ATTEMPTS, PAUSE, _is_transient)
    except UwagaError:
        raise
    except FileNotFoundError:
        raise DataError(f"{location}: no such object") from None
    except Exception as error:  # of any of fsspec's libraries
        raise StoreRefusedError(
            f"{location}: the object store failed or refused the request: {_message(error)}; when "
            "it responds again, rerun the same command to resume"
        ) from None


def _message(error: Exception) -> str:
    return _CREDENTIALS.sub(r"\1\2", reason(error))


def _is_transient(error: Exception) -> bool:
    return not isinstance(error, PERMANENT_ERRORS)
