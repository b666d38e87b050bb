"""The search, which returns hypotheses for sentences with any decoder.

Greedy search has a beam of one. A beam step ranks the ``2 * beam`` best continuations of each sentence: those
among the best ``beam`` that end are finished; the best ``beam`` that do not end continue. Sampling decodes
``nbest`` independent rows for each sentence. The number of numpy calls in a step does not depend on the
number of rows.

Unusual: sentences are decoded in order of length, and if the decoder can join states, waiting sentences
replace finished ones, so that a batch stays full. A search that the decoder implements is used where it gives
the same result. This file does not depend on what a batch does in a step, on which kind of batch
decodes a sentence, or on the model.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from uwaga.decoder import Decoder, with_datastores
from uwaga.results.translation import Hypothesis
from uwaga.search.batch import Batch
from uwaga.search.batch_maker import BatchMaker, batch_maker
from uwaga.search.check import check_inputs
from uwaga.search.inputs import SearchInput, SearchSentence
from uwaga.search.length_batching import free_slots, length_batches
from uwaga.search.options import SearchOptions
from uwaga.search.rank import StepOutcome


class StreamEvent(NamedTuple):
    """A decided token of a sentence or, as the last event of a sentence, its hypothesis.

    ``sentence`` is the index of the input. ``token`` is None in the last event of a sentence; ``hypothesis``
    is None in all other events. The end symbol is omitted.
    """

    sentence: int
    token: int | None
    log_prob: float = 0.0
    hypothesis: Hypothesis | None = None


CONTINUOUS_BATCH_FACTOR = 16
"""Size of a continuous batch relative to an ordinary one; it is limited because its tables grow with each
step."""

Stream = Generator[StreamEvent, None, list[list[Hypothesis]]]


def search(
    decoder: Decoder,
    sentences: Sequence[SearchInput],
    options: SearchOptions,
    *,
    drafter: Decoder | None = None,
    on_token: Callable[[StreamEvent], None] | None = None,
) -> list[list[Hypothesis]]:
    """Translate sentences of token ids.

    The result of a sentence does not depend on other sentences, provided that the decoder's rows are
    independent.

    Args:
        decoder: the model.
        sentences: the sentences; any number, in any order of lengths.
        options: how to search.
        drafter: a smaller model of the same vocabulary that drafts for the sentences, block by block; greedy
            search only. Ignored if a sentence has a draft.
        on_token: called with each token as it is decided; greedy search or a single sample only.

    Returns:
        For each sentence, up to ``options.nbest`` hypotheses, best first: distinct ones from a beam,
        independent ones (which may be equal) from sampling.

    Raises:
        TextTooLongError: a source or a prefix is too long for the model.
        DataError: a source is empty.
        SettingsError: the options, prefixes or phrases are invalid for the model.
        ModelError: the model's log-probabilities are NaN.
    """
    run = _run(decoder, sentences, options, drafter, on_token is not None)
    while True:
        try:
            event = next(run)
        except StopIteration as finished:
            results: list[list[Hypothesis]] = finished.value
            if not options.entropy:
                return results
            from uwaga.search.entropy import with_entropies

            return with_entropies(decoder, sentences, results, options)
        if on_token is not None:
            on_token(event)


def stream(
    decoder: Decoder,
    sentences: Sequence[SearchInput],
    options: SearchOptions,
    *,
    drafter: Decoder | None = None,
) -> Iterator[StreamEvent]:
    """Yield each token as it is decided, and each hypothesis when it is finished; see :func:`search`.

    Raises:
        SettingsError: as in :func:`search`; or the options do not allow streaming.
    """
    return _run(decoder, sentences, options, drafter, True)


def _run(
    decoder: Decoder,
    sentences: Sequence[SearchInput],
    options: SearchOptions,
    drafter: Decoder | None,
    streaming: bool,
) -> Stream:
    """Check the arguments, then decode batch by batch."""
    if streaming:
        options.check_streams()
    search_sentences = check_inputs(decoder, sentences, options, streaming)
    if with_datastores(decoder) is None and any(sentence.datastore for sentence in search_sentences):
        from uwaga.search.retrieval import RetrievalDecoder

        decoder = RetrievalDecoder(decoder)
    return _decode_all(search_sentences, batch_maker(decoder, options, search_sentences, streaming, drafter))


def _decode_all(sentences: Sequence[SearchSentence], batches: BatchMaker) -> Stream:
    """Decode sentences in batches of equal beam size and similar length."""
    results: list[list[Hypothesis]] = [[] for _ in sentences]
    budget = batches.options.batch_tokens * (CONTINUOUS_BATCH_FACTOR if batches.can_join else 1)
    for beam in dict.fromkeys(sentence.beam for sentence in sentences):
        group = [index for index, sentence in enumerate(sentences) if sentence.beam == beam]
        lengths = [len(sentences[index].ids) for index in group]
        for positions in length_batches(lengths, beam, budget):
            indices = [group[position] for position in positions]
            batch = batches.make([sentences[index] for index in indices])
            yield from _decode_batch(batch, batches, indices, beam)
            for index, nbest in zip(indices, batch.hypotheses(np.arange(len(indices))), strict=True):
                results[index] = nbest
    return results


def _decode_batch(batch: Batch, batches: BatchMaker, indices: list[int], beam: int) -> Iterator[StreamEvent]:
    """Decode a batch; ``indices`` are the indices of its sentences in the input."""
    admitted_count = len(indices)
    while batch.waiting_lengths.size or batch.running_lengths.size:
        if batches.can_join and batch.waiting_lengths.size:
            admitted_count = free_slots(
                batch.running_lengths, batch.waiting_lengths, beam, batches.options.batch_tokens
            )
        if admitted_count:
            batch.admit(admitted_count)
        admitted_count = 0
        outcome = batch.step()
        if batches.streaming and outcome is not None:
            yield from _events(batch, outcome, indices)


def _events(batch: Batch, outcome: StepOutcome, indices: list[int]) -> Iterator[StreamEvent]:
    """Yield the events of a step: each new token, then each finished sentence."""
    decided_tokens = zip(
        outcome.extended.tolist(), outcome.tokens.tolist(), outcome.log_probs.tolist(), strict=True
    )
    for sentence, token, log_prob in decided_tokens:
        yield StreamEvent(indices[sentence], token, log_prob)
    for sentence, nbest in zip(outcome.finished.tolist(), batch.hypotheses(outcome.finished), strict=True):
        yield StreamEvent(indices[sentence], None, hypothesis=nbest[0])
