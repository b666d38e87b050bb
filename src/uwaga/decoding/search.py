"""The one search: greedy, beam and sampling over any decoder that keeps the contract.

Greedy is a beam of one. A beam step ranks the ``2 * beam`` best continuations of each sentence: those
among the best ``beam`` that end are finished, the best ``beam`` that do not end run on. Sampling runs
``nbest`` rows per sentence that know nothing of each other. No row is looked at in Python: a step costs
a fixed number of numpy calls. Where the decoder can join states, a sentence that is done gives its slot
to one that waits. A decoder that can search by itself, with the same result, is let to where nobody waits for
each token.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from uwaga.contracts import Decoder, Hypothesis
from uwaga.decoding.beam_batch import BeamBatch, StepOutcome
from uwaga.decoding.constraints import (
    check_prefixes,
    check_sources,
    check_tokens,
    start_token,
    starts_with_first,
    step_limit,
)
from uwaga.decoding.decoder_batch import DecoderBatch, searched_by_decoder
from uwaga.decoding.length_batching import free_slots, length_batches
from uwaga.decoding.options import SearchOptions


@dataclass(frozen=True)
class StreamEvent:
    """What a stream says of a sentence: a token as it is decided, or, last, the whole hypothesis.

    ``sentence`` numbers the input from 0. ``token`` is None in a sentence's last event, and only then
    ``hypothesis`` is not. The end symbol is not streamed.
    """

    sentence: int
    token: int | None
    log_prob: float = 0.0
    hypothesis: Hypothesis | None = None


WAVE = 16
"""How many times its size a batch holds where sentences may enter late: its tables grow with each step."""

Stream = Generator[StreamEvent, None, list[list[Hypothesis]]]


def search(
    decoder: Decoder,
    sources: Sequence[Sequence[int]],
    options: SearchOptions,
    *,
    prefixes: Sequence[Sequence[int]] | None = None,
    on_token: Callable[[StreamEvent], None] | None = None,
) -> list[list[Hypothesis]]:
    """Translate sentences of token ids.

    A sentence's result does not depend on which others it comes with, provided that the decoder's rows
    do not depend on each other.

    Args:
        decoder: the model.
        sources: sentences of token ids, each with its end symbol; any number, in any order of lengths.
        options: how to search.
        prefixes: per sentence, the tokens that its target must begin with (empty for none); they follow
            ``options.first``.
        on_token: called with each token as it is decided; greedy or a single sample only.

    Returns:
        For each sentence in the order given, up to ``options.nbest`` hypotheses, best first: distinct
        ones from a beam, independent ones (which may be alike) from sampling.

    Raises:
        TextTooLongError: a source, or a prefix, is longer than the model can take.
        DataError: a source is empty.
        SettingsError: the options or prefixes do not fit the model.
        ModelError: the model's log-probabilities are not numbers.
    """
    run = _run(decoder, sources, options, prefixes, streaming=on_token is not None)
    while True:
        try:
            event = next(run)
        except StopIteration as finished:
            results: list[list[Hypothesis]] = finished.value
            if not options.entropy:
                return results
            from uwaga.decoding.entropy import with_entropies

            start = start_token(options, decoder.symbols)
            return with_entropies(decoder, sources, results, start, options.batch_tokens)
        if on_token is not None:
            on_token(event)


def stream(
    decoder: Decoder,
    sources: Sequence[Sequence[int]],
    options: SearchOptions,
    *,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> Iterator[StreamEvent]:
    """As :func:`search`, yielding every token as it is decided and each hypothesis when it is whole.

    Raises:
        SettingsError: the options ask for a beam or more than one sample, where no token is decided
            before the end.
    """
    return _run(decoder, sources, options, prefixes, streaming=True)


def _run(
    decoder: Decoder,
    sources: Sequence[Sequence[int]],
    options: SearchOptions,
    prefixes: Sequence[Sequence[int]] | None,
    streaming: bool,
) -> Stream:
    """Check everything, then decode batch by batch."""
    if streaming:
        options.check_streams()
    prefixes = [()] * len(sources) if prefixes is None else prefixes
    check_tokens(options, decoder.symbols, decoder.vocabulary)
    check_sources(decoder, sources)
    check_prefixes(decoder, prefixes, len(sources))
    prefixes = [starts_with_first(prefix, options) for prefix in prefixes]
    limits = [
        step_limit(options, decoder.max_target, len(source), len(prefix), f"sentence {number}")
        for number, (source, prefix) in enumerate(zip(sources, prefixes, strict=True), start=1)
    ]
    return _decode_all(decoder, sources, options, prefixes, limits, streaming)


def _decode_all(
    decoder: Decoder,
    sources: Sequence[Sequence[int]],
    options: SearchOptions,
    prefixes: Sequence[Sequence[int]],
    limits: Sequence[int],
    streaming: bool,
) -> Stream:
    results: list[list[Hypothesis]] = [[] for _ in sources]
    lengths = [len(source) for source in sources]
    joining = decoder.join is not None
    itself = not streaming and searched_by_decoder(decoder, options, limits)
    for indices in length_batches(lengths, options.rows, options.batch_tokens * (WAVE if joining else 1)):
        batch: BeamBatch | DecoderBatch = (DecoderBatch if itself else BeamBatch)(
            decoder,
            options,
            [sources[index] for index in indices],
            [prefixes[index] for index in indices],
            [limits[index] for index in indices],
        )
        entering = len(indices)
        while batch.waiting.size or batch.running.size:
            if joining and batch.waiting.size:
                entering = free_slots(batch.running, batch.waiting, options.rows, options.batch_tokens)
            if entering:
                batch.admit(entering)
            entering = 0
            progress = batch.step()
            if streaming and progress is not None:
                yield from _events(batch, progress, indices)
        for index, hypotheses in zip(indices, batch.hypotheses(np.arange(len(indices))), strict=True):
            results[index] = hypotheses
    return results


def _events(
    batch: BeamBatch | DecoderBatch, progress: StepOutcome, indices: list[int]
) -> Iterator[StreamEvent]:
    """What a stream says after a step: each new token, then each sentence that is done."""
    decided = zip(
        progress.extended.tolist(), progress.tokens.tolist(), progress.log_probs.tolist(), strict=True
    )
    for sentence, token, log_prob in decided:
        yield StreamEvent(indices[sentence], token, log_prob)
    for sentence, nbest in zip(progress.done.tolist(), batch.hypotheses(progress.done), strict=True):
        yield StreamEvent(indices[sentence], None, hypothesis=nbest[0])
