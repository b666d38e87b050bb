"""The beam search and the running batch of the engine, implemented by the compiled core."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypedDict

import numpy as np

from uwaga.decoder import (
    BeamRules,
    Datastore,
    DecidedToken,
    Draft,
    FinishedTarget,
    Ids,
    Memory,
    NewSentence,
    PhraseTables,
    forced_matrix,
)
from uwaga.engine import _core
from uwaga.errors import CancelledRequestError, DataError, ModelError, SettingsError, TextTooLongError
from uwaga.results.translation import DraftUse

STOPPING_CODES = {True: 0, False: 1, "estimate": 2}
"""Values of ``Stopping`` in native/search/sentence_search.h."""


class NativeBeamSearch:
    """The :class:`uwaga.decoder.BeamSearch` of the engine, bit-identical to :mod:`uwaga.search`.

    It is not thread-safe. Each step checks for Ctrl-C.
    """

    def __init__(self, model: _core.Model, end_tokens: Sequence[int], rules: BeamRules) -> None:
        self._core = _core.BeamSearch(core_rules(model, end_tokens, rules))
        self._streams = rules.streams

    @property
    def running(self) -> Ids:
        return self._core.running

    def enter(self, memory: Memory, sentences: Sequence[NewSentence]) -> None:
        assert isinstance(memory, _core.Memory)
        with convert_errors():
            self._core.enter(memory, streams=self._streams, **core_sentences(sentences))

    def run(self, tokens: int) -> None:
        with convert_errors():
            self._core.run(tokens)

    def finished(self) -> list[list[FinishedTarget]]:
        return [list(map(finished_target, nbest)) for nbest in self._core.finished()]

    def decided(self) -> list[DecidedToken]:
        return list(map(DecidedToken._make, self._core.decided()))


class CoreSentences(TypedDict):
    """The fields of sentences as arguments of the core; see :class:`uwaga.decoder.NewSentence`.

    ``forced`` is a :func:`uwaga.decoder.forced_matrix`; ``phrases`` and ``drafts`` are empty if no
    sentence has any.
    """

    limits: Ids
    uncounted: Ids
    forced: Ids
    phrases: list[PhraseTables | None]
    drafts: list[Draft | None]


def core_sentences(sentences: Sequence[NewSentence]) -> CoreSentences:
    """Return the fields of sentences as arguments of the core, which checks them."""
    has_phrases = any(sentence.phrases is not None for sentence in sentences)
    has_drafts = any(sentence.draft is not None for sentence in sentences)
    return {
        "limits": np.array([sentence.limit for sentence in sentences], dtype=np.int64),
        "uncounted": np.array([sentence.uncounted for sentence in sentences], dtype=np.int64),
        "forced": forced_matrix([sentence.forced for sentence in sentences]),
        "phrases": [sentence.phrases for sentence in sentences] if has_phrases else [],
        "drafts": [sentence.draft for sentence in sentences] if has_drafts else [],
    }


def core_datastore(datastore: Datastore | None) -> _core.Datastore | None:
    """Convert a datastore to a datastore of the core, which checks it; None is returned for None."""
    if datastore is None:
        return None
    return _core.Datastore(
        np.ascontiguousarray(datastore.keys, dtype=np.float32),
        np.ascontiguousarray(datastore.tokens, dtype=np.int64),
        datastore.radius,
        datastore.temperature,
        datastore.neighbours,
    )


def finished_target(hypothesis: _core.FinishedTuple) -> FinishedTarget:
    """Return a hypothesis of the core as a :class:`uwaga.decoder.FinishedTarget`."""
    tokens, log_probs, score, is_truncated, draft = hypothesis
    return FinishedTarget(tokens, log_probs, score, is_truncated, DraftUse(*draft) if draft[2] else None)


def core_rules(model: _core.Model, end_tokens: Sequence[int], rules: BeamRules) -> _core.Rules:
    """Convert rules to rules of the core, which checks them."""
    with convert_errors():
        return _core.Rules(
            model,
            rules.beams,
            rules.pool_size,
            rules.nbest,
            rules.start,
            np.array(end_tokens, dtype=np.int64),
            np.ascontiguousarray(rules.banned, dtype=np.int64),
            rules.min_length,
            STOPPING_CODES[rules.early_stopping],
            rules.force_end,
            rules.score_forced,
            rules.renormalise,
            np.ascontiguousarray(rules.divisors, dtype=np.float64),
            np.ascontiguousarray(rules.continues_word, dtype=np.uint8),
        )


@contextmanager
def convert_errors() -> Iterator[None]:
    """Convert exceptions that the core raises in the block to exceptions of :mod:`uwaga.errors`."""
    try:
        yield
    except _core.NotNumbersError as error:
        raise ModelError(str(error)) from None
    except _core.TooLongError as error:
        raise TextTooLongError(str(error)) from None
    except (_core.EditMismatchError, _core.NoSuchArrayError, _core.InsightTooLargeError) as error:
        raise SettingsError(str(error)) from None
    except ValueError as error:
        raise DataError(str(error)) from None


MAX_CACHED_LANES = 64
"""Maximum number of lanes (rules of a search in the core) that are cached for later searches."""


class NativeRunningBatch:
    """The :class:`uwaga.decoder.RunningBatch` of the engine; ``serve`` never acquires the GIL.

    ``serve`` uses as many threads as the model, each of which decodes different sentences; sentences with
    equal rules share their steps. Results are bit-identical to those of :class:`NativeBeamSearch`.

    Args:
        model: the model of the core.
        shortlist: the shortlist of the core; None for the complete vocabulary.
        end_tokens: the tokens that end a target, the end symbol first.
        check: function that raises ModelError if weights in a shared file have changed; None for private
            weights.
    """

    def __init__(
        self,
        model: _core.Model,
        shortlist: _core.Shortlist | None,
        end_tokens: Sequence[int],
        check: Callable[[], None] | None,
    ) -> None:
        self._model, self._ends, self._check = model, tuple(end_tokens), check
        self._core = _core.RunningBatch(model, shortlist)
        self._lanes: OrderedDict[tuple[object, ...], _core.Lane] = OrderedDict()
        self._latest: tuple[BeamRules, _core.Lane] | None = None

    def ticket(self, rules: BeamRules) -> NativeTicket:
        """See :meth:`uwaga.decoder.RunningBatch.ticket`."""
        latest_lane = self._latest
        lane = latest_lane[1] if latest_lane is not None and latest_lane[0] is rules else self._lane(rules)
        self._latest = rules, lane
        return NativeTicket(self._core, self._core.ticket(lane, rules.streams), self._check)

    def _lane(self, rules: BeamRules) -> _core.Lane:
        key = rules.key
        lane = self._lanes.pop(key, None) or _core.Lane(core_rules(self._model, self._ends, rules))
        self._lanes[key] = lane
        while len(self._lanes) > MAX_CACHED_LANES:
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

    def submit(self, sentences: Sequence[NewSentence]) -> None:
        if self._check is not None:
            self._check()
        sources = [sentence.source for sentence in sentences]
        datastores = [core_datastore(sentence.datastore) for sentence in sentences]
        with convert_errors(), convert_closed_batch_error():
            self._batch.submit(self._ticket, sources, datastores=datastores, **core_sentences(sentences))

    def collect(self, seconds: float) -> tuple[list[tuple[int, list[FinishedTarget]]], list[DecidedToken]]:
        with convert_errors(), convert_closed_batch_error():
            finished_targets, decided_tokens = self._batch.collect(self._ticket, seconds)
        targets = [(number, list(map(finished_target, nbest))) for number, nbest in finished_targets]
        return targets, list(map(DecidedToken._make, decided_tokens))

    def leave(self) -> None:
        self._batch.leave(self._ticket)


@contextmanager
def convert_closed_batch_error() -> Iterator[None]:
    """Convert the error that the core raises in the block for a closed batch to CancelledRequestError."""
    try:
        yield
    except RuntimeError as error:
        raise CancelledRequestError(str(error)) from None
