"""Waiting for what other threads, processes and browsers do."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(
    holds: Callable[[], object], seconds: float = 60, pause: Callable[[float], object] = time.sleep
) -> None:
    """Wait until this holds; ``pause`` lets others go on for so many seconds."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until
        pause(0.01)
