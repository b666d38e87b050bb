"""Translation memories, as translations use them: any object that finds pairs similar to a text."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any, NamedTuple, Protocol

from uwaga.errors import MissingExtraError, SettingsError, quoted
from uwaga.plugins import Registry

DEFAULT_THRESHOLD = 75.0
"""Similarity in percent below which pairs are not used."""
STORES: Registry[Any] = Registry(
    "kind of translation memory", "uwaga.memories", {"sqlite": "uwaga_memory.files:open_memory"}
)
"""What opens the files of memories: a class or function that gets the path and the languages."""


class TextContext(NamedTuple):
    """Where a text stands in its document: its key, such as a message id, and the source texts around it."""

    key: str = ""
    before: str = ""
    after: str = ""


class MemoryMatch(Protocol):
    """A pair that is similar to a text; ``score`` is 101 in the same context, and 100 for the same text."""

    @property
    def source(self) -> str:
        """The source of the pair."""

    @property
    def target(self) -> str:
        """Its translation."""

    @property
    def score(self) -> float:
        """The similarity of its source to the text, in percent."""

    @property
    def origin(self) -> str:
        """Where the pair comes from."""

    @property
    def created(self) -> str:
        """When it was added."""


class TranslationMemory(Protocol):
    """A translation memory, such as :class:`uwaga_memory.store.Memory`."""

    def matches(
        self, text: str, context: Any = None, *, threshold: float = DEFAULT_THRESHOLD, limit: int = 5
    ) -> Sequence[MemoryMatch]:
        """Return the pairs most similar to a text, best first.

        Args:
            text: the source text, with its tags and placeholders.
            context: a :class:`TextContext`, or None.
            threshold: the least score.
            limit: the maximum number of pairs.
        """
        ...


MemoryArgument = TranslationMemory | str | PathLike[str] | None
"""The ``memory`` of a call: a memory, or its file."""


def open_memory(memory: MemoryArgument, languages: tuple[str, str]) -> TranslationMemory:
    """Return a memory; one that is named by its file is opened.

    A file of translations, such as TMX or PO, is read into a temporary memory.

    Args:
        memory: the memory, or its file.
        languages: those of the sources and of the translations.

    Raises:
        DataError: the file is no memory, and has no translations between the languages.
        MissingExtraError: the package that reads it is not installed.
        SettingsError: the argument is neither.
    """
    if isinstance(memory, str | PathLike):
        if "sqlite" not in STORES:
            raise MissingExtraError(
                "translation memories need the package uwaga_memory: pip install 'uwaga[memory]'"
            )
        opened: TranslationMemory = STORES["sqlite"](memory, languages)
        return opened
    if memory is None or not callable(getattr(memory, "matches", None)):
        raise SettingsError(
            f"memory must be the file of a translation memory, or have matches(), not {quoted(memory)}"
        )
    return memory


def memory_name(memory: MemoryArgument) -> str:
    """Return what identifies a memory in the settings of a job."""
    return str(getattr(memory, "origin", memory))
