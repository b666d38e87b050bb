"""From the corpora of a settings file to batches: subword models, prepared stores, order."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

from uwaga.data.batches import Batch, Batches
from uwaga.data.corpus import Pair, read_corpus
from uwaga.data.prefetch import prefetch
from uwaga.data.store import build_store
from uwaga.settings import Settings
from uwaga.text.tokeniser import Tokeniser
from uwaga.text.training import train_tokeniser

Place = tuple[int, int]


@dataclass(frozen=True)
class Corpora:
    """What a run reads.

    ``source`` and ``target`` are the same object where the vocabulary is joint. ``size`` says how much there
    is to train on, and differs where the corpus does.
    """

    source: Tokeniser
    target: Tokeniser
    train: Batches
    dev_batches: list[Batch]
    dev_pairs: list[Pair]
    size: str

    def stream(self, epoch: int, batch: int) -> Generator[tuple[Place, Batch], None, None]:
        """Training batches for ever, from this place on, each with the place it came from."""
        return prefetch(self._places(epoch, batch))

    def _places(self, epoch: int, batch: int) -> Iterator[tuple[Place, Batch]]:
        while True:
            for index in range(batch, self.train.count(epoch)):
                yield (epoch, index), self.train.batch(epoch, index)
            epoch, batch = epoch + 1, 0


def prepare_corpora(settings: Settings, say: Callable[[str], None]) -> Corpora:
    """Train or load the subword models and build or reuse the prepared stores in the run's folder."""
    source, target = _tokenisers(settings, say)
    data = settings.data
    keep_text = data.subword_sampling > 0
    readers = [read_corpus(data.resolved("train")[0]), read_corpus(data.resolved("dev")[0])]
    plain = data.model_copy(update={"augment": {}, "subword_sampling": 0.0})
    stores = []
    for reader, name, kept in zip(readers, ("train", "dev"), (data, plain), strict=True):
        folder = settings.run / "data" / name
        stores.append(build_store(reader, source, target, folder, kept, keep_text and name == "train"))
        for line in reader.report.summary():
            say(f"{name} data: {line}")
    store, dev_store = stores
    dev_pairs = list(read_corpus(data.resolved("dev")[0]))
    budget = settings.training.batch_tokens
    dev = Batches(dev_store, (source, target), plain, 0, budget)
    dev_batches = [dev.batch(0, index) for index in range(dev.count(0))]
    train = Batches(store, (source, target), data, settings.training.seed, budget)
    tokens = (int(store.source_lengths.sum()), int(store.target_lengths.sum()))
    size = f"{len(store):,} pairs of {tokens[0]:,} and {tokens[1]:,} tokens"
    return Corpora(source, target, train, dev_batches, dev_pairs, size)


def _tokenisers(settings: Settings, say: Callable[[str], None]) -> tuple[Tokeniser, Tokeniser]:
    folder = settings.run / "text"
    names = ("joint",) if settings.text.joint else ("source", "target")
    paths = [folder / f"{name}.spm" for name in names]
    if not all(path.exists() for path in paths):
        say(f"training {len(paths)} subword model{'s' if len(paths) > 1 else ''} of {settings.text.size}")
    found = [_tokeniser(settings, path) for path in paths]
    return found[0], found[-1]


def _tokeniser(settings: Settings, path: Path) -> Tokeniser:
    if path.exists():
        return Tokeniser.load(path)
    return train_tokeniser(_lines(settings, path.stem), settings.text, path.with_suffix(""))


def _lines(settings: Settings, side: str) -> Iterator[str]:
    for pair in read_corpus(settings.data.resolved("train")[0]):
        if side in ("joint", "source"):
            yield pair.source
        if side in ("joint", "target"):
            yield pair.references[0]
