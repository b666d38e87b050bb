"""A file's bytes where the system keeps them for every process: mapped, not copied.

Of several processes that use one model each then needs little memory of its own. The price is that the file
must stay as it is: who cuts it short while a process reads it kills that process, and who writes to it
changes what is read. So a change is looked for before each use, which leaves only changes in the middle of
one. A file that is replaced by another of the same name is no change: what was opened is still there.
"""

from __future__ import annotations

import mmap
import os
import weakref
from pathlib import Path

import numpy as np

from uwaga.engine.packing import Bytes
from uwaga.errors import ModelError
from uwaga.files.regular import open_regular


class SharedFile:
    """A mapped file, and whether it is still what it was when it was opened.

    Raises:
        ModelError: missing, empty, unreadable or no regular file.
    """

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
        """All bytes, which cannot be written to here.

        Raises:
            ModelError: the file was changed since it was opened.
        """
        self.check()
        return np.frombuffer(self._map, dtype=np.uint8)

    def check(self) -> None:
        """Look whether the file is as it was.

        Raises:
            ModelError: it was cut short or written to.
        """
        if self._state() != self._seen:
            raise ModelError(
                f"{self.path}: was changed while it is shared; load the model again, or load it with "
                "memory 'fast', which copies it"
            )

    def _state(self) -> tuple[int, int]:
        found = os.fstat(self._file.fileno())
        return found.st_size, found.st_mtime_ns
