"""What a decoder may offer that decodes for any number of searches at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Protocol, runtime_checkable

import numpy as np

from uwaga.decoder import BeamRules, Decided, Found, Ids, PhraseTables


def rules_key(rules: BeamRules) -> tuple[object, ...]:
    """Equal for rules by which sentences may be searched together; whether they stream does not matter."""
    every = [getattr(rules, one.name) for one in fields(rules) if one.name != "streams"]
    return tuple(one.tobytes() if isinstance(one, np.ndarray) else one for one in every)


class BatchTicket(Protocol):
    """What one search has in a running batch: sentences, numbered in the order in which they come."""

    def hand(
        self,
        sources: Sequence[Sequence[int]],
        limits: Ids,
        uncounted: Ids,
        forced: Ids,
        phrases: Sequence[PhraseTables | None],
    ) -> None:
        """Let sentences in as soon as they can be encoded; arguments are those of ``BeamSearch.enter``."""
        ...

    def take(self, seconds: float) -> tuple[list[tuple[int, list[Found]]], list[Decided]]:
        """What is done and what was decided since the last call; waits for it, at most so many seconds.

        Raises:
            UwagaError: one of the sentences has failed: all of the ticket's are gone.
        """
        ...

    def leave(self) -> None:
        """Its sentences go, and whoever waits in ``take`` is woken."""
        ...


class RunningBatch(Protocol):
    """Sentences of any number of searches decoded side by side; any thread may use it."""

    def ticket(self, rules: BeamRules) -> BatchTicket:
        """What a search by these rules needs to take part."""
        ...

    def serve(self) -> None:
        """Decode what is handed in, until :meth:`close`: the work of one thread."""
        ...

    def close(self) -> None:
        """Let ``serve`` return; whoever waits is told."""
        ...

    @property
    def counters(self) -> tuple[int, int, int]:
        """Steps made, their rows added up, and sentences done."""
        ...


@runtime_checkable
class Batching(Protocol):
    """A decoder that has a running batch of its own."""

    def running_batch(self) -> RunningBatch:
        """A new one, in which nothing runs yet: it finds what ``beam_search`` finds, to the bit."""
        ...
