"""A document and its translation: pairs of their texts, if both have the same number of texts."""

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
    """Return the texts of a document with their tags and keys, in order, as pairs without translations."""
    return [
        Pair(written_text(text.inline).strip(), "", path.name, text.context.key if text.context else "")
        for text in document_texts(_reading_job(path))
    ]


def _reading_job(path: Path, options: DocumentOptions | None = None) -> DocumentJob:
    """Return the job of a document that is only read: it names two files, but nothing is written."""
    return document_job(path, path.with_name(f".{path.stem}.uwaga{path.suffix}"), options)


def read_documents(file: TranslationFile) -> Iterator[Pair]:
    """Yield the texts of a document with those of its translation."""
    translation = file.options.translation
    if translation is None:
        raise DataError(f"{file.path}: name its translation with --translation")
    sources, targets = document_sources(file.path), document_sources(translation)
    if len(sources) != len(targets):
        raise DataError(
            f"{file.path}: has {len(sources)} texts, but {translation} has {len(targets)}; the texts of both "
            f"must correspond: align them, and import a TSV"
        )
    for source, target in zip(sources, targets, strict=True):
        yield replace(source, target=target.source)
    file.position = file.path.stat().st_size


def read_translations(file: TranslationFile) -> Iterator[Pair]:
    """Yield the translated texts of a document with their translations, in the form in which texts are looked
    up.

    Unlike for an import, the marks of access keys and the tags around a text are dropped, and arguments
    numbered.
    """
    source, target = (
        None if code == unstated else code
        for code, unstated in zip(file.languages, UNSTATED_LANGUAGES, strict=True)
    )
    job = _reading_job(file.path, DocumentOptions(source=source, target=target))
    file.skipped["not translated"] += sum(1 for _ in job_texts(job))
    for text, translation in job_translations(job):
        yield Pair(text, translation, file.origin)
