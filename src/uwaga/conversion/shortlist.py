"""Learning vocabulary shortlists from a model's cross-attention, and evaluating them on held-out pairs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
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
from uwaga.translator.loading import require_native
from uwaga.translator.request import Request
from uwaga.translator.score import forced_steps
from uwaga.translator.text import TokenPair
from uwaga.translator.translator import Translator

CHUNK_PAIRS = 2048
"""Number of pairs per chunk; the pairs of a chunk are sorted by length."""
BATCH_TOKENS = 2048
"""Maximum size of a batch, in tokens of whichever side is longer."""
MAX_PENDING_ENTRIES = 1 << 22
"""Number of collected attention weights above which the weights of equal token pairs are summed."""

Weights = NDArray[np.float64]


@dataclass(frozen=True)
class LearnedShortlist:
    """A learned shortlist.

    Attributes:
        shortlist: the shortlist.
        pairs: number of pairs that the shortlist was learned from.
        skipped: number of pairs that were skipped because they are empty or too long.
    """

    shortlist: Shortlist
    pairs: int
    skipped: int

    def summary(self) -> str:
        """Return the size of the shortlist and the number of pairs as a line of text."""
        shortlist = self.shortlist
        note = f" ({self.skipped:,} skipped: empty or too long)" if self.skipped else ""
        return (
            f"{len(shortlist.common):,} common tokens, {len(shortlist.targets):,} entries of "
            f"{shortlist.source_vocabulary:,} source tokens, from {self.pairs:,} pairs{note}"
        )


def learn_shortlist(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    frequent: int = 300,
    per_word: int = 30,
    on_pairs: Callable[[int], None] = lambda pairs: None,
) -> LearnedShortlist:
    """Learn a shortlist from a parallel corpus.

    The common tokens are the ``frequent`` most frequent target tokens, the end symbol and the unknown token.
    For each source token, the list contains the ``per_word`` other target tokens with the largest sum of
    cross-attention weights when the model force-decodes the targets. Attention to the end symbol and weights
    below the uniform weight are not counted. A source token that is also a target token is added too, so that
    names can be copied.

    Args:
        translator: the model.
        pairs: source and target texts.
        frequent: number of frequent target tokens, which are allowed in all sentences.
        per_word: number of target tokens per source token.
        on_pairs: called after each chunk with the number of processed pairs.

    Raises:
        SettingsError: if the model does not run on the native engine or has no attention, or if ``frequent``
            or ``per_word`` is less than 1.
        DataError: if all pairs are empty or too long.
    """
    model = require_native(translator.decoder)
    if frequent < 1 or per_word < 1:
        raise SettingsError("frequent and per-word must be at least 1")
    statistics = _TokenStatistics(model.vocabulary)
    used_count = processed_count = 0
    remaining_pairs = iter(pairs)
    while chunk := list(islice(remaining_pairs, CHUNK_PAIRS)):
        token_pairs = usable_pairs(translator, chunk)
        for indices in length_batches([max(map(len, pair)) for pair in token_pairs], 1, BATCH_TOKENS):
            statistics.add(model, [token_pairs[index] for index in indices], translator.decoding.start)
        used_count += len(token_pairs)
        processed_count += len(chunk)
        on_pairs(processed_count)
    if not used_count:
        raise DataError("the corpus has no usable pair; all pairs are empty or too long for the model")
    common_tokens = statistics.frequent(frequent, (model.symbols.end, model.symbols.unknown))
    keys = np.union1d(
        statistics.most_likely_targets(per_word, common_tokens), _copy_keys(translator, model)
    )  # in ascending order
    source_ids, target_ids = np.divmod(keys, model.vocabulary)
    first = np.searchsorted(source_ids, np.arange(model.source_vocabulary + 1))
    shortlist = Shortlist(
        common_tokens.astype(np.int32), first.astype(np.int32), target_ids.astype(np.int32), model.vocabulary
    )
    return LearnedShortlist(shortlist, used_count, processed_count - used_count)


class _TokenStatistics:
    """Counts of target tokens, and sums of their attention weights to source tokens."""

    def __init__(self, target_vocabulary: int) -> None:
        self._target_vocabulary = target_vocabulary
        self._frequencies: Ids = np.zeros(target_vocabulary, dtype=np.int64)
        self._keys: Ids = np.zeros(0, dtype=np.int64)  # source token * target vocabulary + target token
        self._weights: Weights = np.zeros(0)
        self._new: list[tuple[Ids, Weights]] = []

    def add(self, model: NativeModel, pairs: Sequence[TokenPair], start: int | None) -> None:
        """Add pairs of token ids; ``start`` is the id of the start symbol, None for the model's default."""
        for pair in pairs:
            np.add.at(self._frequencies, np.array(pair.target), 1)
        self._new += _attention_weights(model, pairs, start)
        if sum(len(keys) for keys, _ in self._new) > MAX_PENDING_ENTRIES:
            self._merge()

    def frequent(self, count: int, required: Sequence[int]) -> Ids:
        """Return the sorted ids of the ``count`` most frequent target tokens and the ids in ``required``."""
        order = np.argsort(-self._frequencies, kind="stable")[:count]
        return np.union1d(order[self._frequencies[order] > 0], np.array(required, dtype=np.int64))

    def most_likely_targets(self, count: int, common_tokens: Ids) -> Ids:
        """Return keys for the ``count`` most likely target tokens of each source token, in increasing order.

        A key represents a source and a target token. Common target tokens are excluded.
        """
        self._merge()
        is_uncommon = ~np.isin(self._keys % self._target_vocabulary, common_tokens)
        keys, weights = self._keys[is_uncommon], self._weights[is_uncommon]
        sources = keys // self._target_vocabulary
        order = np.lexsort((keys, -weights, sources))  # by source token, the heaviest first
        ranks = np.arange(len(keys)) - np.searchsorted(sources, sources[order])
        return np.sort(keys[order][ranks < count])

    def _merge(self) -> None:
        keys = np.concatenate([self._keys, *(new_keys for new_keys, _ in self._new)])
        weights = np.concatenate([self._weights, *(new_weights for _, new_weights in self._new)])
        self._keys, inverse_indices = np.unique(keys, return_inverse=True)
        self._weights = np.bincount(inverse_indices, weights, len(self._keys)).astype(np.float64)
        self._new = []


def _attention_weights(
    model: NativeModel, sentences: Sequence[TokenPair], start: int | None
) -> Iterator[tuple[Ids, Weights]]:
    """Force-decode the targets and yield, for each step, keys of token pairs and their attention weights."""
    lengths = np.array([len(pair.source) for pair in sentences])  # (pairs,) source tokens, the end counted
    tokens = np.zeros((len(sentences), lengths.max()), dtype=np.int64)  # (pairs, source)
    for row, pair in enumerate(sentences):
        tokens[row, : lengths[row]] = pair.source
    is_ignored = np.arange(tokens.shape[1]) >= (lengths - 1)[:, None]  # (pairs, source): the end, and padding
    for step in forced_steps(model, sentences, start, attention=True):
        assert step.attention is not None
        weights, pairs = step.attention, step.indices  # (running, source), (running,)
        width = weights.shape[1]
        is_selected = (weights * lengths[pairs, None] >= 1.0) & ~is_ignored[pairs, :width]
        rows, columns = np.nonzero(is_selected)
        keys = tokens[pairs[rows], columns] * model.vocabulary + step.tokens[rows]
        yield keys, weights[rows, columns].astype(np.float64)


def usable_pairs(translator: Translator, pairs: Sequence[tuple[str, str]]) -> list[TokenPair]:
    """Return the token ids of the pairs whose texts are neither empty nor too long for the model."""
    token_pairs: list[TokenPair] = []
    for pair in pairs:
        if pair[0].strip() and pair[1].strip():
            with suppress(TextTooLongError):
                token_pairs += translator.pair_ids([pair])
    return token_pairs


def _copy_keys(translator: Translator, model: NativeModel) -> Ids:
    """Return the keys of all pairs of a source token and a target token that are the same piece."""
    target_ids = {
        piece: token for token, piece in enumerate(translator.target.pieces(range(model.vocabulary)))
    }
    source_pieces = translator.source.pieces(range(model.source_vocabulary))
    keys = [
        token * model.vocabulary + target_ids[piece]
        for token, piece in enumerate(source_pieces)
        if piece in target_ids
    ]
    return np.array(keys, dtype=np.int64)


Pair = tuple[str, str]

HELD_OUT_INTERVAL = 10
"""Minimum interval between held-out pairs in a corpus."""


@dataclass(frozen=True)
class Corpus:
    """Pairs for learning and pairs for evaluation, which have no sources in common."""

    training: list[Pair]
    held_out_pairs: list[Pair]


def read_corpus(
    source: Path,
    target: Path,
    sentences: int = 100_000,
    held_out: int = 500,
    dev: tuple[Path, Path] | None = None,
) -> Corpus:
    """Read the pairs for learning and for evaluation.

    Args:
        source: file with a source sentence per line.
        target: file with the translation of each sentence, on the same line.
        sentences: maximum number of pairs to learn from.
        held_out: number of evenly spaced pairs to hold out, at most a tenth of all pairs.
        dev: source and target file for evaluation, instead of held-out pairs.

    Raises:
        DataError: if a file cannot be read, the two files have different numbers of lines, or there are too
            few pairs.
    """
    if dev is not None:
        held_out_pairs, pairs = read_pairs(*dev), read_pairs(source, target, sentences)
    else:
        pairs = read_pairs(source, target, sentences + held_out)
        count = min(held_out, len(pairs) // HELD_OUT_INTERVAL)
        if not count:
            raise DataError(
                f"{source}: {len(pairs)} pairs are too few to hold out any for evaluation; give "
                "--dev-source and --dev-target"
            )
        held_out_pairs = pairs[:: len(pairs) // count][:count]
    sources = {text for text, _ in held_out_pairs}
    training = [pair for pair in pairs if pair[0] not in sources]
    if not training or not held_out_pairs:
        raise DataError(
            f"{source}: there are no pairs to {'learn from' if held_out_pairs else 'evaluate on'}"
        )
    return Corpus(training, held_out_pairs)


def read_pairs(source: Path, target: Path, limit: int | None = None) -> list[Pair]:
    """Return the first pairs of two aligned files, or all pairs if ``limit`` is None.

    Raises:
        DataError: if a file cannot be read, or one is shorter than the other.
    """
    pairs: list[Pair] = []
    for source_line, target_line in islice(zip_longest(text_lines(source), text_lines(target)), limit):
        if source_line is None or target_line is None:
            shorter_side, longer_side = (source, target) if source_line is None else (target, source)
            raise DataError(
                f"{shorter_side} has {len(pairs)} lines, but {longer_side} has more; the files must be "
                "aligned line by line"
            )
        pairs.append((source_line, target_line))
    return pairs


@dataclass(frozen=True)
class TimedTranslations:
    """Translations of a text, and the time that translating took in seconds."""

    translations: list[Translation]
    seconds: float

    @property
    def speed(self) -> float:
        """Number of target tokens per second."""
        return sum(len(translation.token_scores) for translation in self.translations) / max(
            self.seconds, 1e-9
        )


@dataclass(frozen=True)
class ShortlistTrial:
    """A comparison of translations with the full vocabulary and with a shortlist.

    Attributes:
        full: translations with the full vocabulary.
        shortlisted: translations with the shortlist.
        references: reference translations.
        vocabulary: size of the target vocabulary.
        size: mean number of tokens that the shortlist allows for a sentence.
        coverage: share of reference tokens that the shortlist allows.
    """

    full: TimedTranslations
    shortlisted: TimedTranslations
    references: tuple[str, ...]
    vocabulary: int
    size: float
    coverage: float

    @property
    def equal_count(self) -> int:
        """Number of sentences with the same translation."""
        pairs = zip(self.full.translations, self.shortlisted.translations, strict=True)
        return sum(left.text == right.text for left, right in pairs)

    @property
    def speedup(self) -> float:
        """Ratio of the speed with the shortlist, in target tokens per second, to the speed without it."""
        return self.shortlisted.speed / self.full.speed

    def bleu(self) -> tuple[MetricScore, MetricScore]:
        """Return corpus BLEU with the full vocabulary and with the shortlist.

        Raises:
            MissingExtraError: if sacrebleu is not installed.
        """
        references = [(reference,) for reference in self.references]
        full_run, shortlist_run = (
            evaluate([translation.text for translation in translations.translations], references, ["bleu"])[
                "bleu"
            ]
            for translations in (self.full, self.shortlisted)
        )
        return full_run, shortlist_run


def evaluate_shortlist(
    translator: Translator, shortlist: Shortlist, pairs: Sequence[tuple[str, str]], options: SearchOptions
) -> ShortlistTrial:
    """Translate a text with the full vocabulary and with a shortlist.

    Args:
        translator: the translator, without a shortlist.
        shortlist: the shortlist.
        pairs: source texts and reference translations.
        options: search options.

    Raises:
        DataError: if all pairs are empty or too long.
    """
    shortlist_translator = with_shortlist(translator, shortlist)
    token_pairs = usable_pairs(translator, pairs)
    if not token_pairs:
        raise DataError("the shortlist cannot be evaluated, because all lines are empty or too long")
    lists = [shortlist.allowed_tokens(pair.source) for pair in token_pairs]
    is_listed = [np.isin(pair.target, tokens) for pair, tokens in zip(token_pairs, lists, strict=True)]
    lines = [source for source, _ in pairs]
    for model in (translator, shortlist_translator):  # warm up: the first call builds caches
        list(model.run(_requests(lines[:8], options)))
    return ShortlistTrial(
        _time_translations(translator, lines, options),
        _time_translations(shortlist_translator, lines, options),
        tuple(target for _, target in pairs),
        shortlist.vocabulary,
        float(np.mean([len(tokens) for tokens in lists])),
        float(np.concatenate(is_listed).mean()),
    )


def with_shortlist(translator: Translator, shortlist: Shortlist) -> Translator:
    """Return a copy of a translator that uses a shortlist.

    Raises:
        SettingsError: if the model does not run on the native engine.
    """
    return translator.with_decoder(require_native(translator.decoder).with_shortlist(shortlist))


def _requests(lines: Sequence[str], options: SearchOptions) -> Iterator[Request]:
    for line_number, line in enumerate(lines, start=1):
        yield Request(line, search=options, name=f"line {line_number}")


def _time_translations(
    translator: Translator, lines: Sequence[str], options: SearchOptions
) -> TimedTranslations:
    start = time.perf_counter()
    translations = list(translator.run(_requests(lines, options)))
    return TimedTranslations(translations, time.perf_counter() - start)
