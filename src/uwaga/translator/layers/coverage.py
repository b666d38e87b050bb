"""Detection of source words that a translation omits.

Attention alone does not find omitted words, because a step often attends to a word and produces an unrelated
one, which is then improbable. Contrastive conditioning finds them (Vamvas & Sennrich 2022): a word counts as
omitted if the translation is more probable without the word in the source. Words whose best link is
improbable need less evidence, and words without any link need none. The thresholds were chosen with
``benchmarks/omissions.py``.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from uwaga.languages.codes import base_language
from uwaga.languages.function_words import function_words
from uwaga.languages.numbers import differing_numbers, is_small_number
from uwaga.results.translation import Coverage, Span
from uwaga.scheduling.call_context import while_active
from uwaga.translator.plan import Stage
from uwaga.translator.score import score_in_batches
from uwaga.translator.text import Passage, Sentence, TokenPair

WORD = re.compile(r"\w+")
MIN_LETTERS = 3
"""Minimum number of letters of an examined word; articles and particles often have no counterpart."""
MIN_CERTAIN_GAIN = 1.0
"""Gain in nats above which a word counts as omitted, regardless of its links; see :func:`is_omitted`."""
MIN_LINK_PROBABILITY, MIN_UNLINKED_LETTERS = 0.8, 4
"""Link probability below which a word counts as omitted at any positive gain, and the minimum number of
letters of such a word."""
MIN_ANY_LINK_PROBABILITY = 0.1
"""Link probability, by a link model, below which a word of at least :data:`MIN_UNLINKED_LETTERS` letters
counts as omitted at any gain."""
IMPROBABLE_LOG_PROB, MIN_WEIGHT = -2.0, 0.1
"""Log-probability below which a target token is assumed not to translate its source tokens, and the minimum
alignment weight of these source tokens."""

BATCH_PAIRS = 1024
"""Number of pairs scored between two checks that the call is still active."""


class _Word(NamedTuple):
    """A word that the translation may omit, with its sentence, its passage and its span in the passage.

    ``link`` is the probability of its best link. ``is_aligned`` is True if that link is probable, a word of
    the translation has its best link to the word, and no improbable token is aligned to the word.
    """

    sentence: Sentence
    passage: Passage
    span: Span
    link: float
    is_aligned: bool

    @property
    def text(self) -> str:
        start, end = self.span
        return self.passage.text[start:end]

    @property
    def text_without_word(self) -> str:
        """The text of the sentence without this word."""
        (start, end), (word_start, word_end) = self.sentence.span, self.span
        return self.passage.text[start:word_start].rstrip() + self.passage.text[word_end:end]


def add_coverage(stage: Stage, passages: Sequence[Passage]) -> None:
    """Set the ``coverage`` of translated passages, and add its warnings.

    A missing number is reported as a number only, not as an omitted word, too.

    Args:
        stage: the model and the options; with ``coverage="unaligned"``, words with ``is_aligned`` are not
            examined.
        passages: the passages, translated and aligned.
    """
    language = base_language(stage.model.languages[0])
    words = [word for passage in passages for word in _candidate_words(passage, language)]
    if stage.options.coverage == "unaligned":
        words = [word for word in words if not word.is_aligned]
    omitted: dict[Passage, list[_Word]] = {passage: [] for passage in passages}
    gains = _gains(stage, words)
    for word in words:
        if is_omitted(word.text, gains[word], word.link):
            omitted[word.passage].append(word)
    for passage in passages:
        result = passage.result
        missing_numbers, added_numbers = differing_numbers(result.source, result.text, stage.model.languages)
        in_numbers = {word for number in missing_numbers for word in WORD.findall(number)}
        words = [word for word in omitted[passage] if word.text not in in_numbers]
        omitted_words, spans = tuple(word.text for word in words), tuple(word.span for word in words)
        coverage = Coverage(omitted_words, missing_numbers, added_numbers, spans)
        warnings = (*result.warnings, *coverage.warnings)
        passage.translation = replace(result, coverage=coverage, warnings=warnings)


def is_omitted(word: str, gain: float, link: float) -> bool:
    """Return True if a source word counts as omitted.

    Args:
        word: the word.
        gain: increase of the translation's log-probability, in nats, without the word in the source.
        link: the probability of the word's best link.
    """
    return gain > MIN_CERTAIN_GAIN or (
        len(word) >= MIN_UNLINKED_LETTERS
        and (link < MIN_ANY_LINK_PROBABILITY or (gain > 0 and link < MIN_LINK_PROBABILITY))
    )


def improbable_source_starts(passage: Passage) -> set[int]:
    """Return the starts of the source pieces of a passage to which improbable tokens are aligned."""
    starts = set[int]()
    for sentence, pieces in zip(passage.sentences, passage.pieces, strict=True):
        if not sentence.is_searched:
            continue
        weights = pieces.weights
        if pieces.maps is not None:
            weights = np.maximum(weights, pieces.maps.mean(axis=0))
        scores = np.array(sentence.hypotheses[0].token_scores[: len(weights)])
        indices = np.flatnonzero((weights[scores < IMPROBABLE_LOG_PROB] >= MIN_WEIGHT).any(axis=0))
        starts |= {span[0] for index in indices.tolist() if (span := pieces.source[index]) is not None}
    return starts


def _candidate_words(passage: Passage, language: str) -> Iterator[_Word]:
    """Yield the words of a passage that its translation may omit.

    Numbers that are compared by value, function words of the passage's language and glossary terms are not
    yielded.
    """
    alignment = passage.result.alignment
    assert alignment is not None
    links: dict[int, float] = {}
    best_sources_by_start: dict[int, tuple[float, int]] = {}
    for (source, target), probability in alignment.link_probabilities.items():
        links[source] = max(probability, links.get(source, 0.0))
        best_sources_by_start[target] = max(
            (probability, source), best_sources_by_start.get(target, (0.0, source))
        )
    best_sources = {source for _, source in best_sources_by_start.values()}
    doubtful = improbable_source_starts(passage)
    starts = [start for start, _ in alignment.source]
    # Without a link model, many translated words have no link.
    no_link = 0.0 if alignment.likely else MIN_ANY_LINK_PROBABILITY
    skipped_words = function_words(passage.text, language)
    for sentence in passage.sentences:
        if not sentence.is_searched:
            continue
        start_index, end_index = (bisect_left(starts, bound) for bound in sentence.span)
        terms = _term_spans(sentence)
        for index in range(start_index, end_index):
            start = starts[index]
            if start in skipped_words or any(
                term_start <= start < term_end for term_start, term_end in terms
            ):
                continue
            span, link = alignment.source[index], links.get(index, no_link)
            is_aligned = (
                link >= MIN_LINK_PROBABILITY and index in best_sources and doubtful.isdisjoint(range(*span))
            )
            word = _Word(sentence, passage, span, link, is_aligned)
            if is_small_number(word.text) or (word.text[0].isalpha() and len(word.text) >= MIN_LETTERS):
                yield word


def _term_spans(sentence: Sentence) -> list[Span]:
    """Return the spans of a sentence's terms in its passage; empty for later models of a chain."""
    if sentence.terms is None or sentence.origin is not None:
        return []
    offset = sentence.span[0]
    return [(offset + match.start, offset + match.end) for match in sentence.terms.matches]


def _gains(stage: Stage, words: Sequence[_Word]) -> dict[_Word, float]:
    """Return, for each word, the gain in the translation's log-probability if the word is left out (nats)."""
    end, empty_source = stage.model.target.symbols.end, tuple(stage.model.source.add_special_tokens([]))
    complete: dict[Sentence, TokenPair] = {}
    for word in words:
        hypothesis = word.sentence.hypotheses[0]
        target = hypothesis.tokens if hypothesis.truncated else (*hypothesis.tokens, end)
        complete[word.sentence] = TokenPair(word.sentence.ids, target)
    shortened_texts = {
        word: TokenPair(
            stage.segmenter.ids(word.text_without_word) or empty_source, complete[word.sentence].target
        )
        for word in while_active(words)
    }
    log_probs = _log_probs(stage, [*complete.values(), *shortened_texts.values()])
    return {
        word: log_probs[pair] - log_probs[complete[word.sentence]] for word, pair in shortened_texts.items()
    }


def _log_probs(stage: Stage, pairs: Sequence[TokenPair]) -> dict[TokenPair, float]:
    """Return the log-probability of the target of each pair."""
    options, totals = stage.options, list[float]()
    for start in while_active(range(0, len(pairs), BATCH_PAIRS)):
        part = pairs[start : start + BATCH_PAIRS]
        scores = score_in_batches(stage.model.scores, part, options.batch_tokens, options.start)
        totals += map(math.fsum, scores)
    return dict(zip(pairs, totals, strict=True))
