"""Entropy of the model's distribution at each token of a hypothesis (M22)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from uwaga.decoder import Choice, Decoder, Ids, LogProbs
from uwaga.results.translation import Hypothesis
from uwaga.search.length_batching import length_batches

MAX_LOGITS = 1 << 24
"""Maximum log-probabilities of a step processed at once."""


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
    sources: Sequence[Sequence[int]],
    lists: Sequence[Sequence[Hypothesis]],
    start: int,
    batch_tokens: int,
) -> list[list[Hypothesis]]:
    """Return hypotheses with the entropy at each token, by force-decoding them.

    The entropy is that of the model's own distribution over the whole vocabulary, regardless of banned or
    forced tokens and of sampling.

    Args:
        decoder: the model.
        sources: token ids of each sentence, with its end symbol.
        lists: hypotheses of each sentence.
        start: token that decoding starts from.
        batch_tokens: tokens processed together, counting padding.
    """
    places = [
        (index, number)
        for index, hypothesis_list in enumerate(lists)
        for number in range(len(hypothesis_list))
    ]
    results = [list(hypothesis_list) for hypothesis_list in lists]
    lengths = [max(len(sources[at]), len(results[at][number].token_scores)) for at, number in places]
    budget = max(1, min(batch_tokens, MAX_LOGITS // decoder.vocabulary))
    for batch in length_batches(lengths, 1, budget):
        # Longest first, so that finished ones are at the end.
        ordered = sorted(
            (places[number_in_batch] for number_in_batch in batch),
            key=lambda at: -len(results[at[0]][at[1]].token_scores),
        )
        hypotheses = [results[at][number] for at, number in ordered]
        hypothesis_list = _forced_entropies(decoder, [sources[at] for at, _ in ordered], hypotheses, start)
        for (at, number), values in zip(ordered, hypothesis_list, strict=True):
            results[at][number] = replace(results[at][number], entropies=tuple(values))
    return results


def _forced_entropies(
    decoder: Decoder, sources: Sequence[Sequence[int]], hypotheses: Sequence[Hypothesis], start: int
) -> list[list[float]]:
    """Return the entropy at each token of hypotheses, which are sorted longest first."""
    lengths = np.array([len(hypothesis.token_scores) for hypothesis in hypotheses])  # (hypotheses,) falling
    fed: Ids = np.full((len(hypotheses), int(lengths[0])), start, dtype=np.int64)  # (hypotheses, target)
    for row, hypothesis in enumerate(hypotheses):
        before = hypothesis.tokens[: max(0, len(hypothesis.token_scores) - 1)]
        fed[row, 1 : 1 + len(before)] = before
    entropies: list[list[float]] = [[] for _ in hypotheses]
    state, rows = decoder.start(decoder.encode(sources), 1), len(hypotheses)
    every_token = Choice(count=1, all_tokens=True)
    for position in range(fed.shape[1]):
        running = int((lengths > position).sum())
        if running < rows:
            state, rows = state.select(np.arange(running)), running
        step = decoder.step(fed[:running, position], state, every_token)
        state = step.state
        for row, value in enumerate(entropy(step.log_probs).tolist()):
            entropies[row].append(value)
    return entropies
