"""Passages translated by one model: the sentences of all passages are searched together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from uwaga.scheduling.call_context import while_active
from uwaga.translator.checks import STOPS
from uwaga.translator.layers.assemble import assemble
from uwaga.translator.layers.drafts import add_drafts
from uwaga.translator.layers.search import choose_search
from uwaga.translator.plan import Stage
from uwaga.translator.text import Passage, Sentence

Annotator = Callable[[Stage, Sequence[Sentence]], None]
"""Adds information to the hypotheses of searched sentences."""


def translate_passages(stage: Stage, passages: Sequence[Passage]) -> None:
    """Translate passages with one model.

    Sentences that are the same in both languages, and single terms, are not searched.
    """
    for passage in passages:
        prepare(stage, passage)
    if stage.takes_drafts and (stage.model.drafter or any(passage.draft for passage in passages)):
        stage = replace(stage, drafter=add_drafts(stage, passages))
    if any(passage.examples for passage in passages):
        from uwaga.translator.layers.retrieval import add_datastores

        add_datastores(stage, passages)
    sentences = [sentence for passage in passages for sentence in passage.sentences if sentence.is_searched]
    options = stage.options
    if options.entropy:  # added below, to the hypotheses that are returned
        options = replace(options, entropy=False)
    choose_search(options)(stage, sentences, options)
    for annotate in annotators(stage):
        annotate(stage, sentences)
    for passage in while_active(passages):
        assemble(stage, passage)
    if stage.options.coverage:
        from uwaga.translator.layers.coverage import add_coverage

        add_coverage(stage, passages)


def annotators(stage: Stage) -> list[Annotator]:
    """Return the functions that annotate the hypotheses of a search, in order."""
    options, annotators_ = stage.options, list[Annotator]()
    if stage.terms is not None and not options.sample:
        from uwaga.translator.layers.terms import substitute_terms

        annotators_.append(substitute_terms)
    if options.entropy:
        from uwaga.translator.layers.entropy import add_entropies

        annotators_.append(add_entropies)
    if options.attention == "all":
        from uwaga.translator.layers.attention import add_attentions

        annotators_.append(add_attentions)
    if options.alignment:
        from uwaga.translator.layers.alignment import add_alignments

        annotators_.append(add_alignments)
    return annotators_


def prepare(stage: Stage, passage: Passage) -> None:
    """Set the terms of a passage's sentences, and the tokens of its prefix.

    A sentence that is a single term is replaced by its translation; others with terms are searched. The mark
    that ends a prefix is kept.
    """
    if stage.terms is not None:
        for sentence in passage.sentences:
            sentence.terms = stage.terms.find_terms(sentence.first_text)
            if sentence.terms is not None:
                sentence.copy = sentence.terms.single_term(sentence.first_text)
    prefix = passage.prefix.strip()
    if prefix and passage.sentences:
        first = passage.sentences[0]
        first.prefix = stage.model.target.encode(prefix)
        first.is_bare = first.is_bare and not prefix.endswith(tuple(STOPS))
