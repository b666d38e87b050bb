"""Translations from a translation memory, and translations that begin as those of similar texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from uwaga.errors import DataError
from uwaga.markup.inline import Inline, Tag, join_parts, plain_text, raw_text
from uwaga.markup.units import translatable
from uwaga.results.translation import MemoryUsage, MemoryUse, Translation
from uwaga.scheduling.call_context import while_active
from uwaga.translator.memories import MemoryMatch, TranslationMemory
from uwaga.translator.plan import Plan, Stage
from uwaga.translator.repair import Repair, compare
from uwaga.translator.text import Layer, Text

if TYPE_CHECKING:
    from uwaga.results.translation import WordAlignment

EXACT = 100.0
CANDIDATES = 5
"""Pairs of a text that are asked for; the first whose tags fit is used."""
MAX_ALIGNED = 1_000
"""Maximum characters of the source and of the target of a pair that are aligned."""
PROGRAM = re.compile(r"[{}%$`<>]")
"""Signs of the placeholders that a program reads; the translator may have changed other pieces."""


class FromMemory:
    """Translates texts from a memory; the next layer translates the others.

    A pair of the same text is the translation, if it has the tags and placeholders of the text. So is a
    similar pair that differs only in pieces that translations copy, with these exchanged. Other similar pairs
    give the beginning of the translation.

    Args:
        layer: the next layer.
        plan: the plan of the call.
        memory: the memory.
    """

    def __init__(self, layer: Layer, plan: Plan, memory: TranslationMemory) -> None:
        self._layer, self._plan, self._memory = layer, plan, memory

    def translate(self, texts: Sequence[Text]) -> None:
        remaining, begun = list[Text](), dict[Text, MemoryUse]()
        repairs: dict[Text, tuple[MemoryMatch, Repair]] = {}
        for text in while_active(texts):
            repaired = self._repaired(text)
            if text.translation is None:
                remaining.append(text)
                repairs |= {} if repaired is None else {text: repaired}
        for text, words in self._alignments(repairs).items():
            match, repair = repairs[text]
            text.beginning = repair.beginning(words)
            if text.beginning:
                begun[text] = memory_use(match, "beginning")
        self._layer.translate(remaining)
        for text, use in begun.items():
            if _letters(text.result.text).startswith(_letters(text.beginning)):
                text.translation = replace(text.result, memory=(use,))

    def _repaired(self, text: Text) -> tuple[MemoryMatch, Repair] | None:
        """Translate a text from the memory if a pair fits; otherwise return the most similar pair."""
        written, best = raw_text(text.content).strip(), None
        for match in self._matches(text, written):
            if match.score >= EXACT:
                if self._apply(text, match, match.target, "verbatim"):
                    return None
                continue
            repair = compare(written, match.source, match.target, self._plan.placeholders)
            if (
                repair is not None
                and repair.is_complete
                and self._apply(text, match, repair.text(), "fitted")
            ):
                return None
            if repair is not None and best is None:
                best = match, repair
        return best

    def _matches(self, text: Text, written: str) -> Sequence[MemoryMatch]:
        if text.prefix or not translatable(text.content):
            return ()
        threshold = self._plan.request.threshold
        return self._memory.matches(written, text.context, threshold=threshold, limit=CANDIDATES)

    def _apply(self, text: Text, match: MemoryMatch, target: str, used: MemoryUsage) -> bool:
        """Set the translation of a text to a target from the memory; return False if its tags do not fit."""
        inline = _with_tags(target.strip(), text.content)
        if inline is None:
            return False
        text.inlines = [inline]
        text.translation = Translation(
            plain_text(inline),
            0.0,
            (),
            (),
            source=plain_text(text.content),
            memory=(memory_use(match, used),),
        )
        return True

    def _alignments(self, repairs: Mapping[Text, tuple[MemoryMatch, Repair]]) -> dict[Text, WordAlignment]:
        """Return the alignments of the pairs of texts, if a single model can align them."""
        if len(self._plan.stages) > 1 or not self._plan.can_align:
            return {}
        stage = self._plan.stages[0]
        pairs = {
            text: (match.source, match.target)
            for text, (match, _) in repairs.items()
            if len(match.source) <= MAX_ALIGNED and len(match.target) <= MAX_ALIGNED
        }
        return _align(stage, pairs)


def memory_use(match: MemoryMatch, used: MemoryUsage) -> MemoryUse:
    """Return the record of how a pair was used."""
    return MemoryUse(match.source, match.target, match.score, used, match.origin, match.created)


def _align(stage: Stage, pairs: Mapping[Text, tuple[str, str]]) -> dict[Text, WordAlignment]:
    from uwaga.translator.align import align_pairs

    known, ids = dict[Text, tuple[str, str]](), []
    for text, pair in pairs.items():
        try:
            ids += stage.model.pair_ids([pair])
        except DataError:  # too long for the model
            continue
        known[text] = pair
    if not known:
        return {}
    texts = list(known.values())
    aligned = iter(align_pairs(stage.search_decoder, stage.model, texts, ids, stage.options.start))
    return {text: next(aligned) for text in known}


def _with_tags(target: str, content: Inline) -> Inline | None:
    """Return a target with the tags of a text; None if it lacks or repeats one."""
    tags: dict[str, list[Tag]] = {}
    for part in content:
        if isinstance(part, Tag) and part.raw and (part.kind != "kept" or PROGRAM.search(part.raw)):
            tags.setdefault(part.raw, []).append(part)
    pieces = sorted(tags, key=len, reverse=True)
    matches = list(re.finditer("|".join(map(re.escape, pieces)), target)) if pieces else []
    if Counter(match[0] for match in matches) != {raw: len(same) for raw, same in tags.items()}:
        return None
    parts, end = list[str | Tag](), 0
    for match in matches:
        parts += [target[end : match.start()], tags[match[0]].pop(0)]
        end = match.end()
    return join_parts([*parts, target[end:]])


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text)).casefold()
