"""Entropy of the model's distribution at each token of a hypothesis (M22)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from uwaga.decoder import Choice, Decoder, LogProbs
from uwaga.results.translation import Hypothesis
from uwaga.search.constraints import start_token
from uwaga.search.forcing import force_targets
from uwaga.search.inputs import SearchInput
from uwaga.search.length_batching import map_batches
from uwaga.search.options import SearchOptions

MAX_LOG_PROBS = 1 << 24
"""Maximum number of log-probabilities that a step of forced decoding returns."""


def entropy(log_probs: LogProbs) -> NDArray[np.float64]:
    """Return ``H = -Σ p log p`` in nats, between 0 and the logarithm of the vocabulary size.

    Args:
        log_probs: (rows, vocabulary), -inf for tokens of probability 0.

    Returns:
        (rows,) float64.
    """
    table = log_probs.astype(np.float64)  # (rows, vocabulary)
    shares = -np.exp(table) * np.where(np.isneginf(table), 0.0, table)
    return np.asarray(np.clip(shares.sum(axis=1), 0.0, np.log(table.shape[1])))


def with_entropies(
    decoder: Decoder,
    sentences: Sequence[SearchInput],
    nbest_lists: Sequence[Sequence[Hypothesis]],
    options: SearchOptions,
) -> list[list[Hypothesis]]:
    """Return the hypotheses with the entropy at each token, which is measured by forced decoding.

    The entropy is that of the model's own distribution over the complete vocabulary, regardless of banned or
    forced tokens, of sampling and of datastores.

    Args:
        decoder: the model.
        sentences: the sentences that the hypotheses translate.
        nbest_lists: hypotheses of each sentence.
        options: the options of the search.
    """
    positions = [
        (index, hypothesis_index)
        for index, hypothesis_list in enumerate(nbest_lists)
        for hypothesis_index in range(len(hypothesis_list))
    ]
    results = [list(hypothesis_list) for hypothesis_list in nbest_lists]
    start, end = start_token(options, decoder.symbols), decoder.symbols.end
    targets = [
        [*results[index][hypothesis_index].tokens, end][: len(results[index][hypothesis_index].token_scores)]
        for index, hypothesis_index in positions
    ]

    def entropies(batch: list[int]) -> list[tuple[float, ...]]:
        values: list[list[float]] = [[] for _ in batch]
        sources = [sentences[positions[item][0]].ids for item in batch]
        every_token = Choice(count=1, all_tokens=True)
        forced_steps = force_targets(decoder, sources, [targets[item] for item in batch], start, every_token)
        for rows, _, step in forced_steps:
            for row, value in zip(rows.tolist(), entropy(step.log_probs).tolist(), strict=True):
                values[row].append(value)
        return list(map(tuple, values))

    lengths = [
        max(len(sentences[index].ids), len(target))
        for (index, _), target in zip(positions, targets, strict=True)
    ]
    budget = max(1, min(options.batch_tokens, MAX_LOG_PROBS // decoder.vocabulary))
    for (index, hypothesis_index), values in zip(
        positions, map_batches(entropies, lengths, budget), strict=True
    ):
        results[index][hypothesis_index] = replace(results[index][hypothesis_index], entropies=values)
    return results
