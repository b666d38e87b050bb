"""Translation of texts without tags by every model of a chain in turn."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

from uwaga.languages.number_words import number_word_pattern
from uwaga.results.coverage import combine_coverage
from uwaga.results.translation import Translation
from uwaga.scheduling.call_context import expect_sentences, while_active
from uwaga.translator.layers.failures import check_string, for_each
from uwaga.translator.layers.sentences import translate_passages
from uwaga.translator.plan import Stage
from uwaga.translator.text import Passage, Text

COMPARED_CHARACTER = re.compile(r"[\d()\[\]（）［］¢-©®-±¶×÷†-•‰\u20a0-\u2bff\U0001f000-\U0001faff]")
"""A digit, a bracket or a sign; texts without these and without number words are not compared."""


class Chain:
    """A layer that translates texts without tags with the models of a call.

    A text is split once, by the first model; each of its sentences goes through all models. A later model
    splits a sentence further only if the sentence is too long for that model.

    Args:
        stages: the models, each with its options.
        add_warnings: whether to add warnings about differences between a text and its translation, such as
            missing numbers.
    """

    def __init__(self, stages: Sequence[Stage], add_warnings: bool = False) -> None:
        self._stages, self._add_warnings = stages, add_warnings

    def translate(self, texts: Sequence[Text]) -> None:
        for needs_alignment in (False, True):
            steps_by_text: dict[Text, list[_Step]] = {
                text: [] for text in texts if text.needs_alignment is needs_alignment
            }
            if not steps_by_text:
                continue
            stages = [stage.with_alignment() for stage in self._stages] if needs_alignment else self._stages
            for stage in stages:
                for_each(while_active(steps_by_text), _splitter(stage, stages, steps_by_text))
                passages = [steps[-1].passage for steps in steps_by_text.values()]
                if stage is stages[0]:
                    sentences = (sentence for passage in passages for sentence in passage.sentences)
                    expect_sentences(filter(attrgetter("is_searched"), sentences), len(stages))
                translate_passages(stage, passages)
                if self._add_warnings:
                    _add_difference_warnings(passages, stage.model.languages)
            for text, steps in steps_by_text.items():
                text.translation = steps[0].passage.result if len(steps) == 1 else _join_steps(steps)


def _add_difference_warnings(passages: Sequence[Passage], languages: tuple[str, str]) -> None:
    """Add warnings about differing numbers, brackets and signs to the translations of passages."""
    number_word = number_word_pattern(languages[0])
    for passage in passages:
        if (
            COMPARED_CHARACTER.search(passage.text)
            or COMPARED_CHARACTER.search(passage.result.text)
            or number_word.search(passage.text.lower())
        ):
            from uwaga.translator.layers.differences import (
                with_difference_warnings,  # not before it is needed
            )

            passage.translation = with_difference_warnings(passage.result, languages)


class _Step(NamedTuple):
    """A step of a chain: a model and the passage that it translates."""

    stage: Stage
    passage: Passage

    @property
    def warnings(self) -> list[str]:
        """The warnings of the translation; in a chain, with the languages of the model."""
        return [self.stage.with_languages(warning) for warning in self.passage.result.warnings]


def _splitter(
    stage: Stage, stages: Sequence[Stage], steps_by_text: dict[Text, list[_Step]]
) -> Callable[[Text], None]:
    """Return a function that splits a text, or its translation by the previous model, for ``stage``."""

    def split(text: Text) -> None:
        check_string(text)
        steps = steps_by_text[text]
        if steps:
            passage = stage.split_translated(steps[-1].passage, text.name)
        else:
            passage = stage.split_text(text.words, text.name)
        if stage is stages[-1]:
            passage.prefix, passage.draft = text.prefix, text.draft
            passage.examples = text.examples
        steps.append(_Step(stage, passage))

    return split


def _join_steps(steps: Sequence[_Step]) -> Translation:
    """Return the translation of a text by a chain, from the successive translations by its models."""
    from uwaga.alignment.piece_alignment import compose_alignments

    translations = [step.passage.result for step in steps]
    first_translation, last_translation = translations[0], translations[-1]
    earlier_alignments = [translation.alignment for translation in translations[:-1]]

    def with_first_source(translation: Translation) -> Translation:
        # no model attends from the last text to the first, so there is no attention between them
        return replace(
            translation,
            alignment=compose_alignments([*earlier_alignments, translation.alignment]),
            source=first_translation.source,
            source_tokens=first_translation.source_tokens,
            attention=None,
            attentions=None,
        )

    return replace(
        with_first_source(last_translation),
        truncated=any(translation.truncated for translation in translations),
        alternatives=tuple(map(with_first_source, last_translation.alternatives)),
        warnings=tuple(warning for step in steps for warning in step.warnings),
        steps=tuple(translations),
        coverage=combine_coverage(translation.coverage for translation in translations),
    )
