"""Catalogues of gettext: their translated entries, with ``msgctxt`` as the key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO

from uwaga.errors import DataError
from uwaga.files.regular import read_regular
from uwaga_documents import DocumentSource
from uwaga_documents.document import MAX_DOCUMENT_BYTES
from uwaga_documents.formats.po import PoEntry, po_entries, po_text
from uwaga_documents.plurals import plural_expression
from uwaga_memory.files.file import TranslationFile
from uwaga_memory.store import Pair

ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"})


def read_po(file: TranslationFile) -> Iterator[Pair]:
    """Yield the pairs of a catalogue; of a plural, the singular and the last form."""
    try:
        content = read_regular(file.path, MAX_DOCUMENT_BYTES)
    except OSError as error:
        raise DataError(f"{file.path}: cannot be read: {error.strerror or error}") from None
    text, _, _ = po_text(DocumentSource(str(file.path), content))
    for entry in po_entries(text, str(file.path)):
        if isinstance(entry, str):
            continue
        file.position = min(len(content), file.position + len(entry.raw()))
        if entry.is_header:
            fields = dict(line.partition(": ")[::2] for line in entry.translations[0].split("\n"))
            file.check_language(fields.get("Language", "").strip(), 1, "header")
        elif entry.fuzzy:
            file.skipped["fuzzy"] += 1
        elif not all(entry.translations):
            file.skipped["not translated"] += 1
        else:
            yield from _pairs(entry, file)


def _pairs(entry: PoEntry, file: TranslationFile) -> Iterator[Pair]:
    for source, target in entry.texts_with_translations():
        yield Pair(source, target, file.origin, entry.texts.get("msgctxt", ""))
    if len(entry.translations) > 2:
        file.skipped["further plural forms"] += len(entry.translations) - 2


def write_po(file: IO[bytes], pairs: Iterable[Pair], languages: tuple[str, str]) -> None:
    """Write pairs as a catalogue. The sources of one key must differ."""
    target = languages[1].replace("-", "_")
    header = (
        f"Language: {target}\nMIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\n"
        f"Content-Transfer-Encoding: 8bit\nPlural-Forms: {plural_expression(languages[1])}\n"
    )
    file.write(f'msgid ""\nmsgstr {_string(header)}\n'.encode())
    for pair in pairs:
        context = f"msgctxt {_string(pair.key)}\n" if pair.key else ""
        file.write(f"\n{context}msgid {_string(pair.source)}\nmsgstr {_string(pair.target)}\n".encode())


def _string(text: str) -> str:
    lines = text.splitlines(keepends=True) if "\n" in text.rstrip("\n") else [text]
    strings = [f'"{line.translate(ESCAPES)}"' for line in lines]
    return strings[0] if len(strings) == 1 else "\n".join(['""', *strings])
