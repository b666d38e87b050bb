"""A glossary that the server keeps for a client: dictionaries, one a pair of languages."""

from __future__ import annotations

import json
import secrets
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from uwaga.errors import DataError, shown
from uwaga.languages.codes import base_language, same_language
from uwaga.server.api_errors import NotStoredError, StorageError
from uwaga.server.glossary_entries import GlossaryEntry, check_name, merged
from uwaga.terms import Glossary, Term

FORMAT = 1


@dataclass(frozen=True)
class Dictionary:
    """The entries from one language to another, by their codes in lower case."""

    source: str
    target: str
    entries: tuple[GlossaryEntry, ...]

    def translates(self, source: str, target: str) -> bool:
        """Whether it is of these languages; regions do not count, ``en`` is ``en-GB`` too."""
        return same_language(self.source, source) and same_language(self.target, target)


@dataclass(frozen=True)
class StoredGlossary:
    """A glossary with its name and when it was made; ``version`` is another after every change."""

    id: str
    name: str
    created: datetime
    version: str
    dictionaries: tuple[Dictionary, ...]

    @classmethod
    def new(cls, name: str, dictionaries: Sequence[Dictionary]) -> StoredGlossary:
        """A new one.

        Raises:
            DataError: its name or an entry is impossible, two dictionaries are of the same languages, or
                there is none.
        """
        made = cls(str(uuid.uuid4()), check_name(name), datetime.now(UTC), secrets.token_hex(8), ())
        if not dictionaries:
            raise DataError("a glossary has a dictionary at least")
        for number, one in enumerate(dictionaries):
            if any(one.translates(other.source, other.target) for other in dictionaries[:number]):
                raise DataError(f"two dictionaries from {one.source} to {one.target}; make them one")
            made = made.with_dictionary(one)
        return made

    def dictionary(self, source: str, target: str) -> Dictionary:
        """The dictionary of two languages.

        Raises:
            NotStoredError: there is none.
        """
        for one in self.dictionaries:
            if one.translates(source, target):
                return one
        raise NotStoredError(f"the glossary has no dictionary from {source} to {target}")

    def renamed(self, name: str) -> StoredGlossary:
        """The same with another name.

        Raises:
            DataError: it cannot be one.
        """
        return self._changed(name=check_name(name))

    def with_dictionary(self, new: Dictionary) -> StoredGlossary:
        """The same with a dictionary in the place of that of its languages, or as a further one.

        Raises:
            DataError: its languages are one, or its terms contradict each other.
        """
        if same_language(new.source, new.target):
            raise DataError(f"a dictionary from {new.source} to {new.target} translates nothing")
        for code in (new.source, new.target):
            check_language(code)
        Glossary(_terms(self.name, new))
        kept = [one for one in self.dictionaries if not one.translates(new.source, new.target)]
        return self._changed(dictionaries=(*kept, new))

    def with_entries(self, new: Dictionary) -> StoredGlossary:
        """The same with further entries in the dictionary of their languages; of one source the new counts.

        Raises:
            DataError: as :meth:`with_dictionary`.
        """
        old = next((one.entries for one in self.dictionaries if one.translates(new.source, new.target)), ())
        return self.with_dictionary(replace(new, entries=merged(old, new.entries)))

    def without_dictionary(self, source: str, target: str) -> StoredGlossary:
        """The same without the dictionary of two languages.

        Raises:
            NotStoredError: there is none.
        """
        gone = self.dictionary(source, target)
        return self._changed(dictionaries=tuple(one for one in self.dictionaries if one is not gone))

    def _changed(
        self, name: str | None = None, dictionaries: tuple[Dictionary, ...] | None = None
    ) -> StoredGlossary:
        return replace(
            self,
            name=self.name if name is None else name,
            dictionaries=self.dictionaries if dictionaries is None else dictionaries,
            version=secrets.token_hex(8),
        )

    def as_json(self) -> str:
        """How it is stored."""
        return json.dumps(
            {
                "format": FORMAT,
                "id": self.id,
                "name": self.name,
                "created": self.created.isoformat(),
                "version": self.version,
                "dictionaries": [[one.source, one.target, one.entries] for one in self.dictionaries],
            },
            ensure_ascii=False,
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> StoredGlossary:
        """A glossary as :meth:`as_json` writes it.

        Raises:
            StorageError: it is none, or a later version's.
        """
        try:
            found = json.loads(text)
            if found["format"] != FORMAT:
                raise StorageError(f"a stored glossary has the format {shown(found['format'])}, not {FORMAT}")
            return cls(
                found["id"],
                found["name"],
                datetime.fromisoformat(found["created"]),
                found["version"],
                tuple(
                    Dictionary(
                        source, target, tuple(GlossaryEntry(one, tuple(ways)) for one, ways in entries)
                    )
                    for source, target, entries in found["dictionaries"]
                ),
            )
        except (ValueError, KeyError, TypeError, RecursionError):
            raise StorageError(
                "a stored glossary is damaged; the operator of the server must see to it"
            ) from None


def check_language(code: str) -> str:
    """A code of a language in lower case.

    Raises:
        DataError: it is none.
    """
    base = base_language(code)
    if not (code.isascii() and 2 <= len(code) <= 16 and base.isalpha()):
        raise DataError(f"{shown(code)} is no code of a language, such as en")
    return code.lower()


def together(glossaries: Iterable[StoredGlossary], source: str, target: str) -> Glossary:
    """The terms of glossaries for two languages, all in one.

    Raises:
        NotStoredError: one has no dictionary of them.
        DataError: their terms contradict each other: names both.
    """
    found = [(one.name, one.dictionary(source, target)) for one in glossaries]
    return Glossary(term for name, dictionary in found for term in _terms(name, dictionary))


def _terms(name: str, dictionary: Dictionary) -> list[Term]:
    return [
        Term(" ".join(source.split()), targets, f"glossary {shown(name)}, entry {number}")
        for number, (source, targets) in enumerate(dictionary.entries, start=1)
    ]
