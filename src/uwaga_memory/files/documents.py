"""A document and its translation: pairs of their texts, if both have the same number of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from uwaga.errors import DataError
from uwaga_documents import document_job, job_texts
from uwaga_memory.files.file import TranslationFile
from uwaga_memory.store import Pair


def document_texts(path: Path) -> list[str]:
    """Return the texts of a document, in order."""
    # A job names two files; nothing is written.
    return list(job_texts(document_job(path, path.with_name(f".{path.stem}.uwaga{path.suffix}"))))


def read_documents(file: TranslationFile) -> Iterator[Pair]:
    """Yield the texts of a document with those of its translation."""
    translation = file.options.translation
    if translation is None:
        raise DataError(f"{file.path}: name its translation with --translation")
    sources, targets = document_texts(file.path), document_texts(translation)
    if len(sources) != len(targets):
        raise DataError(
            f"{file.path}: has {len(sources)} texts, and {translation} has {len(targets)}; the texts of both "
            "must correspond: align them, and import a TSV"
        )
    for source, target in zip(sources, targets, strict=True):
        yield Pair(source, target, file.origin)
    file.position = file.path.stat().st_size
