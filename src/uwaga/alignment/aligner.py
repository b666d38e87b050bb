"""Statistical word alignment: IBM model 2 with a diagonal prior, and symmetrisation of two directions.

IBM model 1 (Brown 1993) gives every source position the same probability; the diagonal prior of Dyer 2013
makes positions near the diagonal more probable, by a single learned number, the tension. Lexical
probabilities have a sparse Dirichlet prior and are learned by variational Bayes (Riley & Gildea 2012), as in
fast_align. It runs on the CPU, in numpy.
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
"""(source word, target word), numbered from 0."""
AROUND = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def grow_diagonal(first: Links, second: Links) -> Links:
    """Symmetrise two directions by grow-diag-final-and (Och & Ney 2003 §5; Koehn 2003).

    It starts from the intersection and adds links of the union that are adjacent, also diagonally, to an
    accepted link and have an unaligned word; finally it adds links of which both words are unaligned.
    """
    union = first | second
    links = set(first & second)
    sources, targets = {source for source, _ in links}, {target for _, target in links}
    waiting = sorted(links)
    while waiting:
        grown = []
        for source, target in waiting:
            for down, right in AROUND:
                near = source + down, target + right
                if near in union and near not in links and not (near[0] in sources and near[1] in targets):
                    links.add(near)
                    sources.add(near[0])
                    targets.add(near[1])
                    grown.append(near)
        waiting = grown
    for direction in (first, second):
        for source, target in sorted(direction - links):
            if source not in sources and target not in targets:
                links.add((source, target))
                sources.add(source)
                targets.add(target)
    return frozenset(links)


NULL = 0.08
"""Probability that a target word is unaligned, as in Dyer 2013."""
FIRST, LEAST, MOST = 4.0, 0.1, 14.0
"""Tension: initial value and bounds."""
ASCENTS, RATE = 8, 20.0


def distances(source: int, target: int) -> Floats:
    """Return (target, source) distances from the diagonal: ``|i / target - j / source|``."""
    rows = (np.arange(target, dtype=np.float32) + 1) / target
    columns = (np.arange(source, dtype=np.float32) + 1) / source
    away: Floats = np.abs(rows[:, None] - columns)
    return away


def diagonal_prior(away: Floats, tension: float) -> Floats:
    """Return (target, source + 1): null first, then ``(1 - NULL) · exp(-tension · away) / Z`` (Dyer 2013
    §2).
    """
    close = np.exp(-tension * away)  # (target, source)
    close *= (1.0 - NULL) / close.sum(axis=1, keepdims=True)
    return np.concatenate([np.full((len(away), 1), NULL, dtype=close.dtype), close], axis=1)


def ascend(tension: float, observed: float, shapes: Ids, counts: Ids) -> float:
    """Return the tension after some steps of gradient ascent on the expected log-likelihood (Dyer 2013 §2.2).

    Args:
        tension: current value.
        observed: negative mean distance from the diagonal under the posteriors.
        shapes: (shapes, 2) pairs of target and source length.
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
"""Concentration of the Dirichlet prior."""
STEM = 4
"""Characters of a word that are compared; merging word forms helps with few sentences."""
MAX_WORDS = 200
"""Longer sentences get no links."""
CELLS = 1 << 21
MIN_PROBABILITY = 0.01
"""Smallest probability of a lexicon, in both directions."""


@dataclass(frozen=True)
class _Group:
    """Sentence pairs of equal lengths.

    ``pairs`` (pairs,) their numbers; ``source`` (pairs, source + 1) ids, null first; ``target`` (pairs,
    target) ids; ``away`` (target, source) distances from the diagonal.
    """

    pairs: Ids
    source: Ids
    target: Ids
    away: Floats


class WordAligner:
    """Alignment in one direction: each target word is aligned with one source word or none.

    Attributes:
        tension: the tension of the diagonal prior; larger values favour the diagonal.
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
        """Train on sentence pairs and return the links of each.

        Args:
            sources: words of each source.
            targets: words of each target.
            iterations: the number of iterations of expectation-maximisation.

        Raises:
            DataError: no pair has words on both sides.
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
                posteriors = self._posteriors(group, place)
                counts += np.bincount(place.ravel(), posteriors.ravel(), len(counts))
                near -= float((posteriors[..., 1:] * group.away).sum())
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
        """Return the translation probabilities of at least ``least``, by source and target word.

        Words are lower-cased and cut to the characters that are compared.
        """
        sides = [[*words] for words in (self._sources, self._targets)]
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
        """Return (pairs, target, source + 1) the posterior probabilities of alignments."""
        posteriors: Floats = self._table[place] * diagonal_prior(group.away, self.tension).astype(np.float32)
        posteriors /= np.maximum(posteriors.sum(axis=-1, keepdims=True), np.float32(1e-30))
        return posteriors

    def _cells(self, group: _Group) -> Ids:
        """Return (pairs, target, source + 1) the number of each pair of words."""
        cells: Ids = group.source[:, None, :] * len(self._targets) + group.target[:, :, None]
        return cells

    def _groups(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> Iterator[_Group]:
        shapes: dict[tuple[int, int], list[int]] = {}
        for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
            if 0 < len(source) <= MAX_WORDS and 0 < len(target) <= MAX_WORDS:
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

    def _id(self, numbers: dict[str, int], word: str) -> int:
        return numbers.setdefault(word.lower()[: self._stem], len(numbers))


def align_corpus(
    sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]], iterations: int = ITERATIONS
) -> list[Links]:
    """Return the links of each pair: both directions, symmetrised by grow-diag-final-and.

    Args:
        sources: words of each source.
        targets: words of each target.
        iterations: the number of iterations of expectation-maximisation.

    Raises:
        DataError: no pair has words on both sides.
    """
    ahead = WordAligner().fit(sources, targets, iterations)
    back = WordAligner().fit(targets, sources, iterations)
    return [
        grow_diagonal(forward, frozenset((source, target) for target, source in backward))
        for forward, backward in zip(ahead, back, strict=True)
    ]


def corpus_lexicon(sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> WordLexicon:
    """Return the word translation probabilities of a corpus in both directions.

    Args:
        sources: words of each source.
        targets: words of each target.

    Raises:
        DataError: no pair has words on both sides.
    """
    ahead, back = WordAligner(), WordAligner()
    ahead.fit(sources, targets)
    back.fit(targets, sources)
    forward = ahead.probabilities(MIN_PROBABILITY)
    backward = {
        (source, target): probability
        for (target, source), probability in back.probabilities(MIN_PROBABILITY).items()
    }
    both = {pair: (forward[pair], backward[pair]) for pair in forward.keys() & backward.keys()}
    return WordLexicon.of(STEM, both)


def _unique(parts: Iterable[Ids]) -> Ids:
    """Return the distinct numbers, sorted."""
    unique: Ids = np.zeros(0, dtype=np.int64)
    waiting: list[Ids] = []
    for part in parts:
        waiting.append(np.unique(part))
        if sum(map(len, waiting)) > CELLS:
            unique, waiting = np.unique(np.concatenate([unique, *waiting])), []
    return np.unique(np.concatenate([unique, *waiting]))


def _dirichlet(counts: NDArray[np.float64], owners: Ids, sources: int) -> Floats:
    """Return (cells,) the variational Bayes estimate from expected counts: ``exp(ψ(c + α) - ψ(Σ c + α))``."""
    total = np.bincount(owners, counts + CONCENTRATION, sources)  # (source words,)
    table: Floats = np.exp(digamma(counts + CONCENTRATION) - digamma(total)[owners]).astype(np.float32)
    return table


def digamma(x: NDArray[Any]) -> NDArray[np.float64]:
    """Return ψ(x) for x > 0 by recurrence up to 6, then the asymptotic series (Abramowitz & Stegun
    6.3.18).
    """
    x = np.array(x, dtype=np.float64)
    result = np.zeros_like(x)
    for _ in range(6):
        low = x < 6.0
        result[low] -= 1.0 / x[low]
        x[low] += 1.0
    square = 1.0 / (x * x)
    result += np.log(x) - 0.5 / x - square * (1 / 12 - square * (1 / 120 - square / 252))
    return result
