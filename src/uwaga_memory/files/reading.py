"""Reading of translation files, whose format is determined by an option or by the name of the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

from uwaga.errors import DataError, SettingsError
from uwaga.files.lines import COMPRESSED_SUFFIXES
from uwaga_memory.files.documents import read_documents, read_translations
from uwaga_memory.files.file import FileOptions, TranslationFile, skipped_summary
from uwaga_memory.files.po import read_po
from uwaga_memory.files.tmx import read_tmx
from uwaga_memory.files.tsv import read_tsv
from uwaga_memory.files.xliff import read_xliff
from uwaga_memory.store import Memory, Pair

__all__ = ["FileOptions", "TranslationFile", "open_memory", "read_pairs"]

READERS: dict[str, Callable[[TranslationFile], Iterator[Pair]]] = {
    "tmx": read_tmx,
    "tsv": read_tsv,
    "po": read_po,
    "xliff": read_xliff,
}
SUFFIXES = {
    ".tmx": "tmx",
    ".tsv": "tsv",
    ".txt": "tsv",
    ".po": "po",
    ".xlf": "xliff",
    ".xliff": "xliff",
    ".sdlxliff": "xliff",
    ".mqxliff": "xliff",
}
BILINGUAL_FORMATS = frozenset(("po", "xliff"))
"""File formats of documents that contain translations."""
ORDERED_FORMATS = frozenset(("xliff", "documents"))
"""Formats whose units are in document order and have no stored context."""


def open_memory(path: str | Path, languages: tuple[str, str] | None = None) -> Memory:
    """Open a memory, or read a file of translations into a temporary memory.

    Args:
        path: the file; it is opened as a memory unless its suffix is that of a file of translations.
        languages: the source and target language; required for a file of translations.

    Raises:
        DataError: the file does not exist, is damaged, or has other languages.
        SettingsError: ``languages`` is None, but the file is a file of translations.
    """
    if format_by_name(Path(path)) is None:
        return Memory(path)
    if languages is None:
        raise SettingsError(
            f"{path}: the languages of a file of translations are required, such as ('en', 'de')"
        )
    file = TranslationFile(Path(path), languages)
    memory = Memory.temporary(*languages)
    memory.origin = str(path)
    # Documents are not compressed.
    is_document = SUFFIXES.get(file.path.suffix.lower()) in BILINGUAL_FORMATS
    counts = memory.add(read_translations(file) if is_document else read_pairs(file))
    skipped = skipped_summary(file.skipped + counts.skipped)
    memory.note = f"{path}: {counts.new:,} pairs{'; ' if skipped else ''}{skipped}"
    return memory


def read_pairs(file: TranslationFile) -> Iterator[Pair]:
    """Return an iterator over the pairs of a file; skipped units are counted in ``file.skipped``.

    Raises:
        DataError: the file does not exist, is damaged, or has other languages.
        SettingsError: the format of the file is unknown.
    """
    if not file.path.is_file():
        raise DataError(f"{file.path}: there is no such file")
    name = "documents" if file.options.translation is not None else find_file_format(file)
    pairs = read_documents(file) if name == "documents" else READERS[name](file)
    in_order = name in ORDERED_FORMATS if file.options.in_order is None else file.options.in_order
    return with_neighbours(pairs) if in_order else pairs


def find_file_format(file: TranslationFile) -> str:
    """Return the name of the format of a file."""
    if file.options.format:
        if file.options.format not in READERS:
            raise SettingsError(f"--format {file.options.format}: expected {', '.join(READERS)}")
        return file.options.format
    name = format_by_name(file.path)
    if name is None:
        raise SettingsError(
            f"{file.path}: unknown suffix; name the format, --format {', '.join(READERS)}, or the "
            f"translation of a document, --translation"
        )
    return name


def format_by_name(path: Path) -> str | None:
    """Return the name of the format that the suffix of a file indicates, or None if it is unknown."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSED_SUFFIXES:
        suffixes.pop()
    return SUFFIXES.get(suffixes[-1]) if suffixes else None


def with_neighbours(pairs: Iterator[Pair]) -> Iterator[Pair]:
    """Yield pairs with the preceding and following source of the same origin as their context.

    Pairs that already have a neighbour are unchanged.
    """
    previous_pair: Pair | None = None
    current_pair: Pair | None = None
    for next_pair in chain(pairs, [None]):
        if current_pair is not None:
            if current_pair.before or current_pair.after:
                yield current_pair
            else:
                neighbours = [
                    pair.source if pair is not None and pair.origin == current_pair.origin else ""
                    for pair in (previous_pair, next_pair)
                ]
                yield replace(current_pair, before=neighbours[0], after=neighbours[1])
        previous_pair, current_pair = current_pair, next_pair
