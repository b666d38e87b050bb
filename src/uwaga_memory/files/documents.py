"""A document and its translation: pairs of their texts, if both have the same number of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from uwaga.errors import DataError
from uwaga.markup.inline import written_text
from uwaga_documents.job import document_job, document_texts
from uwaga_memory.files.file import TranslationFile
from uwaga_memory.store import Pair


def document_sources(path: Path) -> list[Pair]:
    """Return the texts of a document with their tags and keys, in order, as pairs without translations."""
    # A job names two files; nothing is written.
    job = document_job(path, path.with_name(f".{path.stem}.uwaga{path.suffix}"))
    return [
        Pair(written_text(text.inline).strip(), "", path.name, text.context.key if text.context else "")
        for text in document_texts(job)
    ]


def read_documents(file: TranslationFile) -> Iterator[Pair]:
    """Yield the texts of a document with those of its translation."""
    translation = file.options.translation
    if translation is None:
        raise DataError(f"{file.path}: name its translation with --translation")
    sources, targets = document_sources(file.path), document_sources(translation)
    if len(sources) != len(targets):
        raise DataError(
            f"{file.path}: has {len(sources)} texts, and {translation} has {len(targets)}; the texts of both "
            "must correspond: align them, and import a TSV"
        )
    for source, target in zip(sources, targets, strict=True):
        yield replace(source, target=target.source)
    file.position = file.path.stat().st_size
