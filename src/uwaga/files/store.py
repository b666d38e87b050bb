"""Local files and objects behind URLs, read and written; fsspec reaches the object stores.

fsspec supports ``s3://`` with s3fs, ``gs://`` with gcsfs, ``abfs://`` with adlfs, ``https://`` with aiohttp,
and others. A failed call is repeated, and a failed read resumes at its byte.
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
ATTEMPTS = 6
"""Calls of an object store before its failure is reported."""
PAUSE = 0.25  # seconds before the second attempt; doubled before each further one
BLOCK = 1 << 17
VERSIONS = ("etag", "version_id", "generation", "checksum", "content-md5", "last-modified", "lastmodified")
TIMES = ("mtime", "modified", "last_modified", "created")
"""Names that stores give to the version of an object's content, and to its time."""
WITH_FOLDERS = ("ftp", "hdfs", "sftp", "smb", "ssh", "webhdfs")
"""Protocols whose folders must exist before a file is written; in others a folder is a part of a name."""
LASTING = (FileNotFoundError, ImportError, IsADirectoryError, PermissionError, UwagaError)
"""Failures that a repeated call would meet again."""
Result = TypeVar("Result")


class StoreRefusedError(DataError):
    """An object store does not answer or refuses access; nothing is known of the object itself."""


class StoredFile(NamedTuple):
    """A file in a store: its name below the store's place, with slashes, and its size in bytes."""

    name: str
    size: int


class FileStore(Protocol):
    """A folder or a single file, local or in an object store.

    All methods raise DataError, which names the file.

    Attributes:
        name: the place for messages, without keys and passwords.
    """

    name: str

    def files(self) -> list[StoredFile]:
        """List all files by name; a single file lists itself, a missing place nothing."""
        ...

    def open(self, name: str) -> io.BufferedReader:
        """Open a file for reading and seeking."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Replace a file's content; after an error it is unchanged or missing."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        ...

    def contains(self, other: FileStore) -> bool:
        """Return whether another place is this one or inside it."""
        ...


def is_url(name: str | Path) -> bool:
    """Return whether a name is a URL: ``s3://bucket/key``, ``memory://a``, ``https://host/path``."""
    return isinstance(name, str) and URL.match(name) is not None


def hide_credentials(url: str) -> str:
    """Return a URL without the keys, password and query in it, for messages and records."""
    return _CREDENTIALS.sub(r"\1\2", url).rstrip("/")


def identify(name: str | Path) -> dict[str, Any]:
    """Return the ``name``, ``size`` and ``version`` of a file, which tell it from another or a later one.

    All values are JSON. The version of a local file is its time of modification; that of an object is its
    ETag or the store's equivalent, None where there is none.
    """
    if is_url(name):
        return {"name": name, **_identify(hide_credentials(str(name)), *_filesystem(str(name)))}
    local = Path(name)
    try:
        stat = local.stat()
    except FileNotFoundError:
        raise DataError(f"{local}: no such file") from None
    except OSError as error:
        raise DataError(f"{local}: cannot be read: {error.strerror}") from None
    return {"name": str(local.resolve()), "size": stat.st_size, "version": str(stat.st_mtime_ns)}


def open_stream(name: str | Path) -> io.BufferedReader:
    """Open a local file or an object for reading and, unless it is a pipe, seeking.

    A failed read of an object is repeated from its byte. The reads raise DataError if that does not help, or
    if the object has changed meanwhile.
    """
    if is_url(name):
        return io.BufferedReader(_RemoteFile(hide_credentials(str(name)), *_filesystem(str(name))), BLOCK)
    try:
        return io.BufferedReader(Path(name).open("rb", buffering=0), BLOCK)
    except FileNotFoundError:
        raise DataError(f"{name}: no such file") from None
    except OSError as error:
        raise DataError(f"{name}: cannot be read: {error.strerror}") from None


def open_store(place: str) -> FileStore:
    """Open the place that a path or a URL (``s3://bucket/folder``) names; it need not exist yet."""
    if not is_url(place):
        return LocalStore(Path(place))
    if place.startswith("file://"):
        return LocalStore(Path(unquote(urlsplit(place).path)))
    return ObjectStore(place)


class LocalStore:
    """A local file or folder."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.path = path

    @property
    def folder(self) -> Path:
        """The folder, or that of the file."""
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
        self._system, path = _filesystem(url)
        self._path = path.rstrip("/")
        self._is_file = False

    def files(self) -> list[StoredFile]:
        def find() -> Mapping[str, Mapping[str, Any]]:
            self._system.invalidate_cache()
            with contextlib.suppress(FileNotFoundError):
                return dict(self._system.find(self._path, detail=True))
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
        return io.BufferedReader(_RemoteFile(self._place(name), self._system, path), BLOCK)

    def write(self, name: str, content: bytes) -> None:
        path = f"{self._path}/{name}"

        def put() -> None:
            if self._url.startswith(tuple(f"{protocol}://" for protocol in WITH_FOLDERS)):
                self._system.makedirs(self._path, exist_ok=True)
            self._system.pipe_file(path, content)
            self._system.invalidate_cache()
            size = self._system.info(path)["size"]
            if size != len(content):
                raise OSError(f"it holds {size} bytes of {len(content)}")

        _call(self._place(name), put)

    def remove(self, name: str) -> None:
        def delete() -> None:
            with contextlib.suppress(FileNotFoundError):
                self._system.rm_file(f"{self._path}/{name}")

        _call(self._place(name), delete)

    def contains(self, other: FileStore) -> bool:
        if not isinstance(other, ObjectStore) or self._system != other._system:
            return False
        return f"{other._path}/".startswith(f"{self._path}/")

    def _place(self, name: str) -> str:
        return self.name if self._is_file else f"{self.name}/{name}"


class _RemoteFile(io.RawIOBase):
    """An object that is opened again at its present byte after a failure."""

    def __init__(self, name: str, system: Any, path: str) -> None:
        self._name, self._system, self._path = name, system, path
        self._identity = _identify(name, system, path)
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
            content = retry(read, ATTEMPTS, PAUSE, _is_passing)
        except UwagaError:
            raise
        except Exception as error:  # of any of fsspec's libraries
            raise StoreRefusedError(
                f"{self._name}: reading failed {ATTEMPTS} times at byte {self._offset} of {self._size}: "
                f"{_message(error)}; run the same command again"
            ) from None
        view[: len(content)] = content
        self._offset += len(content)
        self._file_offset = self._offset
        return len(content)

    def _read(self, most: int) -> bytes:
        if self._size is not None and self._offset >= self._size:
            return b""
        if self._file is None:
            if self._offset and _identify(self._name, self._system, self._path) != self._identity:
                raise DataError(f"{self._name}: has changed while it was read; start again")
            self._file, self._file_offset = self._system.open(self._path, "rb"), 0
        if self._file_offset != self._offset:
            self._seek_file()
        content: bytes = self._file.read(most)
        if not content and most and self._size is not None:
            raise EOFError(f"it ended at byte {self._offset}")
        return content

    def _seek_file(self) -> None:
        """Move the opened object to the present byte; a server without ranges is read up to there."""
        try:
            self._file.seek(self._offset)
        except (OSError, ValueError, NotImplementedError):
            self._drop()
            self._file = self._system.open(self._path, "rb")
            left = self._offset
            while left and (skipped := self._file.read(min(left, BLOCK))):
                left -= len(skipped)
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
    place = hide_credentials(name)
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise MissingExtraError(f"{place}: URLs need fsspec: `pip install fsspec`") from None
    try:
        system, path = url_to_fs(name)
        return system, str(path)
    except ImportError as error:  # "Install s3fs to access S3"
        raise MissingExtraError(f"{place}: {_message(error)}, with pip") from None
    except Exception as error:  # of any of fsspec's libraries
        raise DataError(f"{place}: {_message(error)}") from None


def _identify(name: str, system: Any, path: str) -> dict[str, Any]:
    def look_up() -> Mapping[str, Any]:
        system.invalidate_cache()
        facts: Mapping[str, Any] = system.info(path)
        return facts

    facts = _call(name, look_up)
    if facts.get("type") == "directory":
        raise DataError(f"{name}: a folder, not a file; name the files in it")
    size = facts.get("size")
    values = {str(key).lower(): value for key, value in facts.items() if value is not None}
    version = next((str(values[key]) for key in (*VERSIONS, *TIMES) if key in values), None)
    return {"size": None if size is None else int(size), "version": version}


def _call(place: str, call: Callable[[], Result]) -> Result:
    """Call an object store, again after passing failures."""
    try:
        return retry(call, ATTEMPTS, PAUSE, _is_passing)
    except UwagaError:
        raise
    except FileNotFoundError:
        raise DataError(f"{place}: no such object") from None
    except Exception as error:  # of any of fsspec's libraries
        raise StoreRefusedError(
            f"{place}: the object store failed or refused the request: {_message(error)}; when "
            "it responds again, rerun the same command to resume"
        ) from None


def _message(error: Exception) -> str:
    return _CREDENTIALS.sub(r"\1\2", reason(error))


def _is_passing(error: Exception) -> bool:
    return not isinstance(error, LASTING)
