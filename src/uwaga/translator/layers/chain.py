"""Plain texts translated by every model of a chain in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from uwaga.results.coverage import combine_coverage
from uwaga.results.translation import Translation
from uwaga.scheduling.call_context import while_active
from uwaga.translator.layers.failures import for_each
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
            group = [text for text in texts if text.is_aligned is is_aligned]
            if group:
                self._translate(group, [stage.aligned() if is_aligned else stage for stage in self._stages])

    def _translate(self, texts: Sequence[Text], stages: Sequence[Stage]) -> None:
        passages: dict[Text, list[Passage]] = {text: [] for text in texts}
        for number, stage in enumerate(stages):

            def split(text: Text) -> None:
                name = text.name if number == 0 else f"{text.name} in {stage.model.languages[0]}"  # noqa: B023
                previous = passages[text]
                passage = (
                    stage.split_translated(previous[-1], name)  # noqa: B023
                    if previous
                    else stage.split_text(text.words, name)  # noqa: B023
                )
                if stage is stages[-1]:  # noqa: B023
                    passage.prefix, passage.draft = text.prefix, text.draft
                previous.append(passage)

            for_each(while_active(texts), split)
            translate_passages(stage, [passages[text][-1] for text in texts])
        for text in texts:
            steps = [passage.result for passage in passages[text]]
            text.translation = steps[0] if len(steps) == 1 else join_steps(stages, steps)


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
