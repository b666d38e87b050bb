"""Translation of a document file in batches; it is written atomically and can be resumed."""

from __future__ import annotations

import codecs
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any, NamedTuple

from uwaga.errors import DataError, SettingsError, TextTooLongError
from uwaga.files.atomic import new_file
from uwaga.files.regular import read_regular
from uwaga.files.resume import Journal, open_journal
from uwaga.files.zip import Archive, ArchiveWriter
from uwaga.markup import Inline, Tag, plain_text
from uwaga.markup.inline import written_text
from uwaga.markup.units import Piece, Unit, is_translatable, untranslated_texts, write_unit
from uwaga.results.translation import MemoryUse
from uwaga.translator.memories import TextContext, contexts_in_order
from uwaga.translator.text import InlineText
from uwaga_documents.archive import open_document
from uwaga_documents.document import (
    MAX_DOCUMENT_BYTES,
    DocumentFormat,
    DocumentOptions,
    DocumentSource,
    ParsedDocument,
    Reader,
    find_format,
)
from uwaga_documents.locations import ArchiveLocations, Location

TAG_KINDS = ("open", "close", "void", "kept")
BATCH_TEXTS = 512
"""Number of texts that are translated together."""
MAX_PENDING_CHARACTERS = 1 << 22
"""Maximum number of characters that wait for the translation of the preceding texts."""

DEFAULT_OPTIONS = DocumentOptions()
UNRECORDED_OPTIONS = frozenset({"format", "max_member_bytes"})
"""Options that are not recorded in the journal, since they do not affect the translations or are recorded
separately."""

DocumentText = Inline | InlineText
"""A text with tags, which also has a context if the job uses a translation memory."""
TranslateInlines = Callable[[Sequence[DocumentText]], list[Inline]]
"""A function that returns the translations of texts with tags. The translation of a text must not depend on
the other texts."""
Progress = Callable[[int, int], None]
"""A function that receives the number of completed texts and the total number of texts."""


Doubts = dict[Inline, tuple[str, ...]]
"""The reasons why translations may be wrong, by text; the function that translates the texts adds them."""


class DoubtfulText(NamedTuple):
    """A text whose translation may be wrong.

    Attributes:
        number: the number of the text in the document, from 1.
        text: the text without tags.
        reasons: the reasons why the translation may be wrong.
        translation: the translation without tags.
        location: the location of the translation in the translated document; see
            :mod:`uwaga_documents.locations`.
    """

    number: int
    text: str
    reasons: tuple[str, ...]
    translation: str
    location: str


class DocumentReport(NamedTuple):
    """The result of a job.

    Attributes:
        format: the name of the format.
        texts: the number of texts.
        resumed: the number of texts translated by an earlier run.
        doubtful: the texts translated by this run whose translation may be wrong.
        untranslated: the number of texts that were copied, by reason.
        memory: the pairs of a translation memory that were used; a pair used for equal texts that were
            translated together is listed once.
    """

    format: str
    texts: int
    resumed: int
    doubtful: tuple[DoubtfulText, ...] = ()
    untranslated: Mapping[str, int] = {}
    memory: tuple[MemoryUse, ...] = ()


@dataclass(frozen=True)
class DocumentJob:
    """A document to translate.

    Attributes:
        source: the document.
        target: the translated document; an existing file is replaced.
        format: the format of the document.
        options: how to read the document.
        settings: everything else that translations depend on, such as the model; an interrupted run is
            resumed only with the same settings.
        batch: number of texts that are translated together.
        in_context: whether texts are translated with their contexts, for a translation memory.
    """

    source: Path
    target: Path
    format: DocumentFormat
    options: DocumentOptions = DEFAULT_OPTIONS
    settings: Mapping[str, Any] | None = None
    batch: int = BATCH_TEXTS
    in_context: bool = False


def document_job(
    source: str | Path,
    target: str | Path,
    options: DocumentOptions | None = None,
    settings: Mapping[str, Any] | None = None,
) -> DocumentJob:
    """Return the job of translating a document, after checking it, so that no model is loaded in vain.

    Args:
        source: the document.
        target: the translated document.
        options: how to read the document.
        settings: everything else that translations depend on.
    """
    source_path, target_path = Path(source), Path(target)
    if not source_path.is_file():
        raise DataError(f"{source_path}: there is no such file")
    options = options or DocumentOptions()
    document_format = find_format(source_path, options.format)
    if target_path.resolve() == source_path.resolve():
        raise SettingsError(f"{target_path}: is the document itself; choose another file for the translation")
    if not target_path.resolve().parent.is_dir():
        raise DataError(
            f"{target_path}: cannot be written: there is no folder {target_path.resolve().parent}"
        )
    if target_path.is_dir():
        raise DataError(f"{target_path}: cannot be written: it is a folder")
    if options.format is None and target_path.suffix.lower() not in (
        "",
        source_path.suffix.lower(),
        *document_format.suffixes,
    ):
        raise SettingsError(
            f"{target_path}: the translation of {source_path.name} has the same format, "
            f"{document_format.name}: name it {target_path.with_suffix(source_path.suffix).name}"
        )
    _check_options(document_format, options)
    return DocumentJob(source_path, target_path, document_format, options, settings)


def run_document_job(
    job: DocumentJob,
    translate: TranslateInlines,
    progress: Progress | None = None,
    doubts: Doubts | None = None,
) -> DocumentReport:
    """Translate a document.

    The document is validated before the first text is translated. Translations are stored in a journal next
    to the target until the target is complete.

    Args:
        job: the job.
        translate: translates the texts.
        progress: called with the number of completed texts and the total number of texts.
        doubts: the mapping to which ``translate`` adds the texts whose translations may be wrong.
    """
    text_count, untranslated = 0, Counter[str]()
    for piece in _pieces(job):
        text_count += len(_texts(piece))
        untranslated.update(text.reason for text in untranslated_texts((piece,)))
    digest = _digest(job.source)
    settings = {"input": digest, "format": job.format.name, **(job.settings or {})}
    options = asdict(job.options)
    settings["options"] = {key: value for key, value in options.items() if key not in UNRECORDED_OPTIONS}
    with open_journal(job.target, settings) as journal:
        resumed = journal.resumed
        batches = _Batches(
            translate,
            journal,
            job,
            lambda completed_count: progress(completed_count, text_count) if progress else None,
        )
        batches.doubts = {} if doubts is None else doubts
        with new_file(job.target) as file:
            if job.format.read is not None:
                document = _read(job.format.read, _file_source(job))
                file.write(document.bom)
                batches.write(document, file, Location())
            else:
                _write_archive(job, batches, file)
            if _digest(job.source) != digest:
                raise DataError(f"{job.source}: changed while it was translated; run the same command again")
        journal.remove()
    return DocumentReport(job.format.name, text_count, resumed, tuple(batches.doubtful), dict(untranslated))


def job_texts(job: DocumentJob) -> Iterator[str]:
    """Yield the texts of a document without tags, in document order."""
    return (plain_text(inline) for piece in _pieces(job) for inline in _texts(piece))


def document_texts(job: DocumentJob) -> Iterator[InlineText]:
    """Yield the texts of a document with their tags and contexts, in document order."""
    return (text for _, texts in _with_contexts(_pieces(job)) for text in texts)


def _with_texts(pieces: Iterable[Piece]) -> Iterator[tuple[Piece, Sequence[DocumentText]]]:
    """Yield each piece with its texts."""
    for piece in pieces:
        yield piece, _texts(piece)


def _with_contexts(pieces: Iterable[Piece]) -> Iterator[tuple[Piece, list[InlineText]]]:
    """Yield each piece with its texts and their contexts, as soon as the next text is known."""
    pending_pieces, text_before = list[Piece](), ""
    for piece in pieces:
        inlines = _texts(piece)
        if pending_pieces and inlines:
            texts = _with_context(pending_pieces[0], text_before, written_text(inlines[0]))
            yield pending_pieces[0], texts
            yield from ((piece, []) for piece in pending_pieces[1:])
            pending_pieces, text_before = [], written_text(texts[-1].inline)
        if pending_pieces or inlines:
            pending_pieces.append(piece)
        else:
            yield piece, []
    for piece in pending_pieces:
        yield piece, _with_context(piece, text_before, "")


def _with_context(piece: Piece, text_before: str, text_after: str) -> list[InlineText]:
    """Return the texts of a piece with their contexts, given the texts before and after the piece."""
    inlines = _texts(piece)
    key = piece.key if isinstance(piece, Unit) else ""
    contexts = contexts_in_order([*map(written_text, inlines)], TextContext(key, text_before, text_after))
    return [*map(InlineText, inlines, contexts)]


def job_translations(job: DocumentJob) -> Iterator[tuple[str, str]]:
    """Yield the texts whose translations a document already contains, each with its translation, tags
    included.
    """
    for text in untranslated_texts(_pieces(job)):
        for source, translation in text.translations():
            yield written_text(source).strip(), written_text(translation).strip()


def _check_options(document_format: DocumentFormat, options: DocumentOptions) -> None:
    if document_format.check is not None:
        document_format.check(options)


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None


def _file_source(job: DocumentJob) -> DocumentSource:
    try:
        return DocumentSource(str(job.source), read_regular(job.source, MAX_DOCUMENT_BYTES), job.options)
    except OSError as error:
        raise DataError(f"{job.source}: cannot be read: {error.strerror or error}") from None


def _member_source(job: DocumentJob, archive: Archive, name: str) -> DocumentSource:
    return DocumentSource(f"{job.source}: {name}", archive.read(name), job.options)


def _read(reader: Reader, source: DocumentSource) -> ParsedDocument:
    """Read a document or a member of an archive, and add the name of the source to later errors about its
    texts.
    """
    document = reader(source)
    return replace(document, pieces=_add_name_to_errors(document.pieces, source.name))


def _add_name_to_errors(pieces: Iterable[Piece], name: str) -> Iterator[Piece]:
    try:
        yield from pieces
    except DataError as error:
        if str(error).startswith(name):
            raise
        raise type(error)(f"{name}: {error}") from None


def _readers(job: DocumentJob, archive: Archive) -> Mapping[str, Reader]:
    assert job.format.members is not None
    return job.format.members(archive)


def _pieces(job: DocumentJob) -> Iterator[Piece]:
    """Yield the pieces of a document one by one."""
    if job.format.read is not None:
        yield from _read(job.format.read, _file_source(job)).pieces
        return
    with open_document(job.source, job.options.max_member_bytes) as archive:
        readers = _readers(job, archive)
        for name in archive.members:
            if name in readers:
                yield from _read(readers[name], _member_source(job, archive, name)).pieces
            else:
                archive.verify_checksums(name)


def _write_archive(job: DocumentJob, batches: _Batches, file: IO[bytes]) -> None:
    with open_document(job.source, job.options.max_member_bytes) as archive:
        readers, locations = _readers(job, archive), ArchiveLocations(archive)
        with ArchiveWriter(file, archive.comment) as writer:
            for name, member in archive.members.items():
                if name not in readers:
                    writer.copy(archive, name)
                    continue
                document = _read(readers[name], _member_source(job, archive, name))
                with writer.member(member) as stream:
                    stream.write(document.bom)
                    batches.write(document, stream, locations.member(name))


def _texts(piece: Piece) -> list[Inline]:
    """Return the translatable texts of a piece."""
    return [] if isinstance(piece, str) else [inline for inline in piece.inlines if is_translatable(inline)]


class _Batches:
    """A writer that collects pieces into batches of texts, translates the batches and writes the pieces."""

    def __init__(
        self, translate: TranslateInlines, journal: Journal, job: DocumentJob, report: Callable[[int], None]
    ) -> None:
        self._translate, self._journal, self._report = translate, journal, report
        self._batch, self._source = job.batch, job.source
        self._with_texts = _with_contexts if job.in_context else _with_texts
        self._completed_count = self._text_number = 0
        self._replayable_count = journal.resumed
        self.doubts: Doubts = {}
        self.doubtful: list[DoubtfulText] = []

    def write(self, document: ParsedDocument, file: IO[bytes], location: Location) -> None:
        """Write a document, or a member of an archive, that starts at ``location``."""
        encoder = document.encoder()
        pending_pieces: list[tuple[Piece, Sequence[DocumentText]]] = []
        count = size = 0
        for piece, texts in self._with_texts(document.pieces):
            pending_pieces.append((piece, texts))
            count += len(texts)
            size += len(piece) if isinstance(piece, str) else len(piece.raw or "")
            if count >= self._batch or size >= MAX_PENDING_CHARACTERS:
                file.write(self._encode(encoder, "".join(self._written_pieces(pending_pieces, location))))
                pending_pieces, count, size = [], 0, 0
        text = "".join(self._written_pieces(pending_pieces, location))
        file.write(self._encode(encoder, text, final=True))

    def _encode(self, encoder: codecs.IncrementalEncoder, text: str, final: bool = False) -> bytes:
        try:
            encoded_text: bytes = encoder.encode(text, final)
        except UnicodeEncodeError as error:
            raise DataError(
                f"{self._source}: the translation has {error.object[error.start]!r}, which "
                f"{error.encoding} cannot encode; save the document as UTF-8 first"
            ) from None
        return encoded_text

    def _written_pieces(
        self, pieces: Sequence[tuple[Piece, Sequence[DocumentText]]], location: Location
    ) -> Iterator[str]:
        translations = iter(self._translate_remaining([text for _, texts in pieces for text in texts]))
        for piece, _ in pieces:
            written_text = piece
            if isinstance(piece, Unit):
                inlines = [
                    next(translations) if is_translatable(inline) else inline for inline in piece.inlines
                ]
                written_text = write_unit(piece, inlines)
                start = len(written_text) - len(written_text.lstrip())
                location.follow(written_text[:start])
                self._add_doubts(piece, inlines, location)
                location.follow(written_text[start:])
            else:
                location.follow(piece)
            assert isinstance(written_text, str)
            yield written_text

    def _add_doubts(self, unit: Unit, translations: Sequence[Inline], location: Location) -> None:
        for text, translation in zip(unit.inlines, translations, strict=True):
            if not is_translatable(text):
                continue
            self._text_number += 1
            if text in self.doubts:
                self.doubtful.append(
                    DoubtfulText(
                        self._text_number,
                        plain_text(text),
                        self.doubts[text],
                        plain_text(translation),
                        str(location),
                    )
                )

    def _translate_remaining(self, texts: Sequence[DocumentText]) -> list[Inline]:
        stored_translations = (
            self._journal.replay(min(len(texts), self._replayable_count)) if self._replayable_count else []
        )
        translations = [_from_json(parts, self._journal.path) for parts in stored_translations]
        self._replayable_count -= len(translations)
        remaining_texts = list(texts[len(translations) :])
        if remaining_texts:
            unique_texts = list(dict.fromkeys(remaining_texts))
            try:
                by_text = dict(zip(unique_texts, self._translate(unique_texts), strict=True))
            except TextTooLongError as error:
                raise TextTooLongError(f"{self._source}: {error}") from None
            new_translations = [by_text[text] for text in remaining_texts]
            self._journal.add([_to_json(inline) for inline in new_translations])
            translations += new_translations
        self._completed_count += len(texts)
        self._report(self._completed_count)
        return translations


def _to_json(inline: Inline) -> list[str | list[str]]:
    """Return a text with tags as JSON values."""
    return [part if isinstance(part, str) else [part.kind, part.raw, part.text] for part in inline]


def _from_json(parts: Sequence[Any], journal: Path) -> Inline:
    """Return the text with tags that :func:`_to_json` converted to JSON values."""
    return tuple(part if isinstance(part, str) else _tag(part, journal) for part in parts)


def _tag(values: Any, journal: Path) -> Tag:
    kind, raw, text = values
    if kind not in TAG_KINDS:
        raise DataError(f"{journal}: is damaged; delete it to start over")
    return Tag(kind, raw, text)
