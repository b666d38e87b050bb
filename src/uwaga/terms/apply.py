"""Application of a glossary: the phrases that translations must contain, and the terms that they use."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from os import PathLike
from typing import get_args
from weakref import WeakKeyDictionary, WeakSet

import numpy as np
from numpy.typing import NDArray

from uwaga.alignment.words import word_spans
from uwaga.errors import DataError, quoted
from uwaga.results.translation import GlossaryMode, TermUse
from uwaga.search.phrases import Phrase, Phrases
from uwaga.settings.options import check_choice
from uwaga.terms.glossary import Glossary, Match
from uwaga.tokenizers.subwords import Subwords

GlossaryArgument = Glossary | Mapping[str, str | Sequence[str] | None] | str | PathLike[str] | None
"""The glossary argument of a call; see :meth:`uwaga.terms.Glossary.from_argument`."""
MAX_ENDING_LETTERS = 2
"""Maximum number of letters of an inflectional ending, so that ``Autos`` matches ``Auto``."""
UNSPACED_CONTEXT = "("
"""Text that is put before a term in order to encode the term without a preceding space."""
WHITESPACE = re.compile(r"\s+")

_continuations: WeakKeyDictionary[Subwords, NDArray[np.bool_]] = WeakKeyDictionary()
_spellable: WeakKeyDictionary[Glossary, WeakSet[Subwords]] = WeakKeyDictionary()


@dataclass(frozen=True)
class SentenceTerms:
    """The terms of a sentence.

    Attributes:
        matches: the matches of terms in the sentence.
        forms: for each match, the allowed forms of its translation.
        phrase_numbers: for each match, the index of its phrase in ``phrases``.
        phrases: the phrases that a translation must contain.
        is_forced: False if the sentence may keep its usual translation.
        usual_translation: the translation in which terms are not enforced; empty if it contains all terms.
        replaced: for each match, the words of ``usual_translation`` that the term replaces, or None if those
            words are unknown.
    """

    matches: tuple[Match, ...]
    forms: tuple[tuple[str, ...], ...]
    phrase_numbers: tuple[int, ...]
    phrases: Phrases
    is_forced: bool = True
    usual_translation: str = ""
    replaced: tuple[str | None, ...] = ()

    def unreplaced_words(self, text: str) -> list[str]:
        """Return the words of the usual translation that terms should replace but ``text`` still contains."""
        if not self.replaced:
            return []
        text_without_terms, usual_without_terms = (
            self.without_terms(text),
            self.without_terms(self.usual_translation),
        )
        return [
            word
            for word, times in Counter(filter(None, self.replaced)).items()
            if _count_inflected(word, text_without_terms)
            > max(0, _count_inflected(word, usual_without_terms) - times)
        ]

    def without_terms(self, text: str) -> str:
        """Return a text in which the forms of the terms are replaced by spaces."""
        for form in sorted({form for forms in self.forms for form in forms}, key=len, reverse=True):
            text = _occurrence_pattern(form).sub(" ", text)
        return text

    def find_uses(self, tokens: Sequence[int], text: str) -> list[TermUse]:
        """Return how a translation uses each term; a term is not applied if the word it replaces remains.

        Args:
            tokens: tokens of the translation.
            text: text of the translation, in which terms are also found if they are tokenised differently.
        """
        remaining_counts = self.phrases.occurrences(tokens)

        @cache
        def count_occurrences(form: str) -> int:
            return len(find_occurrences(form, text))

        for index, phrase in enumerate(self.phrases.phrases):
            if remaining_counts[index] < phrase.times:
                forms_by_phrase = zip(self.forms, self.phrase_numbers, strict=True)
                distinct_forms = {
                    form
                    for forms, phrase_number in forms_by_phrase
                    if phrase_number == index
                    for form in forms
                }
                remaining_counts[index] = max(
                    remaining_counts[index], sum(map(count_occurrences, distinct_forms))
                )
            remaining_counts[index] -= phrase.times - self.phrase_numbers.count(
                index
            )  # those nested in other phrases
        uses = []
        unreplaced, replaced = self.unreplaced_words(text), self.replaced or (None,) * len(self.matches)
        for match, forms, index, word in zip(
            self.matches, self.forms, self.phrase_numbers, replaced, strict=True
        ):
            is_applied = remaining_counts[index] > 0 and word not in unreplaced
            remaining_counts[index] -= 1
            form = next(filter(count_occurrences, forms), forms[0])
            uses.append(TermUse(match.term.source, form, is_applied))
        return uses

    def single_term(self, sentence: str) -> str | None:
        """Return the translation of a sentence that consists of a single term; None for other sentences."""
        match, form = self.matches[0], self.forms[0][0]
        if sentence[: match.start].strip() or sentence[match.end :].strip():
            return None
        return form[:1].upper() + form[1:] if match.capitalised else form


class TermFinder:
    """A finder of terms in sentences, which encodes the terms with the target tokeniser of a model.

    Args:
        glossary: the terms.
        target: the target tokeniser.
        vocabulary: size of the model's target vocabulary.
        mode: ``forced`` to require the terms in every translation, ``soft`` to prefer them.
        last: whether the model is the last of a chain. Earlier models use only terms that stay untranslated
            and that the tokeniser can spell, and the use of these terms is not reported.
    """

    def __init__(
        self,
        glossary: Glossary,
        target: Subwords,
        vocabulary: int,
        mode: GlossaryMode = "forced",
        last: bool = True,
    ) -> None:
        check_choice("glossary_mode", mode, get_args(GlossaryMode))
        self.glossary, self._target, self._vocabulary = glossary, target, vocabulary
        self._is_forced = mode == "forced"
        self.last = last
        if last:
            _check_spellable(glossary, target)

    def find_terms(self, sentence: str) -> SentenceTerms | None:
        """Return the terms of a sentence, or None if it has none."""
        matches = self.glossary.find(sentence)
        if not self.last:
            matches = [
                match
                for match in matches
                if match.term.is_untranslated and self._can_spell(*_allowed_forms(match, sentence))
            ]
        if not matches:
            return None
        numbers: dict[tuple[tuple[int, ...], ...], int] = {}
        times: list[int] = []
        phrase_numbers, forms = [], []
        for match in matches:
            allowed_forms = _allowed_forms(match, sentence)
            is_unspaced = match.start > 0 and not sentence[match.start - 1].isspace()
            spellings = tuple(
                dict.fromkeys(
                    spelling for form in allowed_forms for spelling in self._spellings(form, is_unspaced)
                )
            )
            phrase_index = numbers.setdefault(spellings, len(numbers))
            times[phrase_index:] = [
                times[phrase_index] + 1 if phrase_index < len(times) else 1,
                *times[phrase_index + 1 :],
            ]
            phrase_numbers.append(phrase_index)
            forms.append(allowed_forms)
        phrases = [
            Phrase(spellings, count, whole_word=True) for spellings, count in zip(numbers, times, strict=True)
        ]
        continuations = word_continuations(self._target, self._vocabulary)
        required_phrases = Phrases(_count_nested(phrases), continuations)
        return SentenceTerms(
            tuple(matches), tuple(forms), tuple(phrase_numbers), required_phrases, self._is_forced
        )

    def _can_spell(self, form: str) -> bool:
        return self._target.symbols.unknown not in self._target.encode(form)

    def _spellings(self, form: str, is_unspaced: bool) -> list[tuple[int, ...]]:
        """Return the tokens that spell a form after a space and, if ``is_unspaced``, also without a space."""
        unknown = self._target.symbols.unknown
        spellings = [tuple(self._target.encode(form))]
        if is_unspaced:
            context = self._target.encode(UNSPACED_CONTEXT)
            in_context = self._target.encode(UNSPACED_CONTEXT + form)
            if in_context[: len(context)] == context:
                spellings.append(tuple(in_context[len(context) :]))
        return [spelling for spelling in spellings if spelling and unknown not in spelling] or spellings[:1]


def fingerprint(glossary: Glossary, mode: GlossaryMode) -> str:
    """Return a hash of the terms of a glossary and its mode."""
    contents = repr((glossary.terms, glossary.ignore_case, mode))
    return hashlib.sha256(contents.encode()).hexdigest()


def word_continuations(target: Subwords, vocabulary: int) -> NDArray[np.bool_]:
    """Return a mask (vocabulary,), True for the tokens that continue the preceding word."""
    mask = _continuations.get(target)
    if mask is None or len(mask) != vocabulary:
        letter = target.encode("a")[-1:]
        letter_text = target.decode(letter)
        mask = np.zeros(vocabulary, dtype=np.bool_)
        for token in range(vocabulary):
            try:
                text = target.decode([*letter, token])
            except DataError:  # a model may have more tokens than its tokeniser
                continue
            mask[token] = text.startswith(letter_text) and text[len(letter_text) :][:1].isalnum()
        _continuations[target] = mask
    return mask


def _check_spellable(glossary: Glossary, target: Subwords) -> None:
    """Raise DataError if a tokeniser cannot spell a term; each glossary is checked once per tokeniser."""
    checked_tokenisers = _spellable.setdefault(glossary, WeakSet())
    if target in checked_tokenisers:
        return
    unknown = target.symbols.unknown
    for term in glossary.terms:
        for form in term.targets:
            if unknown in target.encode(form):
                raise DataError(
                    f"{term.location}: the model's tokeniser cannot spell {quoted(form)}: it lacks some of "
                    "the characters; omit the term, or use other characters"
                )
    checked_tokenisers.add(target)


def _allowed_forms(match: Match, sentence: str) -> tuple[str, ...]:
    """Return the allowed forms of a matched term, also capitalised if the match is capitalised."""
    if match.term.is_untranslated:
        return (WHITESPACE.sub(" ", sentence[match.start : match.end]),)
    forms = match.term.targets
    if match.capitalised:
        forms = (*forms, *(form[:1].upper() + form[1:] for form in forms))
    return tuple(dict.fromkeys(forms))


def _count_nested(phrases: Sequence[Phrase]) -> list[Phrase]:
    """Return the phrases with a higher required count for each phrase that is nested in other phrases.

    An occurrence of the outer phrase also counts as one of the nested phrase.
    """
    if len(phrases) == 1:
        return list(phrases)
    counted_phrases = []
    for phrase in phrases:
        single_phrase = Phrases([Phrase(phrase.alternatives, 1 << 16)])
        nested_count = sum(
            other.times * min(single_phrase.occurrences(tokens)[0] for tokens in other.alternatives)
            for other in phrases
            if other is not phrase
        )
        counted_phrases.append(Phrase(phrase.alternatives, phrase.times + nested_count, phrase.whole_word))
    return counted_phrases


def find_occurrences(form: str, text: str) -> list[str]:
    """Return the strings of a text that match a form as whole words."""
    return _occurrence_pattern(form).findall(text)


def _occurrence_pattern(form: str) -> re.Pattern[str]:
    """Return a pattern that matches a form as whole words; at the start of a text, it may be capitalised."""
    start_boundary, end_boundary = (
        (r"(?<!\w)" if form[:1].isalnum() else ""),
        (r"(?!\w)" if form[-1:].isalnum() else ""),
    )
    words = form.split()
    pattern = start_boundary + r"\s+".join(map(re.escape, words)) + end_boundary
    if form[:1].islower():
        first_word, *others = words
        capitalised = [first_word[:1].upper() + first_word[1:], *others]
        pattern += r"|\A\W*" + r"\s+".join(map(re.escape, capitalised)) + end_boundary
    return re.compile(pattern)


def _count_inflected(word: str, text: str) -> int:
    """Return the number of occurrences of a word in a text, with or without an ending, ignoring case."""
    word, text = word.casefold(), text.casefold()
    return sum(
        text[start:end].startswith(word) and end - start <= len(word) + MAX_ENDING_LETTERS
        for start, end in word_spans(text)
    ) or len(find_occurrences(word, text))
