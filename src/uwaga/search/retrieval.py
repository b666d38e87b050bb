"""k-nearest-neighbour search over any decoder that returns features (M44): the reference for the engine.

Dai et al. 2023, "Simple and Scalable Nearest Neighbor Machine Translation" (SK-MT); Khandelwal et al. 2021,
"Nearest Neighbor Machine Translation" (kNN-MT).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from uwaga.decoder import (
    MAX_WEIGHT,
    Choice,
    Datastore,
    Decoder,
    Ids,
    Memory,
    State,
    Step,
    shared_positions,
)
from uwaga.results.attention import Floats
from uwaga.search.choose import choose
from uwaga.search.forcing import force_targets
from uwaga.search.length_batching import map_batches

MAX_FORCED_TOKENS = 1 << 16
"""Maximum number of tokens, padding included, in a batch of forced targets."""


class Neighbours(NamedTuple):
    """The keys of a datastore that are near the features of a state.

    Attributes:
        entries: (neighbours,) indices of the keys, nearest first; empty if none is within the radius.
        shares: (neighbours,) float64 probability of each neighbour in p_kNN.
        weight: λ, the probability of p_kNN in the mixture.
    """

    entries: Ids
    shares: NDArray[np.float64]
    weight: float


def squared_distances(datastore: Datastore, features: Floats) -> NDArray[np.float64]:
    """Return the squared distances (entries,) of the keys from ``features`` (width,)."""
    differences = datastore.keys.astype(np.float32) - features  # (entries, width)
    return np.asarray(np.square(differences.astype(np.float64)).sum(axis=1))


def nearest(datastore: Datastore, features: Floats) -> Neighbours:
    """Return the neighbours of a state with ``features`` (width,), with their shares and weight."""
    distances = squared_distances(datastore, features)
    order = np.argsort(distances, kind="stable")[: datastore.neighbours]
    order = order[distances[order] < datastore.radius]
    if not len(order):
        return Neighbours(order, np.zeros(0), 0.0)
    sorted_distances = distances[order]
    shares = np.exp((sorted_distances[0] - sorted_distances) / datastore.temperature)
    return Neighbours(
        order, shares / shares.sum(), min(1 - sorted_distances[0] / datastore.radius, MAX_WEIGHT)
    )


def mix(log_probs: NDArray[np.float64], neighbours: Neighbours, tokens: Ids) -> None:
    """Mix p_kNN, the distribution of the neighbours, into a model's log-probabilities (vocabulary,) in place.

    ``tokens`` (entries,) are the tokens of the datastore.
    """
    if not neighbours.weight:
        return
    log_probs += np.log1p(-neighbours.weight)
    for token in np.unique(tokens[neighbours.entries]):
        share = neighbours.shares[tokens[neighbours.entries] == token].sum()
        log_probs[token] = np.logaddexp(log_probs[token], np.log(neighbours.weight * share))


@dataclass(frozen=True)
class RetrievalMemory:
    """Encoded sources, and the datastore of each sentence."""

    inner: Memory
    datastores: Sequence[Datastore | None]

    @property
    def sentences(self) -> int:
        """See :class:`uwaga.decoder.Memory`."""
        return self.inner.sentences

    @property
    def lengths(self) -> Ids:
        """See :class:`uwaga.decoder.Memory`."""
        return self.inner.lengths


@dataclass(frozen=True)
class RetrievalState:
    """The state of a model, with the datastore of each sentence."""

    inner: State
    datastores: Sequence[Datastore | None]
    beams: int

    def reorder(self, rows: Ids) -> RetrievalState:
        """See :meth:`uwaga.decoder.State.reorder`."""
        return replace(self, inner=self.inner.reorder(rows))

    def select(self, sentences: Ids) -> RetrievalState:
        """See :meth:`uwaga.decoder.State.select`."""
        datastores = [self.datastores[sentence] for sentence in np.asarray(sentences).tolist()]
        return RetrievalState(self.inner.select(sentences), datastores, self.beams)


class StepwiseDecoder:
    """A decoder that wraps a model and that the search calls step by step; subclasses define the steps."""

    verify: None = None
    join: None = None
    beam_search: None = None

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self.symbols, self.vocabulary = decoder.symbols, decoder.vocabulary
        self.max_source, self.max_target = decoder.max_source, decoder.max_target
        self.shared_positions = shared_positions(decoder)
        self.attentions, self.recording = decoder.attentions, decoder.recording
        self.cross_attention, self.cross_attentions = decoder.cross_attention, decoder.cross_attentions


class RetrievalDecoder(StepwiseDecoder):
    """A decoder whose distributions are mixed with datastores.

    Args:
        decoder: a model that returns the features of its states.
    """

    def encode(self, sources: Sequence[Sequence[int]]) -> Memory:
        """See :meth:`uwaga.decoder.Decoder.encode`."""
        return RetrievalMemory(self._decoder.encode(sources), [None] * len(sources))

    def with_datastores(self, memory: Memory, datastores: Sequence[Datastore | None]) -> Memory:
        """See :func:`uwaga.decoder.with_datastores`."""
        assert isinstance(memory, RetrievalMemory)
        return replace(memory, datastores=datastores)

    def start(self, memory: Memory, beams: int) -> RetrievalState:
        """See :meth:`uwaga.decoder.Decoder.start`."""
        assert isinstance(memory, RetrievalMemory)
        return RetrievalState(self._decoder.start(memory.inner, beams), memory.datastores, beams)

    def step(self, tokens: Ids, state: State, choice: Choice) -> Step:
        """See :meth:`uwaga.decoder.Decoder.step`; candidates are chosen from the mixed distributions."""
        assert isinstance(state, RetrievalState)
        every_token = Choice(1, attention=choice.attention, all_tokens=True, features=True)
        step = self._decoder.step(tokens, state.inner, every_token)
        assert step.features is not None
        log_probs = step.log_probs.astype(np.float64)  # (rows, vocabulary)
        for row, features in enumerate(step.features):
            datastore = state.datastores[row // state.beams]
            if datastore is not None:
                mix(log_probs[row], nearest(datastore, features), datastore.tokens)
        candidates, chosen_log_probs = choose(log_probs, choice)
        return replace(
            step, tokens=candidates, log_probs=chosen_log_probs, state=replace(state, inner=step.state)
        )


def forced_features(
    decoder: Decoder, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], start: int
) -> list[Floats]:
    """Return the features from which the model predicts each token of known targets.

    Args:
        decoder: the model.
        sources: the tokens of each sentence.
        targets: the tokens of each target, end symbol included.
        start: the first decoder input.

    Returns:
        an array (target, width) for each sentence.
    """

    def features(indices: list[int]) -> list[Floats]:
        rows: list[list[Floats]] = [[] for _ in indices]
        forced_steps = force_targets(
            decoder,
            [sources[index] for index in indices],
            [targets[index] for index in indices],
            start,
            Choice(0, features=True),
        )
        for positions, _, step in forced_steps:
            assert step.features is not None
            for position, row in zip(positions.tolist(), step.features, strict=True):
                rows[position].append(row)
        return list(map(np.stack, rows))

    lengths = [max(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
    return map_batches(features, lengths, MAX_FORCED_TOKENS)
