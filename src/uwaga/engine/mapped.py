"""Memory-mapped arrays: looked at, and let go of."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

CHUNK = 1 << 20
"""Numbers that are looked at together."""


def let_go(values: NDArray[Any]) -> None:
    """Take the pages of a memory-mapped array out of the process; used again, they are read again."""
    mapped = getattr(values, "_mmap", None)
    if not isinstance(mapped, mmap.mmap) or not hasattr(mmap, "MADV_DONTNEED"):
        return
    start = values.ctypes.data - np.frombuffer(mapped, dtype=np.uint8).ctypes.data
    first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
    last = (start + values.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if last > first:
        mapped.madvise(mmap.MADV_DONTNEED, first, last - first)


def all_finite(values: NDArray[Any]) -> bool:
    """Whether no number is infinite or NaN; pages of a mapped file do not stay in memory for that."""
    flat = values.ravel(order="K")
    for start in range(0, flat.size, CHUNK):
        part = flat[start : start + CHUNK]
        if not np.isfinite(part).all():
            return False
        let_go(part)
    return True
