"""Characters and documents that each client has used, counted in the process's memory."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from uwaga_server.api_errors import QuotaError


@dataclass(frozen=True)
class Usage:
    """Characters and documents used since the client's first request, at ``since`` (seconds since 1970)."""

    characters: int = 0
    documents: int = 0
    since: int = 0

    def plus(self, characters: int, documents: int, limit: int = 0) -> Usage:
        """Return the usage with further characters and documents.

        Args:
            characters: further characters; negative to undo a count.
            documents: further documents; negative to undo a count.
            limit: maximum characters in total; 0 for none.
        """
        if limit and characters > 0 and self.characters + characters > limit:
            left = max(0, limit - self.characters)
            raise QuotaError(f"quota exceeded: {left} of {limit} characters left, {characters} requested")
        since = self.since or int(time.time())
        return Usage(self.characters + characters, self.documents + documents, since)


class UsageStore:
    """Usage of each owner, in the memory of this process."""

    def __init__(self) -> None:
        self._counts: dict[str, Usage] = {}
        self._lock = threading.Lock()

    def read(self, owner: str) -> Usage:
        """Return the usage of an owner."""
        return self._counts.get(owner, Usage())

    def add(self, owner: str, characters: int, documents: int = 0, limit: int = 0) -> None:
        """Count characters and documents, atomically.

        Args:
            owner: the owner to charge.
            characters: further characters; negative to undo a count.
            documents: further documents; negative to undo a count.
            limit: maximum characters in total; 0 for none.
        """
        with self._lock:
            self._counts[owner] = self._counts.get(owner, Usage()).plus(characters, documents, limit)

    def blocks(self, limit: int) -> bool:
        """Return whether :meth:`add` with this limit blocks on a database, so that it needs a thread."""
        return False

    def flush(self) -> None:
        """Write the counts in memory to the database, if there is one."""
