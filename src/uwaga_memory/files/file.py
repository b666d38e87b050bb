"""A file that is imported: what is known of it, and what was skipped."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from uwaga.errors import DataError, quoted
from uwaga.languages.codes import base_language

Codes = Literal["keep", "placeholders", "drop"]
"""What becomes of inline codes: their native text, ``<1>``, ``</1>`` and ``<1/>``, or nothing."""


@dataclass(frozen=True)
class FileOptions:
    """How a file is read.

    Attributes:
        format: ``tmx``, ``tsv``, ``po`` or ``xliff``; empty to infer it from the name of the file.
        codes: what becomes of inline codes of TMX and XLIFF.
        columns: for TSV, the columns of source, target, origin and key: numbers from 1, or names of the first
            line.
        in_order: whether the texts are in the order of their document, and neighbours are stored; None for
            the usual of the format: in order for XLIFF and documents.
        translation: the translated document, for a pair of documents.
    """

    format: str = ""
    codes: Codes = "keep"
    columns: tuple[str, ...] = ()
    in_order: bool | None = None
    translation: Path | None = None


@dataclass
class TranslationFile:
    """A file that is read.

    Attributes:
        path: the file.
        languages: those of the memory.
        options: how it is read.
        skipped: units that are no pairs, by reason.
        position: bytes that have been read.
    """

    path: Path
    languages: tuple[str, str]
    options: FileOptions = field(default_factory=FileOptions)
    skipped: Counter[str] = field(default_factory=Counter)
    position: int = 0

    @property
    def origin(self) -> str:
        """The name that pairs of the file get as their origin."""
        return self.path.name

    def check_language(self, declared: str, index: int, position: str) -> None:
        """Check a language that the file declares for its sources (0) or translations (1); empty is any."""
        expected = self.languages[index]
        if declared and base_language(declared) != base_language(expected):
            kind = ("sources", "translations")[index]
            raise DataError(
                f"{self.path}: {position}: the {kind} are declared as {quoted(declared)}, those of the "
                f"memory are {expected}; import it into a memory of its languages"
            )


def skipped_line(skipped: Counter[str]) -> str:
    """Return what was skipped, with the reasons, empty for nothing."""
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in skipped.most_common() if count)
    return f"skipped {skipped.total():,}: {reasons}" if reasons else ""


class CodeNames:
    """The text of the inline codes of a segment.

    Args:
        codes: what becomes of them.
    """

    def __init__(self, codes: Codes) -> None:
        self._codes = codes
        self._count = 0

    def text(self, kind: Literal["open", "close", "empty"], number: str, native: str) -> str:
        """Return the text of a code.

        Args:
            kind: whether it opens or closes a part of the text, or stands alone.
            number: its number in the file, empty if it has none.
            native: what it is in the document, empty if the file does not say.
        """
        if not number:
            self._count += 1
            number = str(self._count)
        if self._codes == "drop":
            return ""
        if self._codes == "keep" and native:
            return native
        return {"open": f"<{number}>", "close": f"</{number}>", "empty": f"<{number}/>"}[kind]
