"""Retries of calls that fail with transient errors, with exponential backoff."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def retry(
    call: Callable[[], Result],
    attempts: int,
    pause: float,
    is_transient: Callable[[Exception], bool],
    wait: Callable[[float], object] = time.sleep,
) -> Result:
    """Return the result of ``call``, which is called again while it fails with a transient error.

    Args:
        call: the function to call.
        attempts: maximum number of calls.
        pause: seconds before the second attempt; each further pause is twice as long.
        is_transient: returns True if another call may succeed after the given error.
        wait: waits for a number of seconds; if it returns a true value, as ``Event.wait`` may, no further
            attempt is made.
    """
    for attempt in range(1, attempts + 1):
        try:
            return call()
        except Exception as error:
            if attempt == attempts or not is_transient(error) or wait(pause * 2 ** (attempt - 1)):
                raise
    raise AssertionError("attempts must be at least 1")
