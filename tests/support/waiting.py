"""Waiting for other threads, processes and browsers."""

import time
from collections.abc import Callable


def eventually(
    condition: Callable[[], object], seconds: float = 60, pause: Callable[[float], object] = time.sleep
) -> None:
    """Wait until the condition holds, with pauses of ``pause`` seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        pause(0.01)
