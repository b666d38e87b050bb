"""The pipeline of layers that turn requests into translations."""

from __future__ import annotations

from collections.abc import Sequence

from uwaga.markup.inline import Inline, Tag, keep_tags_of
from uwaga.results.translation import Translation
from uwaga.translator.layers.chain import Chain
from uwaga.translator.layers.failures import Failures
from uwaga.translator.plan import Plan
from uwaga.translator.request import Request
from uwaga.translator.text import InlineText, Layer, Text, TextDraft, TranslatedInline


# --8<-- [start:layers]
def pipeline(plan: Plan, needs_inline_layers: bool) -> Layer:
    """Return the outermost layer of the pipeline for the texts of requests.

    Each layer changes texts, calls the next layer, and completes the translations.

    Args:
        plan: the plan of the call.
        needs_inline_layers: whether the texts need the layers for texts with tags; see
            :meth:`uwaga.translator.plan.Plan.needs_inline_layers`.
    """
    if needs_inline_layers:
        from uwaga.translator.layers.formats import Markup, TextWithPlaceholders

        layer: Layer = inline_pipeline(plan)
        if plan.request.format == "text":
            layer = TextWithPlaceholders(layer, plan.placeholders, plan.stages[-1].options.alignment)
        else:
            layer = Markup(layer, plan.placeholders, plan.request)
    else:
        layer = Chain(plan.stages, add_warnings=True)
    if plan.untranslated:
        from uwaga.translator.layers.untranslated import Untranslated

        layer = Untranslated(layer, plan.untranslated)
    return Failures(layer, plan.request.on_error)


def inline_pipeline(plan: Plan) -> Layer:
    """Return the outermost layer of the pipeline for texts with tags."""
    from uwaga.translator.layers.characters import Characters
    from uwaga.translator.layers.differences import DifferenceWarnings
    from uwaga.translator.layers.messages import Messages
    from uwaga.translator.layers.placeholders import Placeholders
    from uwaga.translator.layers.tags import Tags

    layer: Layer = Chain(plan.stages)
    layer = Tags(layer, plan.can_align)
    layer = Placeholders(layer, plan.can_align)
    languages = plan.stages[0].model.languages[0], plan.stages[-1].model.languages[1]
    if plan.placeholders is not None:
        layer = Characters(layer, plan.stages[0].model.characters, languages)
    layer = DifferenceWarnings(layer, languages)
    if plan.placeholders is not None:
        layer = Messages(layer, plan.placeholders)
    if plan.memory is not None:
        from uwaga.translator.layers.memory import FromMemory

        layer = FromMemory(layer, plan, plan.memory)
    return layer


# --8<-- [end:layers]


def translate_requests(plan: Plan, requests: Sequence[Request]) -> list[Translation]:
    """Translate requests with the same plan together; a text that fails does not affect other texts."""
    texts: list[Text] = []
    groups: dict[bool, list[Text]] = {False: [], True: []}
    for request in requests:
        draft = TextDraft(request.draft, request.bias, request.mask) if request.draft else None
        text = Text((request.text,), request.name, request.prefix, draft, context=request.context)
        texts.append(text)
        groups[plan.needs_inline_layers(request.text)].append(text)
    for needs_inline_layers, group in groups.items():
        if group:
            pipeline(plan, needs_inline_layers).translate(group)
    return [text.result for text in texts]


def translate_inlines(plan: Plan, inlines: Sequence[InlineText]) -> list[TranslatedInline]:
    """Translate texts with tags together; each translation has every tag exactly once.

    Args:
        plan: the plan of the call.
        inlines: the texts.
    """
    from uwaga.translator.layers.placeholders import with_placeholders

    prefix, texts = plan.request.prefix, dict[Text, Inline]()
    for text_number, text in enumerate(inlines, start=1):
        content = with_placeholders(text.inline, plan.placeholders, prefix)
        texts[Text(content, f"text {text_number}", prefix, context=text.context)] = text.inline
    Failures(inline_pipeline(plan), plan.request.on_error).translate(list(texts))
    return [_translated_inline(inline, text) for text, inline in texts.items()]


def _translated_inline(inline: Inline, text: Text) -> TranslatedInline:
    translation = text.result
    if text.error is None:
        best, *alternatives = (
            keep_tags_of(written_inline, inline) for _, written_inline in text.spaced_translations()
        )
        return TranslatedInline(best, translation, tuple(alternatives))
    copy = inline if translation.text else tuple(part for part in inline if isinstance(part, Tag))
    return TranslatedInline(copy, translation)
