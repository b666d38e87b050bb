"""Translation of passages by one model, which searches for the sentences of all passages together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from uwaga.scheduling.call_context import while_active
from uwaga.translator.detokenise import STOPS
from uwaga.translator.layers.assemble import assemble
from uwaga.translator.layers.drafts import add_drafts
from uwaga.translator.layers.search import choose_search, set_hypotheses
from uwaga.translator.plan import Stage
from uwaga.translator.text import Passage, Sentence


def translate_passages(stage: Stage, passages: Sequence[Passage]) -> None:
    """Translate passages with one model.

    Sentences that are the same in both languages, and sentences that are a single term, are copied.
    """
    for passage in passages:
        prepare(stage, passage)
    stage = replace(stage)  # a recording decoder caches the sources of these passages alone
    if stage.accepts_drafts and (stage.model.drafter or any(passage.draft for passage in passages)):
        stage = replace(stage, drafter=add_drafts(stage, passages))
    if any(passage.examples for passage in passages):
        from uwaga.translator.layers.retrieval import add_datastores

        add_datastores(stage, passages)
    sentences = [sentence for passage in passages for sentence in passage.sentences if sentence.is_searched]
    options = stage.options
    if options.entropy:  # added below, to the hypotheses that are returned
        options = replace(options, entropy=False)
    choose_search(options)(stage, sentences, options)
    annotate(stage, sentences)
    for index in while_active(range(len(passages))):
        assemble(stage, passages[index])
    if stage.options.coverage:
        from uwaga.translator.layers.coverage import add_coverage

        add_coverage(stage, passages)


def annotate(stage: Stage, sentences: Sequence[Sentence]) -> None:
    """Add missing glossary terms and the requested entropy, attention and alignment to hypotheses."""
    options = stage.options
    if stage.terms is not None and not options.sample:
        from uwaga.translator.layers.terms import substitute_terms

        substitute_terms(stage, sentences)
    if options.entropy:
        from uwaga.search.entropy import with_entropies

        lists = [sentence.hypotheses for sentence in sentences]
        set_hypotheses(sentences, with_entropies(stage.search_decoder, sentences, lists, options))
    if options.attention == "all":
        from uwaga.translator.attention import add_attentions

        add_attentions(stage.search_decoder, sentences, options.start)
    if options.alignment:
        from uwaga.translator.align import add_alignments

        add_alignments(stage.search_decoder, stage.model.alignment_head, sentences, options.start)


def prepare(stage: Stage, passage: Passage) -> None:
    """Set the terms of a passage's sentences, and the tokens of its prefix.

    The translation of a sentence that is a single term is copied from the glossary; other sentences with
    terms are searched. A punctuation mark at the end of the prefix is kept.
    """
    if stage.terms is not None:
        for sentence in passage.sentences:
            sentence.terms = stage.terms.find_terms(sentence.first_text)
            if sentence.terms is not None:
                sentence.copy = sentence.terms.single_term(sentence.first_text)
    prefix = passage.prefix.strip()
    if prefix and passage.sentences:
        first_sentence = passage.sentences[0]
        first_sentence.prefix = stage.model.target.encode(prefix)
        first_sentence.lacks_final_punctuation = (
            first_sentence.lacks_final_punctuation and not prefix.endswith(tuple(STOPS))
        )
