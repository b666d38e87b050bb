"""The engine's own beam search: :class:`uwaga.decoder.BeamSearch` over the compiled core."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from uwaga.decoder import BeamRules, Decided, Found, Ids, Memory, PhraseTables
from uwaga.engine import _core
from uwaga.errors import DataError, ModelError, TextTooLongError

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
