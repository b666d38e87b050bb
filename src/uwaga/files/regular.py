"""Opening of untrusted local files; a pipe or device in place of a file cannot block the process."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from uwaga.files.handles import BINARY, NO_WAIT


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; raise OSError for a pipe or device, without waiting for it."""
    handle = os.open(path, os.O_RDONLY | NO_WAIT | BINARY)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "not a file", str(path))
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_regular(path: Path, max_bytes: int) -> bytes:
    """Return the content of a regular file of at most ``max_bytes``."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > max_bytes:
            raise OSError(errno.EFBIG, f"larger than {max_bytes} bytes", str(path))
        return file.read(size)
