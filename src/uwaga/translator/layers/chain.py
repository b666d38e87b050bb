"""Plain texts translated by every model of a chain in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from uwaga.results.coverage import combine_coverage
from uwaga.results.translation import Translation
from uwaga.scheduling.call_context import while_active
from uwaga.translator.layers.failures import check_string, for_each
from uwaga.translator.layers.sentences import translate_passages
from uwaga.translator.plan import Stage
from uwaga.translator.text import Passage, Text


class Chain:
    """Translates texts without tags by the models of a call.

    A text is split once, by the first model; each of its sentences goes through all models. A later model
    splits a sentence further only if it is too long for it.

    Args:
        stages: the models, each with its options.
    """

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = stages

    def translate(self, texts: Sequence[Text]) -> None:
        for is_aligned in (False, True):
            stages = [stage.aligned() for stage in self._stages] if is_aligned else self._stages
            passages: dict[Text, list[Passage]] = {
                text: [] for text in texts if text.is_aligned is is_aligned
            }
            for stage in stages if passages else ():
                for_each(while_active(passages), _splitter(stage, stages, passages))
                translate_passages(stage, [steps[-1] for steps in passages.values()])
            for text, steps in passages.items():
                results = [passage.result for passage in steps]
                text.translation = results[0] if len(results) == 1 else join_steps(stages, results)


def _splitter(
    stage: Stage, stages: Sequence[Stage], passages: dict[Text, list[Passage]]
) -> Callable[[Text], None]:
    """Return a function that splits a text, or its translation by the model before, for a model."""

    def split(text: Text) -> None:
        check_string(text)
        steps = passages[text]
        if steps:
            passage = stage.split_translated(steps[-1], text.name)
        else:
            passage = stage.split_text(text.words, text.name)
        if stage is stages[-1]:
            passage.prefix, passage.draft = text.prefix, text.draft
        steps.append(passage)

    return split


def join_steps(stages: Sequence[Stage], steps: Sequence[Translation]) -> Translation:
    """Return one translation for the successive translations of a text by the models of a chain."""
    from uwaga.alignment.piece_alignment import compose_alignments

    first, last = steps[0], steps[-1]
    earlier = [step.alignment for step in steps[:-1]]

    def from_first(translation: Translation) -> Translation:
        # no model looks from the last text to the first, so there is no attention between them
        return replace(
            translation,
            alignment=compose_alignments([*earlier, translation.alignment]),
            source=first.source,
            source_tokens=first.source_tokens,
            attention=None,
            attentions=None,
        )

    return replace(
        from_first(last),
        truncated=any(step.truncated for step in steps),
        alternatives=tuple(map(from_first, last.alternatives)),
        warnings=tuple(
            stage.in_step(warning)
            for stage, step in zip(stages, steps, strict=True)
            for warning in step.warnings
        ),
        steps=tuple(steps),
        coverage=combine_coverage(step.coverage for step in steps),
    )
