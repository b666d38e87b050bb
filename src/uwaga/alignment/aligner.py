"""Statistical word alignment: IBM model 2 with a diagonal prior, and symmetrisation of two directions.

IBM model 1 (Brown 1993) gives every source position the same probability; the diagonal prior of Dyer 2013
makes positions near the diagonal more probable, by a single learned number, the tension. Lexical
probabilities have a sparse Dirichlet prior and are learned by variational Bayes (Riley & Gildea 2012), as in
fast_align. The aligner runs on the CPU, in numpy.
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
"""Pairs of word indices (source, target)."""
"""Offsets of horizontally, vertically and diagonally adjacent links."""
NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def grow_diagonal(first: Links, second: Links) -> Links:
    """Symmetrise the links of two directions by grow-diag-final-and (Och & Ney 2003 §5; Koehn 2003).

    The result starts with the intersection. Links of the union are added if they have an unaligned word and
    are adjacent, also diagonally, to an accepted link; finally, links whose words are both unaligned are
    added.
    """
    union_links = first | second
    links = set(first & second)
    sources, targets = {source for source, _ in links}, {target for _, target in links}
    frontier = sorted(links)
    while frontier:
        added_links = []
        for source, target in frontier:
            for row_step, column_step in NEIGHBOURS:
                neighbour = source + row_step, target + column_step
                if (
                    neighbour in union_links
                    and neighbour not in links
                    and not (neighbour[0] in sources and neighbour[1] in targets)
                ):
                    links.add(neighbour)
                    sources.add(neighbour[0])
                    targets.add(neighbour[1])
                    added_links.append(neighbour)
        frontier = added_links
    for direction in (first, second):
        for source, target in sorted(direction - links):
            if source not in sources and target not in targets:
                links.add((source, target))
                sources.add(source)
                targets.add(target)
    return frozenset(links)


NULL_PROBABILITY = 0.08
"""Probability that a target word is unaligned, as in Dyer 2013."""
INITIAL_TENSION, MIN_TENSION, MAX_TENSION = 4.0, 0.1, 14.0
"""Initial value and bounds of the tension."""
ASCENT_STEPS, LEARNING_RATE = 8, 20.0


def distances(source: int, target: int) -> Floats:
    """Return the distances (target, source) from the diagonal: ``|i / target - j / source|``."""
    rows = (np.arange(target, dtype=np.float32) + 1) / target
    columns = (np.arange(source, dtype=np.float32) + 1) / source
    deviations: Floats = np.abs(rows[:, None] - columns)
    return deviations


def diagonal_prior(deviations: Floats, tension: float) -> Floats:
    """Return the prior (target, source + 1) of source positions, null first (Dyer 2013 §2).

    The prior is ``(1 - NULL_PROBABILITY) · exp(-tension · deviations) / Z`` for positions other than null.
    """
    weights = np.exp(-tension * deviations)  # (target, source)
    weights *= (1.0 - NULL_PROBABILITY) / weights.sum(axis=1, keepdims=True)
    return np.concatenate(
        [np.full((len(deviations), 1), NULL_PROBABILITY, dtype=weights.dtype), weights], axis=1
    )


def update_tension(tension: float, observed: float, shapes: Ids, counts: Ids) -> float:
    """Update the tension by a few steps of gradient ascent on the expected log-likelihood (Dyer 2013 §2.2).

    Args:
        tension: current value.
        observed: negative mean distance from the diagonal under the posteriors.
        shapes: (shapes, 2) the distinct pairs of target and source length.
        counts: (shapes,) number of target words in sentence pairs of each shape.
    """
    for _ in range(ASCENT_STEPS):
        gradient = 0.0
        for (target, source), words in zip(shapes.tolist(), counts.tolist(), strict=True):
            deviations = distances(source, target)
            weights = np.exp(-tension * deviations)
            gradient -= words * float(np.mean((weights * deviations).sum(axis=1) / weights.sum(axis=1)))
        tension += LEARNING_RATE * (observed - gradient / float(counts.sum()))
        tension = min(MAX_TENSION, max(MIN_TENSION, tension))
    return tension


ITERATIONS = 5
CONCENTRATION = 0.01
"""Concentration of the Dirichlet prior."""
STEM_LETTERS = 4
"""Number of initial letters by which words are compared, so that inflected forms count as the same word."""
MAX_WORDS = 200
"""Maximum number of words of a sentence; longer sentences are not aligned."""
MAX_CELLS = 1 << 21
MIN_PROBABILITY = 0.01
"""Minimum probability, in both directions, of a lexicon entry."""


@dataclass(frozen=True)
class _Group:
    """Sentence pairs with the same source length and the same target length.

    ``pairs`` (pairs,) are their indices; ``source`` (pairs, source + 1) and ``target`` (pairs, target) are
    word ids, with null as the first source word; ``deviations`` (target, source) are the distances from the
    diagonal.
    """

    pairs: Ids
    source: Ids
    target: Ids
    deviations: Floats


class WordAligner:
    """Alignment in one direction: each target word is aligned with one source word or none.

    Attributes:
        tension: the tension of the diagonal prior; larger values favour the diagonal.
    """

    def __init__(self, stem: int = STEM_LETTERS) -> None:
        self._stem = stem
        self.tension = INITIAL_TENSION
        self._sources: dict[str, int] = {"": 0}
        self._targets: dict[str, int] = {}
        self._keys: Ids = np.zeros(0, dtype=np.int64)
        self._table: Floats = np.zeros(0, dtype=np.float32)

    def fit(
        self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]], iterations: int = ITERATIONS
    ) -> list[Links]:
        """Train on sentence pairs and return the links of each pair.

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
        keys: list[Ids] = [  # of word pairs, (pairs, target, source + 1)
            group.source[:, None, :] * len(self._targets) + group.target[:, :, None] for group in groups
        ]
        self._keys = _distinct_numbers(keys)
        cell_indices = [np.searchsorted(self._keys, key).astype(np.int32) for key in keys]
        del keys
        cell_sources = self._keys // len(self._targets)  # (cells,) the source word of each
        self._table = np.full(len(self._keys), 1.0 / len(self._targets), dtype=np.float32)
        shapes = np.array([group.deviations.shape for group in groups], dtype=np.int64)
        words = np.array([group.target.size for group in groups], dtype=np.int64)
        for iteration in range(iterations):
            counts = np.zeros(len(self._keys), dtype=np.float64)
            deviation = 0.0
            for group, cells in zip(groups, cell_indices, strict=True):
                posteriors = self._posteriors(group, cells)
                counts += np.bincount(cells.ravel(), posteriors.ravel(), len(counts))
                deviation -= float((posteriors[..., 1:] * group.deviations).sum())
            self._table = _dirichlet(counts, cell_sources, len(self._sources))
            if iteration:
                self.tension = update_tension(
                    self.tension, deviation / ((1.0 - NULL_PROBABILITY) * words.sum()), shapes, words
                )
        links: list[Links] = [frozenset() for _ in sources]
        for group, cells in zip(groups, cell_indices, strict=True):
            best_cells = self._posteriors(group, cells).argmax(axis=-1)  # (pairs, target), 0 for null
            for pair, row in zip(group.pairs.tolist(), best_cells.tolist(), strict=True):
                links[pair] = frozenset((position - 1, word) for word, position in enumerate(row) if position)
        return links

    def probabilities(self, minimum: float) -> dict[tuple[str, str], float]:
        """Return the translation probabilities of at least ``minimum``, by source and target word.

        Words are lower-cased and truncated to their first letters, by which they are compared.
        """
        vocabularies = [[*words] for words in (self._sources, self._targets)]
        selected_cells = np.flatnonzero(self._table >= minimum)
        rows = np.divmod(self._keys[selected_cells], len(self._targets))
        return {
            (vocabularies[0][source], vocabularies[1][target]): probability
            for source, target, probability in zip(
                *(column.tolist() for column in rows), self._table[selected_cells].tolist(), strict=True
            )
            if source
        }

    def _posteriors(self, group: _Group, cells: NDArray[np.int32]) -> Floats:
        """Return the posterior probabilities (pairs, target, source + 1) of alignments."""
        posteriors: Floats = self._table[cells] * diagonal_prior(group.deviations, self.tension).astype(
            np.float32
        )
        posteriors /= np.maximum(posteriors.sum(axis=-1, keepdims=True), np.float32(1e-30))
        return posteriors

    def _groups(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> Iterator[_Group]:
        shapes: dict[tuple[int, int], list[int]] = {}
        for pair, (source, target) in enumerate(zip(sources, targets, strict=True)):
            if 0 < len(source) <= MAX_WORDS and 0 < len(target) <= MAX_WORDS:
                shapes.setdefault((len(source), len(target)), []).append(pair)
        rows = [
            (pair, [self._id(self._sources, word) for word in sources[pair]])
            for pairs in shapes.values()
            for pair in pairs
        ]
        source_ids = dict(rows)
        target_ids = {pair: [self._id(self._targets, word) for word in targets[pair]] for pair, _ in rows}
        for (source_size, target_size), pairs in shapes.items():
            deviations = distances(source_size, target_size)
            step = max(1, MAX_CELLS // (target_size * (source_size + 1)))
            for start in range(0, len(pairs), step):
                chunk = pairs[start : start + step]
                yield _Group(
                    pairs=np.array(chunk, dtype=np.int64),
                    source=np.array([[0, *source_ids[pair]] for pair in chunk], dtype=np.int64),
                    target=np.array([target_ids[pair] for pair in chunk], dtype=np.int64),
                    deviations=deviations,
                )

    def _id(self, ids: dict[str, int], word: str) -> int:
        return ids.setdefault(word.lower()[: self._stem], len(ids))


def align_corpus(
    sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]], iterations: int = ITERATIONS
) -> list[Links]:
    """Return the links of each sentence pair, symmetrised from both directions by grow-diag-final-and.

    Args:
        sources: words of each source.
        targets: words of each target.
        iterations: the number of iterations of expectation-maximisation.

    Raises:
        DataError: no pair has words on both sides.
    """
    forward_links = WordAligner().fit(sources, targets, iterations)
    backward_links = WordAligner().fit(targets, sources, iterations)
    return [
        grow_diagonal(forward, frozenset((source, target) for target, source in backward))
        for forward, backward in zip(forward_links, backward_links, strict=True)
    ]


def corpus_lexicon(sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> WordLexicon:
    """Return the word translation probabilities of a corpus in both directions.

    Args:
        sources: words of each source.
        targets: words of each target.

    Raises:
        DataError: no pair has words on both sides.
    """
    forward_aligner, backward_aligner = WordAligner(), WordAligner()
    forward_aligner.fit(sources, targets)
    backward_aligner.fit(targets, sources)
    forward = forward_aligner.probabilities(MIN_PROBABILITY)
    backward = {
        (source, target): probability
        for (target, source), probability in backward_aligner.probabilities(MIN_PROBABILITY).items()
    }
    probabilities = {pair: (forward[pair], backward[pair]) for pair in forward.keys() & backward.keys()}
    return WordLexicon.from_probabilities(STEM_LETTERS, probabilities)


def _distinct_numbers(parts: Iterable[Ids]) -> Ids:
    """Return the sorted distinct numbers of several arrays."""
    unique_numbers: Ids = np.zeros(0, dtype=np.int64)
    pending_numbers: list[Ids] = []
    for part in parts:
        pending_numbers.append(np.unique(part))
        if sum(map(len, pending_numbers)) > MAX_CELLS:
            unique_numbers, pending_numbers = (
                np.unique(np.concatenate([unique_numbers, *pending_numbers])),
                [],
            )
    return np.unique(np.concatenate([unique_numbers, *pending_numbers]))


def _dirichlet(counts: NDArray[np.float64], cell_sources: Ids, sources: int) -> Floats:
    """Return the variational Bayes estimates (cells,) for expected counts: ``exp(ψ(c + α) - ψ(Σ c + α))``."""
    total = np.bincount(cell_sources, counts + CONCENTRATION, sources)  # (source words,)
    table: Floats = np.exp(digamma(counts + CONCENTRATION) - digamma(total)[cell_sources]).astype(np.float32)
    return table


def digamma(x: NDArray[Any]) -> NDArray[np.float64]:
    """Return ψ(x) for x > 0 by recurrence up to 6, then the asymptotic series (Abramowitz & Stegun
    6.3.18).
    """
    x = np.array(x, dtype=np.float64)
    result = np.zeros_like(x)
    for _ in range(6):
        is_low = x < 6.0
        result[is_low] -= 1.0 / x[is_low]
        x[is_low] += 1.0
    square = 1.0 / (x * x)
    result += np.log(x) - 0.5 / x - square * (1 / 12 - square * (1 / 120 - square / 252))
    return result
