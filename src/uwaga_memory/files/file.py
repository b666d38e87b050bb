"""A file to import: its languages and options, and the skipped units."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from uwaga.errors import DataError, quoted
from uwaga.languages.codes import base_language

Codes = Literal["keep", "placeholders", "drop"]
"""How inline codes are read: as their native text, as ``<1>``, ``</1>`` and ``<1/>``, or not at all."""


@dataclass(frozen=True)
class FileOptions:
    """How a file is read.

    Attributes:
        format: ``tmx``, ``tsv``, ``po`` or ``xliff``; empty to infer it from the name of the file.
        codes: how inline codes of TMX and XLIFF are read.
        columns: for TSV, the columns of source, target, origin and key: numbers from 1, or names of the first
            line.
        in_order: whether the texts are in the order of their document, and neighbours are stored; None for
            the default of the format: in order for XLIFF and documents.
        translation: the translated document, for a pair of documents.
    """

    format: str = ""
    codes: Codes = "keep"
    columns: tuple[str, ...] = ()
    in_order: bool | None = None
    translation: Path | None = None


@dataclass
class TranslationFile:
    """A file to read.

    Attributes:
        path: the file.
        languages: the languages of the memory.
        options: options for reading it.
        skipped: number of units that are not pairs, by reason.
        position: number of bytes that have been read.
    """

    path: Path
    languages: tuple[str, str]
    options: FileOptions = field(default_factory=FileOptions)
    skipped: Counter[str] = field(default_factory=Counter)
    position: int = 0

    @property
    def origin(self) -> str:
        """The origin of the pairs of the file: its name."""
        return self.path.name

    def check_language(self, declared: str, index: int, position: str) -> None:
        """Check a language that the file declares for its sources (0) or translations (1), if any."""
        expected = self.languages[index]
        if declared and base_language(declared) != base_language(expected):
            kind = ("sources", "translations")[index]
            raise DataError(
                f"{self.path}: {position}: the {kind} are declared as {quoted(declared)}, but those of the "
                f"memory are {expected}; import the file into a memory of its languages"
            )


def skipped_summary(skipped: Counter[str]) -> str:
    """Return the numbers of skipped units by reason, as text; empty if there are none."""
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in skipped.most_common() if count)
    return f"skipped {skipped.total():,}: {reasons}" if reasons else ""


class CodeFormatter:
    """The text of the inline codes of a segment.

    Args:
        codes: how they are read.
    """

    def __init__(self, codes: Codes) -> None:
        self._codes = codes
        self._count = 0

    def text(self, kind: Literal["open", "close", "empty"], number: str, native: str) -> str:
        """Return the text of an inline code.

        Args:
            kind: whether it opens or closes a part of the text, or is empty.
            number: its number in the file, empty if it has none.
            native: its text in the document, empty if the file does not state it.
        """
        if not number:
            self._count += 1
            number = str(self._count)
        if self._codes == "drop":
            return ""
        if self._codes == "keep" and native:
            return native
        return {"open": f"<{number}>", "close": f"</{number}>", "empty": f"<{number}/>"}[kind]
