"""Apply a glossary with one model: phrases that translations must contain, and checks that they do."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from os import PathLike
from typing import get_args
from weakref import WeakKeyDictionary, WeakSet

import numpy as np
from numpy.typing import NDArray

from uwaga.errors import DataError, shown
from uwaga.results.translation import GlossaryMode, Hypothesis, TermUse, Translation
from uwaga.search.phrases import Phrase, Phrases
from uwaga.settings.options import check_one_of
from uwaga.terms.glossary import Glossary, Match
from uwaga.tokenizers.subwords import Subwords

GivenGlossary = Glossary | Mapping[str, str | Sequence[str] | None] | str | PathLike[str] | None
"""The glossary argument of a call; see :meth:`uwaga.terms.Glossary.of`."""
BONUS = 3.0
"""Score bonus of each token of a term in soft mode, in nats."""
GLUED = "("
"""Text before a term when it is encoded without a preceding space."""
PATTERN = re.compile(r"\s+")

_inside: WeakKeyDictionary[Subwords, NDArray[np.bool_]] = WeakKeyDictionary()
_spelt: WeakKeyDictionary[Glossary, WeakSet[Subwords]] = WeakKeyDictionary()


@dataclass(frozen=True)
class SentenceTerms:
    """The terms of a sentence: their matches, and the allowed forms and the phrase number of each."""

    matches: tuple[Match, ...]
    forms: tuple[tuple[str, ...], ...]
    of_phrase: tuple[int, ...]
    phrases: Phrases

    def uses(self, tokens: Sequence[int], text: str) -> list[TermUse]:
        """Return the use of each term in a translation.

        Args:
            tokens: tokens of the translation.
            text: the same translation as text, in which terms with another tokenisation are found too.
        """
        left = self.phrases.met(tokens)

        @cache
        def times(form: str) -> int:
            return len(occurrences(form, text))

        for number, phrase in enumerate(self.phrases.phrases):
            if left[number] < phrase.times:
                ways = zip(self.forms, self.of_phrase, strict=True)
                every = {form for forms, at in ways if at == number for form in forms}
                left[number] = max(left[number], sum(map(times, every)))
            left[number] -= phrase.times - self.of_phrase.count(number)  # those nested in other phrases
        made = []
        for match, forms, number in zip(self.matches, self.forms, self.of_phrase, strict=True):
            applied = left[number] > 0
            left[number] -= 1
            form = next(filter(times, forms), forms[0])
            made.append(TermUse(match.term.source, form, applied))
        return made

    def whole(self, sentence: str) -> str | None:
        """Return the translation of a sentence that consists of a single term; None for others."""
        first, form = self.matches[0], self.forms[0][0]
        if sentence[: first.start].strip() or sentence[first.end :].strip():
            return None
        return form[:1].upper() + form[1:] if first.lowered else form


class TermFinder:
    """Finds the terms of sentences and encodes them with the tokeniser of a model's target side.

    Args:
        glossary: the terms.
        target: the tokeniser.
        vocabulary: number of tokens of the model's target side.
        mode: ``forced`` to require the terms in every translation, ``soft`` to prefer them.
        last: False for a model whose output another model translates: it gets only the terms that are not
            translated, if it can spell them, and their use is not reported.
    """

    def __init__(
        self,
        glossary: Glossary,
        target: Subwords,
        vocabulary: int,
        mode: GlossaryMode = "forced",
        last: bool = True,
    ) -> None:
        check_one_of("glossary_mode", mode, get_args(GlossaryMode))
        self.glossary, self._target, self._vocabulary = glossary, target, vocabulary
        self._bonus = None if mode == "forced" else BONUS
        self.last = last
        if last:
            _check_spelt(glossary, target)

    def terms_of(self, sentence: str) -> SentenceTerms | None:
        """Return the terms of a sentence, or None if it has none."""
        matches = self.glossary.find(sentence)
        if not self.last:
            matches = [one for one in matches if one.term.kept and self._spells(*_forms_of(one, sentence))]
        if not matches:
            return None
        numbers: dict[tuple[tuple[int, ...], ...], int] = {}
        times: list[int] = []
        of_phrase, forms = [], []
        for match in matches:
            written = _forms_of(match, sentence)
            glued = match.start > 0 and not sentence[match.start - 1].isspace()
            ways = tuple(dict.fromkeys(way for form in written for way in self._spellings(form, glued)))
            number = numbers.setdefault(ways, len(numbers))
            times[number:] = [times[number] + 1 if number < len(times) else 1, *times[number + 1 :]]
            of_phrase.append(number)
            forms.append(written)
        phrases = [Phrase(ways, count, whole=True) for ways, count in zip(numbers, times, strict=True)]
        inside = word_parts(self._target, self._vocabulary)
        made = Phrases(_with_nested(phrases), inside, self._bonus)
        return SentenceTerms(tuple(matches), tuple(forms), tuple(of_phrase), made)

    def _spells(self, form: str) -> bool:
        return self._target.symbols.unknown not in self._target.encode(form)

    def _spellings(self, form: str, glued: bool) -> list[tuple[int, ...]]:
        """Return the tokens of a form after a space and, if ``glued`` to the preceding text, without one."""
        unknown = self._target.symbols.unknown
        ways = [tuple(self._target.encode(form))]
        if glued:
            before, whole = self._target.encode(GLUED), self._target.encode(GLUED + form)
            if whole[: len(before)] == before:
                ways.append(tuple(whole[len(before) :]))
        return [way for way in ways if way and unknown not in way] or ways[:1]


def fingerprint(glossary: Glossary, mode: GlossaryMode) -> str:
    """Return a hash of a glossary's terms and mode."""
    contents = repr((glossary.terms, glossary.ignore_case, None if mode == "forced" else BONUS))
    return hashlib.sha256(contents.encode()).hexdigest()


def with_terms(
    translation: Translation,
    terms: Sequence[SentenceTerms | None],
    hypotheses: Sequence[Hypothesis],
    texts: Sequence[str],
) -> Translation:
    """Return a translation with the use of its sentences' terms, and a warning for each that is missing.

    Args:
        translation: a translation of several sentences.
        terms: the terms of each, None for none.
        hypotheses: the best hypothesis of each.
        texts: these hypotheses as text.
    """
    uses = [
        use
        for of_it, hypothesis, text in zip(terms, hypotheses, texts, strict=True)
        if of_it is not None
        for use in of_it.uses(hypothesis.tokens, text)
    ]
    missing = dict.fromkeys(
        f"the term {use.source!r} was not translated as {use.target!r}" for use in uses if not use.applied
    )
    return replace(translation, terms=tuple(uses), warnings=(*translation.warnings, *missing))


def word_parts(target: Subwords, vocabulary: int) -> NDArray[np.bool_]:
    """Return (vocabulary,) True for the tokens that continue the preceding word."""
    known = _inside.get(target)
    if known is None or len(known) != vocabulary:
        letter = target.encode("a")[-1:]
        before = target.decode(letter)
        known = np.zeros(vocabulary, dtype=np.bool_)
        for token in range(vocabulary):
            try:
                text = target.decode([*letter, token])
            except DataError:  # a model may have more tokens than its tokeniser
                continue
            known[token] = text.startswith(before) and text[len(before) :][:1].isalnum()
        _inside[target] = known
    return known


def _check_spelt(glossary: Glossary, target: Subwords) -> None:
    """Raise DataError for a term that a tokeniser cannot spell; checks each pair of them once."""
    spelt = _spelt.setdefault(glossary, WeakSet())
    if target in spelt:
        return
    unknown = target.symbols.unknown
    for term in glossary.terms:
        for form in term.targets:
            if unknown in target.encode(form):
                raise DataError(
                    f"{term.where}: the model's tokeniser cannot spell {shown(form)}: it lacks some of the "
                    "characters; omit the term, or write it with others"
                )
    spelt.add(target)


def _forms_of(match: Match, sentence: str) -> tuple[str, ...]:
    """Return the allowed forms of a term; at the beginning of a sentence also capitalised."""
    if match.term.kept:
        return (PATTERN.sub(" ", sentence[match.start : match.end]),)
    forms = match.term.targets
    if match.lowered:
        forms = (*forms, *(form[:1].upper() + form[1:] for form in forms))
    return tuple(dict.fromkeys(forms))


def _with_nested(phrases: Sequence[Phrase]) -> list[Phrase]:
    """Raise the required count of phrases nested in others: one place in a translation counts for both."""
    if len(phrases) == 1:
        return list(phrases)
    made = []
    for phrase in phrases:
        alone = Phrases([Phrase(phrase.alternatives, 1 << 16)])
        nested = sum(
            other.times * min(alone.met(way)[0] for way in other.alternatives)
            for other in phrases
            if other is not phrase
        )
        made.append(Phrase(phrase.alternatives, phrase.times + nested, phrase.whole))
    return made


def occurrences(form: str, text: str) -> list[str]:
    """Return the occurrences of a form in a text as whole words."""
    before, after = (r"(?<!\w)" if form[:1].isalnum() else ""), (r"(?!\w)" if form[-1:].isalnum() else "")
    return re.findall(before + r"\s+".join(map(re.escape, form.split())) + after, text)
