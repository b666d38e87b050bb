"""A tokenised corpus on disk, memory-mapped, so that it may be larger than memory.

The folder contains ``store.json`` and the columns ``source``, ``target``, ``source.FORM`` for each surface
form of ``data.augment``, optionally the texts ``text.source`` and ``text.target``, and optionally the word
alignments ``links``. A column is a file of concatenated rows (tokens as uint16 or int32, texts as UTF-8,
links as int32 with source word and target word alternating) and ``COLUMN.offsets``, a file of (pairs + 1,)
int64 indices into it. Numbers are little-endian. :mod:`uwaga.data.store_writer` writes the folder.
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

FORMAT_VERSION = 2
METADATA_FILE = "store.json"
OFFSETS = ".offsets"
SOURCE_TEXT = "text.source"
TARGET_TEXT = "text.target"
LINKS = "links"


class Store:
    """A tokenised corpus; rows and lengths do not include start and end symbols.

    Attributes:
        inputs: description of the files, tokenisers and filters from which the store was built.
        report: counts of kept and dropped lines of the corpus.
        tag: token ids of the tag before each source; empty if the corpus has no tag.
    """

    def __init__(self, folder: Path, metadata: dict[str, Any], columns: dict[str, Column]) -> None:
        self.folder = folder
        self.inputs: dict[str, Any] = metadata["made_from"]
        self.report = CorpusReport(**metadata["report"])
        self.tag = tuple(int(token) for token in metadata["tag"])
        self._size = int(metadata["pairs"])
        self._tokens: dict[str, int] = metadata["tokens"]
        self._longest: dict[str, int] = metadata["longest"]
        self._columns = columns

    @classmethod
    def open(cls, folder: Path) -> Store:
        """Open a store written by ``build_store``."""
        remedy = "delete the folder, and it will be rebuilt"
        try:
            metadata = json.loads((folder / METADATA_FILE).read_text(encoding="utf-8"))
            if metadata["format"] != FORMAT_VERSION:
                raise DataError(
                    f"{folder}: the store has format {metadata['format']}, not {FORMAT_VERSION}; {remedy}"
                )
            sizes = {name: (folder / name).stat().st_size for name in metadata["files"]}
            for name, size in metadata["files"].items():
                if sizes[name] != size:
                    raise DataError(
                        f"{folder / name}: has {sizes[name]} bytes, but {size} were written; {remedy}"
                    )
            columns = {
                name: Column.open(folder / name, dtype, folder / f"{name}{OFFSETS}")
                for name, dtype in metadata["columns"].items()
            }
            return cls(folder, metadata, columns)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(
                f"{folder}: not a store of training pairs, or damaged ({error}); {remedy}"
            ) from None

    def __len__(self) -> int:
        return self._size

    @property
    def forms(self) -> tuple[str, ...]:
        """The names of the surface forms of the sources in the store, besides the plain text."""
        return tuple(name.partition(".")[2] for name in self._columns if name.startswith("source."))

    @property
    def has_text(self) -> bool:
        """True if the store contains the texts of the pairs, in addition to the tokens."""
        return SOURCE_TEXT in self._columns

    def side(self, side: Literal["source", "target"], form: str = "") -> Column:
        """Return the tokens of all sources, optionally in a surface form, or of all targets."""
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
        """Return the text of a source; raise DataError if the store has no texts."""
        return self._text(SOURCE_TEXT, index)

    def target_text(self, index: int) -> str:
        """Return the text of a target; raise DataError if the store has no texts."""
        return self._text(TARGET_TEXT, index)

    @property
    def link_words(self) -> WordKind:
        """The way in which the alignments count words: ``words`` or ``spaces``."""
        return "words" if self.inputs["links"][1] == "words" else "spaces"

    def links(self, index: int) -> Ids:
        """Return the links of a pair, (links, 2): source word, target word.

        Raises:
            DataError: the store has no word alignments.
        """
        if LINKS not in self._columns:
            raise DataError(f"{self.folder}: this store has no word alignments; rebuild it with them")
        return np.array(self._columns[LINKS].row(index), dtype=np.int64).reshape(-1, 2)

    def _text(self, name: str, index: int) -> str:
        if name not in self._columns:
            raise DataError(f"{self.folder}: this store has no texts; rebuild it with keep_text")
        return self._columns[name].row(index).tobytes().decode("utf-8")
