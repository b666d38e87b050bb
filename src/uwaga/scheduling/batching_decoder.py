"""A decoder for one call, whose searches run in a batch shared with other calls."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from uwaga.decoder import (
    AttentionRecorder,
    BeamRules,
    Choice,
    CrossAttention,
    CrossAttentions,
    Datastore,
    DecidedToken,
    Decoder,
    FinishedTarget,
    Ids,
    Memory,
    NewSentence,
    State,
    Step,
    Verify,
    WithDatastores,
    shared_positions,
    with_datastores,
)
from uwaga.errors import UwagaError
from uwaga.scheduling.call_context import CallContext
from uwaga.scheduling.model_batch import ModelBatch
from uwaga.scheduling.token_budget import SearchLease

WAIT_SECONDS, MAIN_THREAD_WAIT_SECONDS = 60.0, 0.1
"""Timeout of a single wait in seconds, and the shorter one of the main thread, which reacts to Ctrl-C."""


@dataclass(frozen=True)
class UnencodedSentences:
    """Sentences that the batch will encode, used in place of a :class:`uwaga.decoder.Memory`."""

    sources: Sequence[Sequence[int]]
    datastores: Sequence[Datastore | None] = ()

    @property
    def sentences(self) -> int:
        """Number of sentences."""
        return len(self.sources)

    @property
    def lengths(self) -> Ids:
        """Number of source tokens of each sentence, an array (sentences,)."""
        return np.array([len(source) for source in self.sources], dtype=np.int64)


class BatchingDecoder:
    """A decoder for one call, whose searches run in the batch of a model.

    Searches that need Python at every step (sampling, attention, n-gram blocking) run in the calling thread,
    on the model itself.

    Args:
        model_batch: the batch of the model.
        context: the context of the call, checked during waits.
        decoder: the model, or its variant that caches encoded sources
            (:attr:`uwaga.decoder.Decoder.recording`); None for the model of the batch.

    Attributes:
        model_batch: the batch of the model.
    """

    def __init__(self, model_batch: ModelBatch, context: CallContext, decoder: Decoder | None = None) -> None:
        self.shared, self._context = model_batch, context
        self._decoder = model_batch.decoder if decoder is None else decoder
        self.symbols, self.vocabulary = self._decoder.symbols, self._decoder.vocabulary
        self.max_source, self.max_target = self._decoder.max_source, self._decoder.max_target
        self.shared_positions = shared_positions(self._decoder)

    @property
    def description(self) -> str:
        """The description of the model, with the word ``shared``."""
        return f"{getattr(self._decoder, 'description', type(self._decoder).__name__)}, shared"

    def beam_search(self, rules: BeamRules) -> BatchingBeamSearch:
        """See :attr:`uwaga.decoder.Decoder.beam_search`."""
        self._context.check()
        return BatchingBeamSearch(self.shared, self._context, rules)

    @property
    def join(self) -> Callable[[State, State], State] | None:
        """See :attr:`uwaga.decoder.Decoder.join`."""
        return self._decoder.join

    @property
    def verify(self) -> Verify | None:
        """See :attr:`uwaga.decoder.Decoder.verify`."""
        return self._decoder.verify

    @property
    def attentions(self) -> AttentionRecorder | None:
        """See :attr:`uwaga.decoder.Decoder.attentions`."""
        return self._decoder.attentions

    @property
    def cross_attentions(self) -> CrossAttentions | None:
        """See :attr:`uwaga.decoder.Decoder.cross_attentions`."""
        return self._decoder.cross_attentions

    @property
    def cross_attention(self) -> CrossAttention | None:
        """See :attr:`uwaga.decoder.Decoder.cross_attention`."""
        return self._decoder.cross_attention

    @property
    def recording(self) -> Callable[[bool], Decoder] | None:
        """See :attr:`uwaga.decoder.Decoder.recording`; the variants run their searches in the same batch."""
        record = self._decoder.recording
        if record is None:
            return None
        return lambda all_attentions: BatchingDecoder(self.shared, self._context, record(all_attentions))

    def encode(self, sources: Sequence[Sequence[int]]) -> Memory:
        """Return the sentences unencoded, because the batch encodes them."""
        self._context.check()
        return UnencodedSentences(sources)

    @property
    def with_datastores(self) -> WithDatastores | None:
        """See :func:`uwaga.decoder.with_datastores`."""
        if with_datastores(self._decoder) is None:
            return None
        return lambda memory, datastores: replace(cast(UnencodedSentences, memory), datastores=datastores)

    def start(self, memory: Memory, beams: int) -> State:
        """See :meth:`uwaga.decoder.Decoder.start`."""
        assert isinstance(memory, UnencodedSentences)
        memory_batch, attach = self._decoder.encode(memory.sources), with_datastores(self._decoder)
        if attach is not None and any(memory.datastores):
            memory_batch = attach(memory_batch, memory.datastores)
        return self._decoder.start(memory_batch, beams)

    def step(self, tokens: Ids, state: State, choice: Choice) -> Step:
        """See :meth:`uwaga.decoder.Decoder.step`."""
        self._context.check()
        return self._decoder.step(tokens, state, choice)


class BatchingBeamSearch:
    """A :class:`uwaga.decoder.BeamSearch` that runs in the batch of a model, for one call and one thread.

    If the search ends early, its sentences leave the batch: after an error, Ctrl-C, cancellation or a
    deadline, or when this object is freed.
    """

    def __init__(self, model_batch: ModelBatch, context: CallContext, rules: BeamRules) -> None:
        self._ticket = model_batch.running_batch().ticket(rules)
        self._waiting = model_batch.waiting
        self._budget, self._context, self._rules = model_batch.budget, context, rules
        weak_self = weakref.ref(self)  # callbacks must not keep an abandoned search alive
        self._lease = SearchLease(
            context.client, lambda count: None if (search := weak_self()) is None else search.admit(count)
        )
        self._queued: deque[NewSentence] = deque()
        self._sizes: list[int] = []  # source tokens of each sentence
        self._results: list[list[FinishedTarget] | None] = []
        self._running = self._unfinished_tokens = (
            0  # number of unfinished sentences, and of their source tokens
        )
        self._decided: list[DecidedToken] = []
        self._has_progressed = False  # True if the last wait returned sentences or tokens
        self._error: UwagaError | None = None
        self._remove_callback = context.on_cancel(
            lambda: None if (search := weak_self()) is None else search.close()
        )

    @property
    def running(self) -> Ids:
        """Indices of the unfinished sentences, waiting sentences included, an array (sentences,)."""
        return np.array(
            [index for index, result in enumerate(self._results) if result is None], dtype=np.int64
        )

    def enter(self, memory: Memory, sentences: Sequence[NewSentence]) -> None:
        """Queue sentences for the batch; see :meth:`uwaga.decoder.BeamSearch.enter`."""
        assert isinstance(memory, UnencodedSentences)
        sizes = [len(sentence.source) for sentence in sentences]
        self._queued.extend(sentences)
        self._sizes += sizes
        self._results += [None] * len(sizes)
        self._running += len(sizes)
        self._unfinished_tokens += sum(sizes)
        self._budget.enqueue(self._lease, [size * self._rules.beams for size in sizes])

    def run(self, tokens: int) -> None:
        """Wait until at most ``tokens`` source tokens are unfinished, or until a token is streamed."""
        is_main_thread = threading.current_thread() is threading.main_thread()
        seconds = MAIN_THREAD_WAIT_SECONDS if is_main_thread else WAIT_SECONDS
        try:
            with self._context.waiting():
                while self._running:
                    self._raise_errors()
                    remaining_seconds = self._context.remaining
                    self._wait(seconds if remaining_seconds is None else min(seconds, remaining_seconds))
                    if self._unfinished_tokens <= tokens and (
                        not self._rules.streams or self._has_progressed
                    ):
                        break
        except BaseException:
            self.close()
            raise

    def finished(self) -> list[list[FinishedTarget]]:
        """See :meth:`uwaga.decoder.BeamSearch.finished`."""
        return [result or [] for result in self._results]

    def decided(self) -> list[DecidedToken]:
        """See :meth:`uwaga.decoder.BeamSearch.decided`."""
        decided_tokens, self._decided = self._decided, []
        return decided_tokens

    def close(self) -> None:
        """Leave the batch."""
        self._budget.leave(self._lease)
        self._ticket.leave()

    def __del__(self) -> None:
        self._remove_callback()
        if self._running:
            self.close()

    def _raise_errors(self) -> None:
        self._context.check()
        if self._error is not None:
            raise self._error

    def _wait(self, seconds: float) -> None:
        self._waiting.add(threading.get_ident())
        try:
            finished_targets, decided_tokens = self._ticket.collect(seconds)
        finally:
            self._waiting.discard(threading.get_ident())
        self._has_progressed = bool(finished_targets or decided_tokens)
        self._decided += decided_tokens
        for index, result in finished_targets:
            self._results[index] = result
            self._unfinished_tokens -= self._sizes[index]
        self._running -= len(finished_targets)
        if finished_targets:
            self._context.add_finished(len(finished_targets))
            self._budget.release(
                self._lease, [self._sizes[index] * self._rules.beams for index, _ in finished_targets]
            )

    def admit(self, count: int) -> None:
        """Submit the next ``count`` sentences to the batch; any thread that releases tokens calls this."""
        sentences = [self._queued.popleft() for _ in range(count)]
        try:
            self._ticket.submit(sentences)
        except UwagaError as error:
            self._error = error
            self._ticket.leave()


class ModelBatches:
    """The batches of models, each created by the first call that uses the model.

    Args:
        nice: see :class:`uwaga.scheduling.model_batch.ModelBatch`.
    """

    def __init__(self, nice: int = 0) -> None:
        self._lock, self._nice = threading.Lock(), nice
        self._batches: dict[int, ModelBatch] = {}  # by the id() of the decoder, which the batch keeps alive

    def decoder_for(self, context: CallContext) -> Callable[[Decoder], Decoder]:
        """Return a function that wraps a decoder, so that the searches of a call run in its model's batch."""
        return lambda decoder: BatchingDecoder(self.batch_for(decoder), context)

    def batch_for(self, decoder: Decoder) -> ModelBatch:
        """Return the batch of a model."""
        with self._lock:
            batch = self._batches.get(id(decoder))
            if batch is None:
                batch = self._batches[id(decoder)] = ModelBatch(decoder, nice=self._nice)
            return batch

    @property
    def batches(self) -> list[ModelBatch]:
        """All batches created so far."""
        return list(self._batches.values())

    def close(self) -> None:
        """Close all batches; running searches raise :class:`CancelledRequestError`."""
        with self._lock:
            for batch in self._batches.values():
                batch.close()
