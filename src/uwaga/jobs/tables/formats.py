"""Which format files have, by the ends of their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Literal, get_args

from uwaga.errors import DataError
from uwaga.files.store import StoredFile
from uwaga.jobs.tables.line_formats import JsonLinesFormat, TextFormat
from uwaga.jobs.tables.parquet_format import ParquetFormat
from uwaga.jobs.tables.rows import RowFormat
from uwaga.settings.checks import check_one_of

FormatName = Literal["parquet", "jsonl", "text"]
FORMATS: Mapping[str, Callable[[], RowFormat]] = {
    "parquet": ParquetFormat,
    "jsonl": JsonLinesFormat,
    "text": TextFormat,
}
ENDINGS = {".parquet": "parquet", ".pq": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl", ".txt": "text"}
PACKED = (".gz", ".zst", ".xz", ".bz2")


def find_format(
    place: str, files: Sequence[StoredFile], asked: str | None
) -> tuple[RowFormat, list[StoredFile]]:
    """The format of an input, and those of its files that are data.

    Names that begin with ``_`` or ``.``, in any folder, are marks that other programs leave in lakes. A file
    that is named itself, with an end that says nothing, is text.

    Args:
        place: what the input is called in messages.
        files: all that are there.
        asked: the format, None for what the ends of names say; those with another end are left out then.

    Raises:
        DataError: there are no files, or of several formats.
        SettingsError: there is no such format.
        MissingExtraError: it needs what is not installed.
    """
    if asked is not None:
        check_one_of("format", asked, get_args(FormatName))
    data = [one for one in files if not any(part[:1] in "_." for part in one.name.split("/"))]
    if not data:
        raise DataError(f"{place}: no such file, or a folder without files")
    kinds = {one.name: _kind(one.name) for one in data}
    if len(files) == 1 and is_named(place, data[0]):
        [kind] = kinds.values()
        return FORMATS[asked or kind or "text"](), data
    known = sorted({kind for kind in kinds.values() if kind is not None})
    if asked is None and len(known) > 1:
        raise DataError(f"{place}: holds files of {' and '.join(known)}: say which, with --format {known[0]}")
    if not known or (asked is not None and asked not in known):
        why = f"holds no files of {asked}, but of {' and '.join(known)}"
        if not known:
            why = f"unknown format: no name ends in {', '.join(ENDINGS)}; the first is {data[0].name}"
        raise DataError(f"{place}: {why}")
    wanted = asked or known[0]
    return FORMATS[wanted](), [one for one in data if kinds[one.name] == wanted]


def is_named(place: str, file: StoredFile) -> bool:
    """Whether a place is this file itself, and no folder with it."""
    return PurePosixPath(place).name == file.name


def _kind(name: str) -> str | None:
    path = PurePosixPath(name.lower())
    return ENDINGS.get((path.with_suffix("") if path.suffix in PACKED else path).suffix)
