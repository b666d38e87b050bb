"""Pieces of texts that are not translated: symbols stand for them in the model's input and output.

The model copies a symbol, such as a name or a number, so its position in the output is the position of the
piece. If a symbol is lost, other symbols are tried; then the first lost symbol is forced at the position with
which its word is aligned. Pieces whose symbols are always lost are placed by alignment alone, with a warning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from uwaga.alignment.words import word_spans
from uwaga.errors import quoted
from uwaga.markup.inline import Inline, Tag, is_kept, join_parts, plain_text
from uwaga.markup.placeholders import Placeholders as Patterns
from uwaga.markup.placeholders import keep_order
from uwaga.markup.strip_tags import strip_tags
from uwaga.markup.symbols import (
    MAX_ATTEMPTS,
    Symbol,
    choose_symbols,
    find_symbols,
    insert_symbols,
    is_sign,
    missing_symbols,
    move_words,
    realign,
    replace_symbols,
    restore_pieces,
)
from uwaga.markup.units import is_translatable
from uwaga.results.translation import Translation, WordAlignment
from uwaga.translator.layers.failures import translate_separately
from uwaga.translator.text import Example, Layer, Text

MAX_FORCED_SOURCE = 400
"""Maximum number of characters of a text whose beginning may be forced; a longer text is probably split."""


class Placeholders:
    """A layer for texts with untranslated pieces, each of which appears in the translation exactly once.

    Args:
        layer: the next layer.
        can_align: whether words can be aligned, which is needed to place pieces without symbols.
    """

    def __init__(self, layer: Layer, can_align: bool) -> None:
        self._layer, self._can_align = layer, can_align

    def translate(self, texts: Sequence[Text]) -> None:
        best_attempts = {text: self._attempt(text, 0) for text in texts if any(map(is_kept, text.content))}
        self._layer.translate([best_attempts.get(text, text) for text in texts])
        for attempt_number in range(1, MAX_ATTEMPTS):
            self._retry(
                best_attempts,
                {text: self._attempt(text, attempt_number) for text in _incomplete(best_attempts)},
            )
        forced_attempts = {
            text: _with_forced_symbol(best_attempts[text]) for text in _incomplete(best_attempts)
        }
        self._retry(
            best_attempts, {text: attempt for text, attempt in forced_attempts.items() if attempt is not None}
        )
        for all_pieces in (False, True):
            last_attempts = {
                text: self._restore_lost_tags(text, best_attempts[text], all_pieces)
                for text in _incomplete(best_attempts)
            }
            if last_attempts:
                self._layer.translate(list(last_attempts.values()))
                best_attempts |= last_attempts
        for text, attempt in best_attempts.items():
            _set_translation(text, attempt)

    def _attempt(self, text: Text, attempt_number: int) -> Text:
        return self._with_symbols(text, choose_symbols(text.content, attempt_number))

    def _with_symbols(self, text: Text, choice: Sequence[str | None]) -> Text:
        content, symbols = insert_symbols(text.content, choice)
        return Text(
            content,
            text.name,
            text.prefix,
            parent=text,
            symbols=symbols,
            needs_alignment=self._can_align,
            examples=tuple(_with_symbols(example, symbols) for example in text.examples),
        )

    def _retry(self, best_attempts: dict[Text, Text], attempts: Mapping[Text, Text]) -> None:
        """Translate attempts, and keep each that loses fewer symbols than the best attempt so far."""
        if not attempts:
            return
        errors = translate_separately(self._layer, list(attempts.values()))
        for text, attempt in attempts.items():
            if attempt not in errors and len(_lost_symbols(attempt)) < len(
                _lost_symbols(best_attempts[text])
            ):
                best_attempts[text] = attempt

    def _restore_lost_tags(self, text: Text, attempt: Text, all_pieces: bool) -> Text:
        """Return the text with tags for pieces whose symbols were lost, and symbols for other pieces."""
        lost_tag_ids = {id(attempt.symbols[index].tag) for index in _lost_symbols(attempt)}
        dropped_pieces = _dropped_pieces(attempt)
        choice: list[str | None] = []
        symbols = iter(attempt.symbols)
        for part in text.content:
            if is_kept(part):
                symbol = None if part.text in dropped_pieces else next(symbols, None)
                keeps_symbol = not all_pieces and symbol is not None and id(symbol.tag) not in lost_tag_ids
                choice.append(symbol.text if keeps_symbol and symbol is not None else None)
        return self._with_symbols(text, choice)


def with_placeholders(content: Inline, patterns: Patterns | None, prefix: str = "") -> Inline:
    """Return a text whose placeholders are tags.

    A text with a prefix and without letters outside its placeholders is returned unchanged, because the
    search could not continue the prefix.

    Args:
        content: words and tags.
        patterns: the patterns of placeholders; None for no placeholders.
        prefix: the beginning of the translation.
    """
    if patterns is None:
        return content
    parts: list[str | Tag] = []
    for part in content:
        parts += patterns.split(part) if isinstance(part, str) else (part,)
    return content if prefix and not is_translatable(tuple(parts)) else tuple(parts)


def _with_symbols(example: Example, symbols: Sequence[Symbol]) -> Example:
    """Return an example with its pieces replaced by the symbols of a text.

    Pieces that are also in the text are replaced by the same symbols as there; other pieces by the symbols of
    pieces that are only in the text, in order.
    """
    pieces = list(dict.fromkeys(part.text for part in example.source if is_kept(part)))
    symbols_by_text = {symbol.tag.text: symbol.text for symbol in symbols}
    others = iter([text for piece, text in symbols_by_text.items() if piece not in pieces])
    missing_pieces = [piece for piece in pieces if piece not in symbols_by_text]
    symbols_by_text |= {piece: text for piece in missing_pieces if (text := next(others, "")) != ""}

    def replaced(inline: Inline) -> Inline:
        return join_parts(
            [symbols_by_text.get(part.text, part) if is_kept(part) else part for part in inline]
        )

    return example._replace(source=replaced(example.source), target=replaced(example.target))


def _lost_symbols(attempt: Text) -> list[int]:
    """Return the indices of the symbols that a translation lacks or repeats."""
    return missing_symbols(attempt.symbols, attempt.result.text)


def _incomplete(best_attempts: Mapping[Text, Text]) -> list[Text]:
    return [text for text, attempt in best_attempts.items() if _lost_symbols(attempt)]


def _dropped_pieces(attempt: Text) -> tuple[str, ...]:
    """Return the untranslated pieces for which no symbol stands."""
    return tuple(part.text for part in attempt.content if is_kept(part))


def _with_forced_symbol(attempt: Text) -> Text | None:
    """Return a text whose prefix ends with the first lost symbol; None if its position is unknown."""
    symbol, alignment = attempt.symbols[_lost_symbols(attempt)[0]], attempt.result.alignment
    source = strip_tags(attempt.content).text
    if alignment is None or len(source) > MAX_FORCED_SOURCE or "\n" in source or "\r" in source:
        return None
    start, end = find_symbols([symbol], source).get(symbol.text, [(0, 0)])[0]
    words = {word for word, span in enumerate(alignment.source) if span[0] < end and span[1] > start}
    targets = [alignment.target[target] for word, target in alignment.links if word in words]
    if not targets or find_symbols([symbol], attempt.result.text):
        return None
    text_before = attempt.result.text[: min(targets)[0]].rstrip()
    prefix = f"{text_before} {symbol.text}".strip()
    return replace(
        attempt,
        prefix=prefix if prefix.startswith(attempt.prefix) else attempt.prefix,
        translation=None,
        inlines=[],
    )


def _set_translation(text: Text, attempt: Text) -> None:
    """Set the translation of a text from its best attempt, with symbols replaced by their pieces."""
    if not is_translatable(text.content):
        _set_copy(text, attempt.result)
        return
    translation, symbols = attempt.result, attempt.symbols
    best, *alternatives = attempt.tagged_translations
    complete_translations = [
        best,
        *(
            alternative
            for alternative in alternatives
            if not missing_symbols(symbols, alternative.translation.text)
        ),
    ]
    source, dropped_pieces = plain_text(text.content), _dropped_pieces(attempt)
    stripped_text = strip_tags(attempt.content).text
    warnings = [
        f"the model lost every symbol for {quoted(piece)}, which was placed according to the words around it"
        for piece in dropped_pieces
        if not is_sign(piece)
    ]
    if lost_count := len(alternatives) + 1 - len(complete_translations):
        warnings.append(f"alternatives left out because they lost a placeholder: {lost_count}")
    results, text.inlines = [], []
    for hypothesis, inline in complete_translations:
        restored = replace_symbols(inline, symbols)
        text.inlines.append(keep_order(text.content, restored))
        words = plain_text(text.inlines[-1])
        alignment = hypothesis.alignment if words == plain_text(restored) else None
        if alignment is not None:
            alignment = realign(
                alignment, (stripped_text, source), (hypothesis.text, words), symbols, dropped_pieces
            )
        hypothesis = replace(hypothesis, text=words, source=source, alignment=alignment)
        if hypothesis.attention is not None:
            hypothesis = replace(
                hypothesis,
                tokens=restore_pieces(hypothesis.tokens, symbols),
                source_tokens=restore_pieces(hypothesis.source_tokens, symbols),
            )
        results.append(hypothesis)
    combined_warnings, coverage = [*translation.warnings, *warnings], translation.coverage
    if coverage is not None:
        combined_warnings = [warning for warning in combined_warnings if warning not in coverage.warnings]
        coverage = coverage.without([symbol.text for symbol in symbols])
        spans = move_words(coverage.omitted_spans, (stripped_text, source), symbols, dropped_pieces)
        coverage = replace(coverage, omitted_spans=spans)
        combined_warnings += coverage.warnings
    text.translation = replace(
        results[0], warnings=tuple(combined_warnings), alternatives=tuple(results[1:]), coverage=coverage
    )


def _set_copy(text: Text, translation: Translation) -> None:
    """Set the translation of a text without translatable words to the text itself."""
    source = plain_text(text.content)
    copy = source.strip()
    targets = tuple(word_spans(copy))
    links = tuple((word, word) for word in range(len(targets)))
    alignment = WordAlignment(tuple(word_spans(source)), targets, links)
    text.inlines = [text.content]
    text.translation = replace(
        translation,
        text=copy,
        source=source,
        alignment=None if translation.alignment is None else alignment,
        alternatives=(),
    )
