"""How much a client may ask for in a minute: a bucket of tokens each, filled all the time."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from uwaga.server.keys import Client
from uwaga.server.problems import Problem

MOST_CLIENTS = 100_000
"""Buckets that are kept; who has not been seen for longest begins with a full one again."""
MINUTE = 60.0


class RateLimiter:
    """Requests and characters of each client in a minute.

    Args:
        share: of every limit that is this process's: one in so many workers.
        clock: seconds that never go back.
    """

    def __init__(self, share: float = 1.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._share, self._clock = share, clock
        self._buckets: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()

    def take(self, client: Client, characters: int = 0) -> None:
        """Count a request, or characters of one that was counted.

        Args:
            client: whose.
            characters: how many, 0 for the request itself.

        Raises:
            Problem: it is too many; says when to come again.
        """
        if characters:
            self._draw(client, "characters", characters, client.characters_per_minute)
        else:
            self._draw(client, "requests", 1, client.requests_per_minute)

    def _draw(self, client: Client, what: str, amount: int, per_minute: int) -> None:
        if not per_minute:
            return
        most = max(1.0, per_minute * self._share)
        key, now = (client.name, what), self._clock()
        left, then = self._buckets.pop(key, (most, now))
        left = min(most, left + (now - then) * most / MINUTE)
        # A request of more than a minute's characters is let in by a full bucket, which it leaves in debt.
        enough = left >= min(amount, most)
        self._buckets[key] = left - amount if enough else left, now
        if len(self._buckets) > MOST_CLIENTS:
            self._buckets.popitem(last=False)
        if not enough:
            wait = (min(amount, most) - left) * MINUTE / most
            message = f"more than {per_minute} {what} in a minute; come again in {wait:.0f} s"
            raise Problem(429, "too_many_requests", message, retry_after=wait)
