"""Building of the store of a corpus, and rebuilding when the corpus or the settings have changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from uwaga.data.checks import CorpusChecks
from uwaga.data.corpus import Pair, PairReader
from uwaga.data.report import Fault
from uwaga.data.store import FORMAT_VERSION, LINKS, METADATA_FILE, OFFSETS, SOURCE_TEXT, TARGET_TEXT, Store
from uwaga.engine.cpu import usable_cores
from uwaga.errors import DataError, SettingsError
from uwaga.files.atomic import new_folder
from uwaga.files.store import identify
from uwaga.settings import DataSettings, FilterSettings
from uwaga.tokenizers.subwords import TrainingSubwords
from uwaga.tokenizers.text import check_shares, surface

CHUNK_PAIRS = 20_000  # number of pairs tokenised at a time


def build_store(
    pairs: PairReader,
    tokenisers: tuple[TrainingSubwords, TrainingSubwords],
    folder: Path,
    settings: DataSettings,
    keep_text: bool,
    progress: Callable[[int], None] | None = None,
    log: Callable[[str], None] | None = None,
) -> Store:
    """Tokenise a corpus into a store, or reuse the store in ``folder`` if it was built from the same inputs.

    The first reference of a pair is its target. Each surface form in ``settings.augment`` becomes a column,
    which contains the plain text where the form would be too long. The folder is written atomically.

    Args:
        pairs: the result of ``read_corpus``, which is not read if the store is reused. The reader's report is
            updated; the filters, the tag and the word alignments of its corpus are used.
        tokenisers: the tokenisers of the source side and of the target side.
        folder: the folder of the store.
        settings: data settings; ``augment`` and those limits that the corpus's filters do not set are used.
        keep_text: whether to store the texts, which subword sampling needs.
        progress: called repeatedly with the number of lines read.
        log: called if an existing store is replaced, with a line that states the reason.
    """
    check_shares(settings.augment.values())
    tag = tag_ids(tokenisers[0], pairs.corpus.tag)
    filters = _complete_filters(pairs.corpus.filters, settings)
    inputs = _describe_inputs(pairs, tokenisers, filters, settings, keep_text)
    if (store := _existing_store(folder)) is not None:
        if not (change := _describe_change(store.inputs, inputs)):
            pairs.report.update(store.report)
            return store
        if log:
            log(f"{folder}: rebuilt: {change}")
    forms = [form for form, share in sorted(settings.augment.items()) if share > 0]
    try:
        with new_folder(folder, DataError) as new_store:
            with _StoreWriter(new_store, pairs, tokenisers, filters, tag, forms, keep_text) as writer:
                writer.write_all(progress)
            if change := _describe_change(
                inputs, _describe_inputs(pairs, tokenisers, filters, settings, keep_text)
            ):
                raise DataError(
                    f"{change} while the corpus was being read; start again when no program is writing to it"
                )
            writer.finish(inputs)
    finally:
        pairs.close()
    return Store.open(folder)


def tag_ids(tokeniser: TrainingSubwords, tag: str) -> tuple[int, ...]:
    """Return a tuple with the token id of a corpus's tag, or an empty tuple if ``tag`` is empty."""
    if not tag:
        return ()
    if (token := tokeniser.tags.get(tag)) is None:
        tags = f"its tags are {' '.join(tokeniser.tags)}" if tokeniser.tags else "it has no tags"
        raise SettingsError(
            f"data: the tag {tag} is not a piece of the vocabulary {tokeniser.name} ({tokeniser.size} "
            f"pieces; {tags}); use a tokeniser that was trained with the tag, or delete the "
            "tokeniser's file to train a new one"
        )
    return (token,)


class _StoreWriter:
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
        self._checks = CorpusChecks(pairs.files, pairs.corpus.languages or (None, None))
        self._tokenisers = tokenisers
        self._filters = filters
        self._max_tokens = filters.max_tokens or 0
        self._tag = tag
        self._forms = forms
        source, target = ("<u2" if tokeniser.size <= 1 << 16 else "<i4" for tokeniser in tokenisers)
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

    def __enter__(self) -> _StoreWriter:
        for name in self._columns:
            self._files[name] = (self._folder / name).open("wb")
            self._files[name + OFFSETS] = (self._folder / f"{name}{OFFSETS}").open("wb")
            self._files[name + OFFSETS].write(np.zeros(1, dtype="<i8").tobytes())
        return self

    def __exit__(self, *exception: object) -> None:
        for file in self._files.values():
            file.close()

    def write_all(self, progress: Callable[[int], None] | None) -> None:
        """Write all pairs of the reader, and add warnings about the corpus to the reader's report."""
        while chunk := list(islice(self._reader, CHUNK_PAIRS)):
            self.write(chunk)
            if progress:
                progress(self._reader.report.read)
        self._reader.report.warnings += self._checks.warnings()

    def write(self, chunk: list[Pair]) -> None:
        """Tokenise pairs, and append those that no filter drops."""
        self._checks.add(
            [pair.line for pair in chunk],
            [pair.source.encode() for pair in chunk],
            [pair.references[0].encode() for pair in chunk],
        )
        threads = usable_cores()
        sources = self._tokenisers[0].encode_batch([pair.source for pair in chunk], threads)
        targets = self._tokenisers[1].encode_batch([pair.references[0] for pair in chunk], threads)
        accepted_pairs = []
        for index, pair in enumerate(chunk):
            if fault := self._fault(pair, len(sources[index]), len(targets[index])):
                self._reader.drop(fault, pair.line)
            else:
                accepted_pairs.append(index)
        rows: dict[str, list[Sequence[int]]] = {
            "source": [sources[index] for index in accepted_pairs],
            "target": [targets[index] for index in accepted_pairs],
        }
        texts = [chunk[index].source for index in accepted_pairs]
        for form in self._forms:
            encoded_rows = self._tokenisers[0].encode_batch([surface(text, form) for text in texts], threads)
            rows[f"source.{form}"] = [
                row if 0 < len(row) <= self._max_tokens - len(self._tag) else plain_row
                for row, plain_row in zip(encoded_rows, rows["source"], strict=True)
            ]
        if self._tag:
            for name in ["source", *(f"source.{form}" for form in self._forms)]:
                rows[name] = [[*self._tag, *row] for row in rows[name]]
        if SOURCE_TEXT in self._columns:
            rows[SOURCE_TEXT] = [text.encode() for text in texts]
            rows[TARGET_TEXT] = [chunk[index].references[0].encode() for index in accepted_pairs]
        if LINKS in self._columns:
            rows[LINKS] = [[word for link in chunk[index].links for word in link] for index in accepted_pairs]
        for name, values in rows.items():
            self._append(name, values)
        self._pairs += len(accepted_pairs)

    def _fault(self, pair: Pair, source_tokens: int, target_tokens: int) -> Fault | None:
        longer_length, shorter_length = max(source_tokens, target_tokens), min(source_tokens, target_tokens)
        if max(source_tokens + len(self._tag), target_tokens) > self._max_tokens:
            return "too many tokens"
        if longer_length > (self._filters.max_ratio or longer_length) * max(1, shorter_length):
            return "too unequal lengths"
        if shorter_length < self._filters.min_tokens and self._filters.min_tokens > 1:
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

    def finish(self, inputs: dict[str, Any]) -> None:
        """Write the metadata; call this after all other files are written."""
        if not self._pairs:
            raise DataError(
                "no sentence pair is left after filtering: " + "; ".join(self._reader.report.summary())
            )
        metadata = {
            "format": FORMAT_VERSION,
            "made_from": inputs,
            "tag": self._tag,
            "pairs": self._pairs,
            "tokens": self._ends,
            "longest": self._longest,
            "columns": self._columns,
            "files": {name: (self._folder / name).stat().st_size for name in self._files},
            "report": asdict(self._reader.report),
        }
        (self._folder / METADATA_FILE).write_text(json.dumps(metadata, indent=1), encoding="utf-8")


def _complete_filters(filters: FilterSettings, settings: DataSettings) -> FilterSettings:
    limits = {
        "max_tokens": filters.max_tokens or settings.max_tokens,
        "max_ratio": filters.max_ratio or settings.max_ratio,
    }
    return filters.model_copy(update=limits)


def _existing_store(folder: Path) -> Store | None:
    """Return the store in a folder, or None if the store is missing or damaged."""
    try:
        return Store.open(folder)
    except DataError:
        return None


def _describe_inputs(
    pairs: PairReader,
    tokenisers: tuple[TrainingSubwords, TrainingSubwords],
    filters: FilterSettings,
    settings: DataSettings,
    keep_text: bool,
) -> dict[str, Any]:
    """Return the inputs of a store as JSON values; files are identified by name, size and version."""
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


def _describe_change(old_inputs: dict[str, Any], new_inputs: dict[str, Any]) -> str:
    """Return a description of the first difference, or an empty string if there is none."""
    for key, value in new_inputs.items():
        old_value = old_inputs.get(key)
        if old_value == value:
            continue
        if key == "links":
            return "the word alignments differ" if old_value else "it has no word alignments"
        if key == "files":
            return _describe_changed_files(old_value or [], value)
        if key.endswith("tokeniser"):
            return f"the {key} differs"
        return f"{key} was {old_value} and is now {value}"
    return ""


def _describe_changed_files(old_files: list[dict[str, Any]], new_files: list[dict[str, Any]]) -> str:
    if [file["name"] for file in old_files] != [file["name"] for file in new_files]:
        return "it was made from " + " + ".join(str(file["name"]) for file in old_files)
    for old_file, new_file in zip(old_files, new_files, strict=True):
        if old_file != new_file:
            sizes = (
                f" ({old_file['size']} bytes before, {new_file['size']} now)"
                if old_file["size"] != new_file["size"]
                else ""
            )
            return f"{new_file['name']} has changed{sizes}"
    return ""
