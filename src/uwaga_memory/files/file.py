"""A file to import: its languages, the import options, and the number of skipped units."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from uwaga.errors import DataError, quoted
from uwaga.languages.codes import base_language

Codes = Literal["keep", "placeholders", "drop"]
"""How inline codes are read: as their native markup, as ``<1>``, ``</1>`` and ``<1/>``, or not at all."""


@dataclass(frozen=True)
class FileOptions:
    """Options for reading a file of translations.

    Attributes:
        format: ``tmx``, ``tsv``, ``po`` or ``xliff``; empty to infer it from the name of the file.
        codes: how inline codes of TMX and XLIFF are read.
        columns: for TSV, the columns of source, target, origin and key: numbers from 1, or names of the first
            line.
        in_order: whether the texts are in document order, so that the neighbours of each text are stored as
            its context; None for the default of the format: True for XLIFF and documents.
        translation: the translated document, if the file is a source document.
    """

    format: str = ""
    codes: Codes = "keep"
    columns: tuple[str, ...] = ()
    in_order: bool | None = None
    translation: Path | None = None


@dataclass
class TranslationFile:
    """A file of translations to read.

    Attributes:
        path: the file.
        languages: the source and target language of the memory.
        options: options for reading the file.
        skipped: number of skipped units, by reason.
        position: number of bytes that have been read.
    """

    path: Path
    languages: tuple[str, str]
    options: FileOptions = field(default_factory=FileOptions)
    skipped: Counter[str] = field(default_factory=Counter)
    position: int = 0

    @property
    def origin(self) -> str:
        """The origin recorded for the pairs: the name of the file."""
        return self.path.name

    def check_language(self, declared: str, index: int, position: str) -> None:
        """Raise a DataError if the file declares a language that differs from that of the memory.

        Args:
            declared: the language that the file declares; empty if it declares none.
            index: 0 for the language of the sources, 1 for that of the translations.
            position: the location of the declaration, for the message.
        """
        expected_language = self.languages[index]
        if declared and base_language(declared) != base_language(expected_language):
            kind = ("sources", "translations")[index]
            raise DataError(
                f"{self.path}: {position}: the {kind} are declared as {quoted(declared)}, but those of the "
                f"memory are in {expected_language}; import the file into a memory of its languages"
            )


def skipped_summary(skipped: Counter[str]) -> str:
    """Return a message with the number of skipped units by reason; empty if none were skipped."""
    reasons = ", ".join(f"{reason} ({count:,})" for reason, count in skipped.most_common() if count)
    return f"skipped {skipped.total():,}: {reasons}" if reasons else ""


class CodeFormatter:
    """A formatter that writes the inline codes of a segment as text.

    Args:
        codes: how inline codes are read.
    """

    def __init__(self, codes: Codes) -> None:
        self._codes = codes
        self._count = 0

    def text(self, kind: Literal["open", "close", "empty"], code_id: str, native_code: str) -> str:
        """Return the text of an inline code.

        Args:
            kind: whether the code opens or closes a span of the text, or is a standalone code.
            code_id: the id of the code in the file; empty if it has none.
            native_code: the markup of the code in the original document; empty if the file does not contain
                it.
        """
        if not code_id:
            self._count += 1
            code_id = str(self._count)
        if self._codes == "drop":
            return ""
        if self._codes == "keep" and native_code:
            return native_code
        return {"open": f"<{code_id}>", "close": f"</{code_id}>", "empty": f"<{code_id}/>"}[kind]
