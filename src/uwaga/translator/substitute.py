"""Terms of a glossary put in the place of the words that a model would use.

A search that must use a term often adds it beside the usual word ("Künstler Maler"): nothing in the search
says which source word the term translates. The alignment of the model's own translation does. It gives
candidates: that translation with its words replaced by the terms, one that continues freely after the first
term, and one that may change the word before it, such as its article. The most probable one is chosen. Only
where there is nothing to replace, or each candidate lacks a term or keeps a word that a term replaces, the
hypotheses of a search that must use the terms somewhere join them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise, product
from typing import NamedTuple

from uwaga.alignment.piece_alignment import WordIndex
from uwaga.alignment.words import word_spans
from uwaga.decoder import Decoder, target_limit
from uwaga.results.translation import Hypothesis, Span, WordAlignment
from uwaga.search import SearchOptions, search
from uwaga.search.phrases import Phrases
from uwaga.terms.apply import SentenceTerms, find_occurrences
from uwaga.terms.glossary import Match
from uwaga.tokenizers.subwords import Subwords
from uwaga.translator.align import align_pairs
from uwaga.translator.model import Model
from uwaga.translator.split import Sentence

MOST_FORMS = 4
"""Most combinations of the terms' forms that candidates are made with."""
ALLOWANCE = 18.0
"""Nats that a translation may lose for each term where terms are only encouraged, beside their bonus;
measured so that three of four synonyms are used."""
ENDING = 2
"""Most letters of an inflection: ``Autos`` is still ``Auto``."""
LINKED = 0.5
"""Least probability of a link that extends the translation of a term of several words."""
Decode = Callable[[Sequence[int]], str]


@dataclass(frozen=True)
class TermSentence:
    """A sentence with terms.

    Attributes:
        sentence: the sentence.
        prefix: tokens that its translation must begin with.
        terms: the terms.
        usual: the model's hypotheses without the terms, best first.
        text: the text of the first of them.
        places: the span in that text that each term replaces, None for a term that replaces nothing.
    """

    sentence: Sentence
    prefix: Sequence[int]
    terms: SentenceTerms
    usual: Sequence[Hypothesis]
    text: str
    places: Sequence[Span | None] = ()

    def faults(self, tokens: Sequence[int], text: str) -> tuple[int, int, int]:
        """Return the number of terms that a translation lacks, of words that it keeps although terms replace
        them, and of terms that it repeats.
        """
        uses = self.terms.find_uses(tokens, text)
        forms = Counter(use.target for use in uses)
        replaced = Counter(self.text[start:end] for start, end in filter(None, self.places))
        kept = [
            word
            for word, times in replaced.items()
            if word not in forms and _inflected(word, text) > _inflected(word, self.text) - times
        ]
        repeated = [form for form, times in forms.items() if len(find_occurrences(form, text)) > times]
        return sum(not use.applied for use in uses), len(kept), len(repeated)

    def allows(self, hypothesis: Hypothesis) -> bool:
        """Return True if a hypothesis is not much less probable than the usual one, with the terms' bonus."""
        phrases = self.terms.phrases
        assert phrases.bonus is not None
        loss = self.usual[0].log_prob - hypothesis.log_prob
        return loss <= ALLOWANCE * len(self.terms.matches) + phrases.bonus * phrases.total

    @property
    def first_place(self) -> Span | None:
        """The span of the first words that a term replaces."""
        return min(filter(None, self.places), default=None)


class Candidate(NamedTuple):
    """A hypothesis with its faults, see :meth:`TermSentence.faults`."""

    faults: tuple[int, int, int]
    hypothesis: Hypothesis

    def rank(self) -> tuple[tuple[int, int, int], float]:
        """Return the faults and the loss per token: the least is best."""
        return self.faults, -self.hypothesis.log_prob / (len(self.hypothesis.tokens) + 1)


def _inflected(word: str, text: str) -> int:
    """Return how often a word stands in a text, by itself or with an ending."""
    return sum(
        text[start:end].startswith(word) and end - start <= len(word) + ENDING
        for start, end in word_spans(text)
    ) or len(find_occurrences(word, text))


def substitute_terms(
    model: Model, decoder: Decoder, options: SearchOptions, sentences: Sequence[TermSentence], decode: Decode
) -> list[list[Hypothesis]]:
    """Return the hypotheses of sentences with their terms, best first.

    A sentence whose usual translation has the terms keeps it. Where terms are only encouraged, a sentence
    also keeps it if no candidate is without fault and within the terms' bonus of its probability.

    Args:
        model: the model.
        decoder: searches for the model.
        options: of the search.
        sentences: the sentences and their terms.
        decode: returns the text of a sentence's tokens.
    """
    found = [list(one.usual) for one in sentences]
    lacking = [at for at, one in enumerate(sentences) if one.faults(one.usual[0].tokens, one.text)[0]]
    if not lacking:
        return found
    placed = dict(
        zip(lacking, _placed(model, decoder, options, [sentences[at] for at in lacking]), strict=True)
    )
    candidates: dict[int, list[Candidate]] = {at: [] for at in lacking}

    def add(asked: Sequence[tuple[int, Sequence[int], Phrases | None]], in_place: bool) -> None:
        """Search with a prefix and phrases each; keep the hypotheses, or those with their terms in place."""
        lists = search(
            decoder,
            [placed[at].sentence.ids for at, _, _ in asked],
            replace(options, nbest=options.beam),
            prefixes=[prefix for _, prefix, _ in asked],
            phrases=[phrases for _, _, phrases in asked],
        )
        for (at, _, _), hypotheses in zip(asked, lists, strict=True):
            for hypothesis in hypotheses:
                text = decode(hypothesis.tokens)
                if not in_place or _in_place(placed[at], text):
                    candidates[at].append(Candidate(placed[at].faults(hypothesis.tokens, text), hypothesis))

    def room(one: TermSentence) -> float:
        limits = (options.max_length, target_limit(decoder, len(one.sentence.ids)))
        return min(filter(None, limits), default=math.inf)

    begun = [
        (at, tokens, phrases)
        for at, one in placed.items()
        for tokens, phrases in _prefixes(one, model.target)
        if len(tokens) < room(one)
    ]
    if begun:
        add(begun, in_place=True)
    forced = [at for at in lacking if all(any(one.faults) for one in candidates[at])]
    if forced:
        add([(at, placed[at].prefix, placed[at].terms.phrases) for at in forced], in_place=False)
    for at, one in placed.items():
        distinct = {candidate.hypothesis.tokens: candidate for candidate in candidates[at]}
        best, *others = sorted(distinct.values(), key=Candidate.rank)
        if one.terms.phrases.bonus is None or (not any(best.faults) and one.allows(best.hypothesis)):
            found[at] = [each.hypothesis for each in (best, *others)][: options.nbest]
    return found


def _placed(
    model: Model, decoder: Decoder, options: SearchOptions, sentences: Sequence[TermSentence]
) -> list[TermSentence]:
    """Return the sentences with the places of their terms; in a chain only its first model knows them."""
    made = list(sentences)
    aligned = [at for at, one in enumerate(sentences) if model.aligns and one.sentence.origin is None]
    if not aligned:
        return made
    some, end = [sentences[at] for at in aligned], model.target.symbols.end
    alignments = align_pairs(
        decoder,
        model.alignment_head,
        [(one.sentence.text, one.text) for one in some],
        ([one.sentence.ids for one in some], [(*one.usual[0].tokens, end) for one in some]),
        (model.source, model.target),
        options.start,
        "words",
    )
    for at, one, words in zip(aligned, some, alignments, strict=True):
        made[at] = replace(one, places=_places(one.text, words, one.terms.matches))
    return made


def _places(text: str, words: WordAlignment, terms: Sequence[Match]) -> list[Span | None]:
    """Return the span of each term's translation: the word most probably linked, and if the term has several
    words its neighbours that are linked too.
    """
    index, linked = WordIndex(words.source), dict[int, dict[int, float]]()
    for (source, target), chance in words.link_probabilities.items():
        start, end = words.target[target]
        if any(letter.isalnum() for letter in text[start:end]):
            linked.setdefault(source, {})[target] = chance
    return [_place(words, [linked.get(at, {}) for at in index.overlapping((one.start, one.end))]) for one in terms]


def _place(words: WordAlignment, linked: Sequence[Mapping[int, float]]) -> Span | None:
    """Return the span of the translation of words, given the probable links of each."""
    chances: dict[int, float] = {}
    for links in linked:
        for target, chance in links.items():
            chances[target] = max(chances.get(target, 0.0), chance)
    if not chances:
        return None
    first = last = max(chances, key=lambda at: (chances[at], words.target[at][1] - words.target[at][0]))
    while len(linked) > 1 and chances.get(first - 1, 0.0) > LINKED:
        first -= 1
    while len(linked) > 1 and chances.get(last + 1, 0.0) > LINKED:
        last += 1
    return words.target[first][0], words.target[last][1]


def _prefixes(one: TermSentence, target: Subwords) -> Iterator[tuple[list[int], Phrases | None]]:
    """Yield the tokens that candidates begin with, and the phrases if not every term is in them."""
    for beginning, all_there in _beginnings(one):
        tokens = target.encode(beginning)
        if tokens[: len(one.prefix)] == list(one.prefix):
            yield tokens, None if all_there else one.terms.phrases


def _beginnings(one: TermSentence) -> Iterator[tuple[str, bool]]:
    """Yield the beginnings of candidates, and whether every term is in them."""
    known = sorted((place, at) for at, place in enumerate(one.places) if place is not None)
    if not known or any(before[1] > after[0] for (before, _), (after, _) in pairwise(known)):
        return
    text = one.text
    for forms in islice(product(*(one.terms.forms[at] for _, at in known)), MOST_FORMS):
        made, end = "", 0
        for ((start, stop), _), form in zip(known, forms, strict=True):
            capital = text[start].isupper() and not made.strip() and not text[:start].strip()
            made += text[end:start] + (form[:1].upper() + form[1:] if capital else form)
            if not end:
                yield made, len(one.places) == 1
            end = stop
        yield made + text[end:], len(known) == len(one.places)
    before = [start for start, end in word_spans(text) if end <= known[0][0][0]]
    if before:
        yield text[: before[-1]].rstrip(), False


def _in_place(one: TermSentence, text: str) -> bool:
    """Return True if a candidate has as many words before its first term as the usual translation."""
    first = one.first_place
    assert first is not None
    number = sum(end <= first[0] for _, end in word_spans(one.text))
    starts = [start for start, _ in word_spans(text)]
    at = next(at for at, place in enumerate(one.places) if place == first)
    return number < len(starts) and text[starts[number] :].casefold().startswith(
        tuple(form.casefold() for form in one.terms.forms[at])
    )
