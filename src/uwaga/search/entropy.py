"""Entropy of the model's distribution at each token of a hypothesis (M22)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from uwaga.decoder import Choice, Decoder, Ids, LogProbs
from uwaga.results.translation import Hypothesis
from uwaga.search.constraints import start_token
from uwaga.search.inputs import SearchInput
from uwaga.search.length_batching import length_batches
from uwaga.search.options import SearchOptions

MAX_LOGITS = 1 << 24
"""Maximum number of log-probabilities in a step."""


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
    """Return hypotheses with the entropy at each token, by force-decoding them.

    The entropy is that of the model's own distribution over the complete vocabulary, regardless of banned or
    forced tokens, of sampling and of datastores.

    Args:
        decoder: the model.
        sentences: what the hypotheses translate.
        nbest_lists: hypotheses of each sentence.
        options: those of the search.
    """
    start = start_token(options, decoder.symbols)
    positions = [
        (index, number)
        for index, hypothesis_list in enumerate(nbest_lists)
        for number in range(len(hypothesis_list))
    ]
    results = [list(hypothesis_list) for hypothesis_list in nbest_lists]
    lengths = [
        max(len(sentences[index].ids), len(results[index][number].token_scores))
        for index, number in positions
    ]
    budget = max(1, min(options.batch_tokens, MAX_LOGITS // decoder.vocabulary))
    for batch in length_batches(lengths, 1, budget):
        # Longest first, so that finished ones are at the end.
        ordered = sorted(
            (positions[number_in_batch] for number_in_batch in batch),
            key=lambda position: -len(results[position[0]][position[1]].token_scores),
        )
        hypotheses = [results[index][number] for index, number in ordered]
        sources = [sentences[index].ids for index, _ in ordered]
        entropies = _forced_entropies(decoder, sources, hypotheses, start)
        for (index, number), values in zip(ordered, entropies, strict=True):
            results[index][number] = replace(results[index][number], entropies=tuple(values))
    return results


def _forced_entropies(
    decoder: Decoder, sources: Sequence[Sequence[int]], hypotheses: Sequence[Hypothesis], start: int
) -> list[list[float]]:
    """Return the entropy at each token of hypotheses, which are sorted longest first."""
    lengths = np.array([len(hypothesis.token_scores) for hypothesis in hypotheses])  # (hypotheses,) falling
    inputs: Ids = np.full((len(hypotheses), int(lengths[0])), start, dtype=np.int64)  # (hypotheses, target)
    for row, hypothesis in enumerate(hypotheses):
        prefix = hypothesis.tokens[: max(0, len(hypothesis.token_scores) - 1)]
        inputs[row, 1 : 1 + len(prefix)] = prefix
    entropies: list[list[float]] = [[] for _ in hypotheses]
    state, rows = decoder.start(decoder.encode(sources), 1), len(hypotheses)
    all_tokens = Choice(count=1, all_tokens=True)
    for position in range(inputs.shape[1]):
        running = int((lengths > position).sum())
        if running < rows:
            state, rows = state.select(np.arange(running)), running
        step = decoder.step(inputs[:running, position], state, all_tokens)
        state = step.state
        for row, value in enumerate(entropy(step.log_probs).tolist()):
            entropies[row].append(value)
    return entropies
