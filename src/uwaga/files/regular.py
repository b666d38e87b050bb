"""Files beside a model, opened so that nothing that stands in their place can hold the process up."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path) -> BinaryIO:
    """A file to read; a pipe or a device, which may never end, is refused and never waited for.

    Raises:
        OSError: missing, unreadable, or no regular file.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    number = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise OSError(errno.EINVAL, "not a file", str(path))
        return os.fdopen(number, "rb")
    except BaseException:
        os.close(number)
        raise


def read_regular(path: Path, most: int) -> bytes:
    """All of a file.

    Raises:
        OSError: as :func:`open_regular`, or it has more than ``most`` bytes.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise OSError(errno.EFBIG, f"larger than {most} bytes", str(path))
        return file.read(size)
