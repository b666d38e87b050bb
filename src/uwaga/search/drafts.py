"""Greedy search that checks drafts: several tokens of a known target in each pass of the model (M42).

The model reads a draft's tokens in one pass, as in training, and its best token after each is compared with
the draft: the longest prefix that it would have written itself is kept, and its own token follows (Stern
2018; Leviathan 2023 for the deterministic choice). The result is that without a draft, in fewer passes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from uwaga.decoder import Decoder, Draft, FinishedTarget, Ids, State, Step, target_limit
from uwaga.errors import SettingsError
from uwaga.results.translation import DraftUse, Hypothesis
from uwaga.search.beam_batch import IMPOSSIBLE, not_numbers
from uwaga.search.blocks import BlockCursor, BlockDrafts
from uwaga.search.constraints import Constraints, banned_tokens, start_token, starts_with_first
from uwaga.search.options import SearchOptions
from uwaga.search.rank import Ranking, StepOutcome, hypothesis

MISSING = 5
"""Cost of a target's token that the draft lacks; leaving out a token of the draft costs 1."""
FIRST_WINDOW, MOST_WINDOW = 7, 63
"""Tokens proposed at first, and at most: with the last token, whole blocks of 8 rows of a product."""


def checked_drafts(
    decoder: Decoder, options: SearchOptions, drafts: Sequence[Draft | None] | None, limits: Sequence[int]
) -> list[Draft | None]:
    """Return the draft of each sentence, None for none, without what follows an end symbol.

    It has at most as many tokens as the sentence's target, which ``limits`` has.
    """
    if drafts is None or not any(draft is not None for draft in drafts):
        return [None] * len(limits)
    if len(drafts) != len(limits):
        raise SettingsError(f"{len(drafts)} drafts for {len(limits)} sentences: give one for each, or none")
    _check_greedy(options)
    return [
        None if each is None else _checked(decoder, options, each, at, limit)
        for at, (each, limit) in enumerate(zip(drafts, limits, strict=True), 1)
    ]


def checked_drafter(decoder: Decoder, options: SearchOptions, drafter: Decoder) -> Decoder:
    """Return a model that drafts blocks for another."""
    _check_greedy(options)
    if drafter.vocabulary != decoder.vocabulary:
        raise SettingsError(
            f"the draft model has {drafter.vocabulary} tokens and the model {decoder.vocabulary}: they must "
            "share their vocabulary"
        )
    if drafter.verify is None:
        raise SettingsError("the draft model reads one token at a time: choose a Transformer")
    return drafter


def _check_greedy(options: SearchOptions) -> None:
    if options.sample or options.beam != 1:
        raise SettingsError("drafts need greedy search: set beam to 1 and leave out sample and mbr")


def _checked(decoder: Decoder, options: SearchOptions, draft: Draft, number: int, limit: int) -> Draft | None:
    if not 0 <= draft.bias < 0.5:
        raise SettingsError(f"bias must be from 0 to below 0.5, not {draft.bias}")
    tokens = [int(token) for token in draft.tokens]
    for token in tokens:
        if not 0 <= token < decoder.vocabulary:
            raise SettingsError(
                f"sentence {number}: token {token} of the draft is outside the vocabulary of "
                f"{decoder.vocabulary}"
            )
    ends = decoder.symbols.ends
    tokens = tokens[: next((at for at, token in enumerate(tokens) if token in ends), len(tokens))]
    if not tokens:
        return None
    begun = tuple(starts_with_first(tokens, options))
    shown = None if draft.shown is None else max(0, draft.shown) + len(begun) - len(tokens)
    return Draft(begun[:limit], draft.bias, shown)


class DraftCursor:
    """The place in a draft; the twin of ``DraftCursor`` in native/search/draft.h, which documents it."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens = list(tokens)
        self.follows = True
        self.proposed = self.accepted = self.passes = 0
        self._next = 0
        self._window = FIRST_WINDOW
        self._distances = list(range(len(self.tokens) + 1))

    def proposal(self, most: int) -> list[int]:
        """Return the tokens to propose, at most ``most``."""
        return self.tokens[self._next : self._next + max(0, min(self._window, most))]

    def take(self, token: int) -> None:
        """Take a decided token."""
        size = len(self.tokens)
        nearest, equal = self._align(token)
        expected = self._next < size and self.tokens[self._next] == token
        self.follows = self.follows and expected
        if expected:
            self._next += 1
        elif equal:
            self._next = nearest
        elif self._next < size:
            self._next = min(nearest, size - 1)
        if expected or equal:
            self._window = max(self._window, 1)

    def _align(self, token: int) -> tuple[int, bool]:
        """Count a token of the target; return the nearest place, and whether the token before it is equal."""
        replaced = min(self._next + 1, len(self.tokens))
        before = self._distances[0]
        self._distances[0] += MISSING
        best = (self._distances[0], True, replaced, 0)
        for at, drafted in enumerate(self.tokens, 1):
            here = before + (0 if drafted == token else MISSING)
            before = self._distances[at]
            self._distances[at] = distance = min(here, before + MISSING, self._distances[at - 1] + 1)
            equal = drafted == token and distance == here
            best = min(best, (distance, not equal, abs(at - replaced), -at))
        return -best[3], not best[1]

    def count(self, proposed: int, accepted: int) -> None:
        """Count a pass and adapt the number of proposed tokens."""
        self.passes += 1
        self.proposed += proposed
        self.accepted += accepted
        if not proposed:
            return
        if accepted == proposed:
            self._window = min(2 * self._window + 1, MOST_WINDOW)
        else:
            self._window = min(max(2 * accepted, 3), FIRST_WINDOW) if accepted else self._window // 2

    @property
    def use(self) -> DraftUse:
        """Numbers of tokens proposed and accepted, and of passes."""
        return DraftUse(self.proposed, self.accepted, self.passes)


class _Target:
    """The target of a sentence while it is decoded."""

    def __init__(self, start: int, draft: Draft | None, blocks: bool) -> None:
        self.last = start
        self.tokens: list[int] = []
        self.log_probs: list[float] = []
        self.attention: list[np.ndarray] = []
        self.rank = 0.0
        self.cursor: DraftCursor | BlockCursor | None = None if draft is None else DraftCursor(draft.tokens)
        if blocks:
            self.cursor = BlockCursor(start)
        self.bias = 0.0 if draft is None else draft.bias
        self.shown = 0 if draft is None else len(draft.tokens[: draft.shown])
        self.finished: tuple[float, bool] | None = None

    def favoured(self, ahead: int) -> int:
        """Return the draft's token that a step is biased towards, or -1."""
        at = len(self.tokens) + ahead
        if not isinstance(self.cursor, DraftCursor) or not self.cursor.follows:
            return -1
        if not self.bias or at >= self.shown:
            return -1
        return self.cursor.tokens[at]


class DraftBatch:
    """A batch of sentences with drafts, with the interface of :class:`uwaga.search.beam_batch.BeamBatch`.

    A decoder without ``verify`` makes plain steps; a bias counts all the same. With a ``drafter`` every
    sentence is drafted block by block, and ``drafts`` are not used.
    """

    def __init__(
        self,
        decoder: Decoder,
        options: SearchOptions,
        sources: Sequence[Sequence[int]],
        prefixes: Sequence[Sequence[int]],
        limits: Sequence[int],
        drafts: Sequence[Draft | None],
        *,
        ranking: Ranking | None = None,
        uncounted: Ids | None = None,
        drafter: Decoder | None = None,
    ) -> None:
        self._blocks: BlockDrafts | None = None
        if drafter is not None and decoder.verify is not None:
            self._blocks = BlockDrafts(drafter, banned_tokens(options, decoder.symbols))
        self._decoder, self._options, self._sources = decoder, options, sources
        self._constraints = Constraints(decoder, options, sources, prefixes, limits)
        if uncounted is not None:
            self._constraints.uncounted = uncounted
        self._ranking = ranking or Ranking(options.length_formula, options.length_penalty)
        self._lengths: Ids = np.array([len(source) for source in sources], dtype=np.int64)
        start = start_token(options, decoder.symbols)
        blocks = self._blocks is not None
        self._targets = [_Target(start, draft, blocks) for draft in drafts or [None] * len(sources)]
        self._running: list[int] = []
        self._entered = 0
        self._state: State | None = None

    @property
    def running(self) -> Ids:
        """(sentences,) source tokens of the sentences being decoded."""
        return np.asarray(self._lengths[self._running])

    @property
    def waiting(self) -> Ids:
        """(sentences,) source tokens of the sentences that have not entered, in their order."""
        return self._lengths[self._entered :]

    def admit(self, count: int) -> None:
        """Add the next ``count`` sentences; to a batch in progress only if the decoder can join states."""
        numbers = range(self._entered, self._entered + count)
        sources = [self._sources[at] for at in numbers]
        state = self._decoder.start(self._decoder.encode(sources), 1)
        if self._blocks is not None:
            self._blocks.admit(sources)
        if self._running:
            assert self._decoder.join is not None
            assert self._state is not None
            state = self._decoder.join(self._state, state)
        self._state = state
        self._running += numbers
        self._entered += count

    def step(self) -> StepOutcome:
        """Let the model read the last token of each sentence and what its draft proposes."""
        if self._blocks is not None:
            cursors = [self._targets[at].cursor for at in self._running]
            rooms = list(map(self._room, self._running))
            self._blocks.draft([each for each in cursors if isinstance(each, BlockCursor)], rooms)
        fed = [[self._targets[at].last, *self._proposal(at)] for at in self._running]
        step = self._read(fed)
        kept, extended, done, row = [], [], [], 0
        still: list[int] = []
        for at, tokens in zip(self._running, fed, strict=True):
            target = self._targets[at]
            used = 0
            while True:
                self._take(at, target, step, row + used)
                if target.finished is not None or used + 1 == len(tokens):
                    break
                if target.last != tokens[used + 1]:
                    break
                used += 1
            if target.cursor is not None:
                target.cursor.count(len(tokens) - 1, used)
            decided = range(len(target.tokens) - used - 1, len(target.tokens))
            extended += [
                (at, target.tokens[each], target.log_probs[each])
                for each in decided
                if 0 <= each < len(target.tokens) and target.tokens[each] not in self._decoder.symbols.ends
            ]
            if target.finished is None:
                still.append(at)
                kept.append(row + used)
            else:
                done.append(at)
            row += len(tokens)
        if kept and len(kept) < row:
            self._state = step.state.select(np.array(kept, dtype=np.int64))
        else:
            self._state = step.state
        if self._blocks is not None and len(still) < len(self._running):
            places = {at: place for place, at in enumerate(self._running)}
            self._blocks.keep(np.array([places[at] for at in still], dtype=np.int64))
        self._running = still
        return StepOutcome(
            np.array([at for at, _, _ in extended], dtype=np.int64),
            np.array([token for _, token, _ in extended], dtype=np.int64),
            np.array([log_prob for _, _, log_prob in extended], dtype=np.float64),
            np.array(done, dtype=np.int64),
        )

    def _proposal(self, at: int) -> list[int]:
        target = self._targets[at]
        if target.cursor is None or self._decoder.verify is None:
            return []
        return target.cursor.proposal(self._room(at))

    def _room(self, at: int) -> int:
        """Return the most tokens that can be proposed for a sentence."""
        longest = int(self._constraints.limits[at])
        if self._blocks is not None:
            drafter = self._blocks.drafter
            limit = target_limit(drafter, len(self._sources[at]))
            longest = longest if limit is None else min(longest, limit)
        return longest - len(self._targets[at].tokens) - 1

    def _read(self, fed: list[list[int]]) -> Step:
        counts = list(map(len, fed))
        indices = np.repeat(np.array(self._running, dtype=np.int64), counts)
        done = [len(self._targets[at].tokens) for at in self._running]
        steps = np.array(
            [1 + n + i for n, c in zip(done, counts, strict=True) for i in range(c)], dtype=np.int64
        )
        favoured = np.array(
            [
                [self._targets[at].favoured(ahead)]
                for at, count in zip(self._running, counts, strict=True)
                for ahead in range(count)
            ],
            dtype=np.int64,
        )
        history = self._history(fed) if self._options.no_repeat_ngram else None
        choice = self._constraints.choice(
            steps, indices, history, favoured if (favoured >= 0).any() else None
        )
        self._forced = choice.forced
        self._favoured = favoured[:, 0] if choice.extra_tokens is not None else None
        assert self._state is not None
        if max(counts) > 1:
            assert self._decoder.verify is not None
            return self._decoder.verify(fed, self._state, choice)
        return self._decoder.step(np.array([each[0] for each in fed], dtype=np.int64), self._state, choice)

    def _history(self, fed: list[list[int]]) -> Ids:
        """Return (rows, target) the tokens before each row's, after -1s."""
        rows = [
            [*self._targets[at].tokens, *tokens[1 : ahead + 1]]
            for at, tokens in zip(self._running, fed, strict=True)
            for ahead in range(len(tokens))
        ]
        history = np.full((len(rows), max(map(len, rows))), -1, dtype=np.int64)
        for into, row in zip(history, rows, strict=True):
            into[len(into) - len(row) :] = row
        return history

    def _take(self, at: int, target: _Target, step: Step, row: int) -> None:
        """Decide the token of a row."""
        if np.isnan(step.log_probs[row]).any():
            raise not_numbers(len(target.tokens) + 1)
        column = self._column(target, step, row)
        token, log_prob = int(step.tokens[row, column]), float(step.log_probs[row, column])
        gain = log_prob
        if self._forced is not None and self._forced[row] >= 0:
            gain = max(gain, IMPOSSIBLE) if self._options.score_forced is True else 0.0
        if target.rank + gain == -math.inf:  # all tokens are banned
            target.finished = self._score(at, target), True
            return
        target.tokens.append(token)
        target.log_probs.append(log_prob)
        if step.attention is not None:
            target.attention.append(step.attention[row, : self._lengths[at]])
        target.rank += gain
        target.last = token
        if target.cursor is not None:
            target.cursor.take(token)
        limited = len(target.tokens) == self._constraints.limits[at]
        ended = token in self._decoder.symbols.ends
        if ended or limited:
            cut = limited and (self._options.force_end or not ended)
            target.finished = self._score(at, target), bool(cut)

    def _column(self, target: _Target, step: Step, row: int) -> int:
        """Return the column of the chosen candidate (Arivazhagan 2020, eq. 2): 0 without a bias."""
        favoured = -1 if self._favoured is None else int(self._favoured[row])
        if favoured < 0 or favoured == step.tokens[row, 0] or step.log_probs[row, 1] == -np.inf:
            return 0
        best, wanted = (math.exp(float(each)) for each in step.log_probs[row, :2])
        return 0 if best - wanted >= target.bias / (1 - target.bias) else 1

    def _score(self, at: int, target: _Target) -> float:
        depth = np.array([len(target.tokens) - self._constraints.uncounted[at]], dtype=np.int64)
        return float(target.rank / self._ranking.divisor(depth)[0])

    def finished(self, indices: Ids) -> list[list[FinishedTarget]]:
        """Return the n-best list of each sentence as a :class:`uwaga.decoder.BeamSearch` does."""
        return [
            []
            if target.finished is None
            else [
                FinishedTarget(
                    target.tokens, target.log_probs, target.finished[0], target.finished[1], _use(target)
                )
            ]
            for target in (self._targets[at] for at in indices.tolist())
        ]

    def hypotheses(self, indices: Ids) -> list[list[Hypothesis]]:
        """Return the n-best list of each sentence."""
        found = []
        for at, nbest in zip(indices.tolist(), self.finished(indices), strict=True):
            seen = np.stack(self._targets[at].attention) if self._targets[at].attention else None
            ends = self._decoder.symbols.end_symbols
            found.append(
                [hypothesis(one.tokens, one.log_probs, seen, *one[2:4], ends, one.draft) for one in nbest]
            )
        return found


def _use(target: _Target) -> DraftUse | None:
    return None if target.cursor is None else target.cursor.use
