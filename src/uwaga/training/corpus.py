"""Preparation of the corpora of a run: subword models, stores, alignments, and batches."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from uwaga.alignment import align_corpus
from uwaga.alignment.words import split_words
from uwaga.data.batches import Batch, Batches, prefetch
from uwaga.data.corpus import Pair, read_corpus
from uwaga.data.guide import LinkFile
from uwaga.data.mixture import Mixture
from uwaga.data.sources import check_rereadable, find_sources
from uwaga.data.store import Store
from uwaga.data.store_writer import build_store, tag_ids
from uwaga.files.atomic import write_file
from uwaga.files.store import identify
from uwaga.settings import CorpusSettings, DataSettings, GuidedAlignmentSettings, Settings
from uwaga.tokenizers.subwords import TrainingSubwords
from uwaga.tokenizers.tokeniser import Tokeniser
from uwaga.tokenizers.training import train_tokeniser
from uwaga.training.page import read_json


def prepare_links(
    corpus: CorpusSettings, guide_settings: GuidedAlignmentSettings, path: Path, log: Callable[[str], None]
) -> LinkFile:
    """Return the word alignment file of a corpus.

    If the settings name no such file, the aligner writes the alignments to ``path``, unless that file is up
    to date. The aligner keeps all words of the corpus in memory.
    """
    if corpus.alignment:
        return LinkFile(corpus.alignment, guide_settings.words)
    reader = read_corpus(corpus)
    options = corpus.model_dump(mode="json", include={"columns", "languages", "bad_lines"})
    inputs = {"files": [identify(file) for file in reader.files], **options}
    inputs_path = path.with_name(f"{path.name}.json")
    link_file = LinkFile(str(path), "words")
    if path.is_file() and read_json(inputs_path) == inputs:
        return link_file
    log(f"aligning the words of {corpus.name}")
    rows, sources, targets = list[int](), list[list[str]](), list[list[str]]()
    for pair in reader:
        rows.append(reader.report.read)
        sources.append(split_words(pair.source))
        targets.append(split_words(pair.references[0]))
    lines = [""] * reader.report.read
    for row, links in zip(rows, align_corpus(sources, targets), strict=True):
        lines[row - 1] = " ".join(f"{source}-{target}" for source, target in sorted(links))
    path.parent.mkdir(parents=True, exist_ok=True)
    inputs_path.unlink(missing_ok=True)
    write_file(path, "".join(f"{line}\n" for line in lines))
    write_file(inputs_path, json.dumps(inputs))
    return link_file


Position = tuple[int, int]
"""The number of an epoch, and the index of a batch in this epoch."""


@dataclass(frozen=True)
class DevSet:
    """A dev set: batches to compute the loss, and pairs of texts to decode and score."""

    batches: list[Batch]
    pairs: list[Pair]


@dataclass(frozen=True)
class Corpora:
    """The prepared data of a run.

    Attributes:
        source: tokeniser of the source side.
        target: tokeniser of the target side; the same object if the vocabulary is joint.
        train: training batches.
        dev: the dev set.
        also: the additional dev sets, by name.
        size: text with the numbers of training pairs and tokens, to detect a changed corpus.
    """

    source: TrainingSubwords
    target: TrainingSubwords
    train: Batches
    dev: DevSet
    also: dict[str, DevSet]
    size: str

    def stream(
        self, epoch: int, batch_index: int, rank: int = 0, world: int = 1
    ) -> Generator[tuple[Position, Batch], None, None]:
        """Yield the training batches of a process endlessly, from the given epoch and batch index on.

        Of each group of ``world`` successive batches, process ``rank`` receives the batch with index
        ``rank``, together with the position of the last batch in the group.
        """
        return prefetch(self._positioned_batches(epoch, batch_index, rank, world))

    def _positioned_batches(
        self, epoch: int, batch_index: int, rank: int, world: int
    ) -> Iterator[tuple[Position, Batch]]:
        next_rank = 0
        while True:
            while self.train.has_batch(epoch, batch_index):
                if next_rank == rank:
                    local_batch = self.train.batch(epoch, batch_index)
                next_rank = (next_rank + 1) % world
                if next_rank == 0:
                    yield (epoch, batch_index), local_batch
                batch_index += 1
            epoch, batch_index = epoch + 1, 0


def prepare_corpora(
    settings: Settings,
    log: Callable[[str], None],
    tokenisers: tuple[TrainingSubwords, TrainingSubwords] | None = None,
) -> Corpora:
    """Prepare the corpora in the run's folder, reusing stores that are up to date.

    Args:
        settings: settings of the run.
        log: function called with each line of progress.
        tokenisers: tokenisers of source and target; None to load the subword models in the run's folder,
            or to train them if there are none.
    """
    for corpora in (settings.data.train, settings.data.dev, *settings.data.also.values()):
        for corpus in settings.data.resolve(corpora):
            check_rereadable(find_sources(corpus))
    source, target = tokenisers = tokenisers or _prepare_tokenisers(settings, log)
    for tag in settings.data.tags:
        tag_ids(source, tag)  # raises before a corpus is read
    data = settings.data
    guide_settings = settings.training.guided_alignment
    train = _build_stores(settings, data.train, "train", tokenisers, data, log, guide_settings)
    weights = [1.0 if corpus.weight is None else corpus.weight for corpus in data.train]
    mixture = Mixture(train, weights, data.temperature)
    if len(train) > 1:
        for store, draws in zip(mixture.stores, mixture.draws, strict=True):
            share = draws / mixture.epoch_pairs
            log(
                f"{store.folder.name}: {draws:,} draws per epoch from {len(store):,} pairs, "
                f"{share:.1%} of all draws"
            )
    dev = _prepare_dev_set(settings, data.dev, "dev", tokenisers, log)
    also = {
        name: _prepare_dev_set(settings, corpora, f"also-{index}", tokenisers, log)
        for index, (name, corpora) in enumerate(data.also.items())
    }
    training = settings.training
    batches = Batches(
        mixture, tokenisers, data, training.seed, training.batch_tokens, guide_settings is not None
    )
    return Corpora(source, target, batches, dev, also, mixture.describe())


def _prepare_dev_set(
    settings: Settings,
    corpora: list[CorpusSettings],
    data_set: str,
    tokenisers: tuple[TrainingSubwords, TrainingSubwords],
    log: Callable[[str], None],
) -> DevSet:
    data_settings = settings.data.model_copy(update={"augment": {}, "subword_sampling": 0.0})
    mixture = Mixture(_build_stores(settings, corpora, data_set, tokenisers, data_settings, log))
    dev_batches = Batches(mixture, tokenisers, data_settings, 0, settings.training.batch_tokens)
    batches = [dev_batches.batch(0, index) for index in range(dev_batches.count(0))]
    resolved_settings = settings.data.resolve(corpora)
    return DevSet(
        batches, [pair for corpus in resolved_settings for pair in _add_tag(read_corpus(corpus), corpus.tag)]
    )


def _build_stores(
    settings: Settings,
    corpora: list[CorpusSettings],
    data_set: str,
    tokenisers: tuple[TrainingSubwords, TrainingSubwords],
    data: DataSettings,
    log: Callable[[str], None],
    guide_settings: GuidedAlignmentSettings | None = None,
) -> list[Store]:
    """Build the store of each corpus; the store of a single unnamed corpus is named ``data_set``."""
    is_single = len(corpora) == 1 and not corpora[0].name
    keep_text = data.subword_sampling > 0 or guide_settings is not None
    stores = []
    for corpus in data.resolve(corpora):
        folder = settings.run / "data" / (data_set if is_single else f"{data_set}.{corpus.name}")
        links = None
        if guide_settings is not None:
            links = prepare_links(corpus, guide_settings, folder.with_name(f"{folder.name}.alignment"), log)
        reader = read_corpus(corpus, links=links)
        stores.append(build_store(reader, tokenisers, folder, data, keep_text, log=log))
        for line in reader.report.summary():
            log(f"{data_set} data: {line}")
    return stores


def _add_tag(pairs: Iterable[Pair], tag: str) -> Iterator[Pair]:
    for pair in pairs:
        yield pair._replace(source=f"{tag} {pair.source}") if tag else pair


def _prepare_tokenisers(settings: Settings, log: Callable[[str], None]) -> tuple[Tokeniser, Tokeniser]:
    folder = settings.run / "text"
    names = ("joint",) if settings.text.joint else ("source", "target")
    paths = [folder / f"{name}.spm" for name in names]
    if not all(path.exists() for path in paths):
        plural = "s" if len(paths) > 1 else ""
        log(f"training {len(paths)} subword model{plural} of {settings.text.size} pieces")
    tokenisers = [_prepare_tokeniser(settings, path) for path in paths]
    return tokenisers[0], tokenisers[-1]


def _prepare_tokeniser(settings: Settings, path: Path) -> Tokeniser:
    if path.exists():
        return Tokeniser.load(path)
    tags = settings.data.tags if path.stem != "target" else []
    return train_tokeniser(_read_side(settings, path.stem), settings.text, path.with_suffix(""), tags)


def _read_side(settings: Settings, side: str) -> Iterator[str]:
    for corpus in settings.data.resolved("train"):
        for pair in read_corpus(corpus):
            if side in ("joint", "source"):
                yield pair.source
            if side in ("joint", "target"):
                yield pair.references[0]
