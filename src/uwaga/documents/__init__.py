"""Translation of documents in many formats; everything but their texts is copied unchanged."""

from uwaga.documents.document import (
    DocumentFormat,
    DocumentOptions,
    DocumentSource,
    Reading,
    document_formats,
    find_format,
)
from uwaga.documents.job import (
    DocumentJob,
    DocumentReport,
    DoubtfulText,
    TranslateInlines,
    document_job,
    job_texts,
    run_document_job,
)
from uwaga.documents.translating import inline_translator, translate_file
from uwaga.markup.units import Piece, Unit

__all__ = [
    "DocumentFormat",
    "DocumentJob",
    "DocumentOptions",
    "DocumentReport",
    "DocumentSource",
    "DoubtfulText",
    "Piece",
    "Reading",
    "TranslateInlines",
    "Unit",
    "document_formats",
    "document_job",
    "find_format",
    "inline_translator",
    "job_texts",
    "run_document_job",
    "translate_file",
]
