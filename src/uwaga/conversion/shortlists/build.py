"""Shortlists made from the model's own attention, and models that use them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from uwaga.decoder import Ids
from uwaga.engine import NativeModel
from uwaga.engine.shortlist import Shortlist
from uwaga.errors import DataError, SettingsError, TextTooLongError
from uwaga.search.length_batching import length_batches
from uwaga.translator.forced_decoding import forced_steps
from uwaga.translator.shortlisting import native_of
from uwaga.translator.translator import Translator

CHUNK = 2048
"""Pairs sorted by length together."""
BATCH_TOKENS = 2048
"""Tokens of the longer side counted together."""
ENTRIES = 1 << 22
"""Weights that are gathered before those of the same two tokens are added up."""

Weights = NDArray[np.float64]


@dataclass(frozen=True)
class Counted:
    """A shortlist, the pairs it was counted on and those left out: too long, or with nothing to read."""

    shortlist: Shortlist
    pairs: int
    skipped: int

    def summary(self) -> str:
        """What the shortlist holds and what it was counted on, in a line."""
        found = self.shortlist
        left_out = f" ({self.skipped:,} left out: empty or too long)" if self.skipped else ""
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
    """Make a shortlist from a parallel corpus.

    Common are the ``frequent`` most frequent target tokens, the end symbol and the unknown token. With each
    source token go the ``per_word`` others that have most of the model's cross-attention when it is led along
    the corpus's targets: a target token's attention to the end symbol, or below what it would be if spread
    evenly, is not counted. A source token that is a target token too goes with itself, so that names can be
    copied.

    Args:
        translator: the model.
        pairs: source and target texts.
        frequent: target tokens that every sentence may become.
        per_word: target tokens of each source token.
        on_pairs: called with the number of pairs done, after each chunk.

    Raises:
        SettingsError: the model does not run on the native engine, or has no attention; impossible numbers.
        DataError: no pair can be used.
    """
    model = native_of(translator.decoder)
    if frequent < 1 or per_word < 1:
        raise SettingsError("a shortlist needs 1 or more frequent tokens and 1 or more per word")
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
        raise DataError("no pair of the corpus can be used: all are empty or longer than the model can take")
    common = counts.frequent(frequent, (model.symbols.end, model.symbols.unknown))
    keys = np.union1d(counts.likeliest(per_word, common), _copies(translator, model))  # rising
    sources_of, targets_of = np.divmod(keys, model.vocabulary)
    first = np.searchsorted(sources_of, np.arange(model.source_vocabulary + 1))
    shortlist = Shortlist(
        common.astype(np.int32), first.astype(np.int32), targets_of.astype(np.int32), model.vocabulary
    )
    return Counted(shortlist, used, done - used)


class _Counts:
    """How often target tokens stand, and how much attention each source token has from each of them."""

    def __init__(self, source: int, target: int) -> None:
        self._source, self._target = source, target
        self._seen: Ids = np.zeros(target, dtype=np.int64)
        self._keys: Ids = np.zeros(0, dtype=np.int64)  # source token * target vocabulary + target token
        self._weights: Weights = np.zeros(0)
        self._new: list[tuple[Ids, Weights]] = []

    def add(
        self, model: NativeModel, sources: Sequence[Sequence[int]], targets: Sequence[Ids], start: int | None
    ) -> None:
        """Count pairs of token ids; ``start`` is what decoding starts from, None for the model's own."""
        for target in targets:
            np.add.at(self._seen, target, 1)
        self._new += _attention(model, sources, targets, start)
        if sum(len(keys) for keys, _ in self._new) > ENTRIES:
            self._add_up()

    def frequent(self, count: int, always: Sequence[int]) -> Ids:
        """The most frequent target tokens and those that are wanted always, rising."""
        order = np.argsort(-self._seen, kind="stable")[:count]
        return np.union1d(order[self._seen[order] > 0], np.array(always, dtype=np.int64))

    def likeliest(self, count: int, common: Ids) -> Ids:
        """The keys of each source token's likeliest targets that are not common, rising."""
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
    """Lead the model along the targets; for each position the keys of both tokens and the attention."""
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
    """The token ids of the pairs that the model can take."""
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
    """The keys of source tokens and target tokens that are the same piece of text."""
    theirs = {piece: token for token, piece in enumerate(translator.target.pieces(range(model.vocabulary)))}
    ours = translator.source.pieces(range(model.source_vocabulary))
    found = [token * model.vocabulary + theirs[piece] for token, piece in enumerate(ours) if piece in theirs]
    return np.array(found, dtype=np.int64)
