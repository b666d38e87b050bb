"""Drafts by a smaller model with the same vocabulary, a few tokens at a time (M42; Leviathan 2023).

The smaller model continues the decided tokens with a block of tokens, whose length is limited by a window.
The larger model verifies the block in one pass. The smaller model then reads the newly decided tokens in one
pass, so that a rejected block needs no rollback.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from uwaga.decoder import Choice, Decoder, Ids, State
from uwaga.errors import TextTooLongError
from uwaga.results.translation import DraftUse

INITIAL_WINDOW, MAX_WINDOW = 4, 16
"""Initial and maximum number of tokens to draft."""
PAUSE = 16
"""Number of passes without drafts after a block of one token is rejected."""


class BlockCursor:
    """The block proposed for a sentence, with the interface of :class:`uwaga.search.drafts.DraftCursor`.

    ``unread`` are the decided tokens that the draft model has not read.
    """

    def __init__(self, start: int) -> None:
        self.unread = [start]
        self.block: list[int] = []
        self.proposed = self.accepted = self.passes = 0
        self._window, self._pause = INITIAL_WINDOW, 0

    @property
    def block_size(self) -> int:
        """Number of tokens to draft."""
        return 0 if self._pause else self._window

    def proposal(self, limit: int) -> list[int]:
        """Return the tokens to propose, at most ``limit``."""
        return self.block[: max(0, limit)]

    def advance(self, token: int) -> None:
        """Add a decided token, which the draft model has yet to read."""
        self.unread.append(token)

    def record_pass(self, proposed: int, accepted: int) -> None:
        """Record the result of a pass, and adjust the number of tokens to draft."""
        self.passes += 1
        self.proposed += proposed
        self.accepted += accepted
        self.block = []
        if not proposed:
            self._pause = max(0, self._pause - 1)
        elif accepted == proposed:
            self._window = min(2 * self._window, MAX_WINDOW)
        elif accepted:
            self._window = min(accepted + 1, self._window)
        else:
            self._pause = PAUSE if self._window == 1 else 0
            self._window = max(1, self._window // 2)

    @property
    def use(self) -> DraftUse:
        """The numbers of proposed tokens, accepted tokens and passes."""
        return DraftUse(self.proposed, self.accepted, self.passes)


class BlockDrafts:
    """The state of the draft model for the sentences of a batch, in order.

    If a text is too long for the draft model, nothing more is drafted for the batch. Tokens in ``banned``
    (tokens,) are never drafted.
    """

    def __init__(self, drafter: Decoder, banned: Ids) -> None:
        self.drafter, self._banned = drafter, banned
        self._state: State | None = None
        self._disabled = False

    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        """Encode further sentences, given the tokens of each source."""
        if self._disabled:
            return
        try:
            state = self.drafter.start(self.drafter.encode(sources), 1)
        except TextTooLongError:
            self._disable()
            return
        if self._state is not None:
            assert self.drafter.join is not None
            state = self.drafter.join(self._state, state)
        self._state = state

    def select(self, indices: Ids) -> None:
        """Keep only the sentences at these indices."""
        if self._state is not None:
            self._state = self._state.select(indices) if len(indices) else None

    def draft(self, cursors: Sequence[BlockCursor], limits: Sequence[int]) -> None:
        """Draft the next block of each cursor; ``limits`` are the maximum numbers of tokens of the blocks."""
        sizes = {
            index: min(cursor.block_size, limit)
            for index, (cursor, limit) in enumerate(zip(cursors, limits, strict=True))
            if min(cursor.block_size, limit) > 0
        }
        if self._disabled or not sizes:
            return
        try:
            self._continue(cursors, sizes)
        except TextTooLongError:
            self._disable()

    def _disable(self) -> None:
        self._disabled, self._state = True, None

    def _continue(self, cursors: Sequence[BlockCursor], sizes: Mapping[int, int]) -> None:
        assert self._state is not None
        assert self.drafter.verify is not None
        end_tokens = self.drafter.symbols.ends
        unread_tokens = [cursor.unread for cursor in cursors]
        if max(map(len, unread_tokens)) > 1:
            step = self.drafter.verify(unread_tokens, self._state, self._choice(sum(map(len, unread_tokens))))
            last_indices = np.cumsum(list(map(len, unread_tokens)), dtype=np.int64) - 1
            self._state, tokens = step.state.select(last_indices), step.tokens[last_indices, 0]
        else:
            step = self.drafter.step(
                np.array(unread_tokens, dtype=np.int64)[:, 0], self._state, self._choice(len(unread_tokens))
            )
            self._state, tokens = step.state, step.tokens[:, 0]
        for cursor in cursors:
            cursor.unread = []
        state, indices = self._state, list(range(len(cursors)))
        while True:
            continuing_rows = []
            for row, index in enumerate(indices):
                if index not in sizes or int(tokens[row]) in end_tokens:
                    continue
                cursors[index].block.append(int(tokens[row]))
                if len(cursors[index].block) < sizes[index]:
                    continuing_rows.append(row)
            if not continuing_rows:
                return
            if len(continuing_rows) < len(indices):
                state = state.select(np.array(continuing_rows, dtype=np.int64))
            step = self.drafter.step(tokens[continuing_rows], state, self._choice(len(continuing_rows)))
            state, tokens, indices = (
                step.state,
                step.tokens[:, 0],
                [indices[row] for row in continuing_rows],
            )

    def _choice(self, rows: int) -> Choice:
        """Return a :class:`Choice` that asks for the best token of each row, except banned tokens."""
        pairs = np.repeat(np.arange(rows), len(self._banned)), np.tile(self._banned, rows)
        return Choice(1, banned=np.stack(pairs, axis=1))
