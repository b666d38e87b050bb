"""Glossary files: tab-separated, comma-separated and TBX (TermBase eXchange, ISO 30042).

- ``.tsv``, ``.txt``: one term per line: source, tab, target; ``|`` separates alternative forms of the target.
  A term without a target, or with its source as target, is not translated. Further columns, empty lines,
  lines that begin with ``#`` and a first line ``source target`` are ignored.
- ``.csv``: the same with commas, or with semicolons if the first line has no comma, and with CSV quotes.
- ``.tbx``, ``.xml``: the terms of each entry in both languages; the target terms are alternative forms.

All may be compressed (``.gz``, ``.zst``, ``.xz``, ``.bz2``).
"""

from __future__ import annotations

import csv
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from uwaga.data.tmx import XmlItems
from uwaga.errors import DataError, quoted
from uwaga.files.lines import text_lines
from uwaga.languages.codes import same_language

LOG = logging.getLogger("uwaga.terms")
SEPARATOR = "|"
"""The character that separates the alternative forms of a target."""


@dataclass(frozen=True, slots=True)
class Term:
    """A term and the allowed forms of its translation, the most common first.

    ``location``: the file and line, or the entry of a mapping, that defines the term.
    """

    source: str
    targets: tuple[str, ...]
    location: str

    @property
    def is_untranslated(self) -> bool:
        """True if the term stays untranslated."""
        return self.targets == (self.source,)


def split_forms(target: str) -> tuple[str, ...]:
    """Split a target at ``|``, and return its forms without duplicates."""
    return tuple(dict.fromkeys(" ".join(form.split()) for form in target.split(SEPARATOR) if form.strip()))


COMPRESSED_SUFFIXES = {".gz", ".zst", ".xz", ".bz2"}
HEADER = ("source", "target")
ENTRY_ELEMENTS, LANGUAGE_ELEMENTS = {"termEntry", "conceptEntry"}, {"langSet", "langSec"}


def read_terms(path: Path, languages: tuple[str, str] | None = None) -> Iterator[Term]:
    """Yield the terms of a glossary file, with their line numbers.

    Args:
        path: the path of the file.
        languages: codes of the source and target language; required for a TBX file.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in COMPRESSED_SUFFIXES]
    kind = suffixes[-1] if suffixes else ""
    if kind in (".tsv", ".txt"):
        yield from _tab_separated(path)
    elif kind == ".csv":
        yield from _comma_separated(path)
    elif kind in (".tbx", ".xml"):
        if languages is None:
            raise DataError(f"{path}: two languages are needed to read a TBX file")
        yield from _tbx(path, languages)
    else:
        raise DataError(f"{path}: a glossary must be a .tsv, .csv or .tbx file; rename it accordingly")


def _tab_separated(path: Path) -> Iterator[Term]:
    lines_without_tab: list[int] = []
    for line_number, line in enumerate(text_lines(path), start=1):
        if line.strip() and not line.startswith("#"):
            if "\t" not in line and " " in line.strip():
                lines_without_tab.append(line_number)
            yield from _parse_term(line.split("\t"), f"{path}, line {line_number}", line_number == 1)

    if lines_without_tab:
        further_lines = f" and {len(lines_without_tab) - 1} further lines" if lines_without_tab[1:] else ""
        LOG.warning(
            "%s: line %d%s without a tab: the whole line is a term that is not translated; put a tab between "
            "a term and its translation",
            path,
            lines_without_tab[0],
            further_lines,
        )


def _comma_separated(path: Path) -> Iterator[Term]:
    lines = text_lines(path)
    header = next(lines, "")
    delimiter = "," if "," in header or ";" not in header else ";"

    def all_lines() -> Iterator[str]:
        yield header + "\n"
        for line in lines:
            yield line + "\n"

    rows = csv.reader(all_lines(), delimiter=delimiter, strict=True)
    first_line = 1
    try:
        for row in rows:
            if any(field.strip() for field in row) and not row[0].startswith("#"):
                yield from _parse_term(row, f"{path}, line {first_line}", first_line == 1)
            first_line = rows.line_num + 1
    except csv.Error as error:
        raise DataError(f"{path}, line {first_line}: not comma-separated: {error}") from None


def _parse_term(columns: list[str], location: str, may_be_header: bool) -> Iterator[Term]:
    source = " ".join(columns[0].split())
    target = columns[1] if len(columns) > 1 else ""
    if may_be_header and (source.lower(), target.strip().lower()) == HEADER:
        return
    if not source:
        raise DataError(f"{location}: the target {quoted(target)} has no source term")
    yield Term(source, split_forms(target) or (source,), location)


def _tbx(path: Path, languages: tuple[str, str]) -> Iterator[Term]:
    entries = _Entries(path, languages)
    yield from entries.read()
    entries.check()


class _Entries(XmlItems[Term]):
    """A reader of the terms in the entries of a TBX file."""

    kind = "TBX"
    roots = frozenset({"martif", "tbx"})

    def __init__(self, path: Path, languages: tuple[str, str]) -> None:
        super().__init__(path)
        self._languages = languages
        self._count = self._matched = 0
        self._terms: tuple[dict[str, int], dict[str, int]] = ({}, {})  # of source and target: line by term
        self._language_index: int | None = None
        self._text: list[str] | None = None

    def progress(self) -> str:
        """Return the current position in the file as text."""
        return f"after line {self.line}"

    def damage_error(self, problem: str, line: int) -> DataError:
        """Return the error for an incomplete file; its message begins with the line."""
        return DataError(f"{self.file}, line {line}: not a complete TBX file: {problem}")

    def depth_error(self, problem: str, line: int) -> DataError:
        """Return the error for a file with too many nested elements; its message begins with the line."""
        return DataError(f"{self.file}, line {line}: {problem}")

    def check(self) -> None:
        """Raise DataError if there are entries but none has terms in both languages."""
        if self._count and not self._matched:
            raise DataError(
                f"{self.file}: none of its {self._count} entries has terms in both "
                f"{' and '.join(self._languages)}: is the file for other languages?"
            )

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Handle the start of an entry, a language or a term."""
        if name in ENTRY_ELEMENTS:
            self._terms = ({}, {})
        elif name in LANGUAGE_ELEMENTS:
            code = attributes.get("xml:lang") or attributes.get("lang") or ""
            matches = [bool(code) and same_language(code, language) for language in self._languages]
            self._language_index = matches.index(True) if any(matches) else None
        elif name == "term" and self._language_index is not None:
            self._text = []

    def characters(self, text: str) -> None:
        """Add characters to the text of the current term, if any."""
        if self._text is not None:
            self._text.append(text)

    def end(self, name: str) -> None:
        """Handle the end of a term, a language or an entry."""
        if name == "term" and self._text is not None and self._language_index is not None:
            text = " ".join("".join(self._text).split())
            if text:
                self._terms[self._language_index].setdefault(text, self.line)
            self._text = None
        elif name in LANGUAGE_ELEMENTS:
            self._language_index = None
        elif name in ENTRY_ELEMENTS:
            self._count += 1
            sources, targets = self._terms
            self._matched += bool(sources and targets)
            if targets:
                for source, line in sources.items():
                    self.ready.append(Term(source, tuple(targets), f"{self.file}, line {line}"))
