"""Where a job reads and writes: a local folder, or an object store behind a URL."""

from __future__ import annotations

import contextlib
import io
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from uwaga.errors import DataError, MissingExtraError, reason
from uwaga.files.atomic import new_file
from uwaga.files.streams import is_url, open_stream

ATTEMPTS = 6
"""Calls of an object store before its error is believed."""
PAUSE = 0.25  # seconds before the second attempt; twice as long before each further one
BLOCK = 1 << 20  # bytes of an object read at once
REFUSED = (
    "ACCESS_DENIED",
    "NO_SUCH_BUCKET",
    "INVALID_ACCESS_KEY",
    "SIGNATURE_DOES_NOT_MATCH",
    "HTTP status 403",
)
"""What a store says that will not change its mind."""
Result = TypeVar("Result")


class StoreRefusedError(DataError):
    """An object store does not answer, or says no: nothing is known of the object itself."""


class StoredFile(NamedTuple):
    """A file by its name below the place that was asked for, with slashes, and its bytes."""

    name: str
    size: int


class FileStore(Protocol):
    """A place with files; ``name`` is what messages call it, without keys or passwords.

    All methods raise DataError, which names the file.
    """

    name: str

    def files(self) -> list[StoredFile]:
        """All files there by name; the one file where the place is a file; none of a place that is not."""
        ...

    def open(self, name: str) -> io.BufferedReader:
        """A file to read and to seek in."""
        ...

    def write(self, name: str, content: bytes) -> None:
        """Make a file hold exactly this; after an error it is as it was, or not there."""
        ...

    def remove(self, name: str) -> None:
        """Make a file not be there."""
        ...

    def contains(self, other: FileStore) -> bool:
        """Whether the other place is this one or in it."""
        ...


def open_store(place: str) -> FileStore:
    """The place that a path or a URL (``s3://bucket/folder``) names; nothing has to be there yet.

    Raises:
        DataError: the URL cannot be understood.
        MissingExtraError: it needs pyarrow.
    """
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
            found = [
                StoredFile(path.relative_to(self.path).as_posix(), path.stat().st_size)
                for path in self.path.rglob("*")
                if path.is_file()
            ]
        except OSError as error:
            raise DataError(f"{error.filename}: cannot be read: {error.strerror}") from None
        return sorted(found)

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
    """Objects of S3, Google Cloud Storage, Azure or HDFS, as pyarrow reaches them.

    A call that fails is made again, :data:`ATTEMPTS` times; an object is there whole or not at all.
    """

    def __init__(self, url: str) -> None:
        self.name = hidden(url)
        try:
            from pyarrow import fs
        except ImportError:
            raise MissingExtraError(
                f"{self.name}: object stores need pyarrow: pip install 'uwaga[batch]'"
            ) from None
        self._fs = fs
        try:
            self._system, path = fs.FileSystem.from_uri(url)
        except Exception as error:  # of pyarrow's own kinds
            raise DataError(f"{self.name}: {_said(error, url)}") from None
        self._path = path.rstrip("/")
        self._kind = self._system.type_name
        self._is_file: bool | None = None

    def files(self) -> list[StoredFile]:
        info = self._tried("", lambda: self._system.get_file_info(self._path))
        if info.type == self._fs.FileType.File:
            self._is_file = True
            return [StoredFile(info.base_name, info.size)]
        self._is_file = False
        selector = self._fs.FileSelector(self._path, allow_not_found=True, recursive=True)
        infos = self._tried("", lambda: self._system.get_file_info(selector))
        skip = len(self._path) + 1
        return sorted(
            StoredFile(one.path[skip:], one.size) for one in infos if one.type == self._fs.FileType.File
        )

    def open(self, name: str) -> io.BufferedReader:
        path = self._path if self._is_file else f"{self._path}/{name}"
        opened = self._tried(name, lambda: self._system.open_input_file(path))
        return io.BufferedReader(_Object(lambda call: self._tried(name, call), opened), BLOCK)

    def write(self, name: str, content: bytes) -> None:
        path = f"{self._path}/{name}"

        def put() -> None:
            self._system.create_dir(self._path, recursive=True) if self._kind == "hdfs" else None
            with self._system.open_output_stream(path) as stream:
                stream.write(content)
            size = self._system.get_file_info(path).size
            if size != len(content):
                raise OSError(f"it holds {size} bytes of {len(content)}")

        self._tried(name, put)

    def remove(self, name: str) -> None:
        def delete() -> None:
            with contextlib.suppress(FileNotFoundError):
                self._system.delete_file(f"{self._path}/{name}")

        self._tried(name, delete)

    def contains(self, other: FileStore) -> bool:
        if not isinstance(other, ObjectStore) or not self._system.equals(other._system):
            return False
        return f"{other._path}/".startswith(f"{self._path}/")

    def _tried(self, name: str, call: Callable[[], Result]) -> Result:
        place = f"{self.name}/{name}" if name and not self._is_file else self.name
        for attempt in range(ATTEMPTS):
            try:
                return call()
            except FileNotFoundError:
                raise DataError(f"{place}: no such object") from None
            except Exception as error:  # of pyarrow's own kinds
                said = _said(error, self.name)
                if attempt + 1 == ATTEMPTS or any(word in str(error) for word in REFUSED):
                    raise StoreRefusedError(
                        f"{place}: the object store refuses: {said}; when it answers again, the "
                        "same command goes on"
                    ) from None
            time.sleep(PAUSE * 2**attempt)
        raise AssertionError("unreachable")


class _Object(io.RawIOBase):
    """An object whose every read may be tried again."""

    def __init__(self, tried: Callable[[Callable[[], Any]], Any], file: Any) -> None:
        self._tried, self._file = tried, file
        self._size = int(tried(file.size))
        self._offset = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._offset

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._offset, os.SEEK_END: self._size}[whence]
        self._offset = max(0, start + offset)
        return self._offset

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        wanted = min(len(view), self._size - self._offset)
        if wanted <= 0:
            return 0
        content: bytes = self._tried(lambda: self._whole(wanted))
        view[:wanted] = content
        self._offset += wanted
        return wanted

    def _whole(self, wanted: int) -> bytes:
        content: bytes = self._file.read_at(wanted, self._offset)
        if len(content) != wanted:
            raise OSError(f"{len(content)} bytes came of {wanted} from byte {self._offset} on")
        return content


def hidden(url: str) -> str:
    """A URL without the key, password and options in it, for messages and records."""
    return re.sub(r"//[^/@]*@", "//", url).partition("?")[0].rstrip("/")


def _said(error: BaseException, url: str) -> str:
    """What an error says, without the URL, which may hold a password."""
    return reason(error).replace(url, hidden(url))
