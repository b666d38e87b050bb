"""Translation of documents in many formats; everything except their texts is copied unchanged."""

from uwaga.markup.units import Piece, Unit
from uwaga_documents.document import (
    DOCUMENT_FORMATS,
    DocumentFormat,
    DocumentOptions,
    DocumentSource,
    ParsedDocument,
    find_format,
)
from uwaga_documents.job import (
    DocumentJob,
    DocumentReport,
    DoubtfulText,
    TranslateInlines,
    document_job,
    job_texts,
    job_translations,
    run_document_job,
)
from uwaga_documents.translating import inline_translator, translate_file

__all__ = [
    "DOCUMENT_FORMATS",
    "DocumentFormat",
    "DocumentJob",
    "DocumentOptions",
    "DocumentReport",
    "DocumentSource",
    "DoubtfulText",
    "ParsedDocument",
    "Piece",
    "TranslateInlines",
    "Unit",
    "document_job",
    "find_format",
    "inline_translator",
    "job_texts",
    "job_translations",
    "run_document_job",
    "translate_file",
]
