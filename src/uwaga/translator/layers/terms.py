"""Substitution of glossary terms for the words that a model would use.

A search that must use a term often adds it next to the usual word ("Künstler Maler"), because the search does
not know which source word the term translates. The alignment of the model's unconstrained translation tells
which words the terms replace. The candidates are the unconstrained translation with these words replaced by
the terms, one that continues freely after the first term, and one that may change the word before it, such as
an article. The most probable candidate without an error is chosen. If there is nothing to replace, or if each
candidate has an error, the hypotheses of a search that must use the terms anywhere are added. Errors are
terms that are missing or repeated, usual words next to terms, other dropped words, and text after the end of
the sentence.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise, product
from typing import NamedTuple

import numpy as np

from uwaga.alignment.piece_alignment import WordIndex
from uwaga.alignment.words import word_spans
from uwaga.decoder import target_limit
from uwaga.results.translation import Hypothesis, Span, TermUse, Translation, WordAlignment
from uwaga.search import SearchInput, search
from uwaga.search.phrases import Phrases
from uwaga.search.rank import Ranking
from uwaga.terms.apply import SentenceTerms, find_occurrences
from uwaga.terms.glossary import Match
from uwaga.tokenizers.subwords import Subwords
from uwaga.translator.align import align_pairs
from uwaga.translator.checks import lacks_final_punctuation
from uwaga.translator.detokenise import sentence_text, without_stop
from uwaga.translator.layers.search import repair_incomplete_characters
from uwaga.translator.plan import Stage
from uwaga.translator.text import Sentence, TokenPair

MAX_FORM_COMBINATIONS = 4
"""Maximum number of combinations of the terms' forms from which candidates are built."""
MAX_TERM_LOSS, MAX_TOKEN_LOSS = 24.0, 3.0
"""Maximum loss of log-probability, in nats, for each soft term and for each of its tokens; chosen so that
three of four synonyms are used."""
GREEDY_BEAM = 8
"""Beam size for candidates if the search is greedy, so that words before a term can agree with it."""
STEM_LENGTH = 3
"""Number of first letters that the inflections of a word are assumed to share."""
INNER_SENTENCE_END = re.compile(r"[.!?…](?=\s)|[。！？](?=.)")
"""Punctuation that ends a sentence before the end of the text."""
MIN_EXTENDING_PROBABILITY = 0.5
"""Minimum probability of a link that extends the translation of a term."""


@dataclass(frozen=True)
class TermSentence:
    """A sentence with glossary terms, and its unconstrained translation.

    Attributes:
        sentence: the sentence, with the model's unconstrained hypotheses.
        terms: the terms of the sentence, with the words that they replace.
        text: the unconstrained translation: the text of the first hypothesis.
        spans: the span of ``text`` that each term replaces, None for a term that replaces nothing.
    """

    sentence: Sentence
    terms: SentenceTerms
    text: str
    spans: Sequence[Span | None] = ()

    def count_errors(self, hypothesis: Hypothesis, text: str) -> tuple[int, int]:
        """Return the number of terms that a translation lacks, and the number of its other errors.

        Other errors are usual words that terms should have replaced, repeated terms, dropped words, and text
        after the end.
        """
        uses = replace(self.terms, replaced=()).find_uses(hypothesis.tokens, text)
        forms = Counter(use.target for use in uses)
        repetitions = sum(len(find_occurrences(form, text)) > times for form, times in forms.items())
        other_errors = len(self.terms.unreplaced_words(text)) + repetitions + self._count_dropped(text)
        return sum(not use.applied for use in uses), other_errors + (
            hypothesis.truncated or self._continues_after_end(text)
        )

    def _count_dropped(self, text: str) -> int:
        """Return how many long words of the unconstrained translation a text lacks, minus how many it adds.

        Inflections with the same first letters count as the same word. One more word may be missing for each
        term whose replaced words are unknown.
        """
        usual_words, spans = word_spans(self.text), [span for span in self.spans if span is not None]
        remaining_spans = [
            (start, end)
            for start, end in usual_words
            if not any(start < span_end and span_start < end for span_start, span_end in spans)
        ]
        text_without_terms = self.terms.without_terms(text)
        candidate = [text_without_terms[start:end] for start, end in word_spans(text_without_terms)]
        dropped_count = _count_missing([self.text[start:end] for start, end in remaining_spans], candidate)
        added_count = _count_missing(candidate, [self.text[start:end] for start, end in usual_words])
        return max(0, dropped_count - added_count - (len(self.spans) - len(spans)))

    def _continues_after_end(self, text: str) -> bool:
        """Return True if a text differs from the unconstrained translation in its final mark, or has more
        sentences.
        """
        text, usual_text = (
            without_stop(part) if self.sentence.lacks_final_punctuation else part.rstrip()
            for part in (text, self.text)
        )
        forms = tuple(form for term_forms in self.terms.forms for form in term_forms)
        if _final_mark(text) != _final_mark(usual_text) and not text.endswith(forms):
            return True
        text, usual_text = self.terms.without_terms(text), self.terms.without_terms(usual_text)
        return len(INNER_SENTENCE_END.findall(text)) > len(INNER_SENTENCE_END.findall(usual_text))

    def allows(self, hypothesis: Hypothesis) -> bool:
        """Return True if a hypothesis is not much less probable than the usual hypothesis."""
        loss = self.sentence.hypotheses[0].log_prob - hypothesis.log_prob
        return loss <= MAX_TERM_LOSS * len(self.terms.matches) + MAX_TOKEN_LOSS * self.terms.phrases.total

    @property
    def expected_tokens(self) -> int:
        """Expected number of tokens of a translation with the terms; more tokens do not improve its rank."""
        missing_count = self.terms.phrases.total - sum(span is not None for span in self.spans)
        return len(self.sentence.hypotheses[0].tokens) + missing_count

    @property
    def first_span(self) -> Span | None:
        """The span of the first words of the unconstrained translation that a term replaces, or None."""
        return min(filter(None, self.spans), default=None)


def _count_missing(words: Sequence[str], others: Sequence[str]) -> int:
    """Return the number of long words without an inflected form among ``others``."""
    stems = {word[:STEM_LENGTH].casefold() for word in others}
    return sum(len(word) > STEM_LENGTH and word[:STEM_LENGTH].casefold() not in stems for word in words)


def _final_mark(text: str) -> str:
    """Return the last character of a text, or an empty string if it is a letter or a digit."""
    return "" if lacks_final_punctuation(text) else text[-1:]


class Candidate(NamedTuple):
    """A hypothesis for a sentence with terms; ``errors`` are from :meth:`TermSentence.count_errors`."""

    sentence: TermSentence
    errors: tuple[int, int]
    hypothesis: Hypothesis

    def rank(self, ranking: Ranking) -> tuple[tuple[int, int], float]:
        """Return a key that sorts candidates, best first: by errors, then by loss normalised by length."""
        tokens = min(len(self.hypothesis.tokens), self.sentence.expected_tokens) + 1
        return self.errors, -self.hypothesis.log_prob / ranking.divisor(np.array([tokens])).item()


def substitute_terms(stage: Stage, sentences: Sequence[Sentence]) -> None:
    """Replace the hypotheses of sentences with terms by hypotheses that contain the terms, best first.

    A sentence whose unconstrained translation contains its terms keeps it. With soft terms, a sentence also
    keeps it if no candidate is both free of errors and probable enough.

    Args:
        stage: the model and the options.
        sentences: sentences with their hypotheses and terms.
    """
    target, options = stage.model.target, stage.options
    incomplete_sentences: list[TermSentence] = []
    for sentence in sentences:
        if sentence.terms is not None:
            best_tokens = sentence.hypotheses[0].tokens
            text = sentence_text(best_tokens, target)
            if not all(use.applied for use in sentence.terms.find_uses(best_tokens, text)):
                incomplete_sentences.append(TermSentence(sentence, sentence.terms, text))
    if not incomplete_sentences:
        return
    incomplete_sentences = _with_spans(stage, incomplete_sentences)
    candidates: dict[Sentence, list[Candidate]] = {
        term_sentence.sentence: [] for term_sentence in incomplete_sentences
    }
    searches = [
        _Search(term_sentence, tokens, phrases)
        for term_sentence in incomplete_sentences
        for tokens, phrases in _prefixes(term_sentence, target)
        if len(tokens) < _max_tokens(stage, term_sentence.sentence)
    ]
    for term_search, hypothesis, text in _run_searches(stage, searches):
        if _is_in_position(term_search, text):
            errors = term_search.count_errors(hypothesis, text)
            candidates[term_search.sentence].append(Candidate(term_search, errors, hypothesis))
    forced_searches = [
        _Search(term_sentence, term_sentence.sentence.prefix, term_sentence.terms.phrases)
        for term_sentence in incomplete_sentences
        if all(any(candidate.errors) for candidate in candidates[term_sentence.sentence])
    ]
    for term_search, hypothesis, text in _run_searches(stage, forced_searches):
        errors = term_search.count_errors(hypothesis, text)
        candidates[term_search.sentence].append(Candidate(term_search, errors, hypothesis))
    ranking = Ranking.from_options(options)
    for term_sentence in incomplete_sentences:
        distinct_candidates = {
            candidate.hypothesis.tokens: candidate for candidate in candidates[term_sentence.sentence]
        }
        best_candidate, *alternatives = sorted(
            distinct_candidates.values(), key=lambda candidate: candidate.rank(ranking)
        )
        if term_sentence.terms.is_forced or (
            not any(best_candidate.errors) and term_sentence.allows(best_candidate.hypothesis)
        ):
            hypotheses = [candidate.hypothesis for candidate in (best_candidate, *alternatives)]
            term_sentence.sentence.hypotheses = hypotheses[: options.nbest]
            term_sentence.sentence.terms = term_sentence.terms


def _max_tokens(stage: Stage, sentence: Sentence) -> float:
    """Return the maximum number of tokens of a sentence's target."""
    limits = stage.options.max_length, target_limit(stage.search_decoder, len(sentence.ids))
    return min(filter(None, limits), default=math.inf)


class _Search(NamedTuple):
    """A search for a sentence with terms: the prefix of its target, and the phrases that must follow."""

    sentence: TermSentence
    prefix: Sequence[int]
    phrases: Phrases | None


def _run_searches(
    stage: Stage, searches: Sequence[_Search]
) -> Iterator[tuple[TermSentence, Hypothesis, str]]:
    """Run searches, and yield each hypothesis with its sentence and its text.

    The searches do not normalise scores by length, so that a hypothesis with an improbable term gains nothing
    by continuing after the end of the sentence.
    """
    if not searches:
        return
    beam = stage.options.beam if stage.options.beam > 1 else GREEDY_BEAM
    inputs = [
        SearchInput(
            term_search.sentence.sentence.ids,
            term_search.prefix,
            term_search.phrases,
            datastore=term_search.sentence.sentence.datastore,
        )
        for term_search in searches
    ]
    options = replace(stage.options, entropy=False, beam=beam, nbest=beam, length_formula="none")
    lists = search(stage.search_decoder, inputs, options)
    repair_incomplete_characters(stage, inputs, lists, options)
    ranking = Ranking.from_options(stage.options)
    for term_search, hypotheses in zip(searches, lists, strict=True):
        lengths = np.array([len(hypothesis.token_scores) for hypothesis in hypotheses], dtype=np.int64)
        for hypothesis, divisor in zip(hypotheses, ranking.divisor(lengths).tolist(), strict=True):
            hypothesis = replace(hypothesis, score=hypothesis.log_prob / divisor)
            yield term_search.sentence, hypothesis, sentence_text(hypothesis.tokens, stage.model.target)


def _with_spans(stage: Stage, sentences: Sequence[TermSentence]) -> list[TermSentence]:
    """Return sentences with the spans that their terms replace; only a chain's first model can find these."""
    model = stage.model
    aligned = [
        term_sentence for term_sentence in sentences if model.aligns and term_sentence.sentence.origin is None
    ]
    texts = [(term_sentence.sentence.text, term_sentence.text) for term_sentence in aligned]
    pairs = [
        TokenPair(
            term_sentence.sentence.ids,
            (*term_sentence.sentence.hypotheses[0].tokens, model.target.symbols.end),
        )
        for term_sentence in aligned
    ]
    decoder, start = stage.search_decoder, stage.options.start
    alignments = align_pairs(decoder, model, texts, pairs, start) if aligned else []
    spans = {
        term_sentence.sentence: _replaceable_spans(term_sentence, words, model.target)
        for term_sentence, words in zip(aligned, alignments, strict=True)
    }
    return [
        _with_replaced_spans(
            term_sentence, spans.get(term_sentence.sentence, [None] * len(term_sentence.terms.matches))
        )
        for term_sentence in sentences
    ]


def _with_replaced_spans(term_sentence: TermSentence, spans: Sequence[Span | None]) -> TermSentence:
    """Return a sentence with the given spans, which its terms replace."""
    text = term_sentence.text
    replaced = tuple(None if span is None else text[slice(*span)] for span in spans)
    return replace(
        term_sentence,
        spans=spans,
        terms=replace(term_sentence.terms, usual_translation=text, replaced=replaced),
    )


def _replaceable_spans(
    term_sentence: TermSentence, words: WordAlignment, target: Subwords
) -> list[Span | None]:
    """Return the span of each term's translation; None for those in the forced prefix, which must stay."""
    prefix_length = len(sentence_text(term_sentence.sentence.prefix, target))
    spans = _spans(term_sentence.text, words, term_sentence.terms.matches)
    return [None if span is None or span[0] < prefix_length else span for span in spans]


def _spans(text: str, words: WordAlignment, matches: Sequence[Match]) -> list[Span | None]:
    """Return, for each term, the span of its translation in the unconstrained translation.

    The span is the word with the most probable link, extended by nearby words that are also linked.
    """
    index, links_by_word = WordIndex(words.source), dict[int, dict[int, float]]()
    for (source, target), probability in words.link_probabilities.items():
        start, end = words.target[target]
        if any(letter.isalnum() for letter in text[start:end]):
            links_by_word.setdefault(source, {})[target] = probability
    return [
        _span(words, [links_by_word.get(word, {}) for word in index.overlapping((match.start, match.end))])
        for match in matches
    ]


def _span(words: WordAlignment, links_by_word: Sequence[Mapping[int, float]]) -> Span | None:
    """Return the span of the translation of a term, given the links of each of its words."""
    link_probabilities: dict[int, float] = {}
    for links in links_by_word:
        for target, probability in links.items():
            link_probabilities[target] = max(link_probabilities.get(target, 0.0), probability)
    if not link_probabilities:
        return None

    def length(word: int) -> int:
        start, end = words.target[word]
        return end - start

    def extend(word: int, step: int) -> int:
        """Return the last word that also translates the term, going from ``word`` to the left or right."""
        while True:
            next_but_one = word + 2 * step
            if (
                len(links_by_word) > 1
                and link_probabilities.get(word + step, 0.0) > MIN_EXTENDING_PROBABILITY
            ):
                word += step
            elif link_probabilities.get(next_but_one, 0.0) > MIN_EXTENDING_PROBABILITY and length(
                word + step
            ) <= STEM_LENGTH < length(next_but_one):
                word = next_but_one  # "caixa de entrada"
            else:
                return word

    best_word = max(link_probabilities, key=lambda word: (link_probabilities[word], length(word)))
    return words.target[extend(best_word, -1)][0], words.target[extend(best_word, 1)][1]


def _prefixes(term_sentence: TermSentence, target: Subwords) -> Iterator[tuple[list[int], Phrases | None]]:
    """Yield the first tokens of each candidate, and the phrases to add (None if they contain all terms)."""
    prefix = list(term_sentence.sentence.prefix)
    for text, has_all_terms in _candidate_starts(term_sentence):
        tokens = target.encode(text)
        if tokens[: len(prefix)] == prefix:
            yield tokens, None if has_all_terms else term_sentence.terms.phrases


def _candidate_starts(term_sentence: TermSentence) -> Iterator[tuple[str, bool]]:
    """Yield the text with which each candidate begins, and whether this text contains every term."""
    spans = sorted((span, term) for term, span in enumerate(term_sentence.spans) if span is not None)
    if not spans or any(before[1] > after[0] for (before, _), (after, _) in pairwise(spans)):
        return
    original_text = term_sentence.text
    replacements = [[(span, form) for form in term_sentence.terms.forms[term]] for span, term in spans]
    for combination in islice(product(*replacements), MAX_FORM_COMBINATIONS):
        text, end = "", 0
        for (start, stop), form in combination:
            is_capital = (
                original_text[start].isupper() and not text.strip() and not original_text[:start].strip()
            )
            text += original_text[end:start] + (form[:1].upper() + form[1:] if is_capital else form)
            if not end:
                yield text, len(term_sentence.spans) == 1
            end = stop
        yield text + original_text[end:], len(spans) == len(term_sentence.spans)
    word_starts = [start for start, end in word_spans(original_text) if end <= spans[0][0][0]]
    if word_starts:
        yield original_text[: word_starts[-1]].rstrip(), False


def _is_in_position(term_sentence: TermSentence, text: str) -> bool:
    """Return True if a candidate has as many words before its first term as the unconstrained translation."""
    first_span = term_sentence.first_span
    assert first_span is not None
    words_before = sum(end <= first_span[0] for _, end in word_spans(term_sentence.text))
    starts = [start for start, _ in word_spans(text)]
    forms = term_sentence.terms.forms[term_sentence.spans.index(first_span)]
    return words_before < len(starts) and text[starts[words_before] :].casefold().startswith(
        tuple(form.casefold() for form in forms)
    )


def term_uses(sentences: Sequence[Sentence]) -> list[TermUse]:
    """Return the terms of sentences, and how their translations use them."""
    uses: list[TermUse] = []
    for sentence in sentences:
        if sentence.terms is not None:
            tokens = sentence.hypotheses[0].tokens if sentence.is_searched else ()
            uses += sentence.terms.find_uses(tokens, sentence.translation)
    return uses


def with_term_uses(translation: Translation, uses: Sequence[TermUse]) -> Translation:
    """Return a copy of a translation that records the uses of terms, with a warning for each missing term."""
    missing_words = dict.fromkeys(
        f"the term {use.source!r} was not translated as {use.target!r}" for use in uses if not use.applied
    )
    return replace(translation, terms=tuple(uses), warnings=(*translation.warnings, *missing_words))
