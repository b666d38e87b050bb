"""Files of translations that a memory imports and exports."""

from uwaga_memory.files.reading import FileOptions, TranslationFile, read_pairs
from uwaga_memory.files.writing import EXPORT_FORMATS, write_pairs

__all__ = ["EXPORT_FORMATS", "FileOptions", "TranslationFile", "read_pairs", "write_pairs"]
