"""Decoders that adjust or normalise the distribution of the next token as CTranslate2 does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from uwaga.decoder import Choice, Decoder, Ids, Memory, Sampling, State, Step
from uwaga.search.choose import choose
from uwaga.search.retrieval import StepwiseDecoder

Logits = NDArray[np.float64]
Adjustment = Callable[[Logits, Ids], None]
"""Type of functions that change logits (rows, vocabulary) in place, given the tokens (rows, steps) so far."""


def repetition_penalty(penalty: float) -> Adjustment:
    """Return an adjustment that makes the previous tokens of a row less probable.

    Positive logits are divided by the penalty, negative logits are multiplied by it (Keskar et al. 2019,
    §4.1, as in CTranslate2 and ``transformers``).
    """

    def adjust(logits: Logits, generated_ids: Ids) -> None:
        rows = np.arange(len(generated_ids))[:, None]
        previous_logits = logits[rows, generated_ids]
        logits[rows, generated_ids] = np.where(
            previous_logits < 0, previous_logits * penalty, previous_logits / penalty
        )

    return adjust


def suppress_sequences(sequences: Sequence[Sequence[int]]) -> Adjustment:
    """Return an adjustment that prevents the given sequences of tokens.

    The last token of a sequence is suppressed in rows that end with the sequence's other tokens.
    """

    def adjust(logits: Logits, generated_ids: Ids) -> None:
        for *prefix, last_token in sequences:
            length = len(prefix)
            if length <= generated_ids.shape[1]:
                matches = (generated_ids[:, generated_ids.shape[1] - length :] == prefix).all(axis=1)
                logits[matches, last_token] = -np.inf

    return adjust


def bias_prefix(prefix: Sequence[int], beta: float) -> Adjustment:
    """Return an adjustment that favours a prefix without forcing it.

    In rows that have followed the prefix so far, a share ``beta`` of the probability is moved to the prefix's
    next token: ``p'(y) = (1 - beta) p(y) + beta [y = next]``.
    """

    def adjust(logits: Logits, generated_ids: Ids) -> None:
        steps = generated_ids.shape[1]
        if steps >= len(prefix):
            return
        follows_prefix = (generated_ids == prefix[:steps]).all(axis=1)
        total = np.logaddexp.reduce(logits[follows_prefix], axis=1, keepdims=True)
        biased = logits[follows_prefix] - total + np.log1p(-beta)
        biased[:, prefix[steps]] = np.logaddexp(biased[:, prefix[steps]], np.log(beta))
        logits[follows_prefix] = biased

    return adjust


class RandomDraws:
    """A random generator with the same draws as CTranslate2's (``mt19937`` and ``discrete_distribution``).

    Args:
        seed: the seed, an unsigned integer of 32 bits.
    """

    def __init__(self, seed: int) -> None:
        self._generator = np.random.RandomState(seed)  # its seeds are those of std::mt19937

    def draw(self, logits: Logits, sampling: Sampling) -> int:
        """Return the id of a token drawn from the distribution of the logits (vocabulary,)."""
        order = np.argsort(-logits, kind="stable")
        ids = order[: sampling.top_k] if 0 < sampling.top_k < len(logits) else np.arange(len(logits))
        weights = np.exp((logits[ids] - logits[order[0]]) / sampling.temperature)
        weights /= weights.sum()
        if sampling.top_p < 1:
            descending_order = np.argsort(-weights, kind="stable")
            preceding_mass = np.cumsum(weights[descending_order]) - weights[descending_order]
            weights[descending_order[preceding_mass >= sampling.top_p]] = 0
        cumulative = np.cumsum(weights / weights.sum())
        low, high = self._generator.randint(0, 1 << 32, size=2, dtype=np.uint32).tolist()
        index = int(np.searchsorted(cumulative, (low + (high << 32)) / 2**64))
        return int(ids[min(index, len(ids) - 1)])


@dataclass(frozen=True)
class AdjustedState:
    """The state of the decoder, and the inputs of the adjustments.

    Attributes:
        inner: the state of the model.
        token_ids: ids of the tokens fed to the decoder so far, beginning with the start token, (rows, steps).
        draws: the generator of random draws for each sentence, which the sentence's rows use in turn.
        beams: number of rows per sentence.
    """

    inner: State
    token_ids: Ids
    draws: Sequence[RandomDraws]
    beams: int

    def reorder(self, rows: Ids) -> AdjustedState:
        """See :meth:`uwaga.decoder.State.reorder`."""
        return replace(self, inner=self.inner.reorder(rows), token_ids=self.token_ids[rows])

    def select(self, sentences: Ids) -> AdjustedState:
        """See :meth:`uwaga.decoder.State.select`."""
        rows = (np.asarray(sentences)[:, None] * self.beams + np.arange(self.beams)).ravel()
        draws = [self.draws[sentence] for sentence in sentences] if self.draws else []
        return AdjustedState(self.inner.select(sentences), self.token_ids[rows], draws, self.beams)


class AdjustedDecoder(StepwiseDecoder):
    """A decoder that adjusts the distribution of the next token before the search uses it.

    Args:
        decoder: the decoder whose distributions are adjusted.
        adjustments: the adjustments, which are applied in this order at every step.
        seed: seed of the random draws for each sentence, as in CTranslate2; None to leave sampling to the
            search.
    """

    def __init__(self, decoder: Decoder, adjustments: Sequence[Adjustment], seed: int | None = None) -> None:
        super().__init__(decoder)
        self._adjustments, self._seed = adjustments, seed

    def encode(self, sources: Sequence[Sequence[int]]) -> Memory:
        """See :meth:`uwaga.decoder.Decoder.encode`."""
        return self._decoder.encode(sources)

    def start(self, memory: Memory, beams: int) -> AdjustedState:
        """See :meth:`uwaga.decoder.Decoder.start`."""
        token_ids = np.zeros((memory.sentences * beams, 0), dtype=np.int64)
        draws = [] if self._seed is None else [RandomDraws(self._seed) for _ in range(memory.sentences)]
        return AdjustedState(self._decoder.start(memory, beams), token_ids, draws, beams)

    def step(self, tokens: Ids, state: State, choice: Choice) -> Step:
        """Return the result of a step, with tokens chosen from the adjusted distribution."""
        assert isinstance(state, AdjustedState)
        full_choice = Choice(self.vocabulary, attention=choice.attention, all_tokens=True, logits=True)
        step = self._decoder.step(tokens, state.inner, full_choice)
        token_ids = np.concatenate([state.token_ids, tokens[:, None]], axis=1)
        logits = step.log_probs.astype(np.float64)  # (rows, vocabulary)
        if choice.banned is not None:
            logits[choice.banned[:, 0], choice.banned[:, 1]] = -np.inf
        for adjust in self._adjustments:
            adjust(logits, token_ids[:, 1:])
        choice, next_state = (
            replace(choice, banned=None),
            replace(state, inner=step.state, token_ids=token_ids),
        )
        if state.draws:
            choice = self._sample(logits, choice, next_state)
        candidates, log_probs = choose(logits, choice)
        return Step(candidates, log_probs, next_state, step.attention)

    def _sample(self, logits: Logits, choice: Choice, state: AdjustedState) -> Choice:
        """Draw a token for each row, and return a choice that forces these tokens.

        As in CTranslate2, rows with forced tokens use up random numbers, and finished rows do not.
        """
        assert choice.sampling is not None
        tokens = np.full(len(logits), self.symbols.end)
        is_finished = np.isin(state.token_ids[:, -1], self.symbols.ends) & (state.token_ids.shape[1] > 1)
        for row in np.flatnonzero(~is_finished).tolist():
            tokens[row] = state.draws[row // state.beams].draw(logits[row], choice.sampling)
        if choice.forced is not None:
            tokens = np.where(choice.forced < 0, tokens, choice.forced)
        return replace(choice, sampling=None, forced=tokens)


class SinglePrecisionDecoder(AdjustedDecoder):
    """A decoder that scores forced tokens with logits normalised in float32, as CTranslate2 does.

    uwaga's other decoders normalise in float64. At a logit of 10, the precision of float32 is 0.000001.
    """

    def __init__(self, decoder: Decoder) -> None:
        super().__init__(decoder, [])

    def step(self, tokens: Ids, state: State, choice: Choice) -> Step:
        """Return the result of a step with the forced tokens and their log-probabilities."""
        assert isinstance(state, AdjustedState)
        assert choice.forced is not None
        step = self._decoder.step(tokens, state.inner, Choice(self.vocabulary, all_tokens=True, logits=True))
        logits = np.asarray(step.log_probs, dtype=np.float32)  # (rows, vocabulary)
        forced_logits, top = logits[np.arange(len(logits)), choice.forced], logits.max(axis=1)
        logits -= top[:, None]
        np.exp(logits, out=logits)
        log_probs = forced_logits - (top + np.log(logits.sum(axis=1)))
        return Step(choice.forced[:, None], log_probs[:, None], replace(state, inner=step.state))
