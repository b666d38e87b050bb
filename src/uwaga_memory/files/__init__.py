"""Reading and writing of translation files, for the import and export of translation memories."""

from uwaga_memory.files.file import skipped_summary
from uwaga_memory.files.reading import (
    FileOptions,
    TranslationFile,
    format_by_name,
    open_memory,
    read_pairs,
)
from uwaga_memory.files.writing import EXPORT_FORMATS, write_pairs

__all__ = [
    "EXPORT_FORMATS",
    "FileOptions",
    "TranslationFile",
    "format_by_name",
    "open_memory",
    "read_pairs",
    "skipped_summary",
    "write_pairs",
]
