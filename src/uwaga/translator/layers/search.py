"""The search for sentences of a call: the best translation, the best of different texts, or samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice

from uwaga.decoder import MAX_BEAM
from uwaga.results.translation import Hypothesis
from uwaga.search import SearchInput, SearchOptions, search
from uwaga.translator.checks import is_incomplete, sentence_text
from uwaga.translator.plan import Stage
from uwaga.translator.text import Sentence

WIDENINGS = (2, 4, 8)
"""Factors by which a beam is widened that holds too few different texts."""


Search = Callable[[Stage, Sequence[Sentence], SearchOptions], None]
"""Sets the hypotheses of sentences."""


def choose_search(options: SearchOptions) -> Search:
    """Return the search for options: for the best hypothesis, several different texts, or samples."""
    if options.sample:
        return _sample
    return _search_different if options.nbest > 1 else search_best


def search_best(stage: Stage, sentences: Sequence[Sentence], options: SearchOptions) -> None:
    """Set the n-best lists of sentences, as the search returns them."""
    lists = search(stage.search_decoder, sentences, options, drafter=stage.drafter)
    replace_broken(stage, sentences, lists, options)
    set_hypotheses(sentences, lists)


def replace_broken(
    stage: Stage,
    sentences: Sequence[SearchInput],
    lists: list[list[Hypothesis]],
    options: SearchOptions,
) -> None:
    """Replace hypotheses with byte tokens that form no character, such as a half of one.

    Those of a second search, without bytes of long characters, take their places; so this holds for every
    kind of search on every engine, and costs others nothing.
    """
    model = stage.model
    if not model.byte_tokens:
        return

    def is_broken(hypothesis: Hypothesis) -> bool:
        return not model.byte_tokens.isdisjoint(hypothesis.tokens) and is_incomplete(
            hypothesis.tokens, model.target
        )

    broken = [index for index, hypotheses in enumerate(lists) if any(map(is_broken, hypotheses))]
    if broken:
        options = replace(options, banned=(*options.banned, *sorted(model.byte_tokens)))
        inputs = [sentences[index] for index in broken]
        others = search(stage.search_decoder, inputs, options, drafter=stage.drafter)
        for index, replacements in zip(broken, others, strict=True):
            whole = [hypothesis for hypothesis in lists[index] if not is_broken(hypothesis)]
            known = set() if options.sample else {hypothesis.tokens for hypothesis in whole}
            spare = (hypothesis for hypothesis in replacements if hypothesis.tokens not in known)
            lists[index] = [*whole, *islice(spare, len(lists[index]) - len(whole))]
            if not options.sample:
                lists[index].sort(key=lambda hypothesis: -hypothesis.score)


def set_hypotheses(sentences: Sequence[Sentence], lists: Sequence[list[Hypothesis]]) -> None:
    """Set the n-best list of each sentence."""
    for sentence, hypotheses in zip(sentences, lists, strict=True):
        sentence.hypotheses = hypotheses


def _sample(stage: Stage, sentences: Sequence[Sentence], options: SearchOptions) -> None:
    """Draw samples; with ``mbr``, those of the highest expected utility."""
    for sentence in sentences:
        sentence.phrases = None if sentence.terms is None else sentence.terms.phrases
    if not options.mbr:
        search_best(stage, sentences, options)
        return
    from uwaga.search.mbr import rank_by_utility

    search_best(stage, sentences, replace(options, nbest=options.mbr, mbr=0))
    for sentence in sentences:
        samples = sentence.hypotheses
        texts = [sentence_text(sample.tokens, stage.model.target) for sample in samples]
        ranked = rank_by_utility(texts, utility=options.utility)[: options.nbest]
        sentence.hypotheses = [replace(samples[index], score=expected) for index, expected in ranked]


def _search_different(stage: Stage, sentences: Sequence[Sentence], options: SearchOptions) -> None:
    """Search n-best lists of different texts.

    Of hypotheses that are different segmentations of one text, only the best remains, and its score. If fewer
    than ``nbest`` are left, beams two, four and eight times as wide are searched for more; these follow, by
    their scores, the first one, which is always that of the requested beam.
    """

    def texts_of(sentence: Sentence) -> dict[str, Hypothesis]:
        """Return the best hypothesis of each text, best first."""
        texts: dict[str, Hypothesis] = {}
        for hypothesis in sentence.hypotheses:
            texts.setdefault(sentence_text(hypothesis.tokens, stage.model.target, sentence), hypothesis)
        return texts

    search_best(stage, sentences, replace(options, nbest=options.beam))
    texts = {sentence: texts_of(sentence) for sentence in sentences}
    for factor in WIDENINGS:
        short = [sentence for sentence in sentences if len(texts[sentence]) < options.nbest]
        beam = options.beam * factor
        if not short or beam > MAX_BEAM:
            break
        search_best(stage, short, replace(options, beam=beam, nbest=beam))
        for sentence in short:
            first, *alternatives = texts[sentence].items()
            alternatives = sorted(
                [*alternatives, *texts_of(sentence).items()], key=lambda item: -item[1].score
            )
            texts[sentence] = dict([first])
            for text, hypothesis in alternatives:
                texts[sentence].setdefault(text, hypothesis)
    for sentence in sentences:
        sentence.hypotheses = list(texts[sentence].values())[: options.nbest]
