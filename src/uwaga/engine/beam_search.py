"""The engine's own beam search: :class:`uwaga.decoder.BeamSearch` over the compiled core."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from uwaga.decoder import BeamRules, Decided, Found, Ids, Memory, PhraseTables, rules_key
from uwaga.engine import _core
from uwaga.errors import CancelledRequestError, DataError, ModelError, TextTooLongError

STOPPING = {True: 0, False: 1, "estimate": 2}
"""As ``Stopping`` in native/search/sentence_search.h numbers them."""


class NativeBeamSearch:
    """Steps without Python between them; the search of :mod:`uwaga.search` finds the same, to the bit.

    It changes as it goes on, and one thread at a time has it; Ctrl-C is looked for at every step.
    """

    def __init__(self, model: _core.Model, end: int, rules: BeamRules) -> None:
        self._core = _core.BeamSearch(checked_rules(model, end, rules))
        self._streams = rules.streams

    @property
    def running(self) -> Ids:
        return self._core.running

    def enter(
        self,
        memory: Memory,
        limits: Ids,
        uncounted: Ids,
        forced: Ids,
        phrases: Sequence[PhraseTables | None] = (),
    ) -> None:
        assert isinstance(memory, _core.Memory)
        with told():
            forced = np.ascontiguousarray(forced)
            self._core.enter(memory, limits, uncounted, forced, list(phrases), self._streams)

    def run(self, tokens: int) -> None:
        with told():
            self._core.run(tokens)

    def found(self) -> list[list[Found]]:
        return self._core.found()

    def decided(self) -> list[Decided]:
        return self._core.decided()


def checked_rules(model: _core.Model, end: int, rules: BeamRules) -> _core.Rules:
    """The rules as the core has them.

    Raises:
        DataError: they name tokens outside the vocabulary.
    """
    with told():
        return _core.Rules(
            model,
            rules.beams,
            rules.enough,
            rules.nbest,
            rules.start,
            end,
            np.ascontiguousarray(rules.never, dtype=np.int64),
            rules.min_length,
            STOPPING[rules.early_stopping],
            rules.force_end,
            rules.score_forced,
            rules.renormalise,
            np.ascontiguousarray(rules.divisors, dtype=np.float64),
            np.ascontiguousarray(rules.inside, dtype=np.uint8),
        )


@contextmanager
def told() -> Iterator[None]:
    """The core's errors told as ours."""
    try:
        yield
    except _core.NotNumbersError as error:
        raise ModelError(str(error)) from None
    except _core.TooLongError as error:
        raise TextTooLongError(str(error)) from None
    except ValueError as error:
        raise DataError(str(error)) from None


MOST_LANES = 64
"""Sets of rules that are kept for the next search by them."""


class NativeRunningBatch:
    """Steps, entries and exits without Python between them: ``serve`` never asks for the interpreter's lock.

    ``serve`` has as many threads as the model, each with its own sentences, of which those that are searched
    by the same rules share their steps. What is found is what
    :class:`uwaga.engine.beam_search.NativeBeamSearch` finds, to the bit.

    Args:
        model: the core's.
        shortlist: what its sentences may become; None for anything.
        end: the end symbol.
        check: raises where the weights, in a shared file, were changed; None where they cannot be.
    """

    def __init__(
        self,
        model: _core.Model,
        shortlist: _core.Shortlist | None,
        end: int,
        check: Callable[[], None] | None,
    ) -> None:
        self._model, self._end, self._check = model, end, check
        self._core = _core.RunningBatch(model, shortlist)
        self._lanes: OrderedDict[tuple[object, ...], _core.Lane] = OrderedDict()
        self._latest: tuple[BeamRules, _core.Lane] | None = None

    def ticket(self, rules: BeamRules) -> NativeTicket:
        """See :meth:`uwaga.decoder.RunningBatch.ticket`.

        Raises:
            DataError: the rules name tokens outside the vocabulary.
        """
        latest = self._latest
        lane = latest[1] if latest is not None and latest[0] is rules else self._lane(rules)
        self._latest = rules, lane
        return NativeTicket(self._core, self._core.ticket(lane, rules.streams), self._check)

    def _lane(self, rules: BeamRules) -> _core.Lane:
        key = rules_key(rules)
        lane = self._lanes.pop(key, None) or _core.Lane(checked_rules(self._model, self._end, rules))
        self._lanes[key] = lane
        while len(self._lanes) > MOST_LANES:
            self._lanes.popitem(last=False)
        return lane

    def serve(self) -> None:
        """See :meth:`uwaga.decoder.RunningBatch.serve`."""
        self._core.serve()

    def close(self) -> None:
        """See :meth:`uwaga.decoder.RunningBatch.close`."""
        self._core.close()

    @property
    def counters(self) -> tuple[int, int, int]:
        """See :attr:`uwaga.decoder.RunningBatch.counters`."""
        return self._core.counters


class NativeTicket:
    """See :class:`uwaga.decoder.BatchTicket`."""

    def __init__(
        self, batch: _core.RunningBatch, ticket: _core.Ticket, check: Callable[[], None] | None
    ) -> None:
        self._batch, self._ticket, self._check = batch, ticket, check

    def hand(
        self,
        sources: Sequence[Sequence[int]],
        limits: Ids,
        uncounted: Ids,
        forced: Ids,
        phrases: Sequence[PhraseTables | None],
    ) -> None:
        if self._check is not None:
            self._check()
        with told(), closed_told():
            self._batch.hand(
                self._ticket, sources, limits, uncounted, np.ascontiguousarray(forced), list(phrases)
            )

    def take(self, seconds: float) -> tuple[list[tuple[int, list[Found]]], list[Decided]]:
        with told(), closed_told():
            return self._batch.take(self._ticket, seconds)

    def leave(self) -> None:
        self._batch.leave(self._ticket)


@contextmanager
def closed_told() -> Iterator[None]:
    """That a batch was closed, told as ours."""
    try:
        yield
    except RuntimeError as error:
        raise CancelledRequestError(str(error)) from None
