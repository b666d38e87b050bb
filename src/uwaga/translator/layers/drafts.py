"""Drafts of sentences, from a request or from a faster model (M42)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from uwaga.decoder import Decoder, Draft
from uwaga.languages.codes import base_language
from uwaga.results.translation import without_last_words
from uwaga.translator.checks import lacks_final_punctuation
from uwaga.translator.detokenise import STOPS
from uwaga.translator.model import Model
from uwaga.translator.plan import Stage
from uwaga.translator.split import UNSPACED_LANGUAGES
from uwaga.translator.text import Passage, Sentence, TextDraft

UNSPACED_STOP = "。"
"""The full stop of languages without spaces between words."""


def add_drafts(stage: Stage, passages: Sequence[Passage]) -> Decoder | None:
    """Set the drafts of the sentences of passages, from the drafts of the passages or by the model's drafter.

    Returns:
        a smaller model that drafts during the search; None if no model does so.
    """
    undrafted_sentences: list[Sentence] = []
    for passage in passages:
        if passage.draft is None:
            undrafted_sentences += [sentence for sentence in passage.sentences if sentence.is_searched]
        else:
            divide_draft(stage, passage, passage.draft)
    return draft_by_model(stage, undrafted_sentences)


def draft_by_model(stage: Stage, sentences: Sequence[Sentence]) -> Decoder | None:
    """Set the drafts of sentences with the model's drafter, if there is one; see :func:`add_drafts`."""
    drafter = stage.model.drafter
    return drafter.draft(stage.model, sentences, stage.options) if drafter and sentences else None


def divide_draft(stage: Stage, passage: Passage, draft: TextDraft) -> None:
    """Split the draft of a passage into sentences, and set them as the drafts of the passage's sentences."""
    from uwaga.tokenizers.sentences import split_sentences

    text, parts = draft.text, [draft.text]
    if len(passage.sentences) > 1:
        lines = [line for line in text.splitlines() if line.strip()]
        parts = [part for line in lines for part in split_sentences(line, stage.model.languages[1])]
    end, position = len(without_last_words(text, draft.mask)), 0
    for sentence, part in zip(passage.sentences, map(str.strip, parts), strict=False):
        if not part:
            continue
        position = max(position, text.find(part, position))
        if sentence.is_searched:
            sentence.draft = text_draft(stage.model, part, draft.bias, max(0, end - position))
        position += len(part)


def text_draft(model: Model, text: str, bias: float = 0.0, characters: int = 0) -> Draft:
    """Return the draft of a sentence; its first ``characters`` characters have the weight ``bias``.

    A full stop is added to a text without final punctuation, because models end most sentences with one.
    """
    stop = UNSPACED_STOP if base_language(model.languages[1]) in UNSPACED_LANGUAGES else STOPS[0]
    tokens = model.target.encode(text + stop if lacks_final_punctuation(text) else text)
    if not bias:
        return Draft(tokens)
    token_pairs = zip(tokens, model.target.encode(text[:characters]), strict=False)
    return Draft(tokens, bias, sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], token_pairs)))
