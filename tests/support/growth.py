"""Measurement of how the run time of a function grows with the length of a text."""

import contextlib
import time
from collections.abc import Callable

from uwaga.errors import UwagaError

MIN_SECONDS = 0.003
"""Minimum processor time of a measurement, so that the resolution of the clock does not matter."""


def seconds_per_character(run: Callable[[str], None], text: str) -> float:
    """Return the processor time per character, measured over one or more runs."""
    runs, elapsed, started = 0, 0.0, time.process_time()
    while elapsed < MIN_SECONDS and runs < 500:
        with contextlib.suppress(UwagaError):  # a text that is refused must be refused in linear time
            run(text)
        runs += 1
        elapsed = time.process_time() - started
    return elapsed / (runs * len(text))


def growth(run: Callable[[str], None], small: str, large: str, limit: float, attempts: int) -> float:
    """Return the growth of the time per character, the minimum of alternate measurements of each size."""
    short_time, long_time = seconds_per_character(run, small), float("inf")
    for _ in range(attempts):
        long_time = min(long_time, seconds_per_character(run, large))
        short_time = min(short_time, seconds_per_character(run, small))
        if long_time <= limit * short_time:
            break
    return long_time / max(short_time, 1e-12)
