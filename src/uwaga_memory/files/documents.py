"""Reading of pairs from a document and its translation, or from a document that contains translations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from uwaga.checkpoints.languages import UNSTATED_LANGUAGES
from uwaga.errors import DataError
from uwaga.markup.inline import written_text
from uwaga_documents import DocumentOptions, document_job, job_texts, job_translations
from uwaga_documents.job import DocumentJob, document_texts
from uwaga_memory.files.file import TranslationFile
from uwaga_memory.store import Pair


def document_sources(path: Path) -> list[Pair]:
    """Return the texts of a document, with tags and keys and in order, as pairs with empty translations."""
    return [
        Pair(written_text(text.inline).strip(), "", path.name, text.context.key if text.context else "")
        for text in document_texts(_reading_job(path))
    ]


def _reading_job(path: Path, options: DocumentOptions | None = None) -> DocumentJob:
    """Return a job for a document that is only read; the output file of the job is never written."""
    return document_job(path, path.with_name(f".{path.stem}.uwaga{path.suffix}"), options)


def read_documents(file: TranslationFile) -> Iterator[Pair]:
    """Yield a pair for each text of a document and the corresponding text of its translation."""
    translation = file.options.translation
    if translation is None:
        raise DataError(f"{file.path}: has no translation; name the translated document with --translation")
    sources, targets = document_sources(file.path), document_sources(translation)
    if len(sources) != len(targets):
        raise DataError(
            f"{file.path}: has {len(sources)} texts, but {translation} has {len(targets)}; the texts must "
            f"correspond one to one: align them and import a TSV file"
        )
    for source, target in zip(sources, targets, strict=True):
        yield replace(source, target=target.source)
    file.position = file.path.stat().st_size


def read_translations(file: TranslationFile) -> Iterator[Pair]:
    """Yield the pairs of a document that contains translations, in the form in which texts are looked up.

    Unlike in an import, access-key markers and the tags around a text are removed, and arguments are
    numbered.
    """
    source, target = (
        None if code == placeholder_code else code
        for code, placeholder_code in zip(file.languages, UNSTATED_LANGUAGES, strict=True)
    )
    job = _reading_job(file.path, DocumentOptions(source=source, target=target))
    file.skipped["not translated"] += sum(1 for _ in job_texts(job))
    for text, translation in job_translations(job):
        yield Pair(text, translation, file.origin)
