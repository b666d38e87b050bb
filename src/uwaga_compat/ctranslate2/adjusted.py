"""Decoders with the distributions of CTranslate2: adjusted by penalties, and normalised in float32."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from uwaga.decoder import Choice, Decoder, Ids, Memory, Sampling, State, Step
from uwaga.search.choose import choose
from uwaga.search.stepwise import StepwiseDecoder

Table = NDArray[np.float64]
Adjustment = Callable[[Table, Ids], None]
"""Changes the logits (rows, vocabulary) in place, given the tokens (rows, steps) of each row."""


def repetition_penalty(penalty: float) -> Adjustment:
    """Divide the positive logits of a row's previous tokens by a penalty, and multiply the negative ones.

    Keskar et al. 2019, §4.1, as CTranslate2 and ``transformers`` compute it.
    """

    def adjust(logits: Table, written: Ids) -> None:
        rows = np.arange(len(written))[:, None]
        previous = logits[rows, written]
        logits[rows, written] = np.where(previous < 0, previous * penalty, previous / penalty)

    return adjust


def suppress_sequences(sequences: Sequence[Sequence[int]]) -> Adjustment:
    """Suppress the last token of a sequence in rows that end with the sequence's other tokens."""

    def adjust(logits: Table, written: Ids) -> None:
        for *beginning, last in sequences:
            length = len(beginning)
            if length <= written.shape[1]:
                matches = (written[:, written.shape[1] - length :] == beginning).all(axis=1)
                logits[matches, last] = -np.inf

    return adjust


def bias_prefix(prefix: Sequence[int], beta: float) -> Adjustment:
    """Move a share of the probability to the next token of a prefix, in rows that have followed it so far.

    ``p'(y) = (1 - beta) p(y) + beta [y = next]``
    """

    def adjust(logits: Table, written: Ids) -> None:
        steps = written.shape[1]
        if steps >= len(prefix):
            return
        follows_prefix = (written == prefix[:steps]).all(axis=1)
        total = np.logaddexp.reduce(logits[follows_prefix], axis=1, keepdims=True)
        biased = logits[follows_prefix] - total + np.log1p(-beta)
        biased[:, prefix[steps]] = np.logaddexp(biased[:, prefix[steps]], np.log(beta))
        logits[follows_prefix] = biased

    return adjust


class Draws:
    """Random draws equal to CTranslate2's, which uses ``std::mt19937`` and ``std::discrete_distribution``.

    Args:
        seed: the seed, of 32 bits.
    """

    def __init__(self, seed: int) -> None:
        self._generator = np.random.RandomState(seed)  # its seeds are those of std::mt19937

    def draw(self, logits: Table, sampling: Sampling) -> int:
        """Return a token, given the logits (vocabulary,)."""
        order = np.argsort(-logits, kind="stable")
        ids = order[: sampling.top_k] if 0 < sampling.top_k < len(logits) else np.arange(len(logits))
        weights = np.exp((logits[ids] - logits[order[0]]) / sampling.temperature)
        weights /= weights.sum()
        if sampling.top_p < 1:
            descending = np.argsort(-weights, kind="stable")
            preceding = np.cumsum(weights[descending]) - weights[descending]
            weights[descending[preceding >= sampling.top_p]] = 0
        cumulative = np.cumsum(weights / weights.sum())
        low, high = self._generator.randint(0, 1 << 32, size=2, dtype=np.uint32).tolist()
        index = int(np.searchsorted(cumulative, (low + (high << 32)) / 2**64))
        return int(ids[min(index, len(ids) - 1)])


@dataclass(frozen=True)
class AdjustedState:
    """The state of the decoder, and the inputs of the adjustments.

    Attributes:
        inner: the state of the model.
        fed: (rows, steps) the tokens fed so far, the start token first.
        draws: the random draws of each sentence, in which its rows take turns.
        beams: rows of each sentence.
    """

    inner: State
    fed: Ids
    draws: Sequence[Draws]
    beams: int

    def reorder(self, rows: Ids) -> AdjustedState:
        """See :meth:`uwaga.decoder.State.reorder`."""
        return replace(self, inner=self.inner.reorder(rows), fed=self.fed[rows])

    def select(self, sentences: Ids) -> AdjustedState:
        """See :meth:`uwaga.decoder.State.select`."""
        rows = (np.asarray(sentences)[:, None] * self.beams + np.arange(self.beams)).ravel()
        draws = [self.draws[sentence] for sentence in sentences] if self.draws else []
        return AdjustedState(self.inner.select(sentences), self.fed[rows], draws, self.beams)


class AdjustedDecoder(StepwiseDecoder):
    """A decoder with adjusted distributions, which the search treats as the model's own.

    Args:
        decoder: the model.
        adjustments: applied in this order at every step.
        seed: the seed of the draws of each sentence, as in CTranslate2; None for those of the search.
    """

    def __init__(self, decoder: Decoder, adjustments: Sequence[Adjustment], seed: int | None = None) -> None:
        super().__init__(decoder)
        self._adjustments, self._seed = adjustments, seed

    def encode(self, sources: Sequence[Sequence[int]]) -> Memory:
        """See :meth:`uwaga.decoder.Decoder.encode`."""
        return self._decoder.encode(sources)

    def start(self, memory: Memory, beams: int) -> AdjustedState:
        """See :meth:`uwaga.decoder.Decoder.start`."""
        fed = np.zeros((memory.sentences * beams, 0), dtype=np.int64)
        draws = [] if self._seed is None else [Draws(self._seed) for _ in range(memory.sentences)]
        return AdjustedState(self._decoder.start(memory, beams), fed, draws, beams)

    def step(self, tokens: Ids, state: State, choice: Choice) -> Step:
        """Choose from the adjusted distribution."""
        assert isinstance(state, AdjustedState)
        full_choice = Choice(self.vocabulary, attention=choice.attention, all_tokens=True, logits=True)
        step = self._decoder.step(tokens, state.inner, full_choice)
        fed = np.concatenate([state.fed, tokens[:, None]], axis=1)
        logits = step.log_probs.astype(np.float64)  # (rows, vocabulary)
        if choice.banned is not None:
            logits[choice.banned[:, 0], choice.banned[:, 1]] = -np.inf
        for adjust in self._adjustments:
            adjust(logits, fed[:, 1:])
        choice, following = replace(choice, banned=None), replace(state, inner=step.state, fed=fed)
        if state.draws:
            choice = self._sample(logits, choice, following)
        candidates, log_probs = choose(logits, choice)
        return Step(candidates, log_probs, following, step.attention)

    def _sample(self, logits: Table, choice: Choice, state: AdjustedState) -> Choice:
        """Return a choice of the drawn tokens; forced rows use random numbers, finished rows do not."""
        assert choice.sampling is not None
        tokens = np.full(len(logits), self.symbols.end)
        finished = np.isin(state.fed[:, -1], self.symbols.ends) & (state.fed.shape[1] > 1)
        for row in np.flatnonzero(~finished).tolist():
            tokens[row] = state.draws[row // state.beams].draw(logits[row], choice.sampling)
        if choice.forced is not None:
            tokens = np.where(choice.forced < 0, tokens, choice.forced)
        return replace(choice, sampling=None, forced=tokens)


class SinglePrecision(AdjustedDecoder):
    """A decoder of forced tokens that normalises its logits in float32, as CTranslate2 does for scores.

    uwaga itself normalises in float64. At a logit of 10, float32 has steps of 0.000001.
    """

    def __init__(self, decoder: Decoder) -> None:
        super().__init__(decoder, [])

    def step(self, tokens: Ids, state: State, choice: Choice) -> Step:
        """Return the forced tokens with their log-probabilities."""
        assert isinstance(state, AdjustedState)
        assert choice.forced is not None
        step = self._decoder.step(tokens, state.inner, Choice(self.vocabulary, all_tokens=True, logits=True))
        logits = np.asarray(step.log_probs, dtype=np.float32)  # (rows, vocabulary)
        forced, top = logits[np.arange(len(logits)), choice.forced], logits.max(axis=1)
        logits -= top[:, None]
        np.exp(logits, out=logits)
        log_probs = forced - (top + np.log(logits.sum(axis=1)))
        return Step(choice.forced[:, None], log_probs[:, None], replace(state, inner=step.state))
