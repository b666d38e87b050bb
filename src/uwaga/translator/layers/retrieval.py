"""Datastores for sentences, from similar pairs of a translation memory (M44)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from uwaga.translator.memories import state_store
from uwaga.translator.model import Model
from uwaga.translator.plan import Stage
from uwaga.translator.states import build_datastore, readable_pairs
from uwaga.translator.text import Example, Passage, TokenPair

MAX_STATES = 512
"""Maximum number of states in a datastore; the most similar pair is used even if it has more states."""


def add_datastores(stage: Stage, passages: Sequence[Passage]) -> None:
    """Set the datastores of sentences; all sentences of a passage share one datastore."""
    store = state_store(stage.memory)
    pairs_by_passage = dict[Passage, list[TokenPair]]()
    for passage in passages:
        if retrieved := pairs_to_retrieve(stage.model, passage.examples):
            pairs_by_passage[passage] = [pair for _, pair in retrieved]
    if store is None or not pairs_by_passage:
        return
    cache, pairs = (
        stage.model.states,
        [pair for passage_pairs in pairs_by_passage.values() for pair in passage_pairs],
    )
    radius = cache.radius(stage.model, store)
    states = cache.states(stage.model, pairs, store)
    for passage, passage_pairs in pairs_by_passage.items() if radius > 0 else ():
        shared_datastore = build_datastore([states[pair] for pair in passage_pairs], radius)
        for sentence in passage.sentences:
            sentence.datastore = shared_datastore


def pairs_to_retrieve(model: Model, examples: Sequence[Example]) -> list[tuple[Example, TokenPair]]:
    """Return the examples whose states are looked up, each with its tokens.

    These are the first examples that are not too long for the model and together have at most
    :data:`MAX_STATES` states, but at least one example.
    """
    readable = [
        (example, pair) for example in examples for pair in readable_pairs(model, [example.plain_texts])
    ]
    state_counts = list(accumulate(len(pair.target) for _, pair in readable))
    return readable[: max(1, bisect_right(state_counts, MAX_STATES))]
