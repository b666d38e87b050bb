"""A word aligner: IBM model 2 with a diagonal prior (Dyer 2013), of both directions made one.

Model 1 of Brown 1993 takes every place of the partner for equally likely; here places near the diagonal are
likelier, by one number, the tension, that is learned. Lexical probabilities have a sparse Dirichlet prior and
are learned by variational Bayes (Riley & Gildea 2012), as in Dyer's program. On a CPU, in numpy alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uwaga.decoder import Ids
from uwaga.errors import DataError
from uwaga.results.attention import Floats
from uwaga.settings import WordLexicon

Links = frozenset[tuple[int, int]]
"""(source word, target word), counted from 0."""
AROUND = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def grow_diagonal(one: Links, other: Links) -> Links:
    """grow-diag-final-and: what both have, grown by neighbours that one has, then by what is left alone.

    A link of the union joins where it touches one that is in, diagonals too, and one of its two words has
    none yet; at the end links join whose words both have none.
    """
    union = one | other
    found = set(one & other)
    sources, targets = {source for source, _ in found}, {target for _, target in found}
    waiting = sorted(found)
    while waiting:
        grown = []
        for source, target in waiting:
            for down, right in AROUND:
                near = source + down, target + right
                if near in union and near not in found and not (near[0] in sources and near[1] in targets):
                    found.add(near)
                    sources.add(near[0])
                    targets.add(near[1])
                    grown.append(near)
        waiting = grown
    for direction in (one, other):
        for source, target in sorted(direction - found):
            if source not in sources and target not in targets:
                found.add((source, target))
                sources.add(source)
                targets.add(target)
    return frozenset(found)


NULL = 0.08
"""Probability that a target word has no partner; as Dyer 2013 has it."""
FIRST, LEAST, MOST = 4.0, 0.1, 14.0
"""Tension: where it begins, and its bounds."""
ASCENTS, RATE = 8, 20.0


def distances(source: int, target: int) -> Floats:
    """(target, source) of how far each place is from the diagonal: ``|i / target - j / source|``."""
    rows = (np.arange(target, dtype=np.float32) + 1) / target
    columns = (np.arange(source, dtype=np.float32) + 1) / source
    away: Floats = np.abs(rows[:, None] - columns)
    return away


def diagonal_prior(away: Floats, tension: float) -> Floats:
    """(target, source + 1): null first, then ``(1 - NULL) · exp(-tension · away) / Z`` (eq. 1 ff.)."""
    close = np.exp(-tension * away)  # (target, source)
    close *= (1.0 - NULL) / close.sum(axis=1, keepdims=True)
    return np.concatenate([np.full((len(away), 1), NULL, dtype=close.dtype), close], axis=1)


def ascend(tension: float, observed: float, shapes: Ids, counts: Ids) -> float:
    """The tension by some steps of gradient ascent on the expected log-likelihood (§2.2).

    Args:
        tension: as it is.
        observed: mean distance from the diagonal, negative, that the posteriors have.
        shapes: (shapes, 2) the lengths of target and source that there are.
        counts: (shapes,) target words in pairs of each shape.
    """
    for _ in range(ASCENTS):
        expected = 0.0
        for (target, source), words in zip(shapes.tolist(), counts.tolist(), strict=True):
            away = distances(source, target)
            close = np.exp(-tension * away)
            expected -= words * float(np.mean((close * away).sum(axis=1) / close.sum(axis=1)))
        tension += RATE * (observed - expected / float(counts.sum()))
        tension = min(MOST, max(LEAST, tension))
    return tension


ITERATIONS = 5
CONCENTRATION = 0.01
"""Of the Dirichlet prior."""
STEM = 4
"""Characters of a word that count: with few sentences, forms of a word are better one word."""
LONGEST = 200
"""Words of a sentence that is aligned; a longer one gets no links."""
CELLS = 1 << 21
LEAST_LIKELY = 0.01
"""What a lexicon leaves out is less likely, in either direction."""


@dataclass(frozen=True)
class _Group:
    """Pairs of one shape.

    ``pairs`` (pairs,) their numbers; ``source`` (pairs, source + 1) ids, null first; ``target`` (pairs,
    target) ids; ``away`` (target, source) from the diagonal.
    """

    pairs: Ids
    source: Ids
    target: Ids
    away: Floats


class WordAligner:
    """One direction: each target word has one source word, or none, for its partner.

    Attributes:
        tension: how close to the diagonal the partners stand.
    """

    def __init__(self, stem: int = STEM) -> None:
        self._stem = stem
        self.tension = FIRST
        self._sources: dict[str, int] = {"": 0}
        self._targets: dict[str, int] = {}
        self._keys: Ids = np.zeros(0, dtype=np.int64)
        self._table: Floats = np.zeros(0, dtype=np.float32)

    def fit(
        self,
        sources: Sequence[Sequence[str]],
        targets: Sequence[Sequence[str]],
        iterations: int = ITERATIONS,
    ) -> list[Links]:
        """Learn from pairs of sentences, and return the links of each: (source word, target word).

        Args:
            sources: words of each source.
            targets: words of each target.
            iterations: of expectation maximisation.

        Raises:
            DataError: there is no pair with words on both sides.
        """
        groups = list(self._groups(sources, targets))
        if not groups:
            raise DataError("nothing to align: no sentence pair has words on both sides")
        keys = [self._cells(group) for group in groups]
        self._keys = _unique(keys)
        places = [np.searchsorted(self._keys, key).astype(np.int32) for key in keys]
        del keys
        owners = self._keys // len(self._targets)  # (cells,) the source word of each
        self._table = np.full(len(self._keys), 1.0 / len(self._targets), dtype=np.float32)
        shapes = np.array([group.away.shape for group in groups], dtype=np.int64)
        words = np.array([group.target.size for group in groups], dtype=np.int64)
        for iteration in range(iterations):
            counts = np.zeros(len(self._keys), dtype=np.float64)
            near = 0.0
            for group, place in zip(groups, places, strict=True):
                found = self._posteriors(group, place)
                counts += np.bincount(place.ravel(), found.ravel(), len(counts))
                near -= float((found[..., 1:] * group.away).sum())
            self._table = _dirichlet(counts, owners, len(self._sources))
            if iteration:
                self.tension = ascend(self.tension, near / ((1.0 - NULL) * words.sum()), shapes, words)
        links: list[Links] = [frozenset() for _ in sources]
        for group, place in zip(groups, places, strict=True):
            best = self._posteriors(group, place).argmax(axis=-1)  # (pairs, target), 0 for null
            for pair, row in zip(group.pairs.tolist(), best.tolist(), strict=True):
                links[pair] = frozenset((at - 1, word) for word, at in enumerate(row) if at)
        return links

    def probabilities(self, least: float) -> dict[tuple[str, str], float]:
        """How likely a target word is where a source word stands: by both, in lower case and cut to the
        letters that count; those that are ``least`` likely or more.
        """
        sides = [[*known] for known in (self._sources, self._targets)]
        kept = np.flatnonzero(self._table >= least)
        rows = np.divmod(self._keys[kept], len(self._targets))
        return {
            (sides[0][source], sides[1][target]): chance
            for source, target, chance in zip(
                *(side.tolist() for side in rows), self._table[kept].tolist(), strict=True
            )
            if source
        }

    def _posteriors(self, group: _Group, place: NDArray[np.int32]) -> Floats:
        """(pairs, target, source + 1) of each partner."""
        found: Floats = self._table[place] * diagonal_prior(group.away, self.tension).astype(np.float32)
        found /= np.maximum(found.sum(axis=-1, keepdims=True), np.float32(1e-30))
        return found

    def _cells(self, group: _Group) -> Ids:
        """(pairs, target, source + 1) a number for each source word with each target word."""
        cells: Ids = group.source[:, None, :] * len(self._targets) + group.target[:, :, None]
        return cells

    def _groups(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> Iterator[_Group]:
        shapes: dict[tuple[int, int], list[int]] = {}
        for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
            if 0 < len(source) <= LONGEST and 0 < len(target) <= LONGEST:
                shapes.setdefault((len(source), len(target)), []).append(number)
        rows = [
            (number, [self._id(self._sources, word) for word in sources[number]])
            for numbers in shapes.values()
            for number in numbers
        ]
        ids = dict(rows)
        others = {number: [self._id(self._targets, word) for word in targets[number]] for number, _ in rows}
        for (source_size, target_size), numbers in shapes.items():
            away = distances(source_size, target_size)
            step = max(1, CELLS // (target_size * (source_size + 1)))
            for start in range(0, len(numbers), step):
                some = numbers[start : start + step]
                yield _Group(
                    pairs=np.array(some, dtype=np.int64),
                    source=np.array([[0, *ids[number]] for number in some], dtype=np.int64),
                    target=np.array([others[number] for number in some], dtype=np.int64),
                    away=away,
                )

    def _id(self, known: dict[str, int], word: str) -> int:
        return known.setdefault(word.lower()[: self._stem], len(known))


def align_corpus(
    sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]], iterations: int = ITERATIONS
) -> list[Links]:
    """The links of each pair: both directions aligned, and made one by grow-diag-final-and.

    Args:
        sources: words of each source.
        targets: words of each target.
        iterations: of expectation maximisation.

    Raises:
        DataError: there is no pair with words on both sides.
    """
    ahead = WordAligner().fit(sources, targets, iterations)
    back = WordAligner().fit(targets, sources, iterations)
    return [
        grow_diagonal(one, frozenset((source, target) for target, source in other))
        for one, other in zip(ahead, back, strict=True)
    ]


def corpus_lexicon(sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> WordLexicon:
    """Which words stand for one another in a corpus, by both directions.

    Args:
        sources: words of each source.
        targets: words of each target.

    Raises:
        DataError: there is no pair with words on both sides.
    """
    ahead, back = WordAligner(), WordAligner()
    ahead.fit(sources, targets)
    back.fit(targets, sources)
    known = ahead.probabilities(LEAST_LIKELY)
    turned = {(source, target): one for (target, source), one in back.probabilities(LEAST_LIKELY).items()}
    both = {pair: (known[pair], turned[pair]) for pair in known.keys() & turned.keys()}
    return WordLexicon.of(STEM, both)


def _unique(parts: Iterable[Ids]) -> Ids:
    """The numbers that occur, sorted."""
    found: Ids = np.zeros(0, dtype=np.int64)
    waiting: list[Ids] = []
    for part in parts:
        waiting.append(np.unique(part))
        if sum(map(len, waiting)) > CELLS:
            found, waiting = np.unique(np.concatenate([found, *waiting])), []
    return np.unique(np.concatenate([found, *waiting]))


def _dirichlet(counts: NDArray[np.float64], owners: Ids, sources: int) -> Floats:
    """(cells,) what variational Bayes makes of expected counts: ``exp(ψ(c + α) - ψ(Σ c + α))``."""
    total = np.bincount(owners, counts + CONCENTRATION, sources)  # (source words,)
    table: Floats = np.exp(digamma(counts + CONCENTRATION) - digamma(total)[owners]).astype(np.float32)
    return table


def digamma(x: NDArray[Any]) -> NDArray[np.float64]:
    """ψ(x) for x > 0: its recurrence up to 6, then the asymptotic series (Abramowitz & Stegun 6.3.18)."""
    x = np.array(x, dtype=np.float64)
    found = np.zeros_like(x)
    for _ in range(6):
        low = x < 6.0
        found[low] -= 1.0 / x[low]
        x[low] += 1.0
    square = 1.0 / (x * x)
    found += np.log(x) - 0.5 / x - square * (1 / 12 - square * (1 / 120 - square / 252))
    return found
