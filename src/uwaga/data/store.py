"""A tokenised corpus on disk, memory-mapped, so that one larger than memory can be trained on.

A folder: ``store.json`` and the columns ``source``, ``target``, a ``source.FORM`` for each surface form of
``data.augment``, and with texts ``text.source`` and ``text.target``. A column is one file of its rows end
to end (tokens as uint16 or int32, texts as UTF-8) and one, ``COLUMN.offsets``, of (pairs + 1,) int64 indices
in it. Numbers are little-endian.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from uwaga.data.corpus import Pair, PairReader
from uwaga.data.report import CorpusReport, Fault
from uwaga.data.rows import Column
from uwaga.data.streams import identify
from uwaga.engine.cores import usable_cores
from uwaga.errors import DataError
from uwaga.settings import DataSettings
from uwaga.text.augmentation import check_shares, surface
from uwaga.text.tokeniser import Tokeniser

FORMAT = 1
CHUNK = 20_000  # pairs
FACTS = "store.json"
OFFSETS = ".offsets"
SOURCE_TEXT = "text.source"
TARGET_TEXT = "text.target"


class Store:
    """An opened store. Rows and lengths are without start and end symbols; ``report`` is of its making."""

    def __init__(self, folder: Path, facts: dict[str, Any], columns: dict[str, Column]) -> None:
        self.folder = folder
        self.fingerprint = str(facts["fingerprint"])
        self.report = CorpusReport(**facts["report"])
        self._size = int(facts["pairs"])
        self._columns = columns

    @classmethod
    def open(cls, folder: Path) -> Store:
        """Map a store that ``build_store`` has written.

        Raises:
            DataError: missing, of another version, or damaged.
        """
        cure = "delete the folder, it will be made again"
        try:
            facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
            if facts["format"] != FORMAT:
                raise DataError(f"{folder}: a store of format {facts['format']}, not {FORMAT}; {cure}")
            sizes = {name: (folder / name).stat().st_size for name in facts["files"]}
            for name, size in facts["files"].items():
                if sizes[name] != size:
                    raise DataError(f"{folder / name}: {sizes[name]} bytes where {size} were written; {cure}")
            columns = {
                name: Column(_map(folder / name, dtype), _map(folder / f"{name}{OFFSETS}", "<i8"))
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
        """The surface forms of the source that the store holds beside the text as it is."""
        return tuple(name.partition(".")[2] for name in self._columns if name.startswith("source."))

    @property
    def has_text(self) -> bool:
        """Whether the texts are kept."""
        return SOURCE_TEXT in self._columns

    def side(self, side: Literal["source", "target"], form: str = "") -> Column:
        """The tokens of all sources or targets; the sources also in a surface form."""
        return self._columns[f"{side}.{form}" if form else side]

    @property
    def source_lengths(self) -> NDArray[np.int32]:
        """(pairs,) tokens of each source."""
        return self._columns["source"].lengths

    @property
    def target_lengths(self) -> NDArray[np.int32]:
        """(pairs,) tokens of each target."""
        return self._columns["target"].lengths

    def source(self, index: int) -> NDArray[Any]:
        """(source,) the tokens of a source."""
        return self._columns["source"].row(index)

    def target(self, index: int) -> NDArray[Any]:
        """(target,) the tokens of a target."""
        return self._columns["target"].row(index)

    def source_text(self, index: int) -> str:
        """The text of a source; DataError if the store was made without texts."""
        return self._text(SOURCE_TEXT, index)

    def target_text(self, index: int) -> str:
        """The text of a target; DataError if the store was made without texts."""
        return self._text(TARGET_TEXT, index)

    def _text(self, name: str, index: int) -> str:
        if name not in self._columns:
            raise DataError(f"{self.folder}: this store holds no texts; build it with keep_text")
        return self._columns[name].row(index).tobytes().decode("utf-8")


def build_store(
    pairs: PairReader,
    source: Tokeniser,
    target: Tokeniser,
    folder: Path,
    settings: DataSettings,
    keep_text: bool,
    progress: Callable[[int], None] | None = None,
) -> Store:
    """Tokenise a corpus into ``folder``, or reuse what is there if it was made from the same things.

    A pair's first reference is its target. Each surface form in ``settings.augment`` becomes a column of
    its own (where the form would exceed ``max_tokens``, the plain text stands in for it). The folder
    appears when it is whole; one process at a time may make it.

    ``pairs`` comes from ``read_pairs`` and is not read if the store is reused; its report gains what is
    counted here. ``keep_text`` keeps the texts too, which subword sampling needs. ``progress`` is called
    now and then with the number of lines read.

    Raises:
        DataError: bad input as ``read_pairs`` tells it; no pair left; no space on the disk.
        SettingsError: the shares of the surface forms exceed 1.
    """
    check_shares(settings.augment.values())
    fingerprint = _fingerprint(pairs.files, source, target, settings, keep_text)
    try:
        store = Store.open(folder)
        if store.fingerprint == fingerprint:
            pairs.report.update(store.report)
            return store
    except DataError:
        pass  # made again below
    partial = folder.with_name(f".{folder.name}.partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        with _Writer(partial, pairs, source, target, settings, keep_text) as writer:
            while chunk := list(islice(pairs, CHUNK)):
                writer.write(chunk)
                if progress:
                    progress(pairs.report.read)
        writer.finish(fingerprint)
        shutil.rmtree(folder, ignore_errors=True)
        partial.replace(folder)
    except OSError as error:
        raise DataError(f"{folder}: the tokenised corpus cannot be written: {error.strerror}") from None
    finally:
        pairs.close()
        shutil.rmtree(partial, ignore_errors=True)
    return Store.open(folder)


class _Writer:
    """Appends chunks of pairs to the files of a store."""

    def __init__(
        self,
        folder: Path,
        pairs: PairReader,
        source: Tokeniser,
        target: Tokeniser,
        settings: DataSettings,
        keep_text: bool,
    ) -> None:
        self._folder = folder
        self._reader = pairs
        self._tokenisers = (source, target)
        self._settings = settings
        self._forms = [form for form, share in sorted(settings.augment.items()) if share > 0]
        self._columns = {"source": _dtype(source), "target": _dtype(target)}
        self._columns |= {f"source.{form}": _dtype(source) for form in self._forms}
        if keep_text:
            self._columns |= {SOURCE_TEXT: "|u1", TARGET_TEXT: "|u1"}
        self._pairs = 0
        self._ends = dict.fromkeys(self._columns, 0)
        self._files: dict[str, IO[bytes]] = {}

    def __enter__(self) -> _Writer:
        for name in self._columns:
            self._files[name] = (self._folder / name).open("wb")
            self._files[name + OFFSETS] = (self._folder / f"{name}{OFFSETS}").open("wb")
            self._files[name + OFFSETS].write(np.zeros(1, dtype="<i8").tobytes())
        return self

    def __exit__(self, *exception: object) -> None:
        for file in self._files.values():
            file.close()

    def write(self, chunk: list[Pair]) -> None:
        """Tokenise, filter and append some pairs."""
        threads = usable_cores()
        sources = self._tokenisers[0].encode_batch([pair.source for pair in chunk], threads)
        targets = self._tokenisers[1].encode_batch([pair.references[0] for pair in chunk], threads)
        kept = []
        for index, pair in enumerate(chunk):
            if fault := self._fault(len(sources[index]), len(targets[index])):
                self._reader.drop(fault, pair.line)
            else:
                kept.append(index)
        rows: dict[str, list[Sequence[int]]] = {
            "source": [sources[index] for index in kept],
            "target": [targets[index] for index in kept],
        }
        texts = [chunk[index].source for index in kept]
        for form in self._forms:
            shown = self._tokenisers[0].encode_batch([surface(text, form) for text in texts], threads)
            most = self._settings.max_tokens
            rows[f"source.{form}"] = [
                row if 0 < len(row) <= most else plain
                for row, plain in zip(shown, rows["source"], strict=True)
            ]
        if SOURCE_TEXT in self._columns:
            rows[SOURCE_TEXT] = [text.encode() for text in texts]
            rows[TARGET_TEXT] = [chunk[index].references[0].encode() for index in kept]
        for name, values in rows.items():
            self._append(name, values)
        self._pairs += len(kept)

    def _fault(self, source: int, target: int) -> Fault | None:
        if max(source, target) > self._settings.max_tokens:
            return "too many tokens"
        if max(source, target) > self._settings.max_ratio * max(1, min(source, target)):
            return "too unequal lengths"
        return None

    def _append(self, name: str, rows: list[Sequence[int]]) -> None:
        lengths = np.fromiter(map(len, rows), dtype="<i8", count=len(rows))  # (pairs,)
        ends = self._ends[name] + np.cumsum(lengths)  # (pairs,)
        if len(rows):
            values = np.fromiter(chain.from_iterable(rows), self._columns[name], count=int(lengths.sum()))
            self._files[name].write(values.tobytes())
            self._files[name + OFFSETS].write(ends.astype("<i8").tobytes())
            self._ends[name] = int(ends[-1])

    def finish(self, fingerprint: str) -> None:
        """Write what the files are, last."""
        if not self._pairs:
            raise DataError(
                "no sentence pair is left to train on: " + "; ".join(self._reader.report.summary())
            )
        facts = {
            "format": FORMAT,
            "fingerprint": fingerprint,
            "pairs": self._pairs,
            "columns": self._columns,
            "files": {name: (self._folder / name).stat().st_size for name in self._files},
            "report": asdict(self._reader.report),
        }
        (self._folder / FACTS).write_text(json.dumps(facts, indent=1), encoding="utf-8")


def _dtype(tokeniser: Tokeniser) -> str:
    return "<u2" if tokeniser.size <= 1 << 16 else "<i4"


def _map(path: Path, dtype: str) -> NDArray[Any]:
    if path.stat().st_size == 0:  # which cannot be mapped
        return np.zeros(0, dtype=dtype)
    return np.memmap(path, dtype=dtype, mode="r").view(np.ndarray)


def _fingerprint(
    files: Sequence[str], source: Tokeniser, target: Tokeniser, settings: DataSettings, keep_text: bool
) -> str:
    """What a store depends on; files are told by name, size and time of change."""
    facts = {
        "format": FORMAT,
        "files": [identify(file) for file in files],
        "tokenisers": [hashlib.sha256(side.model_bytes).hexdigest() for side in (source, target)],
        "max_tokens": settings.max_tokens,
        "max_ratio": settings.max_ratio,
        "bad_lines": settings.bad_lines,
        "forms": sorted(form for form, share in settings.augment.items() if share > 0),
        "keep_text": keep_text,
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
