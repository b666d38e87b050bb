"""A batch of sentences being decoded, one token further at each step (M21 to M25)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from uwaga.decoder import Choice, Decoder, Found, Ids, State, Step
from uwaga.errors import ModelError
from uwaga.results.attention import Floats
from uwaga.results.translation import Hypothesis
from uwaga.search.banks import Banks, Reached
from uwaga.search.constraints import Constraints, start_token
from uwaga.search.options import SearchOptions
from uwaga.search.phrases import Phrases
from uwaga.search.rank import FinishedHypotheses, Flags, Ranking, Scores, columns, is_done


@dataclass(frozen=True)
class Layer:
    """The nodes of one step, each a token that extends a node of the step before.

    ``tokens``, ``parents``, ``log_probs``, ``rows``: (nodes,); ``rows`` are the decoder's rows that
    proposed them, at which ``attention`` (rows, source) is to be read.
    """

    tokens: Ids
    parents: Ids
    log_probs: Scores
    rows: Ids
    attention: Floats | None


@dataclass(frozen=True)
class Path:
    """One hypothesis read back: a row per token, end symbol included."""

    tokens: Ids
    log_probs: Scores
    attention: Floats | None


class Trellis:
    """Layers of nodes, one per step of a batch; a node is its index within its layer.

    A sentence that joined the batch after ``start`` steps has its first token in the layer after them.
    """

    def __init__(self) -> None:
        self._layers: list[Layer] = []

    def append(self, layer: Layer) -> None:
        """Add the nodes of the next step."""
        self._layers.append(layer)

    def paths(self, nodes: Ids, starts: Ids, depths: Ids, sources: Ids) -> list[Path]:
        """Walk back from nodes, all together.

        Args:
            nodes: (paths,) last nodes.
            starts: (paths,) layers before the sentence's first.
            depths: (paths,) tokens of each path; 0 is the empty path.
            sources: (paths,) source tokens of each sentence, to which attention is trimmed.
        """
        deepest, ends = int(depths.max(initial=0)), starts + depths
        here = nodes.copy()
        tokens = np.zeros((len(nodes), deepest), dtype=np.int64)
        log_probs = np.zeros((len(nodes), deepest), dtype=np.float64)
        rows = np.zeros((len(nodes), deepest), dtype=np.int64)
        for index in range(int(ends.max(initial=0)) - 1, int(starts.min(initial=0)) - 1, -1):
            layer = self._layers[index]
            reached = np.nonzero((starts <= index) & (index < ends))[0]
            at, column = here[reached], index - starts[reached]
            tokens[reached, column] = layer.tokens[at]
            log_probs[reached, column] = layer.log_probs[at]
            rows[reached, column] = layer.rows[at]
            here[reached] = layer.parents[at]
        return [
            Path(
                tokens[i, :depth],
                log_probs[i, :depth],
                self._attention(rows[i, :depth], int(starts[i]), int(sources[i])),
            )
            for i, depth in enumerate(depths.tolist())
        ]

    def _attention(self, rows: Ids, start: int, source: int) -> Floats | None:
        """The attention rows of a path, (target, source)."""
        weights = []
        for layer, row in zip(self._layers[start:], rows.tolist(), strict=False):
            if layer.attention is None:
                return None
            weights.append(layer.attention[row, :source])
        if not weights:
            known = self._layers and self._layers[0].attention is not None
            return np.zeros((0, source), dtype=np.float32) if known else None
        return np.stack(weights)


OnePath = tuple[list[int], list[float], Floats | None]
"""Tokens, their log-probabilities, and attention where it was asked for."""
IMPOSSIBLE = -1e6
"""What a forced token of probability 0 adds to a hypothesis's rank, so that it is kept all the same."""


@dataclass(frozen=True)
class StepOutcome:
    """What one step decided, of use where each sentence has one row.

    ``extended``, ``tokens``, ``log_probs``: (extended,) the sentences that got a further token, and which.
    ``done``: (done,) the sentences that are done.
    """

    extended: Ids
    tokens: Ids
    log_probs: Scores
    done: Ids


@dataclass(frozen=True)
class Candidates:
    """The continuations of one step that are looked at, best first; axes (sentences, candidates).

    ``beams`` is the beam that each continues; ``log_probs`` the token's own log-probability; ``ranks``
    that of the whole as ranked, -inf for none; ``ended`` whether it ends here; ``cut`` whether a limit
    ended it. ``reached``: where they are in the automata of their phrases, where there are any.
    """

    tokens: Ids
    beams: Ids
    log_probs: Scores
    ranks: Scores
    ended: Flags
    cut: Flags
    reached: Reached | None = None


class BeamBatch:
    """Sentences enter the batch and leave it when they are done; what they finished with stays in its pool.

    Args:
        limits: (sentences,) most steps of each sentence.
        enough: finished hypotheses that a sentence waits for, at most as many as its beams; fewer where its
            phrases leave few places to those that hold them all (:attr:`uwaga.search.banks.Banks.last`).
        phrases: what the target of each must contain; None where none must contain anything.
        ranking: how lengths count; as the options say, if None.
        uncounted: (sentences,) first tokens that do not count in scores; likewise.
    """

    # _starts, _lengths, _enough (all sentences,): steps of the batch before a sentence's first; its source
    # tokens; finished hypotheses that it waits for.
    # _indices (sentences,): which of the batch's sentences are now decoded.
    # _ranks, _nodes, _tokens (sentences, beams): of each running hypothesis the log-probability as ranked
    # (-inf where none runs), the trellis node and the last token.
    # _history (sentences, beams, target): its tokens after -1s, where n-grams are blocked.

    def __init__(
        self,
        decoder: Decoder,
        options: SearchOptions,
        sources: Sequence[Sequence[int]],
        prefixes: Sequence[Sequence[int]],
        limits: Sequence[int],
        enough: int,
        phrases: Sequence[Phrases | None] | None = None,
        *,
        ranking: Ranking | None = None,
        uncounted: Ids | None = None,
    ) -> None:
        sentences, beams = len(sources), options.rows
        self._decoder = decoder
        self._sources = sources
        self._end = decoder.symbols.end
        self._options = options
        self._constraints = Constraints(decoder, options, sources, prefixes, limits)
        if uncounted is not None:
            self._constraints.uncounted = uncounted
        self._ranking = ranking or Ranking(options.length_formula, options.length_penalty)
        self._lengths: Ids = np.array([len(source) for source in sources], dtype=np.int64)
        self._pool = FinishedHypotheses(sentences, enough)
        self._enough: Ids = np.full(sentences, enough, dtype=np.int64)
        self._trellis = Trellis()
        self._clock = self._entered = 0
        self._starts: Ids = np.zeros(sentences, dtype=np.int64)
        self._indices: Ids = np.zeros(0, dtype=np.int64)
        self._ranks: Scores = np.zeros((0, beams))
        self._nodes: Ids = np.zeros((0, beams), dtype=np.int64)
        self._tokens: Ids = np.zeros((0, beams), dtype=np.int64)
        self._history: Ids | None = None
        if options.no_repeat_ngram:
            self._history = np.zeros((0, beams, 0), dtype=np.int64)
        self._banks = None if phrases is None else Banks(phrases, beams, decoder.vocabulary)
        if self._banks is not None:
            self._enough = np.minimum(enough, np.maximum(options.nbest, self._banks.last + 1))
        self._state: State | None = None

    @property
    def running(self) -> Ids:
        """(sentences,) source tokens of those that are being decoded."""
        return np.asarray(self._lengths[self._indices])

    @property
    def waiting(self) -> Ids:
        """(sentences,) source tokens of those that have not entered, in the order in which they will."""
        return self._lengths[self._entered :]

    def admit(self, count: int) -> None:
        """Let the next ``count`` sentences in, beside others only where the decoder joins states."""
        entering = self._sources[self._entered : self._entered + count]
        indices = np.arange(self._entered, self._entered + count)
        beams = self._options.rows
        memory = self._decoder.encode(entering)
        state = self._decoder.start(memory, beams)
        if len(self._indices):
            assert self._decoder.join is not None
            assert self._state is not None
            state = self._decoder.join(self._state, state)
        self._state = state
        self._entered += count
        self._starts[indices] = self._clock
        ranks = np.zeros((count, beams))
        if not self._options.sample:
            ranks[:, 1:] = -np.inf  # before the first token all beams are alike: one goes on
        first = np.full((count, beams), start_token(self._options, self._decoder.symbols), dtype=np.int64)
        self._indices = np.concatenate([self._indices, indices])
        self._ranks = np.concatenate([self._ranks, ranks])
        self._nodes = np.concatenate([self._nodes, np.zeros_like(first)])
        self._tokens = np.concatenate([self._tokens, first])
        if self._history is not None:
            nothing = np.full((count, beams, self._history.shape[2]), -1, dtype=np.int64)
            self._history = np.concatenate([self._history, nothing])
        if self._banks is not None:
            self._banks.admit(indices)

    def step(self) -> StepOutcome:
        """Make one more token of every hypothesis.

        Raises:
            ModelError: the decoder's answer is not what the contract says.
        """
        assert self._state is not None
        self._clock += 1
        rows = self._tokens.size
        steps = self._clock - self._starts[self._indices]  # (sentences,)
        history = None if self._history is None else self._history.reshape(rows, -1)
        wanted = None if self._banks is None else self._banks.wanted(self._ranks > -np.inf)
        choice = self._constraints.choice(steps, self._indices, history, wanted)
        made = self._decoder.step(self._tokens.reshape(rows), self._state, choice)
        self._check(made, steps)
        candidates = (self._candidates if self._banks is None else self._banked)(made, choice, steps)
        nodes = self._record(made, candidates)
        self._finish(candidates, nodes, steps)
        extended = (candidates.ranks[:, 0] > -np.inf) & (candidates.tokens[:, 0] != self._end)
        indices = self._indices
        stay = self._continue(candidates, nodes, made.state, steps)
        return StepOutcome(
            indices[extended],
            candidates.tokens[extended, 0],
            candidates.log_probs[extended, 0],
            indices[~stay],
        )

    def hypotheses(self, indices: Ids) -> list[list[Hypothesis]]:
        """The n-best finished hypotheses of sentences, best first."""
        return [
            [hypothesis(*path, score, cut, self._end) for path, score, cut in nbest]
            for nbest in self._finished(indices)
        ]

    def found(self, indices: Ids) -> list[list[Found]]:
        """The same, as a decoder that searches by itself gives them."""
        return [
            [(tokens, log_probs, score, cut) for (tokens, log_probs, _), score, cut in nbest]
            for nbest in self._finished(indices)
        ]

    def _finished(self, indices: Ids) -> list[list[tuple[OnePath, float, bool]]]:
        pool = self._pool
        row, slot = np.nonzero(pool.scores[indices, : self._options.nbest] > -np.inf)
        index = indices[row]
        paths = self._trellis.paths(
            pool.nodes[index, slot], self._starts[index], pool.depths[index, slot], self._lengths[index]
        )
        scores, cut = pool.scores[index, slot].tolist(), pool.truncated[index, slot].tolist()
        nbest: list[list[tuple[OnePath, float, bool]]] = [[] for _ in indices]
        for into, path, score, truncated in zip(row.tolist(), paths, scores, cut, strict=True):
            one = path.tokens.tolist(), path.log_probs.tolist(), path.attention
            nbest[into].append((one, score, truncated))
        return nbest

    def _check(self, made: Step, steps: Ids) -> None:
        rows = len(steps) * self._options.rows
        if made.tokens.shape != made.log_probs.shape or made.tokens.shape[0] != rows:
            raise ModelError(
                f"the decoder returned tokens {made.tokens.shape} and log-probabilities "
                f"{made.log_probs.shape} (rows, k) for {rows} rows"
            )
        if np.isnan(made.log_probs).any():
            wrong = np.isnan(made.log_probs).any(axis=1)  # (rows,)
            token = steps[int(np.argmax(wrong)) // self._options.rows]
            raise ModelError(
                f"the model's log-probabilities are not numbers at target token {token}: "
                "its weights are damaged, or overflow in this precision"
            )

    def _candidates(self, made: Step, choice: Choice, steps: Ids) -> Candidates:
        """The continuations to look at: the best of all beams together, or the one of each sample."""
        sentences, beams = self._tokens.shape
        k = made.tokens.shape[1]
        log_probs = made.log_probs.astype(np.float64).reshape(sentences, beams, k)
        ranks = self._ranks[:, :, None] + self._gains(log_probs, choice)  # (sentences, beams, k)
        if beams * k == 1:
            order = np.zeros((sentences, 1), dtype=np.int64)
        elif self._options.sample:
            order = np.broadcast_to(np.arange(beams) * k, (sentences, beams))
        else:
            flat = ranks.reshape(sentences, beams * k)
            order = np.argsort(-flat, axis=1, kind="stable")[:, : 2 * beams]  # (sentences, candidates)

        ranks = columns(ranks.reshape(sentences, beams * k), order)
        tokens = columns(made.tokens.reshape(sentences, beams * k), order)
        log_probs = columns(log_probs.reshape(sentences, beams * k), order)
        alive = ranks > -np.inf
        limited = (self._constraints.limits[self._indices] == steps)[:, None] & alive
        ends = (tokens == self._end) & alive
        cut = limited if self._options.force_end else limited & ~ends
        return Candidates(tokens, order // k, log_probs, ranks, ends | limited, cut)

    def _banked(self, made: Step, choice: Choice, steps: Ids) -> Candidates:
        """As :meth:`_candidates`, the beam's places shared out by what the continuations hold (M27)."""
        banks, (sentences, beams) = self._banks, self._tokens.shape
        assert banks is not None
        n = made.tokens.shape[1] * beams
        log_probs = made.log_probs.astype(np.float64)  # (rows, k + wanted)
        if choice.wanted is not None:  # one that is among the best stands there
            best = made.tokens.shape[1] - choice.wanted.shape[1]
            twice = (made.tokens[:, None, :best] == choice.wanted[:, :, None]) & (
                log_probs[:, None, :best] > -np.inf
            )  # (rows, wanted, best)
            log_probs[:, best:][twice.any(axis=2)] = -np.inf
        ranks = self._ranks[:, :, None] + self._gains(log_probs.reshape(sentences, beams, -1), choice)
        ranks = ranks.reshape(sentences, n)
        tokens, log_probs = made.tokens.reshape(sentences, n), log_probs.reshape(sentences, n)
        came_from = np.broadcast_to(np.arange(n) // made.tokens.shape[1], (sentences, n))
        reached = banks.reach(came_from, tokens)
        ranks = ranks + banks.gains(came_from, reached)
        order = np.argsort(-ranks, axis=1, kind="stable")  # (sentences, n)
        ranks, tokens, log_probs = columns(ranks, order), columns(tokens, order), columns(log_probs, order)
        reached, came_from = reached.at(order), columns(came_from, order)

        alive = ranks > -np.inf
        at_limit = self._constraints.limits[self._indices] == steps  # (sentences,)
        limited = at_limit[:, None] & alive
        ends = (tokens == self._end) & alive
        nothing_yet = at_limit & (self._pool.scores[self._indices, 0] == -np.inf)
        ended = ends | limited
        alive &= ~ended | banks.may_end(reached.banks, alive, nothing_yet)
        chosen = banks.share(reached.banks, alive) | banks.share(reached.banks, alive & ~ended)
        keep = np.argsort(~chosen, axis=1, kind="stable")[:, : 2 * beams]  # (sentences, candidates)
        chosen = columns(chosen, keep)
        cut = limited if self._options.force_end else limited & ~ends
        return Candidates(
            columns(tokens, keep),
            columns(came_from, keep),
            columns(log_probs, keep),
            np.where(chosen, columns(ranks, keep), -np.inf),
            columns(ended, keep) & chosen,
            columns(cut, keep) & chosen,
            reached.at(keep),
        )

    def _gains(self, log_probs: Scores, choice: Choice) -> Scores:
        """What each candidate adds to its hypothesis's rank, (sentences, beams, k)."""
        if choice.forced is None:
            return log_probs
        forced = (choice.forced >= 0).reshape(log_probs.shape[:2])
        gains = log_probs.copy()
        gains[forced, 0] = np.maximum(gains[forced, 0], IMPOSSIBLE) if self._options.score_forced else 0.0
        return gains

    def _record(self, made: Step, candidates: Candidates) -> Ids:
        """Append the candidates to the trellis and return their nodes, (sentences, candidates)."""
        rows = candidates.beams + np.arange(len(self._indices))[:, None] * self._options.rows
        self._trellis.append(
            Layer(
                tokens=candidates.tokens.ravel(),
                parents=self._nodes.ravel()[rows.ravel()],
                log_probs=candidates.log_probs.ravel(),
                rows=rows.ravel(),
                attention=made.attention,
            )
        )
        return np.arange(rows.size).reshape(rows.shape)

    def _finish(self, candidates: Candidates, nodes: Ids, steps: Ids) -> None:
        """Put what ended into the pool, and what cannot go on at all where nothing has ended."""
        # A beam step finishes only what is among the best `beam`: banks have taken no other.
        beams = candidates.ended.shape[1] if self._banks is not None else self._options.rows
        ended = candidates.ended[:, :beams]
        hit = np.nonzero(ended.any(axis=1))[0]
        if len(hit):
            scores = np.where(ended[hit], self._scored(candidates.ranks[hit, :beams], hit, steps), -np.inf)
            self._pool.add(
                self._indices[hit], scores, nodes[hit, :beams], steps[hit], candidates.cut[hit, :beams]
            )
        goes_on = candidates.ranks > -np.inf
        if goes_on.all():
            return
        stuck = self._stuck(goes_on)  # (sentences, beams)
        hit = np.nonzero(stuck.any(axis=1))[0]
        if len(hit):
            scores = np.where(stuck[hit], self._scored(self._ranks[hit], hit, steps - 1), -np.inf)
            self._pool.add(self._indices[hit], scores, self._nodes[hit], steps[hit] - 1, stuck[hit])

    def _stuck(self, goes_on: Flags) -> Flags:
        """Running hypotheses that every token is banned for: their sentence is cut here, and says so.

        Among beams that happens to a sentence only if none of them goes on and none has finished.

        Args:
            goes_on: (sentences, candidates) whether there is such a continuation.
        """
        alive = self._ranks > -np.inf
        if self._options.sample:
            return np.asarray(alive & ~goes_on)
        nothing = ~goes_on.any(axis=1) & (self._pool.scores[self._indices, 0] == -np.inf)
        return np.asarray(alive & nothing[:, None])

    def _scored(self, ranks: Scores, hit: Ids, depths: Ids) -> Scores:
        """Scores (hit, candidates) of hypotheses of ``depths`` (sentences,) tokens."""
        return np.asarray(ranks / self._ranking.divisor(self._counted(depths)[hit])[:, None])

    def _counted(self, depths: Ids) -> Ids:
        return np.asarray(depths - self._constraints.uncounted[self._indices])

    def _continue(self, candidates: Candidates, nodes: Ids, state: State, steps: Ids) -> Flags:
        """Run on with what did not end; returns which of the sentences stay, (sentences,)."""
        sentences, beams = self._tokens.shape
        stopped = candidates.ended | (candidates.ranks == -np.inf)  # (sentences, candidates)
        if stopped.shape[1] == 1:
            keep = np.zeros((sentences, 1), dtype=np.int64)
        elif self._options.sample:
            keep = np.broadcast_to(np.arange(beams), (sentences, beams))
        else:
            keep = np.argsort(stopped, axis=1, kind="stable")[:, :beams]  # (sentences, beams)
        ranks = columns(np.where(stopped, -np.inf, candidates.ranks), keep)
        reached = None if candidates.reached is None else candidates.reached.at(keep)
        stay = self._undecided(ranks, steps, reached)
        came_from = columns(candidates.beams, keep)  # (sentences, beams)
        tokens, nodes, at = columns(candidates.tokens, keep), columns(nodes, keep), np.nonzero(stay)[0]
        if len(at) < sentences:
            ranks, tokens, nodes, came_from = ranks[at], tokens[at], nodes[at], came_from[at]
            self._indices = self._indices[at]
        if self._banks is not None and reached is not None:
            self._banks.follow(reached, at)
        self._ranks, self._tokens, self._nodes = ranks, tokens, nodes
        if self._history is not None:
            before = columns(self._history[at], came_from)
            self._history = np.concatenate([before, self._tokens[:, :, None]], axis=2)
        self._state = _moved(state, at, came_from, sentences)
        return stay

    def _undecided(self, ranks: Scores, steps: Ids, reached: Reached | None) -> Flags:
        """(sentences,) whether a further step can change the result; ``ranks`` are of what runs on."""
        if self._banks is not None and reached is not None:
            ranks = ranks + self._banks.potential(reached.banks)
        best = ranks.max(axis=1)
        going: Flags = best > -np.inf
        if self._options.sample or self._options.beam == 1 or not going.any():
            return going
        longest = self._constraints.limits[self._indices] - self._constraints.uncounted[self._indices]
        finished, enough = self._pool.scores[self._indices], self._enough[self._indices]
        counted = self._counted(steps)
        return going & ~is_done(self._options, self._ranking, best, finished, enough, counted, longest)


def _moved(state: State, sentences: Ids, came_from: Ids, before: int) -> State:
    """The state of the sentences that stay, each beam's row taken from the row it continues.

    Args:
        state: the state of ``before`` sentences.
        sentences: (staying,) which of them stay.
        came_from: (staying, beams) the beam that each beam continues.
        before: how many sentences the state holds.
    """
    if not len(sentences):
        return state
    if len(sentences) < before:
        state = state.select(sentences)
    beams = came_from.shape[1]
    if beams == 1:
        return state
    here = np.arange(beams)
    if (came_from == here).all():
        return state
    return state.reorder((came_from + np.arange(len(sentences))[:, None] * beams).ravel())


def hypothesis(
    tokens: list[int],
    token_scores: list[float],
    attention: Floats | None,
    score: float,
    truncated: bool,
    end: int,
) -> Hypothesis:
    """What the caller sees: no end symbol, and, unless the hypothesis is truncated, that symbol's score."""
    if tokens and tokens[-1] == end:
        tokens = tokens[:-1]
    if truncated:
        token_scores = token_scores[: len(tokens)]
        attention = None if attention is None else attention[: len(tokens)]
    return Hypothesis(
        tokens=tuple(tokens),
        score=score,
        log_prob=math.fsum(token_scores),
        token_scores=tuple(token_scores),
        truncated=truncated,
        attention=attention,
    )
