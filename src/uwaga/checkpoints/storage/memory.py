"""Access to files that are copied into private memory, or memory-mapped and shared."""

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

from uwaga.engine.packing import ALIGNMENT, Bytes, allocate_huge_pages
from uwaga.errors import ModelError
from uwaga.files.regular import open_regular

BLOCK_BYTES = 1 << 20


class PrivateFile:
    """An open file that is read into private memory; reading fails if the file has changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = open_regular(path)
        except OSError as error:
            raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from None
        weakref.finalize(self, self._file.close)
        self._lock = threading.Lock()
        self._opened_state = self._state()
        self.size = self._opened_state[0]

    def read_all(self) -> Bytes:
        """Return the contents as a read-only array, on huge pages if the system supports them."""
        content = allocate_huge_pages(self.size)
        self._fill(content, 0)
        content.flags.writeable = False
        return content

    def sha256(self) -> str:
        """Return the SHA-256 of the contents as hexadecimal digits."""
        digest = hashlib.sha256()
        for start in range(0, self.size, BLOCK_BYTES):
            digest.update(self.part(start, min(BLOCK_BYTES, self.size - start)).data)
        return digest.hexdigest()

    def part(self, start: int, size: int) -> Bytes:
        """Return a copy of ``size`` bytes that begin at the offset ``start``."""
        owner = np.empty(size + ALIGNMENT, dtype=np.uint8)
        offset = -owner.ctypes.data % ALIGNMENT
        content = owner[offset : offset + size]
        self._fill(content, start)
        return content

    def _fill(self, buffer: Bytes, start: int) -> None:
        view, filled_bytes = buffer.data, 0
        try:
            with self._lock:
                self._file.seek(start)
                while filled_bytes < len(view):
                    count = self._file.readinto(view[filled_bytes:])  # type: ignore[attr-defined]
                    if not count:
                        break
                    filled_bytes += count
                is_unchanged = self._state() == self._opened_state
        except OSError as error:
            raise ModelError(f"{self.path}: cannot be read: {error.strerror or error}") from None
        if filled_bytes < len(view) or not is_unchanged:
            raise ModelError(f"{self.path}: the file was changed while it was read; load the model again")

    def _state(self) -> tuple[int, int]:
        status = os.fstat(self._file.fileno())
        return status.st_size, status.st_mtime_ns


class PrivateTensor:
    """A tensor that is read on demand; all callers share one array until it is freed."""

    def __init__(self, file: PrivateFile, start: int, shape: tuple[int, ...], kind: np.dtype[Any]) -> None:
        self.shape = shape
        self._file, self._start, self._kind = file, start, kind
        self._read: weakref.ref[Bytes] | None = None

    def rows(self, first: int, last: int) -> PrivateTensor:
        """Return a tensor of rows ``first`` to ``last`` - 1 without reading the rows."""
        size = int(np.prod(self.shape[1:], dtype=np.int64)) * self._kind.itemsize
        return PrivateTensor(
            self._file, self._start + first * size, (last - first, *self.shape[1:]), self._kind
        )

    def read(self) -> NDArray[Any]:
        """Return the values, reading them if no array from an earlier call is in use."""
        size = int(np.prod(self.shape, dtype=np.int64)) * self._kind.itemsize
        owner = self._read() if self._read is not None else None
        if owner is None:
            content = self._file.part(self._start, size)
            assert isinstance(content.base, np.ndarray)
            self._read = weakref.ref(content.base)
        else:
            offset = -owner.ctypes.data % ALIGNMENT
            content = owner[offset : offset + size]
        return content.view(self._kind).reshape(self.shape)


def read_private(path: Path) -> Bytes:
    """Return the contents of a file; see :meth:`PrivateFile.read_all`."""
    return PrivateFile(path).read_all()


class SharedFile:
    """A memory-mapped file; reading fails if the file has changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = open_regular(path)
            weakref.finalize(self, self._file.close)
            self._opened_state = self._state()
            self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise ModelError(f"{path}: cannot be memory-mapped: {error}") from None

    def read_all(self) -> Bytes:
        """Return the contents as a read-only array."""
        self.check()
        return np.frombuffer(self._map, dtype=np.uint8)

    def check(self) -> None:
        """Raise ModelError if the file has changed since it was opened."""
        if self._state() != self._opened_state:
            raise ModelError(
                f"{self.path}: the file was changed while it was shared; load the model again, or load it "
                "with memory 'fast', which copies it"
            )

    def _state(self) -> tuple[int, int]:
        status = os.fstat(self._file.fileno())
        return status.st_size, status.st_mtime_ns
