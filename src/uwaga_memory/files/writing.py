"""Writing of pairs to a file of translations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO

from uwaga.errors import SettingsError
from uwaga.files.atomic import new_file
from uwaga.files.lines import COMPRESSED_SUFFIXES, check_compression, open_compressed
from uwaga_memory.files.po import write_po
from uwaga_memory.files.tmx import write_tmx
from uwaga_memory.files.tsv import write_tsv
from uwaga_memory.files.xliff import write_xliff
from uwaga_memory.store import Pair

EXPORT_FORMATS: Mapping[str, Callable[[IO[bytes], Iterable[Pair], tuple[str, str]], None]] = {
    "tmx": write_tmx,
    "tsv": write_tsv,
    "po": write_po,
    "xliff": write_xliff,
}
SUFFIXES = {".tmx": "tmx", ".tsv": "tsv", ".po": "po", ".xlf": "xliff", ".xliff": "xliff"}


def export_format(path: Path, name: str = "") -> str:
    """Return the name of the format of a file to write: ``name``, or the format that the suffix indicates."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSED_SUFFIXES:
        suffixes.pop()
    name = name or (SUFFIXES.get(suffixes[-1], "") if suffixes else "")
    if name not in EXPORT_FORMATS:
        raise SettingsError(f"{path}: unknown suffix; name the format, --format {', '.join(EXPORT_FORMATS)}")
    return name


def write_pairs(
    path: Path, pairs: Iterable[Pair], languages: tuple[str, str], format_: str = ""
) -> Counter[str]:
    """Write pairs to a file atomically, and return the number of skipped pairs by reason."""
    name = export_format(path, format_)
    skipped: Counter[str] = Counter()
    if name == "po":
        pairs = _newest_pairs(pairs, skipped)
    check_compression(path)
    with new_file(path) as file, open_compressed(path, file) as stream:
        EXPORT_FORMATS[name](stream, pairs, languages)
    return skipped


def _newest_pairs(pairs: Iterable[Pair], skipped: Counter[str]) -> Iterator[Pair]:
    """Yield the newest pair of each key and source, since a catalogue can contain only one."""
    newest_pairs: dict[tuple[str, str], Pair] = {}
    for pair in pairs:
        if (pair.key, pair.source) in newest_pairs:
            skipped["another translation of the same key and source"] += 1
        newest_pairs[pair.key, pair.source] = pair
    yield from newest_pairs.values()
