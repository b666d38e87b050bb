"""A batch of sentences decoded step by step: trellis, beam step and pool (M21 to M25).

Unusual: hypotheses are not lists of tokens but nodes of a trellis, traced back only when a sentence is
finished; all sentences and beams take a step in the same few numpy calls; the state is reordered only when
beams change places. This file does not depend on the model, the number formats of the engine, or how
sentences are distributed over batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from uwaga.decoder import Choice, Decoder, FinishedTarget, Ids, Memory, State, Step
from uwaga.errors import ModelError
from uwaga.results.attention import Floats
from uwaga.search.banks import Banks, PhraseStates
from uwaga.search.batch import StepBatch
from uwaga.search.constraints import start_token
from uwaga.search.inputs import SearchSentence
from uwaga.search.options import SearchOptions
from uwaga.search.rank import FinishedHypotheses, Flags, Ranking, Scores, StepOutcome, gather, search_finished


@dataclass(frozen=True)
class TrellisStep:
    """The nodes of a step; each is a token that extends a node of the previous step.

    ``tokens``, ``parents``, ``log_probs`` and ``rows`` are (nodes,); ``rows`` are the decoder rows that
    proposed the nodes, which are also the rows of ``attention`` (rows, source).
    """

    tokens: Ids
    parents: Ids
    log_probs: Scores
    rows: Ids
    attention: Floats | None


@dataclass(frozen=True)
class TargetPath:
    """The tokens of a hypothesis, end symbol included, with ``attention`` (target, source)."""

    tokens: Ids
    log_probs: Scores
    attention: Floats | None


class Trellis:
    """The nodes of each step of a batch; a node is referred to by its index among the nodes of its step.

    The first token of a sentence that enters the batch after ``start`` steps is in step ``start``.
    """

    def __init__(self) -> None:
        self._steps: list[TrellisStep] = []

    def append(self, step: TrellisStep) -> None:
        """Add the nodes of the next step."""
        self._steps.append(step)

    def paths(self, nodes: Ids, starts: Ids, depths: Ids, source_lengths: Ids) -> list[TargetPath]:
        """Return the paths that end at the given nodes.

        Args:
            nodes: (paths,) last nodes.
            starts: (paths,) first step of the sentence.
            depths: (paths,) number of tokens of each path; 0 is the empty path.
            source_lengths: (paths,) number of source tokens of the sentence, to which attention is trimmed.
        """
        max_depth, ends = int(depths.max(initial=0)), starts + depths
        current_nodes = nodes.copy()
        tokens = np.zeros((len(nodes), max_depth), dtype=np.int64)
        log_probs = np.zeros((len(nodes), max_depth), dtype=np.float64)
        rows = np.zeros((len(nodes), max_depth), dtype=np.int64)
        for index in range(int(ends.max(initial=0)) - 1, int(starts.min(initial=0)) - 1, -1):
            step = self._steps[index]
            active_indices = np.nonzero((starts <= index) & (index < ends))[0]
            node, column = current_nodes[active_indices], index - starts[active_indices]
            tokens[active_indices, column] = step.tokens[node]
            log_probs[active_indices, column] = step.log_probs[node]
            rows[active_indices, column] = step.rows[node]
            current_nodes[active_indices] = step.parents[node]
        return [
            TargetPath(
                tokens[i, :depth],
                log_probs[i, :depth],
                self._attention(rows[i, :depth], int(starts[i]), int(source_lengths[i])),
            )
            for i, depth in enumerate(depths.tolist())
        ]

    def tree(self) -> Floats:
        """Return all nodes of a batch with one sentence, in the order of the search.

        Returns:
            (nodes, 3) float32: the index of the parent, -1 for none; the token; its log-probability.
        """
        rows, first_row, size = [np.zeros((0, 3))], 0, 0
        for step in self._steps:
            parents = step.parents + first_row if size else np.full_like(step.parents, -1)
            rows.append(np.stack([parents, step.tokens, step.log_probs], axis=1))
            first_row, size = first_row + size, len(step.tokens)
        return np.concatenate(rows).astype(np.float32)

    def _attention(self, rows: Ids, start: int, source_length: int) -> Floats | None:
        """Return the attention (target, source) of a path."""
        weights = []
        for step, row in zip(self._steps[start:], rows.tolist(), strict=False):
            if step.attention is None:
                return None
            weights.append(step.attention[row, :source_length])
        if not weights:
            has_attention = self._steps and self._steps[0].attention is not None
            return np.zeros((0, source_length), dtype=np.float32) if has_attention else None
        return np.stack(weights)


IMPOSSIBLE_LOG_PROB = -1e6
"""Amount added to the rank for a forced token of probability 0; finite so that the hypothesis survives."""


def nan_error(token: int) -> ModelError:
    """Return the error for NaN log-probabilities at a target token, counted from 1."""
    return ModelError(
        f"the model's log-probabilities are not numbers at target token {token}: its weights are damaged, or "
        "overflow in this precision"
    )


@dataclass(frozen=True)
class Candidates:
    """The continuations considered in a step, best first; axes (sentences, candidates).

    ``beams`` is the beam that each candidate extends; ``log_probs`` the log-probability of its token;
    ``ranks`` the value by which hypotheses are ranked, -inf for no candidate; ``ended`` True if the
    hypothesis ends; ``truncated`` True if a limit ends it; ``phrase_states`` is None without phrases.
    """

    tokens: Ids
    beams: Ids
    log_probs: Scores
    ranks: Scores
    ended: Flags
    truncated: Flags
    phrase_states: PhraseStates | None = None


class BeamBatch(StepBatch):
    """A batch whose finished hypotheses are collected in a pool.

    Args:
        decoder: the model.
        options: how to search.
        sentences: the sentences, in the order in which they enter.
        pool_size: number of finished hypotheses after which the search of a sentence stops, at most the beam
            size; fewer if its last bank has few slots (:attr:`uwaga.search.banks.Banks.last_bank_size`).
        ranking: length normalisation; None for the one that the options specify.
    """

    # _starts, _pool_sizes (all sentences,): the step at which a sentence entered; the number of finished
    # hypotheses after which it stops.
    # _ranks, _nodes, _tokens (sentences, beams): the rank (-inf for none), the trellis node and the last
    # token of each running hypothesis.
    # _history (sentences, beams, target): the tokens of each running hypothesis, after those of a prompt,
    # padded with -1 on the left; None if n-grams are not blocked.

    def __init__(
        self,
        decoder: Decoder,
        options: SearchOptions,
        sentences: Sequence[SearchSentence],
        pool_size: int,
        ranking: Ranking | None = None,
    ) -> None:
        super().__init__(decoder, options, sentences, ranking)
        count, beams = len(sentences), options.rows
        self._ends: Ids = np.array(decoder.symbols.ends, dtype=np.int64)
        self._pool = FinishedHypotheses(count, pool_size)
        self._pool_sizes: Ids = np.full(count, pool_size, dtype=np.int64)
        self._trellis = Trellis()
        self._step_number = 0
        self._starts: Ids = np.zeros(count, dtype=np.int64)
        self._ranks: Scores = np.zeros((0, beams))
        self._nodes: Ids = np.zeros((0, beams), dtype=np.int64)
        self._tokens: Ids = np.zeros((0, beams), dtype=np.int64)
        self._history: Ids | None = None
        if options.no_repeat_ngram:
            self._history = np.zeros((0, beams, 0), dtype=np.int64)
        self._banks: Banks | None = None
        if any(sentence.phrases is not None for sentence in sentences):
            self._banks = Banks([sentence.phrases for sentence in sentences], beams, decoder.vocabulary)
            self._pool_sizes = np.minimum(
                pool_size, np.maximum(options.nbest, self._banks.last_bank_size + 1)
            )

    def _enter(self, sentences: Sequence[SearchSentence], memory: Memory) -> None:
        super()._enter(sentences, memory)
        count, beams = len(sentences), self._options.rows
        indices = self._indices[-count:]
        self._starts[indices] = self._step_number
        ranks = np.zeros((count, beams))
        if not self._options.sample:
            ranks[:, 1:] = -np.inf  # before the first token all beams are equal: only one continues
        start_tokens = np.full(
            (count, beams), start_token(self._options, self._decoder.symbols), dtype=np.int64
        )
        self._ranks = np.concatenate([self._ranks, ranks])
        self._nodes = np.concatenate([self._nodes, np.zeros_like(start_tokens)])
        self._tokens = np.concatenate([self._tokens, start_tokens])
        if self._history is not None:
            width = max(self._history.shape[2], *(len(sentence.history) for sentence in sentences))
            padding = np.full((len(self._history), beams, width - self._history.shape[2]), -1, dtype=np.int64)
            history = np.full((count, beams, width), -1, dtype=np.int64)
            for row, sentence in zip(history, sentences, strict=True):
                row[:, width - len(sentence.history) :] = sentence.history
            self._history = np.concatenate([np.concatenate([padding, self._history], axis=2), history])
        if self._banks is not None:
            self._banks.admit(indices)

    def step(self) -> StepOutcome:
        """Extend every hypothesis by a token."""
        assert self._state is not None
        self._step_number += 1
        rows = self._tokens.size
        steps = self._step_number - self._starts[self._indices]  # (sentences,)
        history = None if self._history is None else self._history.reshape(rows, -1)
        extra_tokens = None if self._banks is None else self._banks.extra_tokens(self._ranks > -np.inf)
        choice = self._constraints.choice(steps, self._indices, history, extra_tokens)
        step = self._decoder.step(self._tokens.reshape(rows), self._state, choice)
        self._check(step, steps)
        candidates = (self._candidates if self._banks is None else self._banked_candidates)(
            step, choice, steps
        )
        nodes = self._record(step, candidates)
        self._finish(candidates, nodes, steps)
        is_extended = (candidates.ranks[:, 0] > -np.inf) & ~self._is_end(candidates.tokens[:, 0])
        indices = self._indices
        is_unfinished = self._continue(candidates, nodes, step.state, steps)
        return StepOutcome(
            indices[is_extended],
            candidates.tokens[is_extended, 0],
            candidates.log_probs[is_extended, 0],
            indices[~is_unfinished],
        )

    def tree(self) -> Floats:
        """Return all nodes of a batch of one sentence; see :meth:`Trellis.tree`."""
        return self._trellis.tree()

    def finished(self, indices: Ids) -> list[list[FinishedTarget]]:
        """See :meth:`uwaga.search.batch.Batch.finished`."""
        pool = self._pool
        row, slot = np.nonzero(pool.scores[indices, : self._options.nbest] > -np.inf)
        index = indices[row]
        paths = self._trellis.paths(
            pool.nodes[index, slot], self._starts[index], pool.depths[index, slot], self._lengths[index]
        )
        scores, truncated_flags = pool.scores[index, slot].tolist(), pool.truncated[index, slot].tolist()
        nbest: list[list[FinishedTarget]] = [[] for _ in indices]
        for sentence, path, score, is_truncated in zip(
            row.tolist(), paths, scores, truncated_flags, strict=True
        ):
            tokens, log_probs = path.tokens.tolist(), path.log_probs.tolist()
            nbest[sentence].append(
                FinishedTarget(tokens, log_probs, score, is_truncated, attention=path.attention)
            )
        return nbest

    def _check(self, step: Step, steps: Ids) -> None:
        rows = len(steps) * self._options.rows
        if step.tokens.shape != step.log_probs.shape or step.tokens.shape[0] != rows:
            raise ModelError(
                f"the decoder returned tokens of shape {step.tokens.shape} and log-probabilities of shape "
                f"{step.log_probs.shape}; both must have the shape (rows, k), with {rows} rows"
            )
        if np.isnan(step.log_probs).any():
            is_nan = np.isnan(step.log_probs).any(axis=1)  # (rows,)
            raise nan_error(steps[int(np.argmax(is_nan)) // self._options.rows])

    def _candidates(self, step: Step, choice: Choice, steps: Ids) -> Candidates:
        """Return the best continuations over all beams or, when sampling, one continuation of each sample."""
        sentences, beams = self._tokens.shape
        k = step.tokens.shape[1]
        log_probs = step.log_probs.astype(np.float64).reshape(sentences, beams, k)
        ranks = self._ranks[:, :, None] + self._gains(log_probs, choice)  # (sentences, beams, k)
        if beams * k == 1:
            order = np.zeros((sentences, 1), dtype=np.int64)
        elif self._options.sample:
            order = np.broadcast_to(np.arange(beams) * k, (sentences, beams))
        else:
            flat_ranks = ranks.reshape(sentences, beams * k)
            order = np.argsort(-flat_ranks, axis=1, kind="stable")[:, : 2 * beams]  # (sentences, candidates)

        ranks = gather(ranks.reshape(sentences, beams * k), order)
        tokens = gather(step.tokens.reshape(sentences, beams * k), order)
        log_probs = gather(log_probs.reshape(sentences, beams * k), order)
        is_alive = ranks > -np.inf
        is_limited = (self._constraints.limits[self._indices] == steps)[:, None] & is_alive
        is_end = self._is_end(tokens) & is_alive
        is_truncated = is_limited if self._options.force_end else is_limited & ~is_end
        return Candidates(tokens, order // k, log_probs, ranks, is_end | is_limited, is_truncated)

    def _banked_candidates(self, step: Step, choice: Choice, steps: Ids) -> Candidates:
        """Return the continuations as :meth:`_candidates` does, with slots allocated by bank (M27)."""
        banks, (sentences, beams) = self._banks, self._tokens.shape
        assert banks is not None
        n = step.tokens.shape[1] * beams
        log_probs = step.log_probs.astype(np.float64)  # (rows, k + extra)
        if choice.extra_tokens is not None:  # drop extra tokens that are among the best
            best = step.tokens.shape[1] - choice.extra_tokens.shape[1]
            duplicates = (step.tokens[:, None, :best] == choice.extra_tokens[:, :, None]) & (
                log_probs[:, None, :best] > -np.inf
            )  # (rows, extra, best)
            log_probs[:, best:][duplicates.any(axis=2)] = -np.inf
        ranks = self._ranks[:, :, None] + self._gains(log_probs.reshape(sentences, beams, -1), choice)
        ranks = ranks.reshape(sentences, n)
        tokens, log_probs = step.tokens.reshape(sentences, n), log_probs.reshape(sentences, n)
        parent_beams = np.broadcast_to(np.arange(n) // step.tokens.shape[1], (sentences, n))
        phrase_states = banks.advance(parent_beams, tokens)
        ranks = ranks + banks.gains(parent_beams, phrase_states)
        order = np.argsort(-ranks, axis=1, kind="stable")  # (sentences, n)
        ranks, tokens, log_probs = gather(ranks, order), gather(tokens, order), gather(log_probs, order)
        phrase_states, parent_beams = phrase_states.select(order), gather(parent_beams, order)

        is_alive = ranks > -np.inf
        at_limit = self._constraints.limits[self._indices] == steps  # (sentences,)
        is_limited = at_limit[:, None] & is_alive
        is_end = self._is_end(tokens) & is_alive
        none_finished = at_limit & (self._pool.scores[self._indices, 0] == -np.inf)
        is_ended = is_end | is_limited
        is_alive &= ~is_ended | banks.may_end(phrase_states.banks, is_alive, none_finished)
        is_selected = banks.allocate(phrase_states.banks, is_alive)
        is_selected |= banks.allocate(phrase_states.banks, is_alive & ~is_ended)
        keep = np.argsort(~is_selected, axis=1, kind="stable")[:, : 2 * beams]  # (sentences, candidates)
        is_selected = gather(is_selected, keep)
        is_truncated = is_limited if self._options.force_end else is_limited & ~is_end
        return Candidates(
            gather(tokens, keep),
            gather(parent_beams, keep),
            gather(log_probs, keep),
            np.where(is_selected, gather(ranks, keep), -np.inf),
            gather(is_ended, keep) & is_selected,
            gather(is_truncated, keep) & is_selected,
            phrase_states.select(keep),
        )

    def _is_end(self, tokens: Ids) -> Flags:
        """Return a mask of the tokens that end a target."""
        return np.asarray((tokens[..., None] == self._ends).any(axis=-1))

    def _gains(self, log_probs: Scores, choice: Choice) -> Scores:
        """Return the value (sentences, beams, k) that each candidate adds to the rank of its hypothesis."""
        if choice.forced is None:
            return log_probs
        is_forced = (choice.forced >= 0).reshape(log_probs.shape[:2])
        gains = log_probs.copy()
        gains[is_forced, 0] = (
            np.maximum(gains[is_forced, 0], IMPOSSIBLE_LOG_PROB)
            if self._options.score_forced is True
            else 0.0
        )
        return gains

    def _record(self, step: Step, candidates: Candidates) -> Ids:
        """Append the candidates to the trellis, and return their nodes (sentences, candidates)."""
        rows = candidates.beams + np.arange(len(self._indices))[:, None] * self._options.rows
        self._trellis.append(
            TrellisStep(
                tokens=candidates.tokens.ravel(),
                parents=self._nodes.ravel()[rows.ravel()],
                log_probs=candidates.log_probs.ravel(),
                rows=rows.ravel(),
                attention=step.attention,
            )
        )
        return np.arange(rows.size).reshape(rows.shape)

    def _finish(self, candidates: Candidates, nodes: Ids, steps: Ids) -> None:
        """Add ended hypotheses to the pool and, for a sentence without other hypotheses, those that cannot
        continue.
        """
        # Only hypotheses among the best `beam` are finished; banks have already selected them.
        beams = candidates.ended.shape[1] if self._banks is not None else self._options.rows
        is_ended = candidates.ended[:, :beams]
        sentences = np.nonzero(is_ended.any(axis=1))[0]
        if len(sentences):
            scores = np.where(
                is_ended[sentences],
                self._scores(candidates.ranks[sentences, :beams], sentences, steps),
                -np.inf,
            )
            self._pool.add(
                self._indices[sentences],
                scores,
                nodes[sentences, :beams],
                steps[sentences],
                candidates.truncated[sentences, :beams],
            )
        continued = candidates.ranks > -np.inf
        if continued.all():
            return
        is_stuck = self._is_stuck(continued)  # (sentences, beams)
        sentences = np.nonzero(is_stuck.any(axis=1))[0]
        if len(sentences):
            scores = np.where(
                is_stuck[sentences], self._scores(self._ranks[sentences], sentences, steps - 1), -np.inf
            )
            self._pool.add(
                self._indices[sentences],
                scores,
                self._nodes[sentences],
                steps[sentences] - 1,
                is_stuck[sentences],
            )

    def _is_stuck(self, continued: Flags) -> Flags:
        """Return a mask (sentences, beams) of hypotheses to truncate because all tokens are banned.

        In beam search, they are truncated only if no beam of the sentence continues and none has finished.

        Args:
            continued: (sentences, candidates) True where there is a continuation.
        """
        is_alive = self._ranks > -np.inf
        if self._options.sample:
            return np.asarray(is_alive & ~continued)
        is_dead_end = ~continued.any(axis=1) & (self._pool.scores[self._indices, 0] == -np.inf)
        return np.asarray(is_alive & is_dead_end[:, None])

    def _scores(self, ranks: Scores, sentences: Ids, depths: Ids) -> Scores:
        """Return the scores (selected, candidates) of hypotheses with the given ranks.

        ``sentences`` (selected,) are the sentences of ``ranks``; ``depths`` (all sentences,) are lengths.
        """
        return np.asarray(ranks / self._ranking.divisor(self._scored_lengths(depths)[sentences])[:, None])

    def _scored_lengths(self, depths: Ids) -> Ids:
        return np.asarray(depths - self._constraints.uncounted[self._indices])

    def _continue(self, candidates: Candidates, nodes: Ids, state: State, steps: Ids) -> Flags:
        """Continue the hypotheses that did not end; return a mask (sentences,) of unfinished sentences."""
        sentences, beams = self._tokens.shape
        is_stopped = candidates.ended | (candidates.ranks == -np.inf)  # (sentences, candidates)
        if is_stopped.shape[1] == 1:
            keep = np.zeros((sentences, 1), dtype=np.int64)
        elif self._options.sample:
            keep = np.broadcast_to(np.arange(beams), (sentences, beams))
        else:
            keep = np.argsort(is_stopped, axis=1, kind="stable")[:, :beams]  # (sentences, beams)
        ranks = gather(np.where(is_stopped, -np.inf, candidates.ranks), keep)
        phrase_states = None if candidates.phrase_states is None else candidates.phrase_states.select(keep)
        is_unfinished = self._is_undecided(ranks, steps, phrase_states)
        parent_beams = gather(candidates.beams, keep)  # (sentences, beams)
        tokens = gather(candidates.tokens, keep)
        nodes = gather(nodes, keep)
        remaining_sentences = np.nonzero(is_unfinished)[0]
        if len(remaining_sentences) < sentences:
            ranks = ranks[remaining_sentences]
            tokens = tokens[remaining_sentences]
            nodes = nodes[remaining_sentences]
            parent_beams = parent_beams[remaining_sentences]
            self._indices = self._indices[remaining_sentences]
        if self._banks is not None and phrase_states is not None:
            self._banks.update(phrase_states, remaining_sentences)
        self._ranks, self._tokens, self._nodes = ranks, tokens, nodes
        if self._history is not None:
            history = gather(self._history[remaining_sentences], parent_beams)
            self._history = np.concatenate([history, self._tokens[:, :, None]], axis=2)
        self._state = _reorder(state, remaining_sentences, parent_beams, sentences)
        return is_unfinished

    def _is_undecided(self, ranks: Scores, steps: Ids, phrase_states: PhraseStates | None) -> Flags:
        """Return a mask (sentences,) of sentences whose result another step can change.

        ``ranks`` are the ranks of the running hypotheses.
        """
        if self._banks is not None and phrase_states is not None:
            ranks = ranks + self._banks.potential(phrase_states.banks)
        best_ranks = ranks.max(axis=1)
        is_running: Flags = best_ranks > -np.inf
        if self._options.sample or self._options.beam == 1 or not is_running.any():
            return is_running
        longest = self._constraints.limits[self._indices] - self._constraints.uncounted[self._indices]
        finished_scores, pool_sizes = self._pool.scores[self._indices], self._pool_sizes[self._indices]
        lengths = self._scored_lengths(steps)
        return is_running & ~search_finished(
            self._options, self._ranking, best_ranks, finished_scores, pool_sizes, lengths, longest
        )


def _reorder(state: State, sentences: Ids, parent_beams: Ids, count: int) -> State:
    """Return the state of the remaining sentences, with each row replaced by the row that it extends.

    Args:
        state: a state of ``count`` sentences.
        sentences: (remaining,) the remaining sentences.
        parent_beams: (remaining, beams) the beam that each beam extends.
        count: number of sentences of the state.
    """
    if not len(sentences):
        return state
    if len(sentences) < count:
        state = state.select(sentences)
    beams = parent_beams.shape[1]
    if beams == 1:
        return state
    if (parent_beams == np.arange(beams)).all():
        return state
    return state.reorder((parent_beams + np.arange(len(sentences))[:, None] * beams).ravel())
