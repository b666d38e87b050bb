"""The search for translations of a call's sentences: the best, several distinct translations, or samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from uwaga.decoder import MAX_BEAM
from uwaga.results.translation import Hypothesis
from uwaga.search import SearchInput, SearchOptions, search
from uwaga.tokenizers.subwords import complete_prefix_length
from uwaga.translator.detokenise import sentence_text
from uwaga.translator.plan import Stage
from uwaga.translator.text import Sentence

BEAM_FACTORS = (2, 4, 8)
"""Factors by which a beam is widened if it contains too few distinct texts."""


Search = Callable[[Stage, Sequence[Sentence], SearchOptions], None]
"""A function that sets the hypotheses of sentences."""


def choose_search(options: SearchOptions) -> Search:
    """Return the function that searches for the best translations, for distinct texts or for samples."""
    if options.sample:
        return _sample
    return _search_distinct if options.nbest > 1 else search_best


def search_best(stage: Stage, sentences: Sequence[Sentence], options: SearchOptions) -> None:
    """Set the n-best lists of sentences to those that the search returns."""
    lists = search(stage.search_decoder, sentences, options, drafter=stage.drafter)
    repair_incomplete_characters(stage, sentences, lists, options)
    set_hypotheses(sentences, lists)


def repair_incomplete_characters(
    stage: Stage, sentences: Sequence[SearchInput], lists: list[list[Hypothesis]], options: SearchOptions
) -> None:
    """Replace hypotheses that contain byte tokens of an incomplete character.

    For the best hypothesis and for each sample, a second search continues the tokens before the first such
    byte, with all byte tokens banned. Other alternatives are dropped. This works with every search and
    engine, and costs nothing for hypotheses without such tokens.

    Args:
        stage: the model.
        sentences: the sentences.
        lists: the hypotheses of each sentence, which are replaced in place.
        options: the options of the search that returned the hypotheses.
    """
    tokens = stage.model.byte_tokens

    def is_whole(hypothesis: Hypothesis) -> bool:
        return complete_prefix_length(hypothesis.tokens, tokens) == len(hypothesis.tokens)

    incomplete: list[tuple[int, int]] = []
    for index, hypotheses in enumerate(lists if tokens else ()):
        if all(map(is_whole, hypotheses)):
            continue
        incomplete_indices = [
            hypothesis_index
            for hypothesis_index, hypothesis in enumerate(hypotheses)
            if not is_whole(hypothesis)
        ]
        if not options.sample:  # incomplete alternatives are dropped
            lists[index] = [
                hypothesis
                for hypothesis_index, hypothesis in enumerate(hypotheses)
                if hypothesis_index == 0 or hypothesis_index not in incomplete_indices
            ]
            incomplete_indices = [0] if 0 in incomplete_indices else []
        incomplete += [(index, hypothesis_index) for hypothesis_index in incomplete_indices]
    if not incomplete:
        return
    options = replace(options, nbest=1, banned=(*options.banned, *tokens))
    inputs = []
    for index, hypothesis_index in incomplete:
        sentence, hypothesis = sentences[index], lists[index][hypothesis_index]
        prefix = hypothesis.tokens[: complete_prefix_length(hypothesis.tokens, tokens)]
        inputs.append(
            SearchInput(
                sentence.ids, prefix, sentence.phrases, history=sentence.history, datastore=sentence.datastore
            )
        )
    results = search(stage.search_decoder, inputs, options)
    for (index, hypothesis_index), [hypothesis] in zip(incomplete, results, strict=True):
        lists[index][hypothesis_index] = replace(hypothesis, draft=lists[index][hypothesis_index].draft)
        if not options.sample:
            lists[index].sort(key=lambda hypothesis: -hypothesis.score)


def set_hypotheses(sentences: Sequence[Sentence], lists: Sequence[list[Hypothesis]]) -> None:
    """Set the n-best list of each sentence."""
    for sentence, hypotheses in zip(sentences, lists, strict=True):
        sentence.hypotheses = hypotheses


def _sample(stage: Stage, sentences: Sequence[Sentence], options: SearchOptions) -> None:
    """Draw samples; with ``mbr``, keep those with the highest expected utility."""
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
        ranked_samples = rank_by_utility(texts, utility=options.utility)[: options.nbest]
        sentence.hypotheses = [replace(samples[index], score=utility) for index, utility in ranked_samples]


def _search_distinct(stage: Stage, sentences: Sequence[Sentence], options: SearchOptions) -> None:
    """Search for n-best lists of distinct texts.

    Of hypotheses that are different segmentations of one text, only the best is kept. If fewer than ``nbest``
    texts remain, beams two, four and eight times as wide are searched for more. All alternatives are sorted
    by score, but the first text is always the best text of the requested beam.
    """

    def distinct_texts(sentence: Sentence) -> dict[str, Hypothesis]:
        """Return the best hypothesis of each distinct text, best first."""
        texts: dict[str, Hypothesis] = {}
        for hypothesis in sentence.hypotheses:
            text = sentence_text(hypothesis.tokens, stage.model.target, sentence.lacks_final_punctuation)
            texts.setdefault(text, hypothesis)
        return texts

    search_best(stage, sentences, replace(options, nbest=options.beam))
    texts = {sentence: distinct_texts(sentence) for sentence in sentences}
    for factor in BEAM_FACTORS:
        incomplete_sentences = [sentence for sentence in sentences if len(texts[sentence]) < options.nbest]
        beam = options.beam * factor
        if not incomplete_sentences or beam > MAX_BEAM:
            break
        search_best(stage, incomplete_sentences, replace(options, beam=beam, nbest=beam))
        for sentence in incomplete_sentences:
            best, *alternatives = texts[sentence].items()
            alternatives = sorted(
                [*alternatives, *distinct_texts(sentence).items()], key=lambda item: -item[1].score
            )
            texts[sentence] = dict([best])
            for text, hypothesis in alternatives:
                texts[sentence].setdefault(text, hypothesis)
    for sentence in sentences:
        sentence.hypotheses = list(texts[sentence].values())[: options.nbest]
