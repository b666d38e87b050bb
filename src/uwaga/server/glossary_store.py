"""Where glossaries lie: a folder that all workers share, or a database behind an SQL URL.

A glossary belongs to an owner, whom nobody else's requests reach. Any number of processes may use one store.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from uwaga.errors import DataError
from uwaga.files.atomic import new_file
from uwaga.server.api_errors import NotStoredError, QuotaError, StorageError
from uwaga.server.stored_glossary import StoredGlossary, together
from uwaga.terms import Glossary

REMEMBERED = 200_000
"""Entries of glossaries that a process keeps ready beside the store."""
NO_GLOSSARY = "there is no such glossary"


@dataclass(frozen=True)
class GlossaryLimits:
    """``most``: glossaries of an owner; ``largest``: bytes of one as it is stored."""

    most: int = 1000
    largest: int = 10 << 20


NO_LIMITS = GlossaryLimits()
Change = Callable[[StoredGlossary], StoredGlossary]


class GlossaryStore(Protocol):
    """Glossaries of owners."""

    def add(self, owner: str, glossary: StoredGlossary) -> None:
        """Keep a new one.

        Raises:
            QuotaError: the owner has too many, or it is too large.
            StorageError: it cannot be kept; nothing has changed then.
        """
        ...

    def get(self, owner: str, glossary_id: str) -> StoredGlossary:
        """One of the owner's.

        Raises:
            NotStoredError: there is none.
            StorageError: it cannot be read.
        """
        ...

    def all(self, owner: str) -> list[StoredGlossary]:
        """All of the owner's, the oldest first.

        Raises:
            StorageError: one cannot be read.
        """
        ...

    def change(self, owner: str, glossary_id: str, change: Change) -> StoredGlossary:
        """Change one in one step; changes by others at the same time come before it or after it.

        Args:
            owner: whose it is.
            glossary_id: which.
            change: from what it is to what it becomes; may be called again, and may raise.

        Raises:
            NotStoredError, QuotaError, StorageError: as the others; nothing has changed then.
        """
        ...

    def remove(self, owner: str, glossary_id: str) -> None:
        """Remove one.

        Raises:
            NotStoredError: there is none.
            StorageError: it cannot be removed.
        """
        ...


def owner_name(owner: str) -> str:
    """What an owner is called in a store: nothing of a request becomes the name of a file."""
    return hashlib.sha256(owner.encode("utf-8", "surrogatepass")).hexdigest()


def checked_id(glossary_id: str) -> str:
    """The id of a glossary as it is stored.

    Raises:
        NotStoredError: it can be none.
    """
    try:
        return str(uuid.UUID(glossary_id))
    except ValueError:
        raise NotStoredError(NO_GLOSSARY) from None


def stored_text(glossary: StoredGlossary, limits: GlossaryLimits) -> bytes:
    """How a glossary is stored.

    Raises:
        QuotaError: it is too large.
    """
    content = glossary.as_json().encode()
    if len(content) > limits.largest:
        raise QuotaError(f"the glossary is larger than {limits.largest} bytes; make it two")
    return content


class Remembered:
    """Glossaries that were read not long ago, by owner and id, each with what tells its states apart."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], tuple[object, StoredGlossary]] = OrderedDict()
        self._lock = threading.Lock()
        self._entries = 0

    def get(self, key: tuple[str, str], state: object) -> StoredGlossary | None:
        """The one that is known in this state."""
        with self._lock:
            known = self._known.get(key)
            if known is None or known[0] != state:
                return None
            self._known.move_to_end(key)
            return known[1]

    def put(self, key: tuple[str, str], state: object, glossary: StoredGlossary) -> None:
        """Remember one, and forget those that were not asked for in longest."""
        with self._lock:
            self._forget(key)
            self._known[key] = (state, glossary)
            self._entries += _size(glossary)
            while self._entries > REMEMBERED and self._known:
                self._forget(next(iter(self._known)))

    def _forget(self, key: tuple[str, str]) -> None:
        known = self._known.pop(key, None)
        if known is not None:
            self._entries -= _size(known[1])


def _size(glossary: StoredGlossary) -> int:
    return 1 + sum(len(one.entries) for one in glossary.dictionaries)


class FolderGlossaries:
    """A folder of each owner, a file of each glossary, which appears whole or not at all."""

    def __init__(self, folder: Path, limits: GlossaryLimits = NO_LIMITS) -> None:
        self._folder, self._limits = folder, limits
        self._remembered = Remembered()
        with _told("made"):
            folder.mkdir(parents=True, exist_ok=True)

    def add(self, owner: str, glossary: StoredGlossary) -> None:
        """As :class:`GlossaryStore` has it."""
        content = stored_text(glossary, self._limits)
        with self._locked(owner) as folder:
            if len(_files(folder)) >= self._limits.most:
                raise QuotaError(f"there are {self._limits.most} glossaries; delete one first")
            _write(folder / f"{checked_id(glossary.id)}.json", content)

    def get(self, owner: str, glossary_id: str) -> StoredGlossary:
        """As :class:`GlossaryStore` has it."""
        return self._read(owner, checked_id(glossary_id))

    def all(self, owner: str) -> list[StoredGlossary]:
        """As :class:`GlossaryStore` has it."""
        found = []
        for path in _files(self._folder / owner_name(owner)):
            with contextlib.suppress(NotStoredError):  # removed meanwhile
                found.append(self._read(owner, path.stem))
        return sorted(found, key=lambda one: (one.created, one.id))

    def change(self, owner: str, glossary_id: str, change: Change) -> StoredGlossary:
        """As :class:`GlossaryStore` has it."""
        glossary_id = checked_id(glossary_id)
        with self._locked(owner) as folder:
            made = change(self._read(owner, glossary_id))
            _write(folder / f"{glossary_id}.json", stored_text(made, self._limits))
            return made

    def remove(self, owner: str, glossary_id: str) -> None:
        """As :class:`GlossaryStore` has it."""
        glossary_id = checked_id(glossary_id)
        with self._locked(owner) as folder, _told("removed"):
            try:
                (folder / f"{glossary_id}.json").unlink()
            except FileNotFoundError:
                raise NotStoredError(NO_GLOSSARY) from None

    def _read(self, owner: str, glossary_id: str) -> StoredGlossary:
        path = self._folder / owner_name(owner) / f"{glossary_id}.json"
        with _told("read"):
            try:
                handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0))
            except FileNotFoundError:
                raise NotStoredError(NO_GLOSSARY) from None
            with os.fdopen(handle, "rb") as file:
                told = os.fstat(handle)
                state = told.st_ino, told.st_mtime_ns, told.st_size
                known = self._remembered.get((owner, glossary_id), state)
                if known is not None:
                    return known
                found = StoredGlossary.from_json(file.read())
        self._remembered.put((owner, glossary_id), state, found)
        return found

    @contextlib.contextmanager
    def _locked(self, owner: str) -> Iterator[Path]:
        """The folder of an owner, which nobody else changes meanwhile."""
        folder = self._folder / owner_name(owner)
        with _told("changed"):
            folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                yield folder
            finally:
                os.close(handle)


def _files(folder: Path) -> list[Path]:
    return [one for one in folder.glob("*.json") if not one.name.startswith(".")]


def _write(path: Path, content: bytes) -> None:
    try:
        with new_file(path) as file:
            file.write(content)
    except DataError as error:
        raise StorageError(f"the glossary cannot be kept: {str(error).rpartition(': ')[2]}") from None


@contextlib.contextmanager
def _told(done: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"glossaries cannot be {done} now: {error.strerror or type(error).__name__}"
        ) from None


class GlossaryCache:
    """Glossaries ready for use: those that were used not long ago are not built again.

    Args:
        store: where they lie.
        most: how many are kept ready.
    """

    def __init__(self, store: GlossaryStore, most: int = 64) -> None:
        self.store = store
        self._most = most
        self._ready: OrderedDict[tuple[tuple[str, str], ...], Glossary] = OrderedDict()
        self._lock = threading.Lock()

    def terms(self, owner: str, glossary_ids: tuple[str, ...], source: str, target: str) -> Glossary:
        """The terms of some glossaries of an owner from one language to another.

        Raises:
            NotStoredError: there is no such glossary, or it has no dictionary of these languages.
            DataError: their terms contradict each other.
            StorageError: one cannot be read.
        """
        found = [self.store.get(owner, one) for one in glossary_ids]
        key = (*((one.id, one.version) for one in found), (source.lower(), target.lower()))
        with self._lock:
            if key in self._ready:
                self._ready.move_to_end(key)
                return self._ready[key]
        made = together(found, source, target)
        with self._lock:
            self._ready[key] = made
            while len(self._ready) > self._most:
                self._ready.popitem(last=False)
        return made
