"""The interface of translation memories: objects that find pairs similar to a text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, NamedTuple, Protocol

from uwaga.errors import DataError, MissingExtraError, SettingsError, quoted
from uwaga.languages.codes import same_language
from uwaga.plugins import Registry

DEFAULT_THRESHOLD = 50.0
"""Minimum similarity, in percent, of the pairs that are used."""
STORES: Registry[Any] = Registry(
    "kind of translation memory", "uwaga.memories", {"sqlite": "uwaga_memory.files:open_memory"}
)
"""The functions that open memory files, given the path and the languages."""


SIMILARITY_CLASSES = {
    "context match": 101.0,
    "100 %": 100.0,
    "95–99 %": 95.0,
    "85–94 %": 85.0,
    "75–84 %": 75.0,
    "50–74 %": 50.0,
    "no match": 0.0,
}
"""The minimum score of each similarity class that translation tools report, highest first."""


def similarity_class(score: float) -> str:
    """Return the class of a score in :data:`SIMILARITY_CLASSES`."""
    return next(name for name, minimum in SIMILARITY_CLASSES.items() if score >= minimum)


class TextContext(NamedTuple):
    """The context of a text: its key in the document, such as a message id, and the neighbouring texts."""

    key: str = ""
    before: str = ""
    after: str = ""


def contexts_in_order(
    texts: Sequence[str], outer_context: TextContext | None = None
) -> Iterator[TextContext]:
    """Yield the context of each of several consecutive texts; blank texts do not count as neighbours.

    Args:
        texts: the texts.
        outer_context: the key of all texts, the text before the first and the text after the last.
    """
    key, text_before, text_after = outer_context or TextContext()
    following_texts = [text_after] * len(texts)
    for index in range(len(texts) - 1, 0, -1):
        text_after = texts[index] if texts[index].strip() else text_after
        following_texts[index - 1] = text_after
    for index, text in enumerate(texts):
        yield TextContext(key, text_before, following_texts[index])
        text_before = text if text.strip() else text_before


@dataclass(frozen=True)
class Pair:
    """A source with its translation.

    Attributes:
        source: the source text.
        target: its translation.
        origin: the origin of the pair, such as the name of a file.
        key: the key of the text in its document, such as a message id.
        before: the source text before this text in the document.
        after: the source text after this text in the document.
        created: time of the translation in ISO 8601; empty for the current time.
        properties: other information about the pair in a file, such as notes, as names and values.
    """

    source: str
    target: str
    origin: str = ""
    key: str = ""
    before: str = ""
    after: str = ""
    created: str = ""
    properties: tuple[tuple[str, str], ...] = ()


@dataclass
class AddedCounts:
    """The result of adding pairs: the numbers of new, already known and (by reason) skipped pairs."""

    new: int = 0
    known: int = 0
    skipped: Counter[str] = field(default_factory=Counter)


class MemoryMatch(Protocol):
    """A pair that is similar to a text.

    ``score`` is 101 for the same text in the same context, and 100 for the same text in another context.
    """

    @property
    def source(self) -> str:
        """The source of the pair."""

    @property
    def target(self) -> str:
        """The translation of the source."""

    @property
    def score(self) -> float:
        """The similarity of the pair's source to the text, in percent."""

    @property
    def origin(self) -> str:
        """The origin of the pair, such as a file."""

    @property
    def created(self) -> str:
        """The time at which the pair was added."""


class TranslationMemory(Protocol):
    """A translation memory, such as :class:`uwaga_memory.store.Memory`."""

    def matches(
        self, text: str, context: Any = None, *, threshold: float = DEFAULT_THRESHOLD, limit: int = 5
    ) -> Sequence[MemoryMatch]:
        """Return the pairs most similar to a text, best first.

        Args:
            text: the source text, with its tags and placeholders.
            context: a :class:`TextContext`, or None.
            threshold: the minimum score.
            limit: the maximum number of pairs.
        """
        ...


class StateStore(Protocol):
    """A store of the decoder states of a memory's pairs, separately for each model; it must be hashable."""

    def load(self, model: str, keys: Iterable[bytes]) -> Mapping[bytes, bytes]:
        """Return the stored values by key; keys without a value are left out."""
        ...

    def save(self, model: str, values: Mapping[bytes, bytes]) -> None:
        """Store as many of the values as there is space for, each under its key."""
        ...

    def sample(self, count: int) -> Sequence[tuple[str, str]]:
        """Return at most ``count`` pairs of the memory, the same pairs in every call."""
        ...


def state_store(memory: object) -> StateStore | None:
    """Return a memory's store of decoder states (its attribute ``states``), or None if it has no store.

    Without a store, models cannot retrieve the pairs of the memory.
    """
    store: StateStore | None = getattr(memory, "states", None)
    return store


class LearningMemory(TranslationMemory, Protocol):
    """A translation memory to which pairs can be added."""

    def confirm(self, pairs: Sequence[Pair]) -> AddedCounts:
        """Add pairs, which then precede other matches with equal scores."""
        ...


MemoryArgument = TranslationMemory | str | PathLike[str] | None
"""The argument ``memory`` of a call: a memory, or the path of its file."""


def open_memory(memory: MemoryArgument, languages: tuple[str, str] | None = None) -> TranslationMemory:
    """Return a translation memory, opening its file if a path is given.

    A file of translations, such as TMX or PO, is read into a temporary memory.

    Args:
        memory: the memory, or the path of its file.
        languages: source and target of the translator. They must equal the languages of the memory if both
            are known, and are required to read a file of translations.

    Raises:
        DataError: the file is neither a memory nor a file with translations between the languages.
        MissingExtraError: the package for translation memories is not installed.
        SettingsError: ``memory`` is neither a memory nor a path, or the memory has other languages.
    """
    if isinstance(memory, str | PathLike):
        if "sqlite" not in STORES:
            raise MissingExtraError(
                "translation memories need the package uwaga_memory: pip install 'uwaga[memory]'"
            )
        opened_memory: TranslationMemory = STORES["sqlite"](memory, languages)
    elif memory is None or not callable(getattr(memory, "matches", None)):
        raise SettingsError(
            "memory must be the path of a translation memory, or an object with the method matches(), not "
            f"{quoted(memory)}"
        )
    else:
        opened_memory = memory
    memory_languages: tuple[str, str] | None = getattr(opened_memory, "languages", None)
    if languages and memory_languages and not all(map(_is_same_language, languages, memory_languages)):
        raise SettingsError(
            f"{memory_name(memory)} is a translation memory from {' to '.join(memory_languages)}, but the "
            f"model translates from {' to '.join(languages)}; choose another memory or another model"
        )
    return opened_memory


def _is_same_language(language: str, stored_language: str) -> bool:
    from uwaga.checkpoints.languages import UNSTATED_LANGUAGES  # slow to import

    return language in UNSTATED_LANGUAGES or same_language(language, stored_language)


def confirm_pair(memory: MemoryArgument, pair: Pair, languages: tuple[str, str]) -> None:
    """Add a pair to a memory.

    Args:
        memory: the memory, or the path of its file.
        pair: the pair.
        languages: source and target of the translator.

    Raises:
        DataError: the pair cannot be stored, or the memory cannot be read or written.
        MissingExtraError, SettingsError: as in :func:`open_memory`; or pairs cannot be added to the memory.
    """
    opened_store = open_memory(memory, languages)
    if isinstance(memory, str | PathLike) and bool(getattr(opened_store, "note", "")):
        raise SettingsError(
            f"{memory_name(memory)} is a file of translations, to which pairs cannot be added: import it "
            "into a memory with `uwaga memory import`"
        )
    confirm = getattr(opened_store, "confirm", None)
    if not callable(confirm):
        raise SettingsError(
            f"pairs cannot be added to {memory_name(memory)[:200]}: it has no method confirm()"
        )
    if skipped := confirm([pair]).skipped:
        raise DataError(f"{memory_name(memory)}: the pair was not added: {', '.join(skipped)}")


def memory_name(memory: MemoryArgument) -> str:
    """Return the name of a memory for messages and for the settings of a job."""
    return str(getattr(memory, "origin", memory))
