"""Greedy search, beam search and sampling over any decoder.

Greedy search is a beam of one. A beam step ranks the ``2 * beam`` best continuations of each sentence: those
among the best ``beam`` that end are finished; the best ``beam`` that do not end continue. Sampling decodes
``nbest`` independent rows for each sentence. The numpy calls of a step do not increase with the number of
rows. If the decoder can join states, finished sentences are replaced by waiting ones. A decoder's own beam
search is used if the options allow it, with the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from uwaga.decoder import Decoder, Draft, target_limit
from uwaga.errors import SettingsError
from uwaga.results.translation import Hypothesis
from uwaga.search.constraints import (
    banned_tokens,
    check_prefixes,
    check_sources,
    check_tokens,
    start_token,
    starts_with_first,
    step_limit,
)
from uwaga.search.decoder_batch import DecoderBatch, searched_by_decoder
from uwaga.search.length_batching import free_slots, length_batches
from uwaga.search.options import SearchOptions
from uwaga.search.rank import StepOutcome

if TYPE_CHECKING:
    from uwaga.search.beam_batch import BeamBatch
    from uwaga.search.drafts import DraftBatch
    from uwaga.search.phrases import Phrases


@dataclass(frozen=True)
class StreamEvent:
    """A decided token of a sentence or, as the last event of a sentence, its hypothesis.

    ``sentence`` is the index of the input. ``token`` is None in the last event of a sentence; ``hypothesis``
    is None in all others. The end symbol is omitted.
    """

    sentence: int
    token: int | None
    log_prob: float = 0.0
    hypothesis: Hypothesis | None = None


CONTINUOUS_BATCH_FACTOR = 16
"""Size of a continuous batch, in ordinary batches; its tables grow with each step."""

Drafts = Sequence[Draft | None] | Decoder
"""The draft of each sentence, None for none; or a smaller model that drafts for all."""
Stream = Generator[StreamEvent, None, list[list[Hypothesis]]]


def search(
    decoder: Decoder,
    sources: Sequence[Sequence[int]],
    options: SearchOptions,
    *,
    prefixes: Sequence[Sequence[int]] | None = None,
    on_token: Callable[[StreamEvent], None] | None = None,
    phrases: Sequence[Phrases | None] | None = None,
    drafts: Drafts | None = None,
) -> list[list[Hypothesis]]:
    """Translate sentences of token ids.

    The result of a sentence does not depend on other sentences, provided that the decoder's rows are
    independent.

    Args:
        decoder: the model.
        sources: token ids of each sentence, with its end symbol; any number, in any order of lengths.
        options: how to search.
        prefixes: for each sentence, the tokens that its target must begin with (empty for none), after
            ``options.first``.
        on_token: called with each token as it is decided; greedy search or a single sample only.
        phrases: for each sentence, the phrases that its target must contain (M27). Its beam size is
            ``options.beam``, or larger if its banks need it (:func:`uwaga.search.banks.beam_size`). The
            search of a sentence stops when it has one more finished hypothesis than its last bank has slots,
            between ``options.nbest`` and ``options.beam``. A result lacks a phrase only if the length limits
            leave no room for it.
        drafts: for each sentence, a probable target; greedy search only. Without a bias the results are those
            without drafts, with fewer passes of the model; a decoder that cannot verify drafts ignores them.
            Or a smaller model of the same vocabulary, which drafts block by block. With phrases, drafts are
            ignored.

    Returns:
        For each sentence, up to ``options.nbest`` hypotheses, best first: distinct ones from a beam,
        independent ones (which may be equal) from sampling.

    Raises:
        TextTooLongError: a source or a prefix is too long for the model.
        DataError: a source is empty.
        SettingsError: the options, prefixes or phrases are invalid for the model.
        ModelError: the model's log-probabilities are NaN.
    """
    run = _run(decoder, sources, options, prefixes, on_token is not None, phrases, drafts)
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
    drafts: Drafts | None = None,
) -> Iterator[StreamEvent]:
    """Yield each token as it is decided, and each hypothesis when it is finished; see :func:`search`.

    Raises:
        SettingsError: the options require a beam or several samples.
    """
    return _run(decoder, sources, options, prefixes, True, None, drafts)


def _run(
    decoder: Decoder,
    sources: Sequence[Sequence[int]],
    options: SearchOptions,
    prefixes: Sequence[Sequence[int]] | None,
    streaming: bool,
    phrases: Sequence[Phrases | None] | None,
    drafts: Drafts | None,
) -> Stream:
    """Check the arguments, then decode batch by batch."""
    if streaming:
        options.check_streams()
    prefixes = [()] * len(sources) if prefixes is None else prefixes
    check_tokens(options, decoder.symbols, decoder.vocabulary)
    check_sources(decoder, sources)
    check_prefixes(decoder, prefixes, len(sources))
    prefixes = [starts_with_first(prefix, options) for prefix in prefixes]
    checked_phrases = _checked_phrases(decoder, sources, options, phrases, streaming)
    limits = [
        step_limit(
            options,
            target_limit(decoder, len(source)),
            len(source),
            len(prefix),
            f"sentence {number}",
            0 if sentence_phrases is None or sentence_phrases.bonus is not None else sentence_phrases.total,
        )
        for number, (source, prefix, sentence_phrases) in enumerate(
            zip(sources, prefixes, checked_phrases, strict=True), start=1
        )
    ]
    drafter: Decoder | None = None
    if drafts is not None:
        from uwaga.search.drafts import checked_drafter, checked_drafts

        if not isinstance(drafts, Sequence):
            drafter, drafts = checked_drafter(decoder, options, drafts), ()
        drafts = checked_drafts(decoder, options, drafts, limits)
    return _decode_all(
        decoder, sources, options, prefixes, limits, streaming, checked_phrases, drafts, drafter
    )


def _checked_phrases(
    decoder: Decoder,
    sources: Sequence[Sequence[int]],
    options: SearchOptions,
    phrases: Sequence[Phrases | None] | None,
    streaming: bool,
) -> list[Phrases | None]:
    """Return the phrases of each sentence, None for none, without alternatives that contain banned tokens."""
    if phrases is None or not any(
        sentence_phrases is not None and sentence_phrases.total for sentence_phrases in phrases
    ):
        return [None] * len(sources)
    if len(phrases) != len(sources):
        raise SettingsError(
            f"phrases are given for {len(phrases)} of {len(sources)} sentences: give them for all, or none"
        )
    if options.sample or streaming:
        raise SettingsError("phrases need beam search: leave out sample, mbr and streaming, or the phrases")
    for number, sentence_phrases in enumerate(phrases, start=1):
        if sentence_phrases is not None:
            sentence_phrases.check(decoder.symbols, decoder.vocabulary, f"sentence {number}")
    banned = banned_tokens(options, decoder.symbols)
    return [
        None if sentence_phrases is None else sentence_phrases.without_banned(banned)
        for sentence_phrases in phrases
    ]


def _decode_all(
    decoder: Decoder,
    sources: Sequence[Sequence[int]],
    options: SearchOptions,
    prefixes: Sequence[Sequence[int]],
    limits: Sequence[int],
    streaming: bool,
    phrases: Sequence[Phrases | None],
    drafts: Sequence[Draft | None] | None,
    drafter: Decoder | None,
) -> Stream:
    """Decode the sentences in groups of equal beam size."""
    results: list[list[Hypothesis]] = [[] for _ in sources]
    sizes = [options.rows] * len(phrases)
    if any(sentence_phrases is not None for sentence_phrases in phrases):
        from uwaga.search.banks import beam_size

        sizes = [
            options.rows if sentence_phrases is None else beam_size(options, sentence_phrases)
            for sentence_phrases in phrases
        ]
    for width in dict.fromkeys(sizes):
        selected = [index for index, size in enumerate(sizes) if size == width]
        plain = all(phrases[index] is None for index in selected)
        width_results = yield from _decode_batches(
            decoder,
            [sources[index] for index in selected],
            options if width == options.rows else replace(options, beam=width),
            [prefixes[index] for index in selected],
            [limits[index] for index in selected],
            options.rows,
            streaming,
            None if plain else [phrases[index] for index in selected],
            [drafts[index] for index in selected] if plain and drafts is not None else None,
            drafter if plain else None,
        )
        for index, hypotheses in zip(selected, width_results, strict=True):
            results[index] = hypotheses
    return results


def _decode_batches(
    decoder: Decoder,
    sources: Sequence[Sequence[int]],
    options: SearchOptions,
    prefixes: Sequence[Sequence[int]],
    limits: Sequence[int],
    pool_size: int,
    streaming: bool,
    phrases: Sequence[Phrases | None] | None,
    drafts: Sequence[Draft | None] | None,
    drafter: Decoder | None,
) -> Stream:
    results: list[list[Hypothesis]] = [[] for _ in sources]
    lengths = [len(source) for source in sources]
    joining = decoder.join is not None and (drafter is None or drafter.join is not None)
    by_decoder = drafter is None and searched_by_decoder(decoder, options, limits)
    for indices in length_batches(
        lengths, options.rows, options.batch_tokens * (CONTINUOUS_BATCH_FACTOR if joining else 1)
    ):
        batch_phrases = None if phrases is None else [phrases[index] for index in indices]
        arguments = (
            decoder,
            options,
            [sources[index] for index in indices],
            [prefixes[index] for index in indices],
            [limits[index] for index in indices],
            pool_size,
            batch_phrases,
        )
        batch: BeamBatch | DecoderBatch | DraftBatch
        batch_drafts = [] if drafts is None else [drafts[index] for index in indices]
        if by_decoder:
            batch = DecoderBatch(*arguments, streams=streaming, drafts=batch_drafts)
        elif any(batch_drafts) or drafter is not None:
            from uwaga.search.drafts import DraftBatch

            batch = DraftBatch(*arguments[:5], batch_drafts, drafter=drafter)
        else:
            from uwaga.search.beam_batch import BeamBatch

            batch = BeamBatch(*arguments)
        admitted = len(indices)
        while batch.waiting.size or batch.running.size:
            if joining and batch.waiting.size:
                admitted = free_slots(batch.running, batch.waiting, options.rows, options.batch_tokens)
            if admitted:
                batch.admit(admitted)
            admitted = 0
            progress = batch.step()
            if streaming and progress is not None:
                yield from _events(batch, progress, indices)
        for index, hypotheses in zip(indices, batch.hypotheses(np.arange(len(indices))), strict=True):
            results[index] = hypotheses
    return results


def _events(
    batch: BeamBatch | DecoderBatch | DraftBatch, progress: StepOutcome, indices: list[int]
) -> Iterator[StreamEvent]:
    """Yield the events of a step: each new token, then each finished sentence."""
    decided = zip(
        progress.extended.tolist(), progress.tokens.tolist(), progress.log_probs.tolist(), strict=True
    )
    for sentence, token, log_prob in decided:
        yield StreamEvent(indices[sentence], token, log_prob)
    for sentence, nbest in zip(progress.finished.tolist(), batch.hypotheses(progress.finished), strict=True):
        yield StreamEvent(indices[sentence], None, hypothesis=nbest[0])
