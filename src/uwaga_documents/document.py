"""The arguments and results of document readers, and the registry of document formats."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from uwaga.errors import SettingsError
from uwaga.files.zip import Archive
from uwaga.markup.units import Piece
from uwaga.plugins import Registry

MAX_DOCUMENT_BYTES = 1 << 28
"""Maximum size, in bytes, of a document or of an unpacked member of an archive."""


@dataclass(frozen=True)
class DocumentOptions:
    """Options for reading and writing a document; the options for its translation are separate.

    Attributes:
        encoding: the encoding of a text file that does not declare one; None for UTF-8.
        keys: for messages in JSON and YAML, the keys to translate; if empty, all keys. ``title`` stands
            for every key of that name; ``menu.file.*`` is a path in which ``*`` stands for any key.
        columns: for CSV and TSV, the names of the columns to translate.
        retranslate: for PO and XLIFF, whether to translate entries that have a translation.
        source: the source language, if known.
        target: the target language, if known.
        format: the name of the document's format, such as ``markdown``; None to infer it from the name of the
            file.
        max_member_bytes: maximum size, in bytes, of an unpacked member of an archive, such as the text of a
            ``.docx``.
    """

    encoding: str | None = None
    keys: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    retranslate: bool = False
    source: str | None = None
    target: str | None = None
    format: str | None = None
    max_member_bytes: int = MAX_DOCUMENT_BYTES


@dataclass(frozen=True)
class DocumentSource:
    """The raw content of a document or of a member of an archive.

    Attributes:
        name: the name of the document in messages.
        content: the bytes of the document.
        options: the options of the user.
    """

    name: str
    content: bytes
    options: DocumentOptions = field(default_factory=DocumentOptions)


@dataclass(frozen=True)
class ParsedDocument:
    """A document that has been read.

    Attributes:
        pieces: the pieces of the complete document, in order; units are created on demand.
        encoding: the encoding of the document.
        errors: the error handler for characters that the encoding cannot represent: ``xmlcharrefreplace`` if
            the format has character references, otherwise ``strict``.
        bom: the byte order mark; empty if there is none.
    """

    pieces: Iterable[Piece]
    encoding: str = "utf-8"
    errors: str = "strict"
    bom: bytes = b""

    def encoder(self) -> codecs.IncrementalEncoder:
        """Return an incremental encoder for the text of the pieces."""
        return codecs.getincrementalencoder(self.encoding)(self.errors)


Reader = Callable[[DocumentSource], ParsedDocument]


@dataclass(frozen=True)
class DocumentFormat:
    """A document format, which has either ``read`` or ``members``.

    Attributes:
        name: the name of the format for ``--format``.
        suffixes: the suffixes of file names, in lower case; a suffix without a dot is a complete file name.
        read: a function that reads a file.
        members: for zip archives, a function that returns the members with text and their readers.
        check: a function that checks the options before a file is read, if necessary.
    """

    name: str
    suffixes: tuple[str, ...]
    read: Reader | None = None
    members: Callable[[Archive], Mapping[str, Reader]] | None = None
    check: Callable[[DocumentOptions], None] | None = None


DOCUMENT_FORMATS: Registry[DocumentFormat] = Registry(
    "document format",
    "uwaga.document_formats",
    {
        "android": "uwaga_documents.formats.android:FORMAT",
        "arb": "uwaga_documents.formats.json:ARB",
        "csv": "uwaga_documents.formats.csv:FORMAT",
        "docx": "uwaga_documents.formats.office:DOCX",
        "epub": "uwaga_documents.formats.html:EPUB",
        "html": "uwaga_documents.formats.html:HTML",
        "json": "uwaga_documents.formats.json:JSON",
        "markdown": "uwaga_documents.formats.markdown:FORMAT",
        "odt": "uwaga_documents.formats.odt:FORMAT",
        "po": "uwaga_documents.formats.po:FORMAT",
        "pptx": "uwaga_documents.formats.office:PPTX",
        "srt": "uwaga_documents.formats.subtitles:SRT",
        "strings": "uwaga_documents.formats.apple:STRINGS",
        "stringsdict": "uwaga_documents.formats.apple:STRINGSDICT",
        "txt": "uwaga_documents.formats.txt:FORMAT",
        "vtt": "uwaga_documents.formats.subtitles:VTT",
        "xliff": "uwaga_documents.formats.xliff:FORMAT",
        "xlsx": "uwaga_documents.formats.office:XLSX",
        "yaml": "uwaga_documents.formats.yaml:FORMAT",
    },
)
"""The formats by name. Optional libraries are imported only when a document is read."""


def find_format(path: Path, name: str | None = None) -> DocumentFormat:
    """Return the format with the given name or, without a name, the format of the file's suffix.

    Raises:
        SettingsError: there is no format of that name, or the file type is unknown.
    """
    if name is not None:
        return DOCUMENT_FORMATS.find(name)
    lower_name = path.name.lower()
    matches = [
        (len(suffix), format_)
        for format_ in DOCUMENT_FORMATS.values()
        for suffix in format_.suffixes
        if (lower_name.endswith(suffix) if suffix.startswith(".") else lower_name == suffix)
    ]
    if not matches:
        raise SettingsError(
            f"{path}: unknown file type {path.suffix!r}; supported: {', '.join(sorted(DOCUMENT_FORMATS))} "
            "(use --format to override)"
        )
    return max(matches, key=lambda pair: pair[0])[1]
