"""A file's bytes in memory: copied into private memory, or mapped and shared."""

from __future__ import annotations

import hashlib
import mmap
import os
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uwaga.engine.packing import ALIGNMENT, Bytes, huge_bytes
from uwaga.errors import ModelError
from uwaga.files.regular import open_regular

BLOCK = 1 << 20


class PrivateFile:
    """An open file that is read into private memory; changes since it was opened are detected."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = open_regular(path)
        except OSError as error:
            raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from None
        weakref.finalize(self, self._file.close)
        self._lock = threading.Lock()
        self._seen = self._state()
        self.size = self._seen[0]

    def whole(self) -> Bytes:
        """Return all bytes, read-only, on huge pages where the system has them."""
        made = huge_bytes(self.size)
        self._fill(made, 0)
        made.flags.writeable = False
        return made

    def sha256(self) -> str:
        """Return the SHA-256 of all bytes in hexadecimal digits."""
        found = hashlib.sha256()
        for start in range(0, self.size, BLOCK):
            found.update(self.part(start, min(BLOCK, self.size - start)).data)
        return found.hexdigest()

    def part(self, start: int, size: int) -> Bytes:
        """Return a copy of ``size`` bytes from ``start``."""
        owner = np.empty(size + ALIGNMENT, dtype=np.uint8)
        first = -owner.ctypes.data % ALIGNMENT
        made = owner[first : first + size]
        self._fill(made, start)
        return made

    def _fill(self, into: Bytes, start: int) -> None:
        view, done = into.data, 0
        try:
            with self._lock:
                self._file.seek(start)
                while done < len(view):
                    count = self._file.readinto(view[done:])  # type: ignore[attr-defined]
                    if not count:
                        break
                    done += count
                unchanged = self._state() == self._seen
        except OSError as error:
            raise ModelError(f"{self.path}: cannot be read: {error.strerror or error}") from None
        if done < len(view) or not unchanged:
            raise ModelError(f"{self.path}: was changed while it was read; load the model again")

    def _state(self) -> tuple[int, int]:
        found = os.fstat(self._file.fileno())
        return found.st_size, found.st_mtime_ns


class PrivateTensor:
    """A tensor that is read on demand, and again only after its array has been freed."""

    def __init__(self, file: PrivateFile, start: int, shape: tuple[int, ...], kind: np.dtype[Any]) -> None:
        self.shape = shape
        self._file, self._start, self._kind = file, start, kind
        self._read: weakref.ref[Bytes] | None = None

    def rows(self, first: int, last: int) -> PrivateTensor:
        """Return a part along the first axis, up to row ``last`` - 1."""
        size = int(np.prod(self.shape[1:], dtype=np.int64)) * self._kind.itemsize
        return PrivateTensor(
            self._file, self._start + first * size, (last - first, *self.shape[1:]), self._kind
        )

    def read(self) -> NDArray[Any]:
        """Return its values."""
        size = int(np.prod(self.shape, dtype=np.int64)) * self._kind.itemsize
        owner = self._read() if self._read is not None else None
        if owner is None:
            made = self._file.part(self._start, size)
            assert isinstance(made.base, np.ndarray)
            self._read = weakref.ref(made.base)
        else:
            first = -owner.ctypes.data % ALIGNMENT
            made = owner[first : first + size]
        return made.view(self._kind).reshape(self.shape)


def read_private(path: Path) -> Bytes:
    """Read all bytes of a file; see :meth:`PrivateFile.whole`."""
    return PrivateFile(path).whole()


class SharedFile:
    """A mapped file; changes since it was opened are detected."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = open_regular(path)
            weakref.finalize(self, self._file.close)
            self._seen = self._state()
            self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise ModelError(f"{path}: cannot be mapped: {error}") from None

    def whole(self) -> Bytes:
        """Return all bytes, read-only."""
        self.check()
        return np.frombuffer(self._map, dtype=np.uint8)

    def check(self) -> None:
        """Check that the file has not changed."""
        if self._state() != self._seen:
            raise ModelError(
                f"{self.path}: was changed while it is shared; load the model again, or load it with "
                "memory 'fast', which copies it"
            )

    def _state(self) -> tuple[int, int]:
        found = os.fstat(self._file.fileno())
        return found.st_size, found.st_mtime_ns
