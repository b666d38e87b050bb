"""Translations from a translation memory, and translations with the states of similar texts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from uwaga.markup.inline import Inline, Tag, is_kept, join_parts, plain_text
from uwaga.markup.units import translatable
from uwaga.results.translation import MemoryUsage, MemoryUse, Translation
from uwaga.scheduling.call_context import while_active
from uwaga.translator.layers.placeholders import with_placeholders
from uwaga.translator.memories import MemoryMatch, TranslationMemory, state_store
from uwaga.translator.plan import Plan
from uwaga.translator.repair import fit
from uwaga.translator.text import Example, Layer, Text

EXACT = 100.0
CANDIDATES = 8
"""Pairs of a text that are asked for; the first whose tags fit is used."""
EXAMPLES = 8
"""Similar pairs whose states the model looks up."""
TAG = re.compile(r"<[^<>]*>")
PROGRAM = re.compile(r"[{}%$`<>]")
"""Signs of the placeholders that a program reads; the translator may have changed other pieces."""


class FromMemory:
    """Translates texts from a memory; the next layer translates the others.

    A pair of the same text is the translation, if it has the tags and placeholders of the text. So is a
    similar pair that differs only in pieces that translations copy, with these exchanged. Of other similar
    pairs, the model looks up the states as it translates.

    Args:
        layer: the next layer.
        plan: the plan of the call.
        memory: the memory.
    """

    def __init__(self, layer: Layer, plan: Plan, memory: TranslationMemory) -> None:
        self._layer, self._plan, self._memory = layer, plan, memory

    def translate(self, texts: Sequence[Text]) -> None:
        remaining, retrieved = list[Text](), dict[Text, MemoryMatch]()
        for text in while_active(texts):
            similar = self._similar(text)
            if text.translation is None:
                remaining.append(text)
                if similar and self._retrieves:
                    text.examples = tuple(self._example(text, match) for match in similar[:EXAMPLES])
                    retrieved[text] = similar[0]
        self._layer.translate(remaining)
        for text, match in retrieved.items():
            text.translation = replace(text.result, memory=(memory_use(match, "retrieved"),))

    @property
    def _retrieves(self) -> bool:
        return self._plan.stages[0].memory is not None and state_store(self._memory) is not None

    def _similar(self, text: Text) -> list[MemoryMatch]:
        """Translate a text from the memory if a pair fits; otherwise return the most similar pairs."""
        written, similar = _written(text.content), list[MemoryMatch]()
        for match in self._matches(text, written):
            if match.score >= EXACT:
                if self._apply(text, match, match.target, "verbatim"):
                    break
                continue
            fitted = fit(written, match.source, match.target, self._plan.placeholders)
            if fitted is not None and self._apply(text, match, fitted, "fitted"):
                break
            similar.append(match)
        return similar

    def _example(self, text: Text, match: MemoryMatch) -> Example:
        """Return a pair as an example for a text, without tags if the text has tags."""
        pair = match.source, match.target
        if any(isinstance(part, Tag) and not is_kept(part) for part in text.content):
            pair = TAG.sub("", pair[0]), TAG.sub("", pair[1])
        return Example(*(with_placeholders((side,), self._plan.placeholders) for side in pair))

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


def memory_use(match: MemoryMatch, used: MemoryUsage) -> MemoryUse:
    """Return the record of how a pair was used."""
    return MemoryUse(match.source, match.target, match.score, used, match.origin, match.created)


def _written(content: Inline) -> str:
    """Return a text as documents have it, with its tags."""
    return "".join(part if isinstance(part, str) else part.raw for part in content).strip()


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
