"""Greedy search that verifies drafts, several tokens in each pass of the model (M42).

The model reads the tokens of a draft in one pass, as in training, and its best token after each token is
compared with the draft: the longest prefix on which both agree is accepted, and the model's next token is
added (Stern 2018; Leviathan 2023 for the deterministic choice). The result is the same as without a draft, in
fewer passes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from uwaga.decoder import Decoder, Draft, FinishedTarget, Ids, Memory, Step, target_limit
from uwaga.errors import SettingsError
from uwaga.results.translation import DraftUse
from uwaga.search.batch import StepBatch
from uwaga.search.beam_batch import IMPOSSIBLE_LOG_PROB, nan_error
from uwaga.search.blocks import BlockCursor, BlockDrafts
from uwaga.search.constraints import banned_tokens, start_token, with_first_token
from uwaga.search.inputs import SearchSentence
from uwaga.search.options import SearchOptions
from uwaga.search.rank import Ranking, StepOutcome

MISSING_COST = 5
"""Cost of a target token that the draft lacks; skipping a token of the draft costs 1."""
INITIAL_WINDOW, MAX_WINDOW = 7, 63
"""Initial and maximum number of tokens to propose; with the last token, the model reads 8 and 64 rows."""


def checked_drafter(decoder: Decoder, options: SearchOptions, drafter: Decoder) -> Decoder:
    """Return ``drafter`` after checking that it can draft for ``decoder``."""
    _check_greedy(options)
    if drafter.vocabulary != decoder.vocabulary:
        raise SettingsError(
            f"the draft model has a vocabulary of {drafter.vocabulary} tokens and the model one of "
            f"{decoder.vocabulary}: they must share their vocabulary"
        )
    if drafter.verify is None:
        raise SettingsError("the draft model can read only one token at a time: choose a Transformer")
    return drafter


def _check_greedy(options: SearchOptions) -> None:
    if options.sample or options.beam != 1:
        raise SettingsError("drafts need greedy search: set beam to 1 and leave out sample and mbr")


def checked_draft(
    decoder: Decoder, options: SearchOptions, draft: Draft, limit: int, label: str
) -> Draft | None:
    """Return the draft of a sentence, cut at the first end symbol and at ``limit``; None if it is empty.

    ``limit`` is the maximum number of target tokens, ``label`` the name of the sentence in messages.
    """
    _check_greedy(options)
    if not 0 <= draft.bias < 0.5:
        raise SettingsError(f"bias must be at least 0 and less than 0.5, not {draft.bias}")
    tokens = [int(token) for token in draft.tokens]
    for token in tokens:
        if not 0 <= token < decoder.vocabulary:
            raise SettingsError(
                f"{label}: token {token} of the draft is outside the vocabulary of {decoder.vocabulary} "
                "tokens"
            )
    end_tokens = decoder.symbols.ends
    tokens = tokens[: next((index for index, token in enumerate(tokens) if token in end_tokens), len(tokens))]
    if not tokens:
        return None
    forced_tokens = tuple(with_first_token(tokens, options))
    biased = None if draft.biased is None else max(0, draft.biased) + len(forced_tokens) - len(tokens)
    return Draft(forced_tokens[:limit], draft.bias, biased)


class DraftCursor:
    """The position in a draft; ``DraftCursor`` in native/search/draft.h is documented in more detail."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens = list(tokens)
        self.is_following = True
        self.proposed = self.accepted = self.passes = 0
        self._next = 0
        self._window = INITIAL_WINDOW
        self._distances = list(range(len(self.tokens) + 1))

    def proposal(self, limit: int) -> list[int]:
        """Return the tokens to propose, at most ``limit``."""
        return self.tokens[self._next : self._next + max(0, min(self._window, limit))]

    def advance(self, token: int) -> None:
        """Move past a decided token."""
        size = len(self.tokens)
        nearest, is_equal = self._align(token)
        is_expected = self._next < size and self.tokens[self._next] == token
        self.is_following = self.is_following and is_expected
        if is_expected:
            self._next += 1
        elif is_equal:
            self._next = nearest
        elif self._next < size:
            self._next = min(nearest, size - 1)
        if is_expected or is_equal:
            self._window = max(self._window, 1)

    def _align(self, token: int) -> tuple[int, bool]:
        """Add a token of the target to the alignment.

        Returns:
            the nearest position in the draft, and whether the draft's token before it equals ``token``.
        """
        next_position = min(self._next + 1, len(self.tokens))
        diagonal = self._distances[0]
        self._distances[0] += MISSING_COST
        best_alignment = (self._distances[0], True, next_position, 0)
        for position, draft_token in enumerate(self.tokens, 1):
            replacement = diagonal + (0 if draft_token == token else MISSING_COST)
            diagonal = self._distances[position]
            self._distances[position] = distance = min(
                replacement, diagonal + MISSING_COST, self._distances[position - 1] + 1
            )
            is_equal = draft_token == token and distance == replacement
            best_alignment = min(
                best_alignment, (distance, not is_equal, abs(position - next_position), -position)
            )
        return -best_alignment[3], not best_alignment[1]

    def record_pass(self, proposed: int, accepted: int) -> None:
        """Record the result of a pass, and adjust the number of tokens to propose."""
        self.passes += 1
        self.proposed += proposed
        self.accepted += accepted
        if not proposed:
            return
        if accepted == proposed:
            self._window = min(2 * self._window + 1, MAX_WINDOW)
        else:
            self._window = min(max(2 * accepted, 3), INITIAL_WINDOW) if accepted else self._window // 2

    @property
    def use(self) -> DraftUse:
        """The numbers of proposed tokens, accepted tokens and passes."""
        return DraftUse(self.proposed, self.accepted, self.passes)


class _Target:
    """The target of a sentence while it is decoded."""

    def __init__(self, start: int, draft: Draft | None, has_blocks: bool) -> None:
        self.last = start
        self.tokens: list[int] = []
        self.log_probs: list[float] = []
        self.attention: list[np.ndarray] = []
        self.rank = 0.0
        self.cursor: DraftCursor | BlockCursor | None = None if draft is None else DraftCursor(draft.tokens)
        if has_blocks:
            self.cursor = BlockCursor(start)
        self.bias = 0.0 if draft is None else draft.bias
        self.biased = 0 if draft is None else len(draft.tokens[: draft.biased])
        self.finished: tuple[float, bool] | None = None

    def favoured_token(self, offset: int) -> int:
        """Return the draft token that a step is biased towards, or -1."""
        position = len(self.tokens) + offset
        if not isinstance(self.cursor, DraftCursor) or not self.cursor.is_following:
            return -1
        if not self.bias or position >= self.biased:
            return -1
        return self.cursor.tokens[position]

    def finished_targets(self) -> list[FinishedTarget]:
        """Return the target in a list, which is empty if the target is not finished."""
        if self.finished is None:
            return []
        attention = np.stack(self.attention) if self.attention else None
        draft = None if self.cursor is None else self.cursor.use
        return [FinishedTarget(self.tokens, self.log_probs, *self.finished, draft, attention)]


class DraftBatch(StepBatch):
    """A batch of sentences with drafts.

    A decoder without ``verify`` makes ordinary steps; a bias still applies.

    Args:
        decoder: the model.
        options: how to search.
        sentences: the sentences, in the order in which they enter.
        ranking: length normalisation; None for the one that the options specify.
        drafter: a smaller model that drafts for every sentence, block by block; the sentences then have no
            drafts.
    """

    def __init__(
        self,
        decoder: Decoder,
        options: SearchOptions,
        sentences: Sequence[SearchSentence],
        ranking: Ranking | None = None,
        drafter: Decoder | None = None,
    ) -> None:
        super().__init__(decoder, options, sentences, ranking)
        self._blocks: BlockDrafts | None = None
        if drafter is not None and decoder.verify is not None:
            self._blocks = BlockDrafts(drafter, banned_tokens(options, decoder.symbols))
        start = start_token(options, decoder.symbols)
        has_blocks = self._blocks is not None
        self._targets = [_Target(start, sentence.draft, has_blocks) for sentence in sentences]

    def _enter(self, sentences: Sequence[SearchSentence], memory: Memory) -> None:
        super()._enter(sentences, memory)
        if self._blocks is not None:
            self._blocks.admit([sentence.ids for sentence in sentences])

    def step(self) -> StepOutcome:
        """Run the model on the last token and the proposed tokens of each sentence."""
        indices: list[int] = self._indices.tolist()
        if self._blocks is not None:
            cursors = [self._targets[index].cursor for index in indices]
            limits = list(map(self._draft_limit, indices))
            self._blocks.draft([cursor for cursor in cursors if isinstance(cursor, BlockCursor)], limits)
        inputs = [[self._targets[index].last, *self._proposal(index)] for index in indices]
        step = self._read(inputs)
        rows, extended_rows, finished_rows, row = [], [], [], 0
        running_indices: list[int] = []
        for index, tokens in zip(indices, inputs, strict=True):
            target = self._targets[index]
            accepted_count = 0
            while True:
                self._decide(index, target, step, row + accepted_count)
                if target.finished is not None or accepted_count + 1 == len(tokens):
                    break
                if target.last != tokens[accepted_count + 1]:
                    break
                accepted_count += 1
            if target.cursor is not None:
                target.cursor.record_pass(len(tokens) - 1, accepted_count)
            decided_positions = range(len(target.tokens) - accepted_count - 1, len(target.tokens))
            extended_rows += [
                (index, target.tokens[position], target.log_probs[position])
                for position in decided_positions
                if 0 <= position < len(target.tokens)
                and target.tokens[position] not in self._decoder.symbols.ends
            ]
            if target.finished is None:
                running_indices.append(index)
                rows.append(row + accepted_count)
            else:
                finished_rows.append(index)
            row += len(tokens)
        if rows and len(rows) < row:
            self._state = step.state.select(np.array(rows, dtype=np.int64))
        else:
            self._state = step.state
        if self._blocks is not None and len(running_indices) < len(indices):
            positions = {index: position for position, index in enumerate(indices)}
            self._blocks.select(np.array([positions[index] for index in running_indices], dtype=np.int64))
        self._indices = np.array(running_indices, dtype=np.int64)
        return StepOutcome(
            np.array([index for index, _, _ in extended_rows], dtype=np.int64),
            np.array([token for _, token, _ in extended_rows], dtype=np.int64),
            np.array([log_prob for _, _, log_prob in extended_rows], dtype=np.float64),
            np.array(finished_rows, dtype=np.int64),
        )

    def _proposal(self, index: int) -> list[int]:
        target = self._targets[index]
        if target.cursor is None or self._decoder.verify is None:
            return []
        return target.cursor.proposal(self._draft_limit(index))

    def _draft_limit(self, index: int) -> int:
        """Return the maximum number of tokens to propose for a sentence."""
        longest = int(self._constraints.limits[index])
        if self._blocks is not None:
            drafter = self._blocks.drafter
            limit = target_limit(drafter, len(self._sentences[index].ids))
            longest = longest if limit is None else min(longest, limit)
        return longest - len(self._targets[index].tokens) - 1

    def _read(self, inputs: list[list[int]]) -> Step:
        counts = list(map(len, inputs))
        indices = np.repeat(self._indices, counts)
        lengths = [len(self._targets[index].tokens) for index in self._indices]
        steps = np.array(
            [1 + n + i for n, c in zip(lengths, counts, strict=True) for i in range(c)], dtype=np.int64
        )
        favoured_tokens = np.array(
            [
                [self._targets[index].favoured_token(offset)]
                for index, count in zip(self._indices, counts, strict=True)
                for offset in range(count)
            ],
            dtype=np.int64,
        )
        history = self._history(inputs) if self._options.no_repeat_ngram else None
        choice = self._constraints.choice(
            steps, indices, history, favoured_tokens if (favoured_tokens >= 0).any() else None
        )
        self._forced = choice.forced
        self._favoured = favoured_tokens[:, 0] if choice.extra_tokens is not None else None
        assert self._state is not None
        if max(counts) > 1:
            assert self._decoder.verify is not None
            return self._decoder.verify(inputs, self._state, choice)
        return self._decoder.step(
            np.array([tokens[0] for tokens in inputs], dtype=np.int64), self._state, choice
        )

    def _history(self, inputs: list[list[int]]) -> Ids:
        """Return, for each row, the tokens (rows, target) before the row's token, left-padded with -1."""
        rows = [
            [*self._sentences[index].history, *self._targets[index].tokens, *tokens[1 : offset + 1]]
            for index, tokens in zip(self._indices, inputs, strict=True)
            for offset in range(len(tokens))
        ]
        history = np.full((len(rows), max(map(len, rows))), -1, dtype=np.int64)
        for target, row in zip(history, rows, strict=True):
            target[len(target) - len(row) :] = row
        return history

    def _decide(self, index: int, target: _Target, step: Step, row: int) -> None:
        """Append the token that a row selects to a target, and finish the target if it ends."""
        if np.isnan(step.log_probs[row]).any():
            raise nan_error(len(target.tokens) + 1)
        column = self._column(target, step, row)
        token, log_prob = int(step.tokens[row, column]), float(step.log_probs[row, column])
        gain = log_prob
        if self._forced is not None and self._forced[row] >= 0:
            gain = max(gain, IMPOSSIBLE_LOG_PROB) if self._options.score_forced is True else 0.0
        if target.rank + gain == -math.inf:  # all tokens are banned
            target.finished = self._score(index, target), True
            return
        target.tokens.append(token)
        target.log_probs.append(log_prob)
        if step.attention is not None:
            target.attention.append(step.attention[row, : self._lengths[index]])
        target.rank += gain
        target.last = token
        if target.cursor is not None:
            target.cursor.advance(token)
        is_limited = len(target.tokens) == self._constraints.limits[index]
        is_ended = token in self._decoder.symbols.ends
        if is_ended or is_limited:
            is_truncated = is_limited and (self._options.force_end or not is_ended)
            target.finished = self._score(index, target), bool(is_truncated)

    def _column(self, target: _Target, step: Step, row: int) -> int:
        """Return the column of the selected candidate (Arivazhagan 2020, eq. 2): 0 without a bias."""
        favoured_token = -1 if self._favoured is None else int(self._favoured[row])
        if favoured_token < 0 or favoured_token == step.tokens[row, 0] or step.log_probs[row, 1] == -np.inf:
            return 0
        best_prob, favoured_prob = (math.exp(float(log_prob)) for log_prob in step.log_probs[row, :2])
        return 0 if best_prob - favoured_prob >= target.bias / (1 - target.bias) else 1

    def _score(self, index: int, target: _Target) -> float:
        depth = np.array([len(target.tokens) - self._constraints.uncounted[index]], dtype=np.int64)
        return float(target.rank / self._ranking.divisor(depth)[0])

    def finished(self, indices: Ids) -> list[list[FinishedTarget]]:
        """See :meth:`uwaga.search.batch.Batch.finished`."""
        return [self._targets[index].finished_targets() for index in indices.tolist()]
