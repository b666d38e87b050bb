"""How requests become translations: read, split, search, assemble, write.

For each window of requests, :func:`translate_requests` reads their formats, and every model of the chain in
turn splits texts into sentences, searches all of them together and assembles their translations; then tags
are written back. Texts without tags and placeholders skip the first step and the last.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from uwaga.errors import DataError
from uwaga.markup.inline import is_kept
from uwaga.results.coverage import combine_coverage
from uwaga.results.translation import Translation
from uwaga.scheduling.call_context import while_active
from uwaga.translator.assemble import assemble
from uwaga.translator.checks import STOPS, without_stop
from uwaga.translator.plan import ALREADY, Plan, Stage
from uwaga.translator.request import OnError, Request, failed
from uwaga.translator.search_sentences import (
    Drafting,
    drafts_of,
    part_of,
    search_sentences,
    sentence_drafts,
    sentence_text,
)
from uwaga.translator.split import Passage, TranslatedPassage, prefix_ids

if TYPE_CHECKING:
    from uwaga.markup import Inline
    from uwaga.translator.write import TranslatedInline


def translate_requests(plan: Plan, requests: Sequence[Request]) -> list[Translation]:
    """Translate requests of one plan, all together; a text that fails does not affect the others."""
    alone = {at for at, one in enumerate(requests) if one.text in plan.untranslated}
    made = {at: left_alone(requests[at].text) for at in alone}
    plain = [plan.is_plain(one.text) for one in requests]
    for is_formatted in (True, False):
        own = [at for at, simple in enumerate(plain) if simple is not is_formatted and at not in alone]
        some = [requests[at] for at in own]
        if some and is_formatted:
            made |= zip(own, translate_formatted(plan, some), strict=True)
        elif some:
            texts, prefixes = [one.text for one in some], [one.prefix for one in some]
            names, drafts = [one.name for one in some], [one.draft for one in some]
            made |= zip(own, translate_texts(plan, texts, prefixes, names, drafts), strict=True)
    return [made[at] for at in range(len(requests))]


def left_alone(text: str) -> Translation:
    """Return the text for its translation, with a warning if it has letters."""
    warnings = (ALREADY,) if any(map(str.isalpha, text)) else ()
    return Translation(text, 0.0, (), (), source=text, warnings=warnings)


def translate_formatted(plan: Plan, requests: Sequence[Request]) -> list[Translation]:
    """Translate texts of a format, or with placeholders: all parts together."""
    from uwaga.markup.units import Fragment  # most texts have nothing but words
    from uwaga.translator.read import read
    from uwaga.translator.write import write

    on_error = plan.request.on_error
    parts = [read(plan, one.text, one.name) for one in while_active(requests)]
    inlines = [one.inlines if isinstance(one, Fragment) else [] for one in parts]
    prefixes = [
        [one.prefix, *[""] * (len(own) - 1)][: len(own)] for own, one in zip(inlines, requests, strict=True)
    ]
    made = iter(
        translate_inlines(
            plan,
            [inline for own in inlines for inline in own],
            [prefix for own in prefixes for prefix in own],
            [one.name for own, one in zip(inlines, requests, strict=True) for _ in own],
        )
    )
    # tags stand between the words of other formats
    aligned = plan.stages[-1].options.alignment and plan.request.format == "text"
    results = []
    for request, part, own in while_active(zip(requests, parts, inlines, strict=True)):
        if isinstance(part, Fragment):
            results.append(write(request.text, part, [next(made) for _ in own], aligned, on_error))
        else:
            results.append(failed(request.text, part, on_error))
    return results


def translate_inlines(
    plan: Plan, inlines: Sequence[Inline], prefixes: Sequence[str], names: Sequence[str]
) -> list[TranslatedInline]:
    """Translate texts with tags, all together; every tag comes back exactly once.

    A pair of tags is placed around the words that mean what it stood around. Only if a tag stands between
    words are the words aligned. For what is kept, a symbol goes through the model, so that it stands where it
    belongs; if no symbol comes out, the alignment decides the place, and a warning says so.
    """
    from uwaga.markup.strip_tags import strip_tags
    from uwaga.translator.read import Messages, has_inner_tags, with_placeholders
    from uwaga.translator.write import put_tags_back, translate_kept

    found = with_placeholders(inlines, plan.placeholders, prefixes)
    messages = Messages(plan.placeholders)
    texts = [
        messages.take_apart(inline, name) for inline, name in while_active(zip(found, names, strict=True))
    ]
    units, unit_names = [*texts, *messages.units], [*names, *messages.names]
    begun = [*prefixes, *[""] * len(messages.units)]

    def run(numbers: Sequence[int], parts: Sequence[Inline], forced: Sequence[str]) -> list[Translation]:
        """Translate texts without their tags; apart from the others those whose words must be aligned."""
        stripped = [strip_tags(part) for part in while_active(parts)]
        # a forced beginning leads on from the prefix
        starts = [
            one if one.startswith(begun[at]) else begun[at] for at, one in zip(numbers, forced, strict=True)
        ]
        aligned = [
            plan.aligns and (any(map(is_kept, units[at])) or has_inner_tags(one))
            for at, one in zip(numbers, stripped, strict=True)
        ]
        made: dict[int, Translation] = {}
        for wanted, way in ((False, plan), (True, plan.align_words)):
            own = [at for at, needed in enumerate(aligned) if needed is wanted]
            if own:
                each = [stripped[at].text for at in own], [starts[at] for at in own]
                made |= zip(
                    own, translate_texts(way, *each, [unit_names[numbers[at]] for at in own]), strict=True
                )
        return [made[at] for at in range(len(stripped))]

    translated = zip(units, translate_kept(units, run), strict=True)
    made = [put_tags_back(inline, one) for inline, one in while_active(translated)]
    messages.translated(made[len(texts) :])
    return [messages.put_together(one) for one in made[: len(texts)]]


def translate_texts(
    plan: Plan,
    texts: Sequence[str],
    prefixes: Sequence[str],
    names: Sequence[str],
    drafts: Sequence[str] = (),
) -> list[Translation]:
    """Translate plain texts by every model of the chain in turn.

    A text is split once, by the first model; each of its sentences goes through all models. A later model
    splits a sentence further only if it is too long for it.

    Args:
        plan: the plan of the call.
        texts: without tags.
        prefixes: the beginning of each translation.
        names: the names of the texts, for messages.
        drafts: a draft of each translation, for the last model; empty for none.
    """
    on_error = plan.request.on_error
    steps: list[list[Translation]] = [[] for _ in texts]
    before: dict[int, TranslatedPassage] = {}
    for number, stage in enumerate(plan.stages):
        passages: dict[int, Passage] = {}
        for at in while_active(range(len(texts)) if number == 0 else before):
            name = plan.called(names[at], number)
            try:
                passages[at] = (
                    stage.split_text(texts[at], name)
                    if number == 0
                    else stage.split_translated(before[at], name)
                )
            except DataError as error:
                if on_error == "raise":
                    raise
                steps[at].append(failed(texts[at], error, on_error))
        begun = [prefixes[at] if stage is plan.stages[-1] else "" for at in passages]
        drafted = [drafts[at] for at in passages] if any(drafts) and stage is plan.stages[-1] else []
        drafting = Drafting(drafted, plan.request.bias, plan.request.mask) if any(drafted) else None
        results = translate_passages(stage, list(passages.values()), begun, on_error, drafting)
        before = {}
        for at, result in zip(passages, results, strict=True):
            if isinstance(result, DataError):
                steps[at].append(failed(texts[at], result, on_error))
            else:
                before[at] = result
                steps[at].append(result.translation)
    if len(plan.stages) == 1:
        return [only for [only] in steps]
    return [join_steps(plan, of_text) for of_text in steps]


def translate_passages(
    stage: Stage,
    passages: Sequence[Passage],
    prefixes: Sequence[str],
    on_error: OnError,
    drafting: Drafting | None = None,
) -> list[TranslatedPassage | DataError]:
    """Search the sentences of passages together and assemble their translations.

    If that fails, each half is tried by itself, so that only the passages at fault become errors.
    """
    try:
        searched = search_sentences(stage, passages, prefixes, drafting)
        made = [assemble(stage, one) for one in while_active(searched)]
        if not stage.options.coverage:
            return list(made)
        from uwaga.translator.coverage import with_coverage

        return list(with_coverage(stage, made, searched))
    except DataError as error:
        if on_error == "raise":
            raise
        if len(passages) == 1:
            return [error]
    half = len(passages) // 2
    return [
        *translate_passages(stage, passages[:half], prefixes[:half], on_error, part_of(drafting, 0, half)),
        *translate_passages(stage, passages[half:], prefixes[half:], on_error, part_of(drafting, half)),
    ]


def join_steps(plan: Plan, steps: Sequence[Translation]) -> Translation:
    """Return one translation for those that a chain's models have made of a text, one after the other."""
    first, last = steps[0], steps[-1]
    if last.error is not None:
        return last

    from uwaga.alignment.piece_alignment import compose_alignments

    earlier = [step.alignment for step in steps[:-1]]

    def from_first(one: Translation) -> Translation:
        # no model looks from the last text to the first, so there is no attention between them
        return replace(
            one,
            alignment=compose_alignments([*earlier, one.alignment]),
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
            plan.in_step(warning, number) for number, step in enumerate(steps) for warning in step.warnings
        ),
        steps=tuple(steps),
        coverage=combine_coverage(step.coverage for step in steps),
    )


def stream_request(plan: Plan, request: Request) -> Generator[str, None, bool]:
    """Translate a text and yield its translation as it grows in the last model.

    A text with a format, placeholders or a glossary has to be checked as a whole and is yielded in one piece.

    Returns:
        a generator that returns True if a limit cut the translation.
    """
    alone = request.text in plan.untranslated
    if alone or request.glossary is not None or not plan.is_plain(request.text):
        [whole] = translate_requests(plan, [request])
        return _in_one_piece(whole)
    first, truncated = plan.stages[0], False
    passage = first.split_text(request.text, request.name)
    for number, (stage, following) in enumerate(pairwise(plan.stages), start=1):
        [made] = translate_passages(stage, [passage], [""], "raise")
        assert isinstance(made, TranslatedPassage)
        truncated = truncated or made.translation.truncated
        passage = following.split_translated(made, plan.called(request.name, number))
    drafting = Drafting([request.draft], request.bias, request.mask) if request.draft else None
    return _growing(plan.stages[-1], passage, request.prefix, truncated, drafting)


def _in_one_piece(whole: Translation) -> Generator[str, None, bool]:
    if whole.text:
        yield whole.text
    return whole.truncated


def _without_stop(grown: Generator[str, None, bool]) -> Generator[str, None, bool]:
    """Yield the pieces of a translation without the mark that ends it and not its source."""
    text = shown = ""
    while True:
        try:
            text += next(grown)
        except StopIteration as finished:
            if rest := without_stop(text)[len(shown) :]:
                yield rest
            return bool(finished.value)
        safe = text.rstrip()
        safe = safe[:-1] if safe[-1:] in tuple(STOPS) else text
        if len(safe) > len(shown):
            yield safe[len(shown) :]
            shown = safe


def _growing(
    stage: Stage, passage: Passage, prefix: str, truncated: bool, drafting: Drafting | None
) -> Generator[str, None, bool]:
    from uwaga.translator.grow import grow

    [prefixes] = prefix_ids([passage], [prefix], stage.model.target)
    model, options = stage.model, stage.options
    given = sentence_drafts(stage, [passage], drafting, range(len(passage.sentences))) or ()

    def decode(tokens: Sequence[int]) -> str:
        return sentence_text(tokens, stage.model.target)

    def pieces() -> Generator[str, None, bool]:
        cut = truncated
        if passage.before:
            yield passage.before
        for at, (sentence, begun) in enumerate(zip(passage.sentences, prefixes, strict=True)):
            if sentence.copy is not None and not begun:
                yield sentence.copy
            else:
                drafts = given[at : at + 1] or drafts_of(model, [sentence], [begun], options)
                grown = grow(model.decoder, sentence.ids, options, decode, begun, drafts)
                keeps = not sentence.bare or (begun and prefix.rstrip().endswith(tuple(STOPS)))
                cut = (yield from (grown if keeps else _without_stop(grown))) or cut
            if sentence.after:
                yield sentence.after
        return cut

    return pieces()
