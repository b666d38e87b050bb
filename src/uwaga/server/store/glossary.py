"""Glossaries that the server stores for clients: dictionaries of entries, one for each pair of languages."""

from __future__ import annotations

import csv
import io
import json
import secrets
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from uwaga.errors import DataError, shown
from uwaga.languages.codes import base_language, same_language
from uwaga.server.api_errors import NotStoredError, StorageError
from uwaga.terms import Glossary, Term
from uwaga.terms.files import SEPARATOR

EntriesFormat = Literal["tsv", "csv"]
LONGEST_SIDE = 1024
"""Bytes of UTF-8 of a source, a target or a name."""
CONTROLS = frozenset(map(chr, (*range(32), 127, *range(128, 160), 0x2028, 0x2029)))


class GlossaryEntry(NamedTuple):
    """A term and the forms that its translation may take, the usual one first."""

    source: str
    targets: tuple[str, ...]


def read_entries(text: str, format: EntriesFormat, languages: tuple[str, str]) -> tuple[GlossaryEntry, ...]:  # noqa: A002
    """The entries of a text.

    Args:
        text: an entry a line; empty lines do not count.
        format: ``tsv``: source, tab, target. ``csv``: source, target and, if wanted, the codes of their
            languages; a line of other languages is another dictionary's and left out.
        languages: codes of source and target.

    Raises:
        DataError: a line is no entry, two have one source, or there is none at all; names the line.
    """
    lines = _tab_separated(text) if format == "tsv" else _comma_separated(text, languages)
    return check_entries(lines)


def check_entries(entries: Iterable[tuple[str, GlossaryEntry]]) -> tuple[GlossaryEntry, ...]:
    """The same entries, if they may stand together in a dictionary.

    Args:
        entries: each with what messages call it.

    Raises:
        DataError: an entry is impossible, two have one source, or there is none at all.
    """
    known: dict[str, str] = {}
    found = []
    for where, (source, targets) in entries:
        for side, text in (("source", source), *(("target", target) for target in targets)):
            _check_side(text, f"{where}: the {side}")
        if not targets:
            raise DataError(f"{where}: the source {shown(source)} has no target")
        if source in known:
            raise DataError(f"{where} duplicates {known[source]}: both translate {shown(source)}")
        known[source] = where
        found.append(GlossaryEntry(source, tuple(targets)))
    if not found:
        raise DataError("there are no entries")
    return tuple(found)


def merged(old: Iterable[GlossaryEntry], new: Iterable[GlossaryEntry]) -> tuple[GlossaryEntry, ...]:
    """The old entries with the new ones: those of one source are the new."""
    by_source = {entry.source: entry for entry in old}
    by_source.update((entry.source, entry) for entry in new)
    return tuple(by_source.values())


def written_entries(entries: Iterable[GlossaryEntry]) -> str:
    """The entries as TSV; several forms of a target with ``|`` between."""
    return "\n".join(f"{source}\t{SEPARATOR.join(targets)}" for source, targets in entries)


def check_name(name: str, what: str = "name") -> str:
    """A name that people see, without white space around it.

    Raises:
        DataError: it is empty, too long, or holds control characters.
    """
    name = name.strip()
    _check_side(name, what)
    return name


def _check_side(text: str, what: str) -> None:
    if not text or text.isspace():
        raise DataError(f"{what} is empty")
    if not CONTROLS.isdisjoint(text):
        raise DataError(f"{what} holds a control character: {shown(text)}")
    try:
        length = len(text.encode())
    except UnicodeEncodeError:
        raise DataError(f"{what} is no valid Unicode: {shown(text)}") from None
    if length > LONGEST_SIDE:
        raise DataError(f"{what} has more than {LONGEST_SIDE} bytes: {shown(text)}")


def _tab_separated(text: str) -> Iterator[tuple[str, GlossaryEntry]]:
    index = position = 0
    for line in text.replace("\r\n", "\n").split("\n"):
        if line.strip():
            where = f"key with the index {index} (starting at position {position})"
            source, tab, target = line.strip("\r ").partition("\t")
            if not tab:
                raise DataError(f"{where} misses tab separator")
            if "\t" in target.strip():
                raise DataError(f"{where} has more than one tab separator")
            yield where, GlossaryEntry(source.strip(), (target.strip(),))
            index += 1
        position += len(line) + 1


def _comma_separated(text: str, languages: tuple[str, str]) -> Iterator[tuple[str, GlossaryEntry]]:
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    index = 0
    try:
        for row in rows:
            if not any(field.strip() for field in row):
                continue
            where = f"key with the index {index} (in line {rows.line_num})"
            if len(row) < 2 or len(row) == 3 or len(row) > 4:
                raise DataError(
                    f"{where} has {len(row)} columns; there are two, source and target, or four, with the "
                    "codes of their languages behind them"
                )
            if len(row) == 4 and not _of_languages((row[2], row[3]), languages):
                continue
            yield where, GlossaryEntry(row[0].strip(), (row[1].strip(),))
            index += 1
    except csv.Error as error:
        raise DataError(f"line {rows.line_num} is not comma-separated: {error}") from None


def _of_languages(found: tuple[str, str], wanted: tuple[str, str]) -> bool:
    return all(same_language(one.strip(), other) for one, other in zip(found, wanted, strict=True))


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
