"""Detection of source words that a translation omits.

Attention alone does not find omitted words, because a step often attends to a word and produces an unrelated
one, or attends to two words and translates one of them. Contrastive conditioning finds them (Vamvas &
Sennrich 2022): the translation is scored again without the word in the source. A word shows in a few tokens
of its translation, so those that change most are compared: the token that becomes more probable most, because
something else stands in place of the word, and the one that becomes less probable most, because it translates
the word. A word without a link of its own needs less evidence, and one without any link needs none. The
thresholds were chosen with ``benchmarks/omissions.py`` and translations that a reader judged.
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
from uwaga.results.confidence import word_spans
from uwaga.results.translation import Coverage, Span
from uwaga.scheduling.call_context import while_active
from uwaga.search.constraints import with_first_token
from uwaga.translator.plan import Stage
from uwaga.translator.score import score_in_batches
from uwaga.translator.text import Passage, Sentence, TokenPair

WORD = re.compile(r"\w+")
MIN_LETTERS = 3
"""Minimum number of letters of an examined word; articles and particles often have no counterpart."""
MIN_EVIDENCE, MIN_EVIDENCE_WITHOUT_OWN_LINK, MIN_EVIDENCE_WITHOUT_LINK = 1.5, -0.8, 0.0
"""Evidence in nats above which a word counts as omitted; see :func:`min_evidence`."""
MIN_OWN_LINK_PROBABILITY = 0.3
"""Minimum probability of a link of its own: the best link of a word of the translation."""
MIN_ANY_LINK_PROBABILITY = 0.1
"""Link probability, by a link model, below which a word counts as omitted whatever the evidence."""
MIN_LINK_PROBABILITY = 0.8
"""Minimum link probability of a word that ``coverage="unaligned"`` does not examine."""
MIN_FORCED_LOG_PROB = -8.0
"""Log-probability below which a forced word of the translation is assumed to translate nothing."""
IMPROBABLE_LOG_PROB, MIN_WEIGHT = -2.0, 0.1
"""Log-probability below which a target token is assumed not to translate its source tokens, and the minimum
alignment weight of these source tokens."""

BATCH_PAIRS = 1024
"""Number of pairs scored between two checks that the call is still active."""


class _Word(NamedTuple):
    """A word that the translation may omit, with its sentence, its passage and its span in the passage.

    The word counts as omitted if the evidence is above ``min_evidence``. ``is_aligned`` is True if its best
    link is probable, a word of the translation has its best link to the word, and no improbable token is
    aligned to the word.
    """

    sentence: Sentence
    passage: Passage
    span: Span
    min_evidence: float
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
    evidence = _evidence(stage, [word for word in words if word.min_evidence > -math.inf])
    for word in words:
        if evidence.get(word, 0.0) > word.min_evidence:
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


def min_evidence(link: float, is_best: bool, has_link_model: bool) -> float:
    """Return the evidence above which a source word counts as omitted.

    Args:
        link: the probability of the word's best link; 0 without a link.
        is_best: whether a word of the translation has its best link to the word.
        has_link_model: whether links have probabilities. Without a link model, many translated words have no
            link, and words share links more often.
    """
    if link >= MIN_OWN_LINK_PROBABILITY and (is_best or not has_link_model):
        return MIN_EVIDENCE
    if not has_link_model:
        return MIN_EVIDENCE_WITHOUT_LINK
    return MIN_EVIDENCE_WITHOUT_OWN_LINK if link >= MIN_ANY_LINK_PROBABILITY else -math.inf


def evidence_of_omission(
    complete: Sequence[float], shortened: Sequence[float], forced_words: Sequence[range] = ()
) -> float:
    """Return the evidence that a word of the source is omitted, in nats.

    It is the largest increase of a token's log-probability when the word is left out, minus the largest
    decrease. A forced word that the model finds almost impossible is no translation of the word for the
    model, so the decreases of its tokens are not counted.

    Args:
        complete: log-probabilities of the target tokens, given the source.
        shortened: the same, given the source without the word.
        forced_words: the ranges of tokens of the words that the translation had to begin with.
    """
    changes = np.array(shortened) - np.array(complete)
    for tokens in forced_words:
        if min(complete[tokens.start : tokens.stop], default=0.0) < MIN_FORCED_LOG_PROB:
            forced = changes[tokens.start : tokens.stop]
            np.maximum(forced, 0.0, out=forced)
    return float(changes.max(initial=0.0) + changes.min(initial=0.0))


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
            span, link, is_best = alignment.source[index], links.get(index, 0.0), index in best_sources
            is_aligned = link >= MIN_LINK_PROBABILITY and is_best and doubtful.isdisjoint(range(*span))
            evidence = min_evidence(link, is_best, bool(alignment.likely))
            word = _Word(sentence, passage, span, evidence, is_aligned)
            if is_small_number(word.text) or (word.text[0].isalpha() and len(word.text) >= MIN_LETTERS):
                yield word


def _term_spans(sentence: Sentence) -> list[Span]:
    """Return the spans of a sentence's terms in its passage; empty for later models of a chain."""
    if sentence.terms is None or sentence.origin is not None:
        return []
    offset = sentence.span[0]
    return [(offset + match.start, offset + match.end) for match in sentence.terms.matches]


def _evidence(stage: Stage, words: Sequence[_Word]) -> dict[_Word, float]:
    """Return the evidence that each word is omitted."""
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
    scores = _token_scores(stage, [*complete.values(), *shortened_texts.values()])
    forced_words = {sentence: _forced_words(stage, sentence) for sentence in complete}
    return {
        word: evidence_of_omission(scores[complete[word.sentence]], scores[pair], forced_words[word.sentence])
        for word, pair in shortened_texts.items()
    }


def _forced_words(stage: Stage, sentence: Sentence) -> list[range]:
    """Return the ranges of tokens of the words of a sentence's prefix."""
    tokens = with_first_token(sentence.prefix, stage.options)
    return [range(*span) for span in word_spans(stage.model.target.pieces(tokens))]


def _token_scores(stage: Stage, pairs: Sequence[TokenPair]) -> dict[TokenPair, Sequence[float]]:
    """Return the log-probabilities of the target tokens of each pair."""
    options, scores = stage.options, list[Sequence[float]]()
    for first in while_active(range(0, len(pairs), BATCH_PAIRS)):
        part = pairs[first : first + BATCH_PAIRS]
        scores += score_in_batches(stage.model.scores, part, options.batch_tokens, options.start)
    return dict(zip(pairs, scores, strict=True))
