"""A tokenised corpus on disk, memory-mapped, so that one larger than memory can be trained on.

A folder: ``store.json`` and the columns ``source``, ``target``, a ``source.FORM`` for each surface form of
``data.augment``, with texts ``text.source`` and ``text.target``, and with word links ``links``. A column is
one file of its rows end to end (tokens as uint16 or int32, texts as UTF-8, links as int32, of source word and
target word in turn) and one, ``COLUMN.offsets``, of (pairs + 1,) int64 indices in it. Numbers are
little-endian. :mod:`uwaga.data.store_writer` writes it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uwaga.alignment.words import WordKind
from uwaga.data.report import CorpusReport
from uwaga.data.rows import Column
from uwaga.decoder import Ids
from uwaga.errors import DataError

FORMAT = 2
FACTS = "store.json"
OFFSETS = ".offsets"
SOURCE_TEXT = "text.source"
TARGET_TEXT = "text.target"
LINKS = "links"


class Store:
    """An opened store. Rows and lengths are without start and end symbols.

    Attributes:
        made_from: the inputs it depends on: files, tokenisers, filters.
        report: counts of the corpus.
        tag: ids before each source, empty without a tag.
    """

    def __init__(self, folder: Path, facts: dict[str, Any], columns: dict[str, Column]) -> None:
        self.folder = folder
        self.made_from: dict[str, Any] = facts["made_from"]
        self.report = CorpusReport(**facts["report"])
        self.tag = tuple(int(token) for token in facts["tag"])
        self._size = int(facts["pairs"])
        self._tokens: dict[str, int] = facts["tokens"]
        self._longest: dict[str, int] = facts["longest"]
        self._columns = columns

    @classmethod
    def open(cls, folder: Path) -> Store:
        """Map a store that ``build_store`` has written."""
        cure = "delete the folder, and it will be rebuilt"
        try:
            facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
            if facts["format"] != FORMAT:
                raise DataError(f"{folder}: a store of format {facts['format']}, not {FORMAT}; {cure}")
            sizes = {name: (folder / name).stat().st_size for name in facts["files"]}
            for name, size in facts["files"].items():
                if sizes[name] != size:
                    raise DataError(f"{folder / name}: {sizes[name]} bytes where {size} were written; {cure}")
            columns = {
                name: Column.open(folder / name, dtype, folder / f"{name}{OFFSETS}")
                for name, dtype in facts["columns"].items()
            }
            return cls(folder, facts, columns)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(
                f"{folder}: not a store of training pairs, or damaged ({error}); {cure}"
            ) from None

    def __len__(self) -> int:
        return self._size

    @property
    def forms(self) -> tuple[str, ...]:
        """The surface forms of the source that the store holds in addition to the plain text."""
        return tuple(name.partition(".")[2] for name in self._columns if name.startswith("source."))

    @property
    def has_text(self) -> bool:
        """True if the texts are stored."""
        return SOURCE_TEXT in self._columns

    def side(self, side: Literal["source", "target"], form: str = "") -> Column:
        """Return the tokens of all sources or targets; sources also in a surface form."""
        return self._columns[f"{side}.{form}" if form else side]

    def tokens(self, column: str) -> int:
        """Return the number of tokens in all rows of ``source``, ``target`` or ``source.FORM``."""
        return self._tokens[column]

    def longest(self, column: str) -> int:
        """Return the number of tokens in the longest row of ``source``, ``target`` or ``source.FORM``."""
        return self._longest[column]

    def release_pages(self) -> None:
        """Release the memory pages of large files that have been read."""
        for column in self._columns.values():
            column.release_pages()

    @property
    def source_lengths(self) -> NDArray[np.int32]:
        """The number of tokens of each source, (pairs,)."""
        return self._columns["source"].lengths

    @property
    def target_lengths(self) -> NDArray[np.int32]:
        """The number of tokens of each target, (pairs,)."""
        return self._columns["target"].lengths

    def source(self, index: int) -> NDArray[Any]:
        """Return the tokens of a source, (source,)."""
        return self._columns["source"].row(index)

    def target(self, index: int) -> NDArray[Any]:
        """Return the tokens of a target, (target,)."""
        return self._columns["target"].row(index)

    def source_text(self, index: int) -> str:
        """Return the text of a source; DataError if the store has no texts."""
        return self._text(SOURCE_TEXT, index)

    def target_text(self, index: int) -> str:
        """Return the text of a target; DataError if the store has no texts."""
        return self._text(TARGET_TEXT, index)

    @property
    def link_words(self) -> WordKind:
        """How the alignments count words."""
        return "words" if self.made_from["links"][1] == "words" else "spaces"

    def links(self, index: int) -> Ids:
        """Return the links, (links, 2) source and target word; DataError if the store has no alignments."""
        if LINKS not in self._columns:
            raise DataError(f"{self.folder}: this store has no word alignments; rebuild it with them")
        return np.array(self._columns[LINKS].row(index), dtype=np.int64).reshape(-1, 2)

    def _text(self, name: str, index: int) -> str:
        if name not in self._columns:
            raise DataError(f"{self.folder}: this store has no texts; rebuild it with keep_text")
        return self._columns[name].row(index).tobytes().decode("utf-8")
