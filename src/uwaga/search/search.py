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
from dataclasses import dataclass, replace

import numpy as np

from uwaga.decoder import Decoder
from uwaga.errors import SettingsError
from uwaga.results.translation import Hypothesis
from uwaga.search.banks import places_for
from uwaga.search.beam_batch import BeamBatch, StepOutcome
from uwaga.search.constraints import (
    check_prefixes,
    check_sources,
    check_tokens,
    never_produced,
    start_token,
    starts_with_first,
    step_limit,
)
from uwaga.search.decoder_batch import DecoderBatch, searched_by_decoder
from uwaga.search.length_batching import free_slots, length_batches
from uwaga.search.options import SearchOptions
from uwaga.search.phrases import Phrases


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
    phrases: Sequence[Phrases | None] | None = None,
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
        phrases: per sentence, what its target must contain (M27). The beam of a sentence is as wide as
            ``options.beam``, or wider where its banks need it (:func:`uwaga.search.banks.places_for`).
            It waits for one finished hypothesis more than the last of its banks has places, between
            ``options.nbest`` and ``options.beam``. One without them all is found only where the limits
            leave no room for them.

    Returns:
        For each sentence in the order given, up to ``options.nbest`` hypotheses, best first: distinct
        ones from a beam, independent ones (which may be alike) from sampling.

    Raises:
        TextTooLongError: a source, or a prefix, is longer than the model can take.
        DataError: a source is empty.
        SettingsError: the options or prefixes do not fit the model.
        ModelError: the model's log-probabilities are not numbers.
    """
    run = _run(decoder, sources, options, prefixes, on_token is not None, phrases)
    while True:
        try:
            event = next(run)
        except StopIteration as finished:
            results: list[list[Hypothesis]] = finished.value
            if not options.entropy:
                return results
            from uwaga.search.entropy import with_entropies

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
    return _run(decoder, sources, options, prefixes, True, None)


def _run(
    decoder: Decoder,
    sources: Sequence[Sequence[int]],
    options: SearchOptions,
    prefixes: Sequence[Sequence[int]] | None,
    streaming: bool,
    phrases: Sequence[Phrases | None] | None,
) -> Stream:
    """Check everything, then decode batch by batch."""
    if streaming:
        options.check_streams()
    prefixes = [()] * len(sources) if prefixes is None else prefixes
    check_tokens(options, decoder.symbols, decoder.vocabulary)
    check_sources(decoder, sources)
    check_prefixes(decoder, prefixes, len(sources))
    prefixes = [starts_with_first(prefix, options) for prefix in prefixes]
    wanted = _checked(decoder, sources, options, phrases, streaming)
    limits = [
        step_limit(
            options,
            decoder.max_target,
            len(source),
            len(prefix),
            f"sentence {number}",
            0 if of_it is None or of_it.bonus is not None else of_it.total,
        )
        for number, (source, prefix, of_it) in enumerate(zip(sources, prefixes, wanted, strict=True), start=1)
    ]
    return _decode_all(decoder, sources, options, prefixes, limits, streaming, wanted)


def _checked(
    decoder: Decoder,
    sources: Sequence[Sequence[int]],
    options: SearchOptions,
    phrases: Sequence[Phrases | None] | None,
    streaming: bool,
) -> list[Phrases | None]:
    """The phrases of each sentence, None for none; without those that hold a token that is never produced.

    Raises:
        SettingsError: their number is not that of the sentences, one cannot be searched for, or nothing is
            searched for at all.
    """
    if phrases is None or not any(one is not None and one.total for one in phrases):
        return [None] * len(sources)
    if len(phrases) != len(sources):
        raise SettingsError(f"the phrases of {len(phrases)} sentences for {len(sources)}: give all or none")
    if options.sample or streaming:
        raise SettingsError(
            "phrases are put into a target by a beam: leave out sample, mbr and streaming, or the phrases"
        )
    for number, one in enumerate(phrases, start=1):
        if one is not None:
            one.check(decoder.symbols, decoder.vocabulary, f"sentence {number}")
    never = never_produced(options, decoder.symbols)
    return [None if one is None else one.possible(never) for one in phrases]


def _decode_all(
    decoder: Decoder,
    sources: Sequence[Sequence[int]],
    options: SearchOptions,
    prefixes: Sequence[Sequence[int]],
    limits: Sequence[int],
    streaming: bool,
    phrases: Sequence[Phrases | None],
) -> Stream:
    """Decode sentences of as many hypotheses together."""
    results: list[list[Hypothesis]] = [[] for _ in sources]
    places = [options.rows if one is None else places_for(options, one) for one in phrases]
    for width in dict.fromkeys(places):
        those = [index for index, of_it in enumerate(places) if of_it == width]
        plain = all(phrases[index] is None for index in those)
        found = yield from _decode_alike(
            decoder,
            [sources[index] for index in those],
            options if width == options.rows else replace(options, beam=width),
            [prefixes[index] for index in those],
            [limits[index] for index in those],
            options.rows,
            streaming,
            None if plain else [phrases[index] for index in those],
        )
        for index, hypotheses in zip(those, found, strict=True):
            results[index] = hypotheses
    return results


def _decode_alike(
    decoder: Decoder,
    sources: Sequence[Sequence[int]],
    options: SearchOptions,
    prefixes: Sequence[Sequence[int]],
    limits: Sequence[int],
    enough: int,
    streaming: bool,
    phrases: Sequence[Phrases | None] | None,
) -> Stream:
    results: list[list[Hypothesis]] = [[] for _ in sources]
    lengths = [len(source) for source in sources]
    joining = decoder.join is not None
    itself = searched_by_decoder(decoder, options, limits)
    for indices in length_batches(lengths, options.rows, options.batch_tokens * (WAVE if joining else 1)):
        of_batch = None if phrases is None else [phrases[index] for index in indices]
        given = (
            decoder,
            options,
            [sources[index] for index in indices],
            [prefixes[index] for index in indices],
            [limits[index] for index in indices],
            enough,
            of_batch,
        )
        batch = DecoderBatch(*given, streams=streaming) if itself else BeamBatch(*given)
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
