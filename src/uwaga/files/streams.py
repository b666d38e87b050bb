"""Bytes of local files and of objects behind URLs, which fsspec reads and which may fail in the middle."""

from __future__ import annotations

import io
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from uwaga.errors import DataError, MissingExtraError, reason

URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*::)*[A-Za-z][A-Za-z0-9+.-]*://")
ATTEMPTS = 5
"""Reads from one place of an object, before its error is believed."""
PAUSE = 0.5  # seconds before the second attempt; twice as long before each further one
BLOCK = 1 << 17
VERSIONS = ("etag", "version_id", "generation", "checksum", "content-md5", "last-modified", "lastmodified")
TIMES = ("mtime", "modified", "last_modified", "created")
"""What stores call the mark of an object's content, and of its time."""


def is_url(name: str | Path) -> bool:
    """Whether a name is read through fsspec: ``s3://bucket/key``, ``memory://a``, ``https://host/path``."""
    return isinstance(name, str) and URL.match(name) is not None


def identify(name: str | Path) -> dict[str, Any]:
    """What tells a file from another or later one: its name, ``size`` and ``version``, as JSON holds them.

    The version is the time of change of a local file, and of an object its etag or what the store has in its
    place; None where it has nothing.

    Raises:
        DataError: there is no such file, or the store cannot be asked.
        MissingExtraError: a URL, and what reads it is not installed.
    """
    if not is_url(name):
        local = Path(name)
        try:
            stat = local.stat()
        except FileNotFoundError:
            raise DataError(f"{local}: no such file") from None
        except OSError as error:
            raise DataError(f"{local}: cannot be read: {error.strerror}") from None
        return {"name": str(local.resolve()), "size": stat.st_size, "version": str(stat.st_mtime_ns)}
    system, path = _filesystem(str(name))
    for attempt in range(ATTEMPTS):
        try:
            system.invalidate_cache()
            facts = system.info(path)
            break
        except FileNotFoundError:
            raise DataError(f"{name}: no such object") from None
        except Exception as error:  # of any of fsspec's libraries
            if attempt + 1 == ATTEMPTS or isinstance(error, PermissionError | ImportError):
                raise DataError(f"{name}: cannot be reached: {reason(error)}") from None
            time.sleep(PAUSE * 2**attempt)
    if facts.get("type") == "directory":
        raise DataError(f"{name}: a folder, not a file; name the files in it")
    size = facts.get("size")
    return {"name": name, "size": None if size is None else int(size), "version": _version(facts)}


def open_stream(name: str | Path) -> io.BufferedReader:
    """The bytes of a local file or of an object, as a file that can be read and, but for pipes, sought.

    An object's read that fails is tried again from the byte where it was, :data:`ATTEMPTS` times; DataError
    comes from the reads themselves where that does not help, or where the object has changed meanwhile.

    Raises:
        DataError: there is no such file, or it cannot be opened.
        MissingExtraError: a URL, and what reads it is not installed.
    """
    if is_url(name):
        return io.BufferedReader(_Remote(str(name)), BLOCK)
    try:
        return io.BufferedReader(Path(name).open("rb", buffering=0), BLOCK)
    except FileNotFoundError:
        raise DataError(f"{name}: no such file") from None
    except OSError as error:
        raise DataError(f"{name}: cannot be read: {error.strerror}") from None


class _Remote(io.RawIOBase):
    """An object, opened again where it was left whenever it fails."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._identity = identify(name)
        self._system, self._path = _filesystem(name)
        self._file: Any = None
        self._offset = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._identity["size"] is not None

    def tell(self) -> int:
        return self._offset

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if not self.seekable():
            raise io.UnsupportedOperation(f"{self._name}: its size is unknown")
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._offset, os.SEEK_END: self._identity["size"]}[whence]
        if start + offset != self._offset:
            self._offset = max(0, start + offset)
            self._drop()
        return self._offset

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        for attempt in range(ATTEMPTS):
            try:
                content = self._read(len(view))
                view[: len(content)] = content
                self._offset += len(content)
                return len(content)
            except (DataError, MissingExtraError):
                raise
            except Exception as error:  # of any of fsspec's libraries
                self._drop()
                if attempt + 1 == ATTEMPTS:
                    raise DataError(
                        f"{self._name}: reading failed {ATTEMPTS} times at byte {self._offset} of "
                        f"{self._identity['size']}: {reason(error)}; start the same command again"
                    ) from None
                time.sleep(PAUSE * 2**attempt)
        raise AssertionError("unreachable")

    def _read(self, most: int) -> bytes:
        if self._file is None:
            self._file = self._open_here()
        content: bytes = self._file.read(most)
        size = self._identity["size"]
        if not content and most and size is not None and self._offset < size:
            raise EOFError(f"it ended at byte {self._offset}")
        return content

    def _open_here(self) -> Any:
        """The object from the present byte on; servers that know no ranges are read up to there."""
        if self._offset and identify(self._name) != self._identity:
            raise DataError(f"{self._name}: has changed while it was read; start again")
        file = self._system.open(self._path, "rb")
        if not self._offset:
            return file
        try:
            file.seek(self._offset)
        except (OSError, ValueError, NotImplementedError):
            file.close()
            file = self._system.open(self._path, "rb")
            left = self._offset
            while left and (skipped := file.read(min(left, BLOCK))):
                left -= len(skipped)
        return file

    def _drop(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except Exception:  # it has failed already
                return

    def close(self) -> None:
        self._drop()
        super().close()


def _filesystem(name: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise MissingExtraError(f"{name}: reading URLs needs fsspec: pip install 'uwaga[corpora]'") from None
    try:
        system, path = url_to_fs(name)
        return system, str(path)
    except ImportError as error:  # "Install s3fs to access S3"
        raise MissingExtraError(f"{name}: {reason(error)}, with pip beside 'uwaga[corpora]'") from None
    except Exception as error:  # of any of fsspec's libraries
        raise DataError(f"{name}: {reason(error)}") from None


def _version(facts: Mapping[str, Any]) -> str | None:
    named = {str(key).lower(): value for key, value in facts.items() if value is not None}
    return next((str(named[key]) for key in (*VERSIONS, *TIMES) if key in named), None)
