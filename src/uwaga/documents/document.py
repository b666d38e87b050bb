"""The arguments and results of document readers, and the registry of formats."""

from __future__ import annotations

import codecs
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from uwaga.errors import SettingsError
from uwaga.files.zip import Archive
from uwaga.markup.units import Piece

LARGEST = 1 << 28
"""Bytes of a document that is no archive, or of one member of an archive, unpacked."""


@dataclass(frozen=True)
class DocumentOptions:
    """Options of a document, apart from those of its translation.

    Attributes:
        encoding: the encoding of a text file that does not declare one; None for UTF-8.
        keys: for messages in JSON and YAML, the keys to translate; empty for all. ``title`` is every key of
            that name, ``menu.file.*`` a path, where ``*`` is any key.
        columns: for CSV and TSV, the names of the columns to translate.
        retranslate: for PO and XLIFF, whether to translate entries that have a translation.
        source: the source language, if it is known.
        target: the target language, if it is known.
        largest: bytes that one member of an archive, such as the text of a ``.docx``, may have when unpacked.
    """

    encoding: str | None = None
    keys: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    retranslate: bool = False
    source: str | None = None
    target: str | None = None
    largest: int = LARGEST


@dataclass(frozen=True)
class DocumentSource:
    """A document as it lies in its file, or one member of an archive.

    Attributes:
        name: the name for messages.
        content: the bytes.
        options: the user's options.
    """

    name: str
    content: bytes
    options: DocumentOptions = field(default_factory=DocumentOptions)


@dataclass(frozen=True)
class Reading:
    """A document that has been read.

    Attributes:
        pieces: the whole document, one piece after the other; units are made on demand.
        encoding: the encoding of the document.
        errors: how to encode a character that the encoding lacks: ``xmlcharrefreplace`` where the format can
            write it by its number, else ``strict``.
        mark: the byte order mark, or nothing.
    """

    pieces: Iterable[Piece]
    encoding: str = "utf-8"
    errors: str = "strict"
    mark: bytes = b""

    def encoder(self) -> codecs.IncrementalEncoder:
        """Return an encoder for the text of the pieces."""
        return codecs.getincrementalencoder(self.encoding)(self.errors)


Reader = Callable[[DocumentSource], Reading]


@dataclass(frozen=True)
class DocumentFormat:
    """A format of documents; one of ``read`` and ``members`` is given.

    Attributes:
        name: the name for ``--format``.
        suffixes: the endings of file names, in lower case; one without a dot is a whole name.
        read: reads a file.
        members: for zip archives: returns the members that hold text, and their readers.
        check: checks the options before a file is read.
    """

    name: str
    suffixes: tuple[str, ...]
    read: Reader | None = None
    members: Callable[[Archive], Mapping[str, Reader]] | None = None
    check: Callable[[DocumentOptions], None] | None = None


@cache
def document_formats() -> Mapping[str, DocumentFormat]:
    """Return all formats by name. Optional libraries are imported only when a document is read."""
    package = importlib.import_module("uwaga.documents.formats")
    modules = [
        importlib.import_module(f"{package.__name__}.{module.name}")
        for module in pkgutil.iter_modules(package.__path__)
    ]
    return {
        value.name: value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, DocumentFormat)
    }


def find_format(path: Path, name: str | None = None) -> DocumentFormat:
    """Return the format of a file, by its name or as the user says.

    Raises:
        SettingsError: there is no format of that name, or the file type is unknown.
    """
    known = document_formats()
    if name is not None:
        if name not in known:
            raise SettingsError(f"unknown document format {name!r}; supported: {', '.join(sorted(known))}")
        return known[name]
    lowered = path.name.lower()
    fitting = [
        (len(end), one)
        for one in known.values()
        for end in one.suffixes
        if (lowered.endswith(end) if end.startswith(".") else lowered == end)
    ]
    if not fitting:
        raise SettingsError(
            f"{path}: unknown file type {path.suffix!r}; supported: {', '.join(sorted(known))} "
            "(use --format to override)"
        )
    return max(fitting, key=lambda pair: pair[0])[1]
