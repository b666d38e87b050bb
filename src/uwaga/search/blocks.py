"""Drafts of a smaller model of the same vocabulary, a few tokens at a time (M42; Leviathan 2023).

The smaller model continues what the larger one has decided by up to a window of tokens; the larger one checks
them in one pass. The smaller one then reads the tokens decided since in one pass of its own, so that nothing
of a rejected block has to be undone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from uwaga.decoder import Choice, Decoder, Ids, State
from uwaga.errors import TextTooLongError
from uwaga.results.translation import DraftUse

FIRST_WINDOW, MOST_WINDOW = 4, 16
"""Tokens drafted at first, and at most."""
REST = 16
"""Passes without drafts after a block of which no token was accepted, and the window is at its smallest."""


class BlockCursor:
    """The block that is proposed for a sentence; the interface of :class:`uwaga.search.drafts.DraftCursor`.

    ``unread`` are the decided tokens that the drafting model has not read.
    """

    def __init__(self, start: int) -> None:
        self.unread = [start]
        self.block: list[int] = []
        self.proposed = self.accepted = self.passes = 0
        self._window, self._resting = FIRST_WINDOW, 0

    @property
    def wanted(self) -> int:
        """Number of tokens to draft."""
        return 0 if self._resting else self._window

    def proposal(self, most: int) -> list[int]:
        """Return the tokens to propose, at most ``most``."""
        return self.block[: max(0, most)]

    def take(self, token: int) -> None:
        """Take a decided token."""
        self.unread.append(token)

    def count(self, proposed: int, accepted: int) -> None:
        """Count a pass and adapt the number of drafted tokens."""
        self.passes += 1
        self.proposed += proposed
        self.accepted += accepted
        self.block = []
        if not proposed:
            self._resting = max(0, self._resting - 1)
        elif accepted == proposed:
            self._window = min(2 * self._window, MOST_WINDOW)
        elif accepted:
            self._window = min(accepted + 1, self._window)
        else:
            self._resting = REST if self._window == 1 else 0
            self._window = max(1, self._window // 2)

    @property
    def use(self) -> DraftUse:
        """Numbers of tokens proposed and accepted, and of passes."""
        return DraftUse(self.proposed, self.accepted, self.passes)


class BlockDrafts:
    """The drafting model's state of the sentences of a batch, in their order.

    A text that is too long for the drafting model ends its drafts for the batch. ``banned`` (tokens,) are
    never drafted.
    """

    def __init__(self, drafter: Decoder, banned: Ids) -> None:
        self.drafter, self._banned = drafter, banned
        self._state: State | None = None
        self._over = False

    def admit(self, sources: Sequence[Sequence[int]]) -> None:
        """Add sentences."""
        if self._over:
            return
        try:
            state = self.drafter.start(self.drafter.encode(sources), 1)
        except TextTooLongError:
            self._end()
            return
        if self._state is not None:
            assert self.drafter.join is not None
            state = self.drafter.join(self._state, state)
        self._state = state

    def keep(self, kept: Ids) -> None:
        """Keep these sentences only, by their places."""
        if self._state is not None:
            self._state = self._state.select(kept) if len(kept) else None

    def draft(self, cursors: Sequence[BlockCursor], rooms: Sequence[int]) -> None:
        """Put the next block of each sentence into its cursor; ``rooms`` are the most tokens of each."""
        wanted = {
            at: min(cursor.wanted, room)
            for at, (cursor, room) in enumerate(zip(cursors, rooms, strict=True))
            if min(cursor.wanted, room) > 0
        }
        if self._over or not wanted:
            return
        try:
            self._continue(cursors, wanted)
        except TextTooLongError:
            self._end()

    def _end(self) -> None:
        self._over, self._state = True, None

    def _continue(self, cursors: Sequence[BlockCursor], wanted: Mapping[int, int]) -> None:
        assert self._state is not None
        assert self.drafter.verify is not None
        ends = self.drafter.symbols.ends
        unread = [cursor.unread for cursor in cursors]
        if max(map(len, unread)) > 1:
            step = self.drafter.verify(unread, self._state, self._choice(sum(map(len, unread))))
            last = np.cumsum(list(map(len, unread)), dtype=np.int64) - 1
            self._state, tokens = step.state.select(last), step.tokens[last, 0]
        else:
            step = self.drafter.step(
                np.array(unread, dtype=np.int64)[:, 0], self._state, self._choice(len(unread))
            )
            self._state, tokens = step.state, step.tokens[:, 0]
        for cursor in cursors:
            cursor.unread = []
        state, places = self._state, list(range(len(cursors)))
        while True:
            going = []
            for row, at in enumerate(places):
                if at not in wanted or int(tokens[row]) in ends:
                    continue
                cursors[at].block.append(int(tokens[row]))
                if len(cursors[at].block) < wanted[at]:
                    going.append(row)
            if not going:
                return
            if len(going) < len(places):
                state = state.select(np.array(going, dtype=np.int64))
            step = self.drafter.step(tokens[going], state, self._choice(len(going)))
            state, tokens, places = step.state, step.tokens[:, 0], [places[row] for row in going]

    def _choice(self, rows: int) -> Choice:
        """Return the choice of the best token of each row."""
        pairs = np.repeat(np.arange(rows), len(self._banned)), np.tile(self._banned, rows)
        return Choice(1, banned=np.stack(pairs, axis=1))
