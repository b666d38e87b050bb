"""What each client has used up: characters and documents, counted by all workers together."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from uwaga.server.api_errors import QuotaError, StorageError
from uwaga.server.glossary_store import owner_name

DIGITS = 20


@dataclass(frozen=True)
class Usage:
    """``characters`` and ``documents`` since the client was first seen, at ``since`` (epoch)."""

    characters: int = 0
    documents: int = 0
    since: int = 0

    def more(self, characters: int, documents: int, limit: int) -> Usage:
        """The same with some more.

        Args:
            characters: how many.
            documents: how many.
            limit: most characters, 0 for any number.

        Raises:
            QuotaError: it would be beyond the limit.
        """
        if limit and characters > 0 and self.characters + characters > limit:
            left = max(0, limit - self.characters)
            raise QuotaError(
                f"quota exceeded: {left} of {limit} characters are left, {characters} are asked for"
            )
        since = self.since or int(time.time())
        return Usage(self.characters + characters, self.documents + documents, since)


class UsageStore(Protocol):
    """Counts of owners. ``waits``: a call may take long, and belongs into a thread."""

    waits: bool

    def read(self, owner: str) -> Usage:
        """What an owner has used up.

        Raises:
            StorageError: it cannot be read.
        """
        ...

    def take(self, owner: str, characters: int, documents: int = 0, limit: int = 0) -> Usage:
        """Count some more, in one step; fewer than none gives back.

        Raises:
            QuotaError: it would be beyond the limit; nothing is counted then.
            StorageError: it cannot be counted.
        """
        ...


class ProcessUsage:
    """Counts that end with the process."""

    waits = False

    def __init__(self) -> None:
        self._known: dict[str, Usage] = {}
        self._lock = threading.Lock()

    def read(self, owner: str) -> Usage:
        """As :class:`UsageStore` has it."""
        return self._known.get(owner, Usage())

    def take(self, owner: str, characters: int, documents: int = 0, limit: int = 0) -> Usage:
        """As :class:`UsageStore` has it."""
        with self._lock:
            made = self._known.get(owner, Usage()).more(characters, documents, limit)
            self._known[owner] = made
            return made


class FolderUsage:
    """A small file of each owner, changed in place by one write under its lock."""

    waits = False

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with _told():
            folder.mkdir(parents=True, exist_ok=True)

    def read(self, owner: str) -> Usage:
        """As :class:`UsageStore` has it."""
        with _told():
            try:
                with (self._folder / owner_name(owner)).open("rb") as file:
                    return _parsed(file.read())
            except FileNotFoundError:
                return Usage()

    def take(self, owner: str, characters: int, documents: int = 0, limit: int = 0) -> Usage:
        """As :class:`UsageStore` has it."""
        with _told():
            handle = os.open(self._folder / owner_name(owner), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                made = _parsed(os.pread(handle, 4 * DIGITS, 0)).more(characters, documents, limit)
                numbers = made.characters, made.documents, made.since
                os.pwrite(handle, (" ".join(f"{one:0{DIGITS}}" for one in numbers) + "\n").encode(), 0)
                return made
            finally:
                os.close(handle)


def _parsed(content: bytes) -> Usage:
    numbers = content.split()
    return Usage(*map(int, numbers)) if len(numbers) == 3 else Usage()


@contextlib.contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        raise StorageError(f"usage cannot be counted now: {type(error).__name__}") from None
