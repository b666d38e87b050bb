"""Words of a source that its translation omits.

Attention alone does not find them: a step often looks at a word and produces another. Contrastive
conditioning does (Vamvas & Sennrich 2022): a word is omitted if the translation is more probable without it
in the source. Words whose best link is improbable need less evidence. The thresholds were chosen with
``benchmarks/omissions.py``.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from uwaga.results.coverage import differing_numbers, is_small_number
from uwaga.results.translation import Coverage, Span
from uwaga.scheduling.call_context import while_active
from uwaga.translator.plan import Stage
from uwaga.translator.score import in_batches
from uwaga.translator.search_sentences import COPIED, SearchedPassage
from uwaga.translator.split import TranslatedPassage

FEWEST_LETTERS = 3
"""Letters of the shortest words that are examined; articles and particles often have no counterpart."""
SURE = 1.0
"""Nats that a translation gains without a word of the source that it omits, whatever the word's links are."""
LINKED, FEWEST_UNLINKED = 0.8, 4
"""Any gain is enough for a word of at least that many letters whose most probable link is below the first."""

TOGETHER = 1024
"""Pairs that are scored between two checks that the call is still active."""


class _Word(NamedTuple):
    """A word that may be omitted: its passage and sentence, its span in the passage, and the probability of
    its best link.
    """

    passage: int
    sentence: int
    span: Span
    link: float


def with_coverage(
    stage: Stage, passages: Sequence[TranslatedPassage], searched: Sequence[SearchedPassage]
) -> list[TranslatedPassage]:
    """Return translated passages with the ``coverage`` of their translations, and its warnings.

    Args:
        stage: the model and the options; with ``coverage="unaligned"`` only words whose links are all
            improbable are examined.
        passages: the passages, aligned.
        searched: the hypotheses that they were assembled from.
    """
    words = [word for at, passage in enumerate(passages) for word in _words(at, passage, searched[at])]
    if stage.options.coverage == "unaligned":
        words = [word for word in words if word.link < LINKED]
    omitted: list[list[str]] = [[] for _ in passages]
    for word, gain in zip(words, _gains(stage, searched, words), strict=True):
        text = passages[word.passage].passage.text[slice(*word.span)]
        if is_omitted(text, gain, word.link):
            omitted[word.passage].append(text)
    covered = []
    for passage, own in zip(passages, omitted, strict=True):
        made = passage.translation
        coverage = Coverage(tuple(own), *differing_numbers(made.source, made.text))
        made = replace(made, coverage=coverage, warnings=(*made.warnings, *coverage.warnings))
        covered.append(replace(passage, translation=made))
    return covered


def is_omitted(word: str, gain: float, link: float) -> bool:
    """Return True if a word of the source is not translated.

    Args:
        word: the word.
        gain: nats by which the translation is more probable without the word in the source.
        link: the probability of its best link.
    """
    return gain > SURE or (gain > 0 and link < LINKED and len(word) >= FEWEST_UNLINKED)


def _words(at: int, passage: TranslatedPassage, searched: SearchedPassage) -> Iterator[_Word]:
    """Yield the words of a passage that may be omitted: not its other numbers, which are compared."""
    alignment = passage.translation.alignment
    assert alignment is not None
    links: dict[int, float] = {}
    for (source, _), chance in alignment.link_probabilities.items():
        links[source] = max(chance, links.get(source, 0.0))
    starts = [start for start, _ in alignment.source]
    for number, sentence in enumerate(passage.passage.sentences):
        if searched.lists[number][0] is COPIED:
            continue
        first, last = (bisect_left(starts, place) for place in sentence.place)
        for word in range(first, last):
            start, end = alignment.source[word]
            text = passage.passage.text[start:end]
            if is_small_number(text) or (text[0].isalpha() and len(text) >= FEWEST_LETTERS):
                yield _Word(at, number, (start, end), links.get(word, 0.0))


def _gains(stage: Stage, searched: Sequence[SearchedPassage], words: Sequence[_Word]) -> list[float]:
    """Return the nats by which each translation is more probable without each word."""
    end, nothing = stage.model.target.symbols.end, tuple(stage.model.source.add_special_tokens([]))
    places = list(dict.fromkeys(word[:2] for word in words))
    sources, targets = list[tuple[int, ...]](), list[tuple[int, ...]]()
    for at, number in places:
        best = searched[at].lists[number][0]
        sources.append(searched[at].passage.sentences[number].ids)
        targets.append(best.tokens if best.truncated else (*best.tokens, end))
    whole = {place: (at, targets[at]) for at, place in enumerate(places)}
    for word in while_active(words):
        passage = searched[word.passage].passage
        place, (start, stop) = passage.sentences[word.sentence].place, word.span
        without = passage.text[place[0] : start].rstrip() + passage.text[stop : place[1]]
        sources.append(stage.segmenter.ids(without) or nothing)
        targets.append(whole[word[:2]][1])
    options, totals = stage.options, list[float]()
    for at in while_active(range(0, len(sources), TOGETHER)):
        sides = sources[at : at + TOGETHER], targets[at : at + TOGETHER]
        scores = in_batches(stage.model.scores, *sides, options.batch_tokens, options.start)
        totals += map(math.fsum, scores)
    return [
        total - totals[whole[word[:2]][0]] for word, total in zip(words, totals[len(places) :], strict=True)
    ]
