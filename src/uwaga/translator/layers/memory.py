"""Translation with a memory, by its translations or by the decoder states of similar pairs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from uwaga.alignment.piece_alignment import concatenate_alignments
from uwaga.alignment.words import word_spans
from uwaga.errors import TextTooLongError
from uwaga.markup.inline import Inline, Tag, cut_inline, is_kept, join_parts, plain_text, written_text
from uwaga.markup.strip_tags import strip_tags
from uwaga.markup.units import is_translatable, trim
from uwaga.results.translation import MemoryUsage, MemoryUse, Translation, WordAlignment
from uwaga.scheduling.call_context import while_active
from uwaga.translator.layers.formats import join_results
from uwaga.translator.layers.placeholders import with_placeholders
from uwaga.translator.memories import MemoryMatch, TranslationMemory, contexts_in_order, state_store
from uwaga.translator.plan import Plan
from uwaga.translator.repair import Token, adapt_target, split_tokens
from uwaga.translator.text import Example, InlineText, Layer, Text

EXACT_SCORE = 100.0
MAX_CANDIDATES = 8
"""Maximum number of pairs requested for a text; the first that fits provides its translation."""
TAG = re.compile(r"<[^<>]*>(?!`)")
"""A tag of markup; the address of a link in reStructuredText, which precedes a backquote, does not match."""
CODE_CHARACTER = re.compile(r"[{}%$`<>]")
"""A character in placeholders that programs read; a human translator may have changed other pieces."""


class FromMemory:
    """A layer that translates texts from a memory; the next layer translates texts that the memory lacks.

    A pair with the same source provides the translation, if it has the tags and placeholders of the text. A
    similar pair that differs only in copied pieces also provides it, after its pieces are replaced. If there
    is no such pair, sentences of the text that are in the memory are translated from the memory. If there are
    only other similar pairs, the model looks up their states during the translation.

    A translation from the memory is not changed by a glossary; the terms that it lacks are reported.

    Args:
        layer: the next layer.
        plan: the plan of the call.
        memory: the memory.
    """

    def __init__(self, layer: Layer, plan: Plan, memory: TranslationMemory) -> None:
        self._layer, self._plan, self._memory = layer, plan, memory

    def translate(self, texts: Sequence[Text]) -> None:
        remaining_texts, retrieved_matches = list[Text](), dict[Text, MemoryMatch]()
        sentences_by_text: dict[Text, dict[Text, str]] = {}
        for text in while_active(texts):
            similar_matches = {text: self._translate_or_find_similar(text)}
            if text.translation is None and (sentences := self._translated_sentences(text)):
                sentences_by_text[text] = sentences
                untranslated = [sentence for sentence in sentences if sentence.translation is None]
                similar_matches = {
                    sentence: self._translate_or_find_similar(sentence) for sentence in untranslated
                }
            for part, matches in similar_matches.items():
                if part.translation is None:
                    remaining_texts.append(part)
                    if matches and self._retrieves:
                        part.examples = tuple(self._example(part, match) for match in matches)
                        retrieved_matches[part] = matches[0]
        self._translate(remaining_texts)
        for text, match in retrieved_matches.items():
            text.translation = replace(text.result, memory=(memory_use(match, "retrieved"),))
        for text, sentences in sentences_by_text.items():
            _join(text, sentences)

    @property
    def _retrieves(self) -> bool:
        return self._plan.stages[0].memory is not None and state_store(self._memory) is not None

    def _translate(self, texts: Sequence[Text]) -> None:
        """Translate texts with the next layer; equal texts of a document are translated only once."""
        if self._plan.request.on_error != "raise":  # an error has to name each text that fails
            self._layer.translate(texts)
            return
        first_texts: dict[tuple[object, ...], Text] = {}
        for text in texts:
            first_texts.setdefault((text.content, text.prefix, text.examples), text)
        self._layer.translate([*first_texts.values()])
        for text in texts:
            equal_text = first_texts[text.content, text.prefix, text.examples]
            text.translation, text.inlines = equal_text.translation, equal_text.inlines

    def _translate_or_find_similar(self, text: Text, threshold: float = 0.0) -> list[MemoryMatch]:
        """Translate a text from the memory if a pair fits; otherwise return the most similar pairs.

        Args:
            text: the text.
            threshold: the minimum score of the pairs, if it is higher than the call's threshold.
        """
        raw_text, similar_matches = written_text(text.content).strip(), list[MemoryMatch]()
        words: list[Token] = []
        for match in self._find_matches(text, raw_text, threshold):
            if match.score >= EXACT_SCORE:
                if self._set_translation(text, match, match.target, "verbatim"):
                    break
                continue
            words = words or [*split_tokens(raw_text, self._plan.placeholders)]
            fitted_target = adapt_target(words, match.source, match.target, self._plan.placeholders)
            if fitted_target is not None and self._set_translation(text, match, fitted_target, "fitted"):
                break
            similar_matches.append(match)
        return similar_matches

    def _example(self, text: Text, match: MemoryMatch) -> Example:
        """Return a pair as an example for a text, with its words and placeholders but without tags."""
        has_tags = any(isinstance(part, Tag) and not is_kept(part) for part in text.content)

        def without_tags(side: str) -> Inline:
            parts = with_placeholders((TAG.sub("", side) if has_tags else side,), self._plan.placeholders)
            return join_parts(part for part in parts if isinstance(part, str) or is_kept(part))

        return Example(without_tags(match.source), without_tags(match.target), match.score)

    def _translated_sentences(self, text: Text) -> dict[Text, str]:
        """Return the sentences of a text if the memory has at least one of them; see :meth:`_sentences`."""
        sentences = self._sentences(text)
        for sentence in sentences:
            self._translate_or_find_similar(sentence, EXACT_SCORE)
        return sentences if any(sentence.translation is not None for sentence in sentences) else {}

    def _sentences(self, text: Text) -> dict[Text, str]:
        """Return the sentences that the model translates for a text, and the text that follows each of them.

        The dictionary is empty for a single sentence, and if there are several models.
        """
        if len(self._plan.stages) > 1 or text.prefix or not is_translatable(text.content):
            return {}
        try:
            passage = self._plan.stages[0].split_text(plain_text(text.content), text.name)
        except TextTooLongError:
            return {}
        starts = [sentence.span[0] for sentence in passage.sentences[1:]]
        inlines = cut_inline(text.content, starts) if starts else None
        if inlines is None:
            return {}
        contexts = contexts_in_order([*map(written_text, inlines)], text.context)
        parts = [
            Text(trim(part.inline)[1], text.name, parent=text, context=part.context)
            for part in map(InlineText, inlines, contexts)
        ]
        return {part: passage.sentences[index].after for index, part in enumerate(parts)}

    def _find_matches(self, text: Text, raw_text: str, threshold: float) -> Sequence[MemoryMatch]:
        if text.prefix or not is_translatable(text.content):
            return ()
        threshold = max(threshold, self._plan.request.threshold)
        return self._memory.matches(raw_text, text.context, threshold=threshold, limit=MAX_CANDIDATES)

    def _set_translation(self, text: Text, match: MemoryMatch, target: str, usage: MemoryUsage) -> bool:
        """Set the translation of a text to a target from the memory; return False if its tags do not fit."""
        inline = _with_tags(target.strip(), text.content)
        if inline is None:
            return False
        text.inlines = [inline]
        translation = Translation(
            plain_text(inline),
            0.0,
            (),
            (),
            source=plain_text(text.content),
            memory=(memory_use(match, usage),),
        )
        text.translation = self._with_terms(translation, text.content, inline)
        return True

    def _with_terms(self, translation: Translation, source: Inline, target: Inline) -> Translation:
        """Return a translation from the memory that records the terms which it has or lacks.

        Untranslated pieces contain no terms.
        """
        finder = self._plan.stages[-1].terms
        terms = finder.find_terms(strip_tags(source).text) if finder is not None else None
        if terms is None:
            return translation
        from uwaga.translator.layers.terms import with_term_uses

        return with_term_uses(translation, terms.find_uses((), strip_tags(target).text))


def _join(text: Text, sentences: Mapping[Text, str]) -> None:
    """Set the translation of a text to the joined translations of its sentences and the text between them.

    The words of sentences from the memory have no probability and no links.
    """
    source, parts = plain_text(text.content), list[str | Tag]()
    starts, alignments, is_aligned = list[int](), list[WordAlignment](), False
    end = target_start = 0
    for sentence, translated_sentence in sentences.items():
        inline, result = sentence.tagged_translations[0].inline, sentence.result
        words, translated_text = plain_text(sentence.content), plain_text(inline)
        starts.append(source.index(words, end))
        alignment = result.alignment
        is_aligned = is_aligned or alignment is not None
        if alignment is None:
            alignment = WordAlignment(tuple(word_spans(words)), tuple(word_spans(translated_text)), ())
        alignments.append(alignment.moved(starts[-1], target_start))
        parts += [*inline, translated_sentence]
        end, target_start = (
            starts[-1] + len(words),
            target_start + len(translated_text) + len(translated_sentence),
        )
    text.inlines = [join_parts(parts)]
    results = [sentence.result for sentence in sentences]
    translation = join_results(results, plain_text(text.inlines[0]), source, starts)
    text.translation = replace(
        translation, alignment=concatenate_alignments(alignments) if is_aligned else None
    )


def memory_use(match: MemoryMatch, usage: MemoryUsage) -> MemoryUse:
    """Return a pair of a memory together with how it was used."""
    return MemoryUse(match.source, match.target, match.score, usage, match.origin, match.created)


def _with_tags(target: str, content: Inline) -> Inline | None:
    """Return a target with the tags of a text, or None if the target lacks or repeats a tag."""
    tags: dict[str, list[Tag]] = {}
    for part in content:
        if isinstance(part, Tag) and part.raw and (part.kind != "kept" or CODE_CHARACTER.search(part.raw)):
            tags.setdefault(part.raw, []).append(part)
    pieces = sorted(tags, key=len, reverse=True)
    matches = list(re.finditer("|".join(map(re.escape, pieces)), target)) if pieces else []
    if Counter(match[0] for match in matches) != {raw: len(equal_tags) for raw, equal_tags in tags.items()}:
        return None
    parts, end = list[str | Tag](), 0
    for match in matches:
        parts += [target[end : match.start()], tags[match[0]].pop(0)]
        end = match.end()
    return join_parts([*parts, target[end:]])
