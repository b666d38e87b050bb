"""Untrusted local files, opened so that a pipe or a device in their place cannot block the process."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from uwaga.files.handles import BINARY, NO_WAIT


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; refuse a pipe or a device, which may never end, without waiting."""
    number = os.open(path, os.O_RDONLY | NO_WAIT | BINARY)
    try:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise OSError(errno.EINVAL, "not a file", str(path))
        return os.fdopen(number, "rb")
    except BaseException:
        os.close(number)
        raise


def read_regular(path: Path, most: int) -> bytes:
    """Return the content of a regular file."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise OSError(errno.EFBIG, f"larger than {most} bytes", str(path))
        return file.read(size)
