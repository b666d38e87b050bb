"""Glossaries of clients; a glossary consists of a dictionary for each language pair."""

from __future__ import annotations

import csv
import io
import json
import secrets
import sys
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from typing import Literal, NamedTuple

from uwaga.errors import DataError, quoted
from uwaga.languages.codes import base_language, same_language
from uwaga.terms import Glossary, Term
from uwaga.terms.files import SEPARATOR
from uwaga_server.api_errors import NotStoredError, StorageError

EntriesFormat = Literal["tsv", "csv"]
MAX_TEXT_BYTES = 1024
"""Maximum number of UTF-8 bytes of a source, a target or a name."""
MAX_TRANSLATIONS = 200_000
"""Maximum total number of targets in a glossary."""
GLOSSARY_MEMORY, ENTRY_MEMORY = 16 << 10, 160
"""Memory in bytes for each glossary and for each entry, in addition to the memory of the texts."""
MAX_DICTIONARIES = 200
"""Maximum number of dictionaries in a glossary."""
TOO_LARGE_MESSAGE = (
    f"a glossary has at most {MAX_TRANSLATIONS} translations; split it into several glossaries"
)
CONTROL_CHARACTERS = frozenset(map(chr, (*range(32), 127, *range(128, 160), 0x2028, 0x2029)))


class GlossaryEntry(NamedTuple):
    """A term and the forms of its translation, with the most common form first."""

    source: str
    targets: tuple[str, ...]


def read_entries(text: str, format: EntriesFormat, languages: tuple[str, str]) -> tuple[GlossaryEntry, ...]:  # noqa: A002
    """Return the glossary entries in a text.

    Args:
        text: the text, with one entry per line; empty lines are ignored.
        format: ``tsv`` for lines with source, tab and target; ``csv`` for lines with source, target and,
            optionally, the codes of their languages. Lines with other languages are skipped.
        languages: codes of the source and target language.
    """
    lines = _parse_tsv(text) if format == "tsv" else _parse_csv(text, languages)
    return check_entries(lines)


def check_entries(entries: Iterable[tuple[str, GlossaryEntry]]) -> tuple[GlossaryEntry, ...]:
    """Check the entries of a dictionary and return them.

    Args:
        entries: pairs of a label, for error messages, and an entry.

    Raises:
        DataError: an entry is invalid or a duplicate, or there are no entries or too many.
    """
    labels: dict[str, str] = {}
    checked_entries = []
    translations = 0
    for label, (source, targets) in entries:
        translations += len(targets)
        if translations > MAX_TRANSLATIONS:
            raise DataError(TOO_LARGE_MESSAGE)
        for side, text in (("source", source), *(("target", target) for target in targets)):
            _check_text(text, f"{label}: the {side}")
        if not targets:
            raise DataError(f"{label}: the source {quoted(source)} has no target")
        if source in labels:
            raise DataError(f"{label} duplicates {labels[source]}: both translate {quoted(source)}")
        labels[source] = label
        checked_entries.append(GlossaryEntry(source, tuple(targets)))
    if not checked_entries:
        raise DataError("there are no entries")
    return tuple(checked_entries)


def merge_entries(
    old_entries: Iterable[GlossaryEntry], new_entries: Iterable[GlossaryEntry]
) -> tuple[GlossaryEntry, ...]:
    """Return the old entries and the new ones; a new entry replaces an old one with the same source."""
    by_source = {entry.source: entry for entry in old_entries}
    by_source.update((entry.source, entry) for entry in new_entries)
    return tuple(by_source.values())


def format_entries(entries: Iterable[GlossaryEntry]) -> str:
    """Return entries as tab-separated values, with the forms of a target separated by ``|``."""
    return "\n".join(f"{source}\t{SEPARATOR.join(targets)}" for source, targets in entries)


def check_name(name: str, label: str = "name") -> str:
    """Check a name and return it without surrounding white space."""
    name = name.strip()
    _check_text(name, label)
    return name


def _check_text(text: str, label: str) -> None:
    if not text or text.isspace():
        raise DataError(f"{label} is empty")
    if not CONTROL_CHARACTERS.isdisjoint(text):
        raise DataError(f"{label} contains a control character: {quoted(text)}")
    try:
        length = len(text.encode())
    except UnicodeEncodeError:
        raise DataError(f"{label} is not valid Unicode: {quoted(text)}") from None
    if length > MAX_TEXT_BYTES:
        raise DataError(f"{label} has more than {MAX_TEXT_BYTES} bytes: {quoted(text)}")


def _parse_tsv(text: str) -> Iterator[tuple[str, GlossaryEntry]]:
    index = position = 0
    for line in _split_lines(text.replace("\r\n", "\n")):
        if line.strip():
            label = f"key with the index {index} (starting at position {position})"
            source, tab, target = line.strip("\r ").partition("\t")
            if not tab:
                raise DataError(f"{label} misses tab separator")
            if "\t" in target.strip():
                raise DataError(f"{label} has more than one tab separator")
            yield label, GlossaryEntry(source.strip(), (target.strip(),))
            index += 1
        position += len(line) + 1


def _split_lines(text: str) -> Iterator[str]:
    """Yield the lines of a text one by one, since a list of all lines may take eight times the memory."""
    start, end = 0, text.find("\n")
    while end >= 0:
        yield text[start:end]
        start, end = end + 1, text.find("\n", end + 1)
    yield text[start:]


def _parse_csv(text: str, languages: tuple[str, str]) -> Iterator[tuple[str, GlossaryEntry]]:
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    index = 0
    try:
        for row in rows:
            if not any(field.strip() for field in row):
                continue
            label = f"key with the index {index} (in line {rows.line_num})"
            if len(row) < 2 or len(row) == 3 or len(row) > 4:
                raise DataError(
                    f"{label} has {len(row)} columns; expected two (source, target) or four (source, target "
                    "and the codes of their languages)"
                )
            if len(row) == 4 and not _match_languages((row[2], row[3]), languages):
                continue
            yield label, GlossaryEntry(row[0].strip(), (row[1].strip(),))
            index += 1
    except csv.Error as error:
        raise DataError(f"line {rows.line_num} is not valid CSV: {error}") from None


def _match_languages(codes: tuple[str, str], languages: tuple[str, str]) -> bool:
    return all(same_language(code.strip(), language) for code, language in zip(codes, languages, strict=True))


FORMAT_VERSION = 1
DAMAGED_MESSAGE = "a stored glossary is damaged; contact the operator of this server"


@dataclass(frozen=True)
class DictionarySummary:
    """The languages of a dictionary and its number of entries."""

    source: str
    target: str
    count: int


@dataclass(frozen=True)
class GlossarySummary:
    """A glossary without its entries; ``version`` changes with every change."""

    id: str
    name: str
    created: datetime
    version: str
    dictionaries: tuple[DictionarySummary, ...]


@dataclass(frozen=True)
class Dictionary:
    """The entries for a language pair; the language codes are in lower case."""

    source: str
    target: str
    entries: tuple[GlossaryEntry, ...]

    def translates(self, source: str, target: str) -> bool:
        """Return whether the dictionary has these languages, ignoring regions: ``en`` matches ``en-GB``."""
        return same_language(self.source, source) and same_language(self.target, target)


@dataclass(frozen=True)
class StoredGlossary:
    """A glossary with its name and time of creation; ``version`` changes with every change."""

    id: str
    name: str
    created: datetime
    version: str
    dictionaries: tuple[Dictionary, ...]

    @classmethod
    def create(cls, name: str, dictionaries: Sequence[Dictionary]) -> StoredGlossary:
        """Create a glossary with a new id and version."""
        glossary = cls(str(uuid.uuid4()), check_name(name), datetime.now(UTC), secrets.token_hex(8), ())
        for index, dictionary in enumerate(dictionaries):
            if any(dictionary.translates(other.source, other.target) for other in dictionaries[:index]):
                raise DataError(
                    f"there are two dictionaries from {dictionary.source} to {dictionary.target}; merge them"
                )
            glossary = glossary.with_dictionary(dictionary)
        return glossary

    @property
    def summary(self) -> GlossarySummary:
        """The glossary without its entries."""
        counts = (
            DictionarySummary(dictionary.source, dictionary.target, len(dictionary.entries))
            for dictionary in self.dictionaries
        )
        return GlossarySummary(self.id, self.name, self.created, self.version, tuple(counts))

    @property
    def translations(self) -> int:
        """The total number of targets of the entries."""
        return sum(len(entry.targets) for dictionary in self.dictionaries for entry in dictionary.entries)

    @property
    def memory(self) -> int:
        """Upper bound on the memory in bytes that the terms take when they are ready for translation."""
        entries = (entry for dictionary in self.dictionaries for entry in dictionary.entries)
        return GLOSSARY_MEMORY + sum(
            ENTRY_MEMORY + 3 * sys.getsizeof(source) + sum(map(sys.getsizeof, targets)) + 8 * len(targets)
            for source, targets in entries
        )

    def dictionary(self, source: str, target: str) -> Dictionary:
        """Return the dictionary for a language pair."""
        for dictionary in self.dictionaries:
            if dictionary.translates(source, target):
                return dictionary
        raise NotStoredError(no_dictionary_message(source, target))

    def with_changes(
        self, name: str | None = None, dictionaries: Iterable[Dictionary] = (), merge: bool = False
    ) -> StoredGlossary:
        """Return the glossary with a new name and with dictionaries added or replaced.

        Args:
            name: the new name; None to keep the current name.
            dictionaries: the new dictionaries, one for each language pair.
            merge: whether to add entries to an existing dictionary rather than replacing the dictionary.
        """
        changed = self if name is None else self._with_version(name=check_name(name))
        for new_dictionary in dictionaries:
            existing_dictionaries = [
                dictionary
                for dictionary in changed.dictionaries
                if merge and dictionary.translates(new_dictionary.source, new_dictionary.target)
            ]
            entries = (
                merge_entries(existing_dictionaries[0].entries, new_dictionary.entries)
                if existing_dictionaries
                else new_dictionary.entries
            )
            changed = changed.with_dictionary(replace(new_dictionary, entries=entries))
        return changed

    def with_dictionary(self, new_dictionary: Dictionary) -> StoredGlossary:
        """Return the glossary with a new dictionary, which replaces a dictionary of the same languages."""
        if same_language(new_dictionary.source, new_dictionary.target):
            raise DataError(
                f"the languages of a dictionary must differ, but one is from {new_dictionary.source} to "
                f"{new_dictionary.target}"
            )
        for code in (new_dictionary.source, new_dictionary.target):
            check_language(code)
        Glossary(_dictionary_terms(self.name, new_dictionary))
        remaining_dictionaries = [
            old_dictionary
            for old_dictionary in self.dictionaries
            if not old_dictionary.translates(new_dictionary.source, new_dictionary.target)
        ]
        changed = self._with_version(dictionaries=(*remaining_dictionaries, new_dictionary))
        if len(changed.dictionaries) > MAX_DICTIONARIES:
            raise DataError(
                f"a glossary has at most {MAX_DICTIONARIES} dictionaries; create several glossaries"
            )
        if changed.translations > MAX_TRANSLATIONS:
            raise DataError(TOO_LARGE_MESSAGE)
        return changed

    def without_dictionary(self, source: str, target: str) -> StoredGlossary:
        """Return the glossary without the dictionary for a language pair."""
        removed_dictionary = self.dictionary(source, target)
        return self._with_version(
            dictionaries=tuple(
                dictionary for dictionary in self.dictionaries if dictionary is not removed_dictionary
            )
        )

    def _with_version(
        self, name: str | None = None, dictionaries: tuple[Dictionary, ...] | None = None
    ) -> StoredGlossary:
        return replace(
            self,
            name=self.name if name is None else name,
            dictionaries=self.dictionaries if dictionaries is None else dictionaries,
            version=secrets.token_hex(8),
        )

    def to_json(self) -> str:
        """Return the glossary in the JSON format in which it is stored."""
        return json.dumps(
            {
                "format": FORMAT_VERSION,
                "id": self.id,
                "name": self.name,
                "created": self.created.isoformat(),
                "version": self.version,
                "dictionaries": [
                    [dictionary.source, dictionary.target, dictionary.entries]
                    for dictionary in self.dictionaries
                ],
            },
            ensure_ascii=False,
            separators=(",", ":"),
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> StoredGlossary:
        """Return the glossary that :meth:`to_json` has serialised."""
        try:
            values = json.loads(text)
            if values["format"] != FORMAT_VERSION:
                raise StorageError(
                    f"a stored glossary has format {quoted(values['format'])} instead of {FORMAT_VERSION}"
                )
            return cls(
                values["id"],
                values["name"],
                datetime.fromisoformat(values["created"]),
                values["version"],
                tuple(
                    Dictionary(
                        source,
                        target,
                        tuple(GlossaryEntry(term, tuple(targets)) for term, targets in entries),
                    )
                    for source, target, entries in values["dictionaries"]
                ),
            )
        except (ValueError, KeyError, TypeError, RecursionError):
            raise StorageError(DAMAGED_MESSAGE) from None


def check_language(code: str) -> str:
    """Check a language code and return it in lower case."""
    base = base_language(code)
    if not (code.isascii() and 2 <= len(code) <= 16 and base.isalpha()):
        raise DataError(f"{quoted(code)} is not a language code such as en")
    return code.lower()


def combine_glossaries(glossaries: Iterable[StoredGlossary], source: str, target: str) -> Glossary:
    """Return the terms of several glossaries for a language pair as one glossary.

    If several glossaries have the same term, the first one applies. Glossaries without a dictionary for the
    language pair are ignored.

    Raises:
        NotStoredError: no glossary has a dictionary for the language pair.
    """
    terms: list[Iterator[Term]] = [
        _dictionary_terms(glossary.name, dictionary)
        for glossary in glossaries
        for dictionary in glossary.dictionaries
        if dictionary.translates(source, target)
    ]
    if not terms:
        raise NotStoredError(no_dictionary_message(source, target))
    return Glossary(chain.from_iterable(terms), keep_first=True)


def no_dictionary_message(source: str, target: str) -> str:
    """Return the error message of DeepL's API for a language pair without a dictionary."""
    return f"No dictionary found for language pair {source}-{target}"


def _dictionary_terms(name: str, dictionary: Dictionary) -> Iterator[Term]:
    origin = f"glossary {quoted(name)}"  # shared by all terms, to save memory
    for source, targets in dictionary.entries:
        yield Term(" ".join(source.split()), targets, origin)
