"""Datastores of sentences, from the pairs of a translation memory that are similar to their texts (M44)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from uwaga.translator.memories import state_store
from uwaga.translator.plan import Stage
from uwaga.translator.states import datastore, readable_pairs
from uwaga.translator.text import Passage, TokenPair

MAX_STATES = 512
"""States of a datastore. The pairs that are most similar come first; a longer one is used if it is alone."""


def add_datastores(stage: Stage, passages: Sequence[Passage]) -> None:
    """Set the datastores of passages' sentences: all of a passage's sentences have those of its examples."""
    store = state_store(stage.memory)
    read = {
        passage: _most_similar(pairs)
        for passage in passages
        if (pairs := readable_pairs(stage.model, passage.examples))
    }
    if store is None or not read:
        return
    cache, pairs = stage.model.states, [pair for each in read.values() for pair in each]
    radius = cache.radius(stage.model, store)
    states = cache.states(stage.model, pairs, store)
    for passage, examples in read.items() if radius > 0 else ():
        similar = datastore([states[pair] for pair in examples], radius)
        for sentence in passage.sentences:
            sentence.datastore = similar


def _most_similar(pairs: Sequence[TokenPair]) -> Sequence[TokenPair]:
    """Return the first pairs that have :data:`MAX_STATES` states together, at least one."""
    states = list(accumulate(len(pair.target) for pair in pairs))
    return pairs[: max(1, bisect_right(states, MAX_STATES))]
