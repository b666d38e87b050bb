"""How undecided a model was at each token that it made: the entropy of its distribution there (M22)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from uwaga.decoder import Choice, Decoder, Ids, LogProbs
from uwaga.results.translation import Hypothesis
from uwaga.search.length_batching import length_batches

MOST_LOGITS = 1 << 24
"""Log-probabilities of a step that are looked at together."""


def entropy(log_probs: LogProbs) -> NDArray[np.float64]:
    """``H = -Σ p log p`` in nats, between 0 and the logarithm of the vocabulary.

    Args:
        log_probs: (rows, vocabulary) of whole distributions, -inf where a token has no probability.

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
    """Hypotheses with the entropy at each of their tokens, by leading the decoder along them once more.

    It is of the model's own distribution over its whole vocabulary, whatever was banned, forced or drawn.

    Args:
        decoder: the model.
        sources: token ids of each sentence, with its end symbol.
        lists: the hypotheses of each.
        start: token that decoding starts from.
        batch_tokens: tokens worked on together, padding counted.
    """
    places = [(index, number) for index, found in enumerate(lists) for number in range(len(found))]
    made = [list(found) for found in lists]
    lengths = [max(len(sources[at]), len(made[at][number].token_scores)) for at, number in places]
    budget = max(1, min(batch_tokens, MOST_LOGITS // decoder.vocabulary))
    for batch in length_batches(lengths, 1, budget):
        # The longest first, so that those that are done stand at the end.
        here = sorted((places[one] for one in batch), key=lambda at: -len(made[at[0]][at[1]].token_scores))
        hypotheses = [made[at][number] for at, number in here]
        found = _forced_entropies(decoder, [sources[at] for at, _ in here], hypotheses, start)
        for (at, number), values in zip(here, found, strict=True):
            made[at][number] = replace(made[at][number], entropies=tuple(values))
    return made


def _forced_entropies(
    decoder: Decoder, sources: Sequence[Sequence[int]], hypotheses: Sequence[Hypothesis], start: int
) -> list[list[float]]:
    """The entropy at each token of hypotheses, which come longest first."""
    lengths = np.array([len(one.token_scores) for one in hypotheses])  # (hypotheses,) falling
    fed: Ids = np.full((len(hypotheses), int(lengths[0])), start, dtype=np.int64)  # (hypotheses, target)
    for row, one in enumerate(hypotheses):
        before = one.tokens[: max(0, len(one.token_scores) - 1)]
        fed[row, 1 : 1 + len(before)] = before
    found: list[list[float]] = [[] for _ in hypotheses]
    state, rows = decoder.start(decoder.encode(sources), 1), len(hypotheses)
    whole = Choice(count=1, whole=True)
    for position in range(fed.shape[1]):
        running = int((lengths > position).sum())
        if running < rows:
            state, rows = state.select(np.arange(running)), running
        step = decoder.step(fed[:running, position], state, whole)
        state = step.state
        for row, value in enumerate(entropy(step.log_probs).tolist()):
            found[row].append(value)
    return found
