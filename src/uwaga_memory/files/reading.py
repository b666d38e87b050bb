"""Reading of files by their formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain

from uwaga.errors import DataError, SettingsError
from uwaga.files.lines import COMPRESSED_SUFFIXES
from uwaga_memory.files.documents import read_documents
from uwaga_memory.files.file import FileOptions, TranslationFile
from uwaga_memory.files.po import read_po
from uwaga_memory.files.tmx import read_tmx
from uwaga_memory.files.tsv import read_tsv
from uwaga_memory.files.xliff import read_xliff
from uwaga_memory.store import Pair

__all__ = ["FileOptions", "TranslationFile", "read_pairs"]

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
ORDERED = frozenset(("xliff", "documents"))
"""Formats whose units are in the order of their document, and have no context of their own."""


def read_pairs(file: TranslationFile) -> Iterator[Pair]:
    """Yield the pairs of a file; what is skipped is counted in ``file.skipped``.

    Raises:
        DataError: the file is damaged, or has other languages.
        SettingsError: its format is unknown.
    """
    if not file.path.is_file():
        raise DataError(f"{file.path}: there is no such file")
    name = "documents" if file.options.translation is not None else find_file_format(file)
    pairs = read_documents(file) if name == "documents" else READERS[name](file)
    in_order = name in ORDERED if file.options.in_order is None else file.options.in_order
    return with_neighbours(pairs) if in_order else pairs


def find_file_format(file: TranslationFile) -> str:
    """Return the name of the format of a file."""
    if file.options.format:
        if file.options.format not in READERS:
            raise SettingsError(f"--format {file.options.format}: expected {', '.join(READERS)}")
        return file.options.format
    suffixes = [suffix.lower() for suffix in file.path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSED_SUFFIXES:
        suffixes.pop()
    if not suffixes or suffixes[-1] not in SUFFIXES:
        raise SettingsError(
            f"{file.path}: not known by its name; say --format {', '.join(READERS)}, or name the "
            "translation of a document with --translation"
        )
    return SUFFIXES[suffixes[-1]]


def with_neighbours(pairs: Iterator[Pair]) -> Iterator[Pair]:
    """Yield pairs with the sources before and after, within one origin, where a pair has none."""
    before: Pair | None = None
    current: Pair | None = None
    for after in chain(pairs, [None]):
        if current is not None:
            if current.before or current.after:
                yield current
            else:
                near = [
                    pair.source if pair is not None and pair.origin == current.origin else ""
                    for pair in (before, after)
                ]
                yield replace(current, before=near[0], after=near[1])
        before, current = current, after
