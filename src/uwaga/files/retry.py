"""Repeat a call that fails for a passing reason, with exponential backoff."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def retry(
    call: Callable[[], Result],
    attempts: int,
    pause: float,
    is_passing: Callable[[Exception], bool],
    wait: Callable[[float], object] = time.sleep,
) -> Result:
    """Return the result of ``call``, which is repeated while it fails with a passing error.

    Args:
        call: the operation.
        attempts: the greatest number of calls.
        pause: seconds before the second attempt; each further pause is twice as long.
        is_passing: tells whether a repeated call may succeed after this error.
        wait: waits that many seconds; a true result, such as that of ``Event.wait``, ends the attempts.
    """
    for attempt in range(1, attempts + 1):
        try:
            return call()
        except Exception as error:
            if attempt == attempts or not is_passing(error) or wait(pause * 2 ** (attempt - 1)):
                raise
    raise AssertionError("at least one attempt is made")
