"""Usage counts of each owner in the memory of the process."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from uwaga_server.api_errors import QuotaError


@dataclass(frozen=True)
class Usage:
    """The usage of an owner.

    Attributes:
        characters: number of characters used.
        documents: number of documents translated.
        since: time of the first request, in seconds since 1970; 0 if there has been none.
    """

    characters: int = 0
    documents: int = 0
    since: int = 0

    def plus(self, characters: int, documents: int, limit: int = 0) -> Usage:
        """Return the usage after characters and documents have been added.

        Args:
            characters: number of characters to add; negative to refund characters.
            documents: number of documents to add; negative to refund documents.
            limit: maximum total number of characters; 0 for no limit.

        Raises:
            QuotaError: the limit would be exceeded.
        """
        if limit and characters > 0 and self.characters + characters > limit:
            left = max(0, limit - self.characters)
            raise QuotaError(f"quota exceeded: {left} of {limit} characters left, {characters} requested")
        since = self.since or int(time.time())
        return Usage(self.characters + characters, self.documents + documents, since)


class UsageStore:
    """Store of usage counts in the memory of this process."""

    def __init__(self) -> None:
        self._counts: dict[str, Usage] = {}
        self._lock = threading.Lock()

    def read(self, owner: str) -> Usage:
        """Return the usage of an owner."""
        return self._counts.get(owner, Usage())

    def add(self, owner: str, characters: int, documents: int = 0, limit: int = 0) -> None:
        """Add characters and documents to the usage of an owner, atomically.

        Args:
            owner: the owner to charge.
            characters: number of characters to add; negative to refund characters.
            documents: number of documents to add; negative to refund documents.
            limit: maximum total number of characters; 0 for no limit.

        Raises:
            QuotaError: the limit would be exceeded.
        """
        with self._lock:
            self._counts[owner] = self._counts.get(owner, Usage()).plus(characters, documents, limit)

    def add_blocks(self, limit: int) -> bool:
        """Return whether :meth:`add` must run in a thread, since with this limit it waits for a database."""
        return False

    def flush(self) -> None:
        """Write the counts from memory to the database; do nothing if there is no database."""
