"""Waiting for other threads, processes and browsers."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor


def eventually(
    condition: Callable[[], object], seconds: float = 60, pause: Callable[[float], object] = time.sleep
) -> None:
    """Wait until the condition holds, with pauses of ``pause`` seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        pause(0.01)


def in_threads(function: Callable, arguments: Iterable) -> list:
    """Return the results of a function for each argument, each computed in its own thread."""
    arguments = list(arguments)
    with ThreadPoolExecutor(len(arguments)) as pool:
        return list(pool.map(function, arguments))
