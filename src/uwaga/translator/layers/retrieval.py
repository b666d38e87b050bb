"""Datastores of sentences, from the pairs of a translation memory that are similar to their texts (M44)."""

from __future__ import annotations

from collections.abc import Sequence

from uwaga.errors import DataError
from uwaga.translator.memories import state_store
from uwaga.translator.plan import Stage
from uwaga.translator.states import datastore
from uwaga.translator.text import Passage, TokenPair


def add_datastores(stage: Stage, passages: Sequence[Passage]) -> None:
    """Set the datastores of passages' sentences: all of a passage's sentences have those of its examples."""
    store = state_store(stage.memory)
    read = dict[Passage, list[TokenPair]]()
    for passage in passages:
        for example in passage.examples:
            try:
                [pair] = stage.model.pair_ids([example])
            except DataError:  # too long for the model
                continue
            read.setdefault(passage, []).append(TokenPair(tuple(pair.source), tuple(pair.target)))
    if store is None or not read:
        return
    cache, pairs = stage.model.states, [pair for each in read.values() for pair in each]
    radius = cache.radius(stage.model, store)
    states = dict(zip(pairs, cache.states(stage.model, pairs, store), strict=True))
    for passage, examples in read.items() if radius > 0 else ():
        similar = datastore([states[pair] for pair in examples], radius)
        for sentence in passage.sentences:
            sentence.datastore = similar
