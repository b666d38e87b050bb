"""Waiting for what other threads, processes and browsers do."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(
    condition: Callable[[], object], seconds: float = 60, pause: Callable[[float], object] = time.sleep
) -> None:
    """Wait until this holds; ``pause`` lets others go on for so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        pause(0.01)
