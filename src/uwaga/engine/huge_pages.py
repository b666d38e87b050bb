"""Anonymous memory on pages of 2 MB, of which the processor needs fewer table entries than of 4 KB.

A step reads all weights of a decoder once: on small pages it waits for the table as well.
"""

from __future__ import annotations

import mmap
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

HUGE_PAGE = 1 << 21
ALIGNMENT = 64
"""Bytes on whose multiples arrays begin. torch allots so too: its kernels sum in another order elsewhere."""

Bytes = NDArray[np.uint8]


def huge_bytes(size: int) -> Bytes:
    """So many bytes, from a huge page's beginning where they are as many as one has; zeros.

    Where the system has no such pages they lie on what it has.
    """
    if not hasattr(mmap, "MAP_PRIVATE"):
        owner = np.zeros(size + ALIGNMENT, dtype=np.uint8)
        first = -owner.ctypes.data % ALIGNMENT
        return owner[first : first + size]
    room = -(-size // HUGE_PAGE) * HUGE_PAGE + HUGE_PAGE if size >= HUGE_PAGE else max(size, 1)
    memory = mmap.mmap(-1, room, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    owner = np.frombuffer(memory, dtype=np.uint8)
    first = -owner.ctypes.data % HUGE_PAGE if size >= HUGE_PAGE else 0
    if size >= HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    return owner[first : first + size]
