"""An n-best list of different texts, or of samples by their expected utility."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from uwaga.decoder import MAX_BEAM, Decoder
from uwaga.results.translation import Hypothesis
from uwaga.search import SearchOptions, search
from uwaga.search.constraints import start_token
from uwaga.search.entropy import with_entropies
from uwaga.search.phrases import Phrases

WIDENINGS = (2, 4, 8)
"""How many times as wide a beam is tried where the one asked for holds too few different texts."""


def search_texts(
    decoder: Decoder,
    sources: Sequence[Sequence[int]],
    options: SearchOptions,
    prefixes: Sequence[Sequence[int]],
    decode: Callable[[Sequence[int]], str],
    phrases: Sequence[Phrases | None] | None = None,
) -> list[list[Hypothesis]]:
    """As :func:`uwaga.search.search`, but the n-best of a beam are different texts.

    Of hypotheses that are other segmentations of one text the best stays, with its own score. Where fewer
    than ``nbest`` are left, beams two, four and eight times as wide are searched for more; these stand by
    their scores behind the first, which is always what the beam gives that was asked for. Samples are left
    as they were drawn: they may be alike. With ``mbr`` they are drawn, and of different ones those of the
    highest expected utility stay, which is then their score.
    """
    if options.entropy:
        lists = search_texts(decoder, sources, replace(options, entropy=False), prefixes, decode, phrases)
        start = start_token(options, decoder.symbols)
        return with_entropies(decoder, sources, lists, start, options.batch_tokens)
    if options.mbr:
        samples = replace(options, nbest=options.mbr, mbr=0)
        drawn = search(decoder, sources, samples, prefixes=prefixes, phrases=phrases)
        return [_most_useful(samples, options, decode) for samples in drawn]
    if options.sample or options.nbest == 1:
        return search(decoder, sources, options, prefixes=prefixes, phrases=phrases)
    every = [None] * len(sources) if phrases is None else phrases
    found = [_merged(one, decode) for one in _searched(decoder, sources, options, prefixes, every, 1)]
    for times in WIDENINGS:
        short = [index for index, texts in enumerate(found) if len(texts) < options.nbest]
        if not short or options.beam * times > MAX_BEAM:
            break
        wider = _searched(
            decoder,
            [sources[at] for at in short],
            options,
            [prefixes[at] for at in short],
            [every[at] for at in short],
            times,
        )
        for at, more in zip(short, wider, strict=True):
            first = list(found[at].items())[:1]
            others = [*list(found[at].items())[1:], *_merged(more, decode).items()]
            others.sort(key=lambda item: -item[1].score)
            merged = dict(first)
            for text, hypothesis in others:
                merged.setdefault(text, hypothesis)
            found[at] = merged
    return [list(texts.values())[: options.nbest] for texts in found]


def _searched(
    decoder: Decoder,
    sources: Sequence[Sequence[int]],
    options: SearchOptions,
    prefixes: Sequence[Sequence[int]],
    phrases: Sequence[Phrases | None],
    times: int,
) -> list[list[Hypothesis]]:
    """All that a beam so many times as wide finishes."""
    beam = options.beam * times
    wide = replace(options, beam=beam, nbest=beam)
    return search(decoder, sources, wide, prefixes=prefixes, phrases=phrases)


def _merged(
    hypotheses: Sequence[Hypothesis], decode: Callable[[Sequence[int]], str]
) -> dict[str, Hypothesis]:
    """The best hypothesis of each text, best first."""
    texts: dict[str, Hypothesis] = {}
    for one in hypotheses:
        texts.setdefault(decode(one.tokens), one)
    return texts


def _most_useful(
    samples: Sequence[Hypothesis], options: SearchOptions, decode: Callable[[Sequence[int]], str]
) -> list[Hypothesis]:
    """The different ones of the highest expected utility, which is then their score, best first."""
    from uwaga.search.mbr import rank_by_utility

    ranked = rank_by_utility([decode(one.tokens) for one in samples], utility=options.utility)
    return [replace(samples[at], score=expected) for at, expected in ranked[: options.nbest]]
