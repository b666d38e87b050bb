"""Writing a store: once for each corpus, whole or not at all, anew when what it was made from has changed."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from uwaga.data.corpus import Pair, PairReader
from uwaga.data.report import Fault
from uwaga.data.store import FACTS, FORMAT, LINKS, OFFSETS, SOURCE_TEXT, TARGET_TEXT, Store
from uwaga.engine.cpu import usable_cores
from uwaga.errors import DataError, SettingsError
from uwaga.files.store import identify
from uwaga.settings import DataSettings, FilterSettings
from uwaga.tokenizers.subwords import TrainingSubwords
from uwaga.tokenizers.text import check_shares, surface

CHUNK = 20_000  # pairs


def build_store(
    pairs: PairReader,
    source: TrainingSubwords,
    target: TrainingSubwords,
    folder: Path,
    settings: DataSettings,
    keep_text: bool,
    progress: Callable[[int], None] | None = None,
    say: Callable[[str], None] | None = None,
) -> Store:
    """Tokenise a corpus into ``folder``, or reuse what is there if it was made from the same things.

    A pair's first reference is its target. Each surface form in ``settings.augment`` becomes a column of
    its own (where the form would exceed the longest side allowed, the plain text stands in for it). The
    folder appears when it is whole; one process at a time may make it.

    Args:
        pairs: from ``read_corpus``, not read if the store is reused; its report gains what is counted here,
            and the filters and the tag of its corpus hold; its word links are kept if it has any.
        source: tokeniser of the source side.
        target: tokeniser of the target side.
        folder: the store's.
        settings: ``augment`` is used, and limits that the corpus's filters leave open.
        keep_text: whether to keep the texts too, which subword sampling needs.
        progress: called now and then with the number of lines read.
        say: told in one line why a store that is there is made anew.

    Raises:
        DataError: bad input as ``read_corpus`` tells it; no pair left; no space on the disk; a file that
            changes while it is read.
        SettingsError: the shares of the surface forms exceed 1; the source's vocabulary lacks the tag.
    """
    check_shares(settings.augment.values())
    tag = tag_ids(source, pairs.corpus.tag)
    filters = _filters(pairs.corpus.filters, settings)
    made_from = _made_from(pairs, (source, target), filters, settings, keep_text)
    if (there := _there(folder)) is not None:
        if not (change := _change(there.made_from, made_from)):
            pairs.report.update(there.report)
            return there
        if say:
            say(f"{folder}: prepared anew: {change}")
    partial = folder.with_name(f".{folder.name}.partial")
    forms = [form for form, share in sorted(settings.augment.items()) if share > 0]
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        with _Writer(partial, pairs, (source, target), filters, tag, forms, keep_text) as writer:
            writer.write_all(progress)
        if change := _change(made_from, _made_from(pairs, (source, target), filters, settings, keep_text)):
            raise DataError(f"{change} while it was read; start again when it is whole")
        writer.finish(made_from)
        shutil.rmtree(folder, ignore_errors=True)
        partial.replace(folder)
    except OSError as error:
        raise DataError(f"{folder}: the tokenised corpus cannot be written: {error.strerror}") from None
    finally:
        pairs.close()
        shutil.rmtree(partial, ignore_errors=True)
    return Store.open(folder)


def tag_ids(tokeniser: TrainingSubwords, tag: str) -> tuple[int, ...]:
    """The id of a corpus's tag, none for no tag.

    Raises:
        SettingsError: it is not one piece of the vocabulary; names the tag and the vocabulary.
    """
    if not tag:
        return ()
    if (found := tokeniser.tags.get(tag)) is None:
        known = f"its tags are {' '.join(tokeniser.tags)}" if tokeniser.tags else "it has no tags"
        raise SettingsError(
            f"data: the tag {tag} is no piece of the vocabulary {tokeniser.name} ({tokeniser.size} pieces; "
            f"{known}); take a tokeniser that was made with it, or delete the file to have one trained"
        )
    return (found,)


class _Writer:
    """Appends chunks of pairs to the files of a store."""

    def __init__(
        self,
        folder: Path,
        pairs: PairReader,
        tokenisers: tuple[TrainingSubwords, TrainingSubwords],
        filters: FilterSettings,
        tag: tuple[int, ...],
        forms: Sequence[str],
        keep_text: bool,
    ) -> None:
        self._folder = folder
        self._reader = pairs
        self._tokenisers = tokenisers
        self._filters = filters
        self._most = filters.max_tokens or 0
        self._tag = tag
        self._forms = forms
        source, target = map(_dtype, tokenisers)
        self._columns = {"source": source, "target": target}
        self._columns |= {f"source.{form}": source for form in forms}
        if keep_text:
            self._columns |= {SOURCE_TEXT: "|u1", TARGET_TEXT: "|u1"}
        if pairs.links is not None:
            self._columns[LINKS] = "<i4"
        self._pairs = 0
        self._ends = dict.fromkeys(self._columns, 0)
        self._longest = dict.fromkeys(self._columns, 0)
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

    def write_all(self, progress: Callable[[int], None] | None) -> None:
        """Write what the reader gives, to its end."""
        while chunk := list(islice(self._reader, CHUNK)):
            self.write(chunk)
            if progress:
                progress(self._reader.report.read)

    def write(self, chunk: list[Pair]) -> None:
        """Tokenise, filter and append some pairs."""
        threads = usable_cores()
        sources = self._tokenisers[0].encode_batch([pair.source for pair in chunk], threads)
        targets = self._tokenisers[1].encode_batch([pair.references[0] for pair in chunk], threads)
        kept = []
        for index, pair in enumerate(chunk):
            if fault := self._fault(pair, len(sources[index]), len(targets[index])):
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
            rows[f"source.{form}"] = [
                row if 0 < len(row) <= self._most - len(self._tag) else plain
                for row, plain in zip(shown, rows["source"], strict=True)
            ]
        if self._tag:
            for name in ["source", *(f"source.{form}" for form in self._forms)]:
                rows[name] = [[*self._tag, *row] for row in rows[name]]
        if SOURCE_TEXT in self._columns:
            rows[SOURCE_TEXT] = [text.encode() for text in texts]
            rows[TARGET_TEXT] = [chunk[index].references[0].encode() for index in kept]
        if LINKS in self._columns:
            rows[LINKS] = [[word for link in chunk[index].links for word in link] for index in kept]
        for name, values in rows.items():
            self._append(name, values)
        self._pairs += len(kept)

    def _fault(self, pair: Pair, source: int, target: int) -> Fault | None:
        most, least = max(source, target), min(source, target)
        if max(source + len(self._tag), target) > self._most:
            return "too many tokens"
        if most > (self._filters.max_ratio or most) * max(1, least):
            return "too unequal lengths"
        if least < self._filters.min_tokens and self._filters.min_tokens > 1:
            return "too few tokens"
        if self._filters.equal_sides == "drop" and pair.source.strip() == pair.references[0].strip():
            return "equal sides"
        return None

    def _append(self, name: str, rows: list[Sequence[int]]) -> None:
        lengths = np.fromiter(map(len, rows), dtype="<i8", count=len(rows))  # (pairs,)
        ends = self._ends[name] + np.cumsum(lengths)  # (pairs,)
        if len(rows):
            values = np.fromiter(chain.from_iterable(rows), self._columns[name], count=int(lengths.sum()))
            self._files[name].write(values.tobytes())
            self._files[name + OFFSETS].write(ends.astype("<i8").tobytes())
            self._ends[name] = int(ends[-1])
            self._longest[name] = max(self._longest[name], int(lengths.max()))

    def finish(self, made_from: dict[str, Any]) -> None:
        """Write what the files are, last."""
        if not self._pairs:
            raise DataError(
                "no sentence pair is left to train on: " + "; ".join(self._reader.report.summary())
            )
        facts = {
            "format": FORMAT,
            "made_from": made_from,
            "tag": self._tag,
            "pairs": self._pairs,
            "tokens": self._ends,
            "longest": self._longest,
            "columns": self._columns,
            "files": {name: (self._folder / name).stat().st_size for name in self._files},
            "report": asdict(self._reader.report),
        }
        (self._folder / FACTS).write_text(json.dumps(facts, indent=1), encoding="utf-8")


def _dtype(tokeniser: TrainingSubwords) -> str:
    return "<u2" if tokeniser.size <= 1 << 16 else "<i4"


def _filters(filters: FilterSettings, settings: DataSettings) -> FilterSettings:
    limits = {
        "max_tokens": filters.max_tokens or settings.max_tokens,
        "max_ratio": filters.max_ratio or settings.max_ratio,
    }
    return filters.model_copy(update=limits)


def _there(folder: Path) -> Store | None:
    """The store that is there, if one is whole."""
    try:
        return Store.open(folder)
    except DataError:
        return None


def _made_from(
    pairs: PairReader,
    tokenisers: tuple[TrainingSubwords, TrainingSubwords],
    filters: FilterSettings,
    settings: DataSettings,
    keep_text: bool,
) -> dict[str, Any]:
    """What a store depends on, as JSON gives it back; files are told by name, size and version."""
    corpus = pairs.corpus
    links = {} if pairs.links is None else {"links": [identify(pairs.links.path), pairs.links.kind]}
    return {
        "files": [identify(file) for file in pairs.files],
        "format": pairs.format,
        "columns": list(corpus.columns),
        "languages": list(corpus.languages or ()) if pairs.format == "tmx" or not corpus.columns else [],
        "tag": corpus.tag,
        "bad_lines": corpus.bad_lines or settings.bad_lines,
        "filters": filters.model_dump(mode="json"),
        "source tokeniser": hashlib.sha256(tokenisers[0].model_bytes).hexdigest(),
        "target tokeniser": hashlib.sha256(tokenisers[1].model_bytes).hexdigest(),
        "forms": sorted(form for form, share in settings.augment.items() if share > 0),
        "texts": keep_text,
        **links,
    }


def _change(before: dict[str, Any], now: dict[str, Any]) -> str:
    """The first thing that differs, in words; nothing where all is the same."""
    for key, value in now.items():
        old = before.get(key)
        if old == value:
            continue
        if key == "links":
            return "the word links are others" if old else "it has no word links"
        if key == "files":
            return _changed_files(old or [], value)
        if key.endswith("tokeniser"):
            return f"the {key} is another"
        return f"{key} was {old} and is now {value}"
    return ""


def _changed_files(before: list[dict[str, Any]], now: list[dict[str, Any]]) -> str:
    if [file["name"] for file in before] != [file["name"] for file in now]:
        return "it was made from " + " + ".join(str(file["name"]) for file in before)
    for old, new in zip(before, now, strict=True):
        if old != new:
            sizes = f" ({old['size']} bytes before, {new['size']} now)" if old["size"] != new["size"] else ""
            return f"{new['name']} has changed{sizes}"
    return ""
