"""Reading and writing of gettext catalogues (PO files), with ``msgctxt`` as the key of a pair.

An entry with plural forms becomes two pairs: one for the singular and one for the plural. The properties of
the pairs contain the remaining parts of the entry, so that it can be restored on export.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO, NamedTuple

from uwaga.errors import DataError
from uwaga.files.regular import read_regular
from uwaga_documents import DocumentSource
from uwaga_documents.document import MAX_DOCUMENT_BYTES
from uwaga_documents.formats.po import PoEntry, po_entries, po_text
from uwaga_documents.plurals import plural_expression, singular_forms
from uwaga_memory.files.file import TranslationFile
from uwaga_memory.store import Pair

PLURAL_PROPERTY, SINGULAR_PROPERTY = "unit.prop.x-po-msgid_plural", "unit.prop.x-po-msgid"
"""Properties that contain the plural source of a singular pair, and the singular source of a plural pair."""
PLURAL_FORM_PROPERTY = "unit.prop.x-po-msgstr[{}]"
"""Property that contains a plural form other than the first and the last."""
ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"})


def read_po(file: TranslationFile) -> Iterator[Pair]:
    """Yield the pairs of a catalogue; an entry with plural forms yields its first and its last form."""
    try:
        content = read_regular(file.path, MAX_DOCUMENT_BYTES)
    except OSError as error:
        raise DataError(f"{file.path}: cannot be read: {error.strerror or error}") from None
    text = po_text(DocumentSource(str(file.path), content)).text
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
            yield from _entry_pairs(entry, file)


def _entry_pairs(entry: PoEntry, file: TranslationFile) -> Iterator[Pair]:
    key, singular, forms = entry.texts.get("msgctxt", ""), entry.texts["msgid"], entry.translations
    plural = entry.texts.get("msgid_plural")
    if plural is None:
        yield Pair(singular, forms[0], file.origin, key)
        return
    if len(forms) > 1:
        middle_forms = tuple(
            (PLURAL_FORM_PROPERTY.format(index), form) for index, form in enumerate(forms[:-1]) if index
        )
        yield Pair(
            singular, forms[0], file.origin, key, properties=((PLURAL_PROPERTY, plural), *middle_forms)
        )
    yield Pair(plural, forms[-1], file.origin, key, properties=((SINGULAR_PROPERTY, singular),))


class _Message(NamedTuple):
    """A catalogue entry to write; ``plural`` is empty if the entry has no plural forms."""

    key: str
    source: str
    plural: str
    translations: list[str]


def _join_plurals(pairs: Iterable[Pair], form_count: int) -> Iterator[_Message]:
    """Yield catalogue entries for pairs; pairs of the same plural entry are joined if no form is missing."""
    by_source = {(pair.key, pair.source): pair for pair in pairs}
    messages: dict[Pair, _Message] = {}
    for pair in by_source.values():
        values = dict(pair.properties)
        plural = by_source.get((pair.key, values.get(PLURAL_PROPERTY, "")))
        middle_forms = [
            values.get(PLURAL_FORM_PROPERTY.format(number), "") for number in range(1, form_count - 1)
        ]
        messages[pair] = _Message(pair.key, pair.source, "", [pair.target])
        if form_count == 1 and SINGULAR_PROPERTY in values:
            messages[pair] = _Message(pair.key, values[SINGULAR_PROPERTY], pair.source, [pair.target])
        elif form_count > 1 and plural is not None and all(middle_forms):
            forms = [pair.target, *middle_forms, plural.target]
            messages[pair] = _Message(pair.key, pair.source, plural.source, forms)
    plurals = {(message.key, message.plural) for message in messages.values() if form_count > 1}
    for pair, message in messages.items():
        if (pair.key, pair.source) not in plurals:
            yield message


def write_po(file: IO[bytes], pairs: Iterable[Pair], languages: tuple[str, str]) -> None:
    """Write pairs as a catalogue; no two pairs may have the same key and source."""
    target = languages[1].replace("-", "_")
    header = (
        f"Language: {target}\nMIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\n"
        f"Content-Transfer-Encoding: 8bit\nPlural-Forms: {plural_expression(languages[1])}\n"
    )
    file.write(f'msgid ""\nmsgstr {_format_string(header)}\n'.encode())
    forms = singular_forms(plural_expression(languages[1])) or ()
    for message in _join_plurals(pairs, len(forms)):
        lines = [f"msgctxt {_format_string(message.key)}"] if message.key else []
        lines.append(f"msgid {_format_string(message.source)}")
        if message.plural:
            lines.append(f"msgid_plural {_format_string(message.plural)}")
            lines += [
                f"msgstr[{index}] {_format_string(form)}" for index, form in enumerate(message.translations)
            ]
        else:
            lines.append(f"msgstr {_format_string(message.translations[0])}")
        file.write("\n".join(["", *lines, ""]).encode())


def _format_string(text: str) -> str:
    lines = text.splitlines(keepends=True) if "\n" in text.rstrip("\n") else [text]
    strings = [f'"{line.translate(ESCAPES)}"' for line in lines]
    return strings[0] if len(strings) == 1 else "\n".join(['""', *strings])
