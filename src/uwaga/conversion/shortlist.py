"""Vocabulary shortlists: learned from a model's cross-attention and evaluated on held-out pairs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from uwaga.decoder import Ids
from uwaga.engine import NativeModel
from uwaga.engine.shortlist import Shortlist
from uwaga.errors import DataError, SettingsError, TextTooLongError
from uwaga.evaluation import MetricScore, evaluate
from uwaga.files.lines import text_lines
from uwaga.results.translation import Translation
from uwaga.search import SearchOptions
from uwaga.search.length_batching import length_batches
from uwaga.translator.loading import native_of
from uwaga.translator.request import Request
from uwaga.translator.score import forced_steps
from uwaga.translator.translator import Translator

CHUNK = 2048
"""Pairs that are sorted by length together."""
BATCH_TOKENS = 2048
"""Batch size in tokens of the longer side."""
ENTRIES = 1 << 22
"""Weights collected before those of the same two tokens are summed."""

Weights = NDArray[np.float64]


@dataclass(frozen=True)
class Counted:
    """A shortlist, the number of pairs it was learned from, and of those skipped as empty or too long."""

    shortlist: Shortlist
    pairs: int
    skipped: int

    def summary(self) -> str:
        """Return one line on the size of the shortlist and the pairs it was learned from."""
        found = self.shortlist
        left_out = f" ({self.skipped:,} skipped: empty or too long)" if self.skipped else ""
        return (
            f"{len(found.common):,} common tokens, {len(found.targets):,} entries of "
            f"{found.source_vocabulary:,} source tokens, from {self.pairs:,} pairs{left_out}"
        )


def count_shortlist(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    frequent: int = 300,
    per_word: int = 30,
    on_pairs: Callable[[int], None] = lambda pairs: None,
) -> Counted:
    """Learn a shortlist from a parallel corpus.

    The common tokens are the ``frequent`` most frequent target tokens, the end symbol and the unknown token.
    Each source token adds the ``per_word`` other tokens that receive most of the model's cross-attention when
    it force-decodes the targets; attention to the end symbol, and attention below the uniform weight, is not
    counted. A source token that is also a target token adds itself, so that names can be copied.

    Args:
        translator: the model.
        pairs: source and target texts.
        frequent: number of target tokens in the list of every sentence.
        per_word: number of target tokens per source token.
        on_pairs: called with the number of pairs done, after each chunk.

    Raises:
        SettingsError: the model does not run on the native engine or has no attention, or a number is below
            1.
        DataError: no pair is usable.
    """
    model = native_of(translator.decoder)
    if frequent < 1 or per_word < 1:
        raise SettingsError("frequent and per-word must be 1 or more")
    counts = _Counts(model.source_vocabulary, model.vocabulary)
    used = done = 0
    rest = iter(pairs)
    while chunk := list(islice(rest, CHUNK)):
        sources, targets = usable_pairs(translator, chunk)
        lengths = [max(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
        for indices in length_batches(lengths, 1, BATCH_TOKENS):
            chosen = [sources[one] for one in indices], [targets[one] for one in indices]
            counts.add(model, *chosen, start=translator.decoding.start)
        used += len(sources)
        done += len(chunk)
        on_pairs(done)
    if not used:
        raise DataError("no usable pair in the corpus: all are empty or too long for the model")
    common = counts.frequent(frequent, (model.symbols.end, model.symbols.unknown))
    keys = np.union1d(counts.likeliest(per_word, common), _copies(translator, model))  # rising
    sources_of, targets_of = np.divmod(keys, model.vocabulary)
    first = np.searchsorted(sources_of, np.arange(model.source_vocabulary + 1))
    shortlist = Shortlist(
        common.astype(np.int32), first.astype(np.int32), targets_of.astype(np.int32), model.vocabulary
    )
    return Counted(shortlist, used, done - used)


class _Counts:
    """Frequencies of target tokens, and the attention of each to each source token."""

    def __init__(self, source: int, target: int) -> None:
        self._source, self._target = source, target
        self._seen: Ids = np.zeros(target, dtype=np.int64)
        self._keys: Ids = np.zeros(0, dtype=np.int64)  # source token * target vocabulary + target token
        self._weights: Weights = np.zeros(0)
        self._new: list[tuple[Ids, Weights]] = []

    def add(
        self, model: NativeModel, sources: Sequence[Sequence[int]], targets: Sequence[Ids], start: int | None
    ) -> None:
        """Count pairs of token ids; ``start`` is the start symbol, None for the model's own."""
        for target in targets:
            np.add.at(self._seen, target, 1)
        self._new += _attention(model, sources, targets, start)
        if sum(len(keys) for keys, _ in self._new) > ENTRIES:
            self._add_up()

    def frequent(self, count: int, always: Sequence[int]) -> Ids:
        """Return the most frequent target tokens and those of ``always``, in increasing order."""
        order = np.argsort(-self._seen, kind="stable")[:count]
        return np.union1d(order[self._seen[order] > 0], np.array(always, dtype=np.int64))

    def likeliest(self, count: int, common: Ids) -> Ids:
        """Return the keys of each source token's likeliest uncommon target tokens, in increasing order."""
        self._add_up()
        kept = ~np.isin(self._keys % self._target, common)
        keys, weights = self._keys[kept], self._weights[kept]
        sources = keys // self._target
        order = np.lexsort((keys, -weights, sources))  # by source token, the heaviest first
        ranks = np.arange(len(keys)) - np.searchsorted(sources, sources[order])
        return np.sort(keys[order][ranks < count])

    def _add_up(self) -> None:
        keys = np.concatenate([self._keys, *(one for one, _ in self._new)])
        weights = np.concatenate([self._weights, *(one for _, one in self._new)])
        self._keys, inverse = np.unique(keys, return_inverse=True)
        self._weights = np.bincount(inverse, weights, len(self._keys)).astype(np.float64)
        self._new = []


def _attention(
    model: NativeModel, sources: Sequence[Sequence[int]], targets: Sequence[Ids], start: int | None
) -> Iterator[tuple[Ids, Weights]]:
    """Force-decode the targets; yield, per step, the keys of both tokens and the attention."""
    words = np.zeros((len(sources), max(map(len, sources))), dtype=np.int64)  # (pairs, source)
    for row, source in enumerate(sources):
        words[row, : len(source)] = source
    spread = np.array([len(source) for source in sources])  # (pairs,) source tokens, the end counted
    past = np.arange(words.shape[1]) >= (spread - 1)[:, None]  # (pairs, source): the end, and padding
    for step in forced_steps(model, sources, targets, start, attention=True):
        assert step.attention is not None
        weights, pairs = step.attention, step.indices  # (running, source), (running,)
        width = weights.shape[1]
        counted = (weights * spread[pairs, None] >= 1.0) & ~past[pairs, :width]
        rows, columns = np.nonzero(counted)
        keys = words[pairs[rows], columns] * model.vocabulary + step.tokens[rows]
        yield keys, weights[rows, columns].astype(np.float64)


def usable_pairs(
    translator: Translator, pairs: Sequence[tuple[str, str]]
) -> tuple[list[tuple[int, ...]], list[Ids]]:
    """Return the token ids of the pairs that are not empty and not too long for the model."""
    sources, targets = list[tuple[int, ...]](), list[Ids]()
    for pair in pairs:
        if not (pair[0].strip() and pair[1].strip()):
            continue
        try:
            [source], [target] = translator.pair_ids([pair])
        except TextTooLongError:
            continue
        sources.append(source)
        targets.append(np.array(target, dtype=np.int64))
    return sources, targets


def _copies(translator: Translator, model: NativeModel) -> Ids:
    """Return the keys of source and target tokens that are the same piece of text."""
    theirs = {piece: token for token, piece in enumerate(translator.target.pieces(range(model.vocabulary)))}
    ours = translator.source.pieces(range(model.source_vocabulary))
    found = [token * model.vocabulary + theirs[piece] for token, piece in enumerate(ours) if piece in theirs]
    return np.array(found, dtype=np.int64)


Pair = tuple[str, str]

MOST_HELD_OUT = 10
"""At most every n-th pair is held out."""


@dataclass(frozen=True)
class Corpus:
    """Pairs to learn from and pairs to evaluate on, which share no source."""

    training: list[Pair]
    heldout: list[Pair]


def read_corpus(
    source: Path,
    target: Path,
    sentences: int = 100_000,
    held_out: int = 500,
    dev: tuple[Path, Path] | None = None,
) -> Corpus:
    """Read the pairs to learn from and those to evaluate the shortlist on.

    Args:
        source: source sentences, one per line.
        target: their translations, line by line.
        sentences: most pairs to learn from.
        held_out: pairs to hold out, evenly spaced; at most a tenth of all.
        dev: files of source and target to evaluate on instead.

    Raises:
        DataError: a file cannot be read, the sides have different numbers of lines, or there are too few
            pairs.
    """
    if dev is not None:
        held, read = read_pairs(*dev), read_pairs(source, target, sentences)
    else:
        read = read_pairs(source, target, sentences + held_out)
        count = min(held_out, len(read) // MOST_HELD_OUT)
        if not count:
            raise DataError(
                f"{source}: {len(read)} pairs are too few to hold any out; give --dev-source and --dev-target"
            )
        held = read[:: len(read) // count][:count]
    sources = {text for text, _ in held}
    training = [pair for pair in read if pair[0] not in sources]
    if not training or not held:
        raise DataError(f"{source}: no pairs are left to {'learn from' if held else 'evaluate on'}")
    return Corpus(training, held)


def read_pairs(source: Path, target: Path, most: int | None = None) -> list[Pair]:
    """Return the first pairs of two aligned files, all if ``most`` is None.

    Raises:
        DataError: a file cannot be read or ends before the other.
    """
    pairs: list[Pair] = []
    for ours, theirs in islice(zip_longest(text_lines(source), text_lines(target)), most):
        if ours is None or theirs is None:
            shorter, longer = (source, target) if ours is None else (target, source)
            raise DataError(f"{shorter} has {len(pairs)} lines and {longer} more: they must be aligned")
        pairs.append((ours, theirs))
    return pairs


@dataclass(frozen=True)
class TimedTranslations:
    """Translations of a text and the seconds they took."""

    translations: list[Translation]
    seconds: float

    @property
    def speed(self) -> float:
        """Target tokens per second."""
        return sum(len(one.token_scores) for one in self.translations) / max(self.seconds, 1e-9)


@dataclass(frozen=True)
class Trial:
    """The same text translated with the whole vocabulary and with the shortlist.

    ``size`` is the mean length of the sentences' lists, ``vocabulary`` that of the vocabulary, and
    ``coverage`` the share of the tokens of the ``references`` that the lists contain.
    """

    whole: TimedTranslations
    short: TimedTranslations
    references: tuple[str, ...]
    vocabulary: int
    size: float
    coverage: float

    @property
    def equal(self) -> int:
        """Number of equal translations."""
        pairs = zip(self.whole.translations, self.short.translations, strict=True)
        return sum(one.text == other.text for one, other in pairs)

    @property
    def speed_up(self) -> float:
        """Speed in target tokens with the lists, relative to the speed without."""
        return self.short.speed / self.whole.speed

    def bleu(self) -> tuple[MetricScore, MetricScore]:
        """Return corpus BLEU with the whole vocabulary and with the shortlists.

        Raises:
            MissingExtraError: sacrebleu is not installed.
        """
        references = [(reference,) for reference in self.references]
        whole, short = (
            evaluate([one.text for one in way.translations], references, ["bleu"])["bleu"]
            for way in (self.whole, self.short)
        )
        return whole, short


def try_shortlist(
    translator: Translator, shortlist: Shortlist, pairs: Sequence[tuple[str, str]], options: SearchOptions
) -> Trial:
    """Translate a text with and without a shortlist.

    Raises:
        DataError: no pair is usable.
    """
    short = with_shortlist(translator, shortlist)
    sources, targets = usable_pairs(translator, pairs)
    if not sources:
        raise DataError("nothing to evaluate the shortlist on: all lines are empty or too long")
    lists = [shortlist.of(source) for source in sources]
    inside = [np.isin(target, one) for target, one in zip(targets, lists, strict=True)]
    lines = [source for source, _ in pairs]
    for either in (translator, short):  # warm up: the first call builds caches
        list(either.run(_requests(lines[:8], options)))
    return Trial(
        _timed(translator, lines, options),
        _timed(short, lines, options),
        tuple(target for _, target in pairs),
        shortlist.vocabulary,
        float(np.mean([len(one) for one in lists])),
        float(np.concatenate(inside).mean()),
    )


def with_shortlist(translator: Translator, shortlist: Shortlist) -> Translator:
    """Return the translator with a shortlist.

    Raises:
        SettingsError: the model does not run on the native engine.
    """
    return translator.with_decoder(native_of(translator.decoder).with_shortlist(shortlist))


def _requests(lines: Sequence[str], options: SearchOptions) -> Iterator[Request]:
    for number, line in enumerate(lines, start=1):
        yield Request(line, search=options, name=f"line {number}")


def _timed(translator: Translator, lines: Sequence[str], options: SearchOptions) -> TimedTranslations:
    start = time.perf_counter()
    found = list(translator.run(_requests(lines, options)))
    return TimedTranslations(found, time.perf_counter() - start)
