"""The entries of a stored glossary: read from TSV and CSV, checked, and written again.

An entry a line, the source first. Sources are unique; neither side is empty, holds a control character, or is
longer than 1,024 bytes of UTF-8.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from uwaga.errors import DataError, shown
from uwaga.languages.codes import same_language
from uwaga.terms.term import SEPARATOR

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
