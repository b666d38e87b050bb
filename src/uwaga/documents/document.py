"""What a reader of documents is given and what it returns."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from uwaga.markup.units import Piece


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
    """

    encoding: str | None = None
    keys: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    retranslate: bool = False
    source: str | None = None
    target: str | None = None


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
