"""Documents of many formats: taken apart into texts, translated, and put together with all else as it was."""

from uwaga.documents.document import DocumentOptions, Piece, Reading, Source, Unit
from uwaga.documents.job import (
    DocumentJob,
    DocumentReport,
    TranslateInlines,
    document_job,
    job_texts,
    run_document_job,
)
from uwaga.documents.registry import Format, find_format, formats
from uwaga.documents.translating import inline_translator, translate_file

__all__ = [
    "DocumentJob",
    "DocumentOptions",
    "DocumentReport",
    "Format",
    "Piece",
    "Reading",
    "Source",
    "TranslateInlines",
    "Unit",
    "document_job",
    "find_format",
    "formats",
    "inline_translator",
    "job_texts",
    "run_document_job",
    "translate_file",
]
