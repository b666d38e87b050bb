"""The search of a call: the sentences of all its texts together."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from uwaga.decoder import MAX_BEAM, Decoder, Draft
from uwaga.languages.codes import base_language
from uwaga.results.translation import Hypothesis, without_last_words
from uwaga.search import SearchOptions, search
from uwaga.search.constraints import start_token
from uwaga.search.search import Drafts
from uwaga.tokenizers.subwords import Subwords
from uwaga.translator.checks import STOPS, is_bare, without_stop
from uwaga.translator.plan import Stage
from uwaga.translator.split import UNSPACED, Passage, Sentence, prefix_ids

if TYPE_CHECKING:
    from uwaga.terms.apply import SentenceTerms
    from uwaga.translator.model import Model

COPIED = Hypothesis((), 0.0, 0.0, ())
"""Stands for the translation of a sentence that is copied."""
WIDENINGS = (2, 4, 8)
"""Factors by which a beam is widened that holds too few different texts."""
BREAKS = re.compile(r"[\r\n]")
STOP_OF_UNSPACED = "。"
"""The full stop of languages without spaces between words."""


@dataclass(frozen=True)
class SearchedPassage:
    """A passage with the n-best list of each of its sentences, and the terms of each, None for none."""

    passage: Passage
    lists: Sequence[Sequence[Hypothesis]]
    terms: Sequence[SentenceTerms | None]


@dataclass(frozen=True)
class Drafting:
    """The draft of each passage's translation, empty for none, and the weight of their tokens but for those
    of the last ``mask`` words.
    """

    drafts: Sequence[str]
    bias: float = 0.0
    mask: int = 0


def part_of(drafting: Drafting | None, first: int, last: int | None = None) -> Drafting | None:
    """Return the drafts of the passages from ``first`` to before ``last``."""
    return None if drafting is None else replace(drafting, drafts=drafting.drafts[first:last])


def search_sentences(
    stage: Stage,
    passages: Sequence[Passage],
    prefixes: Sequence[str],
    drafting: Drafting | None = None,
) -> list[SearchedPassage]:
    """Search the translations of all sentences of all passages.

    Sentences that are the same in both languages are not searched; their list is :data:`COPIED`.

    Args:
        stage: the model and the options.
        passages: texts, split into sentences.
        prefixes: the beginning of each passage's translation.
        drafting: a probable translation of each passage; None for none. Its sentences are the drafts of the
            passage's, in order.
    """
    model, options = stage.model, stage.options
    terms = [[_terms_of(stage, sentence) for sentence in passage.sentences] for passage in passages]
    passages = [_with_copies(passage, own) for passage, own in zip(passages, terms, strict=True)]
    passages = [_with_stop(passage, begun) for passage, begun in zip(passages, prefixes, strict=True)]
    flat = [tokens for each in prefix_ids(passages, prefixes, model.target) for tokens in each]
    sentences = [sentence for passage in passages for sentence in passage.sentences]
    flat_terms = [of_it for own in terms for of_it in own]
    searched = [at for at, sentence in enumerate(sentences) if sentence.copy is None or flat[at]]
    ids, begun = [sentences[at].ids for at in searched], [flat[at] for at in searched]
    decoder = model.decoder
    every = options.attention == "all"
    if every or options.alignment:
        from uwaga.translator.attention import recorder, with_attentions

        decoder = recorder(decoder, whole=every)
    plain = replace(options, entropy=False) if options.entropy else options
    own_terms = [flat_terms[at] for at in searched]

    def decode(tokens: Sequence[int]) -> str:
        return sentence_text(tokens, model.target)

    if options.sample:
        found = _sampled(decoder, ids, plain, begun, own_terms, decode)
    elif options.nbest == 1:
        given = sentence_drafts(stage, passages, drafting, searched)
        drafts = given or drafts_of(model, [sentences[at] for at in searched], begun, plain)
        found = search(decoder, ids, plain, prefixes=begun, drafts=drafts)
    else:

        def shown(at: int, tokens: Sequence[int]) -> str:
            return sentence_text(tokens, model.target, sentences[searched[at]])

        found = search_different(decoder, ids, plain, begun, shown)
    if any(own_terms) and not options.sample:
        from uwaga.translator.substitute import TermSentence, substitute_terms

        termed = {
            at: TermSentence(sentences[searched[at]], begun[at], own, found[at], decode(found[at][0].tokens))
            for at, own in enumerate(own_terms)
            if own is not None
        }
        substituted = substitute_terms(model, decoder, plain, list(termed.values()), decode)
        for at, hypotheses in zip(termed, substituted, strict=True):
            found[at] = hypotheses
    if options.entropy:
        from uwaga.search.entropy import with_entropies

        start = start_token(options, decoder.symbols)
        found = with_entropies(decoder, ids, found, start, options.batch_tokens)
    if every:
        found = with_attentions(decoder, ids, found, options.start)
    if options.alignment:
        from uwaga.translator.align import with_alignments

        found = with_alignments(decoder, model.alignment_head, ids, found, options.start)
    lists: list[Sequence[Hypothesis]] = [[COPIED]] * len(sentences)
    for at, hypotheses in zip(searched, found, strict=True):
        lists[at] = hypotheses
    rest = iter(lists)
    return [
        SearchedPassage(passage, list(islice(rest, len(own))), own)
        for passage, own in zip(passages, terms, strict=True)
    ]


def sentence_drafts(
    stage: Stage, passages: Sequence[Passage], drafting: Drafting | None, searched: Sequence[int]
) -> Sequence[Draft | None] | None:
    """Return the draft of each searched sentence, None for none."""
    if drafting is None:
        return None
    from uwaga.tokenizers.sentences import split_sentences

    drafts: list[Draft | None] = []
    for passage, text in zip(passages, drafting.drafts, strict=True):
        count, parts = len(passage.sentences), [text]
        if count > 1:
            lines = [line for line in text.splitlines() if line.strip()]
            parts = [part for line in lines for part in split_sentences(line, stage.model.languages[1])]
        texts = [*(part.strip() for part in parts), *[""] * count][:count]
        end, at = len(without_last_words(text, drafting.mask)), 0
        for one in texts:
            at = max(at, text.find(one, at))
            drafts.append(text_draft(stage.model, one, drafting.bias, max(0, end - at)) if one else None)
            at += len(one)
    return [drafts[at] for at in searched]


def text_draft(model: Model, text: str, bias: float = 0.0, shown: int = 0) -> Draft:
    """Return the draft of a sentence, with a weight for its first ``shown`` characters.

    A sentence without a mark at its end gets a full stop, with which models end most sentences.
    """
    stop = STOP_OF_UNSPACED if base_language(model.languages[1]) in UNSPACED else STOPS[0]
    tokens = model.target.encode(text + stop if is_bare(text) else text)
    if not bias:
        return Draft(tokens)
    begun = zip(tokens, model.target.encode(text[:shown]), strict=False)
    return Draft(tokens, bias, sum(1 for _ in takewhile(lambda both: both[0] == both[1], begun)))


def drafts_of(
    model: Model, sentences: Sequence[Sentence], prefixes: Sequence[Sequence[int]], options: SearchOptions
) -> Drafts | None:
    """Return the drafts of the model's drafter; None if it has none."""
    return None if model.drafter is None else model.drafter.drafts(model, sentences, prefixes, options)


def _terms_of(stage: Stage, sentence: Sentence) -> SentenceTerms | None:
    return None if stage.terms is None else stage.terms.find_terms(sentence.first_text)


def _with_copies(passage: Passage, terms: Sequence[SentenceTerms | None]) -> Passage:
    """Return a passage in which sentences that are a single term have its translation as their copy, and
    others with terms are searched.
    """
    if not any(terms):
        return passage
    copies = [
        sentence if own is None else replace(sentence, copy=own.single_term(sentence.first_text))
        for sentence, own in zip(passage.sentences, terms, strict=True)
    ]
    return replace(passage, sentences=tuple(copies))


def _with_stop(passage: Passage, prefix: str) -> Passage:
    """Return a passage whose translation keeps the mark that ends its prefix."""
    if prefix.rstrip()[-1:] not in tuple(STOPS) or not passage.sentences:
        return passage
    first, *rest = passage.sentences
    return replace(passage, sentences=(replace(first, bare=False), *rest))


def _sampled(
    decoder: Decoder,
    ids: Sequence[Sequence[int]],
    options: SearchOptions,
    prefixes: Sequence[Sequence[int]],
    terms: Sequence[SentenceTerms | None],
    decode: Callable[[Sequence[int]], str],
) -> list[list[Hypothesis]]:
    """Return samples, those of the highest utility with ``mbr``."""
    held = [None if own is None else own.phrases for own in terms]
    phrases = held if any(held) else None
    if not options.mbr:
        return search(decoder, ids, options, prefixes=prefixes, phrases=phrases)
    drawn = search(
        decoder, ids, replace(options, nbest=options.mbr, mbr=0), prefixes=prefixes, phrases=phrases
    )
    return [most_useful(hypotheses, options, decode) for hypotheses in drawn]


def search_different(
    decoder: Decoder,
    sources: Sequence[Sequence[int]],
    options: SearchOptions,
    prefixes: Sequence[Sequence[int]],
    decode: Callable[[int, Sequence[int]], str],
) -> list[list[Hypothesis]]:
    """Search n-best lists of different texts; ``decode`` returns the text of a source's tokens.

    Of hypotheses that are different segmentations of one text the best stays, with its own score. If fewer
    than ``nbest`` are left, beams two, four and eight times as wide are searched for more; these follow, by
    their scores, the first one, which is always that of the beam that was asked for.
    """

    def wide(indices: Sequence[int], times: int) -> list[dict[str, Hypothesis]]:
        """The best hypothesis of each text, best first, in a beam ``times`` as wide."""
        beam = options.beam * times
        lists = search(
            decoder,
            [sources[at] for at in indices],
            replace(options, beam=beam, nbest=beam),
            prefixes=[prefixes[at] for at in indices],
        )
        made = []
        for at, hypotheses in zip(indices, lists, strict=True):
            texts: dict[str, Hypothesis] = {}
            for hypothesis in hypotheses:
                texts.setdefault(decode(at, hypothesis.tokens), hypothesis)
            made.append(texts)
        return made

    found = wide(range(len(sources)), 1)
    for times in WIDENINGS:
        short = [index for index, texts in enumerate(found) if len(texts) < options.nbest]
        if not short or options.beam * times > MAX_BEAM:
            break
        for at, more in zip(short, wide(short, times), strict=True):
            before = list(found[at].items())
            others = sorted([*before[1:], *more.items()], key=lambda item: -item[1].score)
            found[at] = dict(before[:1])
            for text, hypothesis in others:
                found[at].setdefault(text, hypothesis)
    return [list(texts.values())[: options.nbest] for texts in found]


def most_useful(
    samples: Sequence[Hypothesis], options: SearchOptions, decode: Callable[[Sequence[int]], str]
) -> list[Hypothesis]:
    """Return the different samples of the highest expected utility, which becomes their score, best first."""
    from uwaga.search.mbr import rank_by_utility

    ranked = rank_by_utility([decode(one.tokens) for one in samples], utility=options.utility)
    return [replace(samples[at], score=expected) for at, expected in ranked[: options.nbest]]


def sentence_text(tokens: Sequence[int], target: Subwords, sentence: Sentence | None = None) -> str:
    """Return the text of a sentence's tokens; a line break that a model spelled in bytes becomes a space.

    Args:
        tokens: of the translation.
        target: their tokeniser.
        sentence: what they translate; if no mark ends it, none ends the text.
    """
    text = BREAKS.sub(" ", target.decode(tokens))
    return without_stop(text) if sentence is not None and sentence.bare else text
