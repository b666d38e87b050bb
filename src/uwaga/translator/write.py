"""Translations written in the format of their texts, with tags and placeholders in their places."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from uwaga.alignment.words import word_spans
from uwaga.errors import DataError, TextTooLongError, quoted
from uwaga.markup import Inline, Tag, plain_text
from uwaga.markup.inline import is_kept, join_parts
from uwaga.markup.insert_tags import insert_tags
from uwaga.markup.strip_tags import StrippedText, strip_tags
from uwaga.markup.symbols import (
    MAX_ATTEMPTS,
    Symbol,
    choose_symbols,
    find_symbols,
    missing_symbols,
    realign,
    replace_symbols,
    insert_symbols,
)
from uwaga.markup.units import Fragment, translatable
from uwaga.results.coverage import combine_coverage
from uwaga.results.translation import Translation, WordAlignment
from uwaga.translator.request import OnError, failed

LONGEST_FORCED = 400
"""Characters of a text whose beginning may be forced: one that a model takes in one piece, most likely."""

Run = Callable[[Sequence[int], Sequence[Inline], Sequence[str]], list[Translation]]
"""Translates texts with symbols: their numbers, the texts, and what each translation begins with."""


@dataclass(frozen=True)
class Kept:
    """A text with symbols, and its translation; ``lost`` are the numbers of the symbols missing from it."""

    inline: Inline
    symbols: tuple[Symbol, ...]
    translation: Translation
    lost: tuple[int, ...] = ()
    dropped: tuple[str, ...] = ()


def translate_kept(inlines: Sequence[Inline], run: Run) -> list[Kept]:
    """Translate texts so that every kept piece comes out exactly once.

    Symbols represent the pieces. If one is lost, others are tried, and then the first lost one is forced at
    the place that its word is aligned with. Pieces that no symbol preserves are removed from the text and put
    back by alignment alone; they are ``dropped``.

    Args:
        inlines: the texts.
        run: translates texts whose kept pieces are replaced.
    """
    made: dict[int, Kept] = {}
    waiting = list(range(len(inlines)))
    for attempt in range(MAX_ATTEMPTS):
        choices = [choose_symbols(inlines[at], attempt) for at in waiting]
        _try(
            waiting,
            [insert_symbols(inlines[at], one) for at, one in zip(waiting, choices, strict=True)],
            run,
            made,
        )
        waiting = [at for at in waiting if made[at].lost]
        if not waiting:
            return [made[at] for at in range(len(inlines))]
    _force(waiting, run, made)
    waiting = [at for at in waiting if made[at].lost]
    for everything in (False, True):
        if not waiting:
            break
        texts = [_without_lost(inlines[at], made[at], everything) for at in waiting]
        for at in waiting:
            del made[at]
        _try(waiting, texts, run, made)
        waiting = [at for at in waiting if made[at].lost]
    return [made[at] for at in range(len(inlines))]


def _try(
    numbers: Sequence[int],
    texts: Sequence[tuple[Inline, tuple[Symbol, ...]]],
    run: Run,
    made: dict[int, Kept],
    prefixes: Sequence[str] = (),
) -> None:
    """Translate, and keep the results that lose fewer symbols than before."""
    begun = list(prefixes) or [""] * len(texts)
    found = run(numbers, [inline for inline, _ in texts], begun) if numbers else []
    for at, (inline, symbols), translation in zip(numbers, texts, found, strict=True):
        if translation.error is not None and at in made:
            continue
        lost = () if translation.error is not None else tuple(missing_symbols(symbols, translation.text))
        if at not in made or len(lost) < len(made[at].lost):
            left = tuple(part.text for part in inline if is_kept(part))
            made[at] = Kept(inline, symbols, translation, lost, left)


def _force(waiting: Sequence[int], run: Run, made: dict[int, Kept]) -> None:
    """Force the search up to the place of the first lost symbol, and let it continue from there."""
    prefixes = {at: prefix for at in waiting if (prefix := _prefix(made[at])) is not None}

    def force(numbers: Sequence[int]) -> None:
        texts = [(made[at].inline, made[at].symbols) for at in numbers]
        _try(numbers, texts, run, made, [prefixes[at] for at in numbers])

    try:
        force(list(prefixes))
    except TextTooLongError:  # a prefix is as long as its target may be: that text stays as it is
        for at in prefixes:
            with suppress(TextTooLongError):
                force([at])


def _prefix(one: Kept) -> str | None:
    """Return the translation up to the first lost symbol, and the symbol; None if the place is unknown."""
    symbol, alignment = one.symbols[one.lost[0]], one.translation.alignment
    source = strip_tags(one.inline).text
    if alignment is None or len(source) > LONGEST_FORCED or "\n" in source or "\r" in source:
        return None
    start, end = find_symbols([symbol], source).get(symbol.text, [(0, 0)])[0]
    words = {at for at, span in enumerate(alignment.source) if span[0] < end and span[1] > start}
    targets = [alignment.target[target] for word, target in alignment.links if word in words]
    if not targets or find_symbols([symbol], one.translation.text):
        return None
    before = one.translation.text[: min(targets)[0]].rstrip()
    return f"{before} {symbol.text}".strip()


def _without_lost(inline: Inline, one: Kept, everything: bool) -> tuple[Inline, tuple[Symbol, ...]]:
    """Return the text with symbols for what they preserved, and tags for the rest."""
    lost = {id(one.symbols[number].tag) for number in one.lost}
    chosen: list[str | None] = []
    symbols = iter(one.symbols)
    for part in inline:
        if is_kept(part):
            symbol = None if part.text in one.dropped else next(symbols, None)
            gone = everything or symbol is None or id(symbol.tag) in lost
            chosen.append(None if gone or symbol is None else symbol.text)
    return insert_symbols(inline, chosen)


@dataclass(frozen=True)
class TranslatedInline:
    """A translation with the tags of its source, ``inline``, and without them, ``translation``.

    ``alternatives`` are those of the translation, with their tags.
    """

    inline: Inline
    translation: Translation
    alternatives: tuple[Inline, ...] = ()


def write(
    text: str, fragment: Fragment, parts: Sequence[TranslatedInline], linked: bool, on_error: OnError
) -> Translation:
    """Return the translation of a text from those of its parts, with its alignment if ``linked``."""
    error = next((one.translation.error for one in parts if one.translation.error is not None), None)
    if isinstance(error, DataError):
        return failed(text, error, on_error)
    written = fragment.write([one.inline for one in parts])
    if len(parts) == 1:
        [one] = parts
        others = tuple(
            replace(
                other,
                text=fragment.write([inline]),
                source=text,
                alignment=other.alignment if linked else None,
            )
            for other, inline in zip(one.translation.alternatives, one.alternatives, strict=True)
        )
        alignment = one.translation.alignment if linked else None
        return replace(one.translation, text=written, source=text, alternatives=others, alignment=alignment)
    found = [one.translation for one in parts]
    spoken = [one for one in found if one.tokens]
    return Translation(
        text=written,
        score=math.fsum(one.score for one in spoken) / max(len(spoken), 1),
        tokens=tuple(token for one in found for token in one.tokens),
        token_scores=tuple(score for one in found for score in one.token_scores),
        log_prob=math.fsum(one.log_prob for one in found),
        truncated=any(one.truncated for one in found),
        source_tokens=tuple(token for one in found for token in one.source_tokens),
        source=text,
        warnings=tuple(dict.fromkeys(warning for one in found for warning in one.warnings)),
        entropies=tuple(entropy for one in found for entropy in one.entropies),
        terms=tuple(use for one in found for use in one.terms),
        coverage=combine_coverage(one.coverage for one in found),
    )


def put_tags_back(inline: Inline, one: Kept) -> TranslatedInline:
    """Return a translation with all tags and kept pieces in place."""
    translation = one.translation
    if not any(isinstance(part, Tag) for part in inline):
        ways = [_with_ends((other.text,), inline) for other in (translation, *translation.alternatives)]
        return TranslatedInline(ways[0], translation, tuple(ways[1:]))
    if translation.error is not None:
        copied = inline if translation.text else tuple(part for part in inline if isinstance(part, Tag))
        return TranslatedInline(copied, translation)
    keeps = any(map(is_kept, inline))
    if keeps and not translatable(inline):
        return _copied(inline, translation)
    stripped = strip_tags(one.inline)
    good = [other for other in translation.alternatives if not missing_symbols(one.symbols, other.text)]
    ways = [_placed(stripped, one, other) for other in (translation, *good)]
    marked = [_with_ends(way, inline) for way in ways]
    if not keeps:
        return TranslatedInline(marked[0], translation, tuple(marked[1:]))
    warnings = [
        f"no symbol for {quoted(text)} came through the model: it stands where the words around it suggest"
        for text in one.dropped
    ]
    if len(good) < len(translation.alternatives):
        warnings.append(f"{len(translation.alternatives) - len(good)} alternatives lost a placeholder")
    source = plain_text(inline)
    texts = [
        replace(other, text=text, source=source, alignment=_realigned(other, text, stripped, source, one))
        for other, text in zip((translation, *good), map(plain_text, ways), strict=True)
    ]
    combined, coverage = [*translation.warnings, *warnings], translation.coverage
    if coverage is not None:
        own = coverage.without([symbol.text for symbol in one.symbols])
        combined = [each for each in combined if each not in coverage.warnings] + list(own.warnings)
        coverage = own
    result = replace(texts[0], warnings=tuple(combined), alternatives=tuple(texts[1:]), coverage=coverage)
    return TranslatedInline(marked[0], result, tuple(marked[1:]))


def _copied(inline: Inline, translation: Translation) -> TranslatedInline:
    """Return a text of untranslated pieces alone."""
    source = plain_text(inline)
    text = source.strip()
    sources, targets = (tuple(word_spans(one)) for one in (source, text))
    links = tuple((word, word) for word in range(len(targets)))
    alignment = None if translation.alignment is None else WordAlignment(sources, targets, links)
    made = replace(translation, text=text, source=source, alignment=alignment, alternatives=())
    return TranslatedInline(inline, made)


def _realigned(
    translation: Translation, text: str, stripped: StrippedText, source: str, one: Kept
) -> WordAlignment | None:
    """Return the alignment of a translation with symbols, mapped to what they stand for."""
    if translation.alignment is None:
        return None
    texts = (stripped.text, source), (translation.text, text)
    return realign(translation.alignment, *texts, one.symbols, one.dropped)


def _placed(stripped: StrippedText, one: Kept, translation: Translation) -> Inline:
    words = [symbol.text for symbol in one.symbols]
    return replace_symbols(insert_tags(stripped, translation.text, translation.alignment, words), one.symbols)


def _with_ends(found: Inline, inline: Inline) -> Inline:
    """Return a translation with the white space around its source in place of its own."""
    first = inline[0] if inline else ""
    last = inline[-1] if inline else ""
    parts = list(found)
    if isinstance(first, str) and not first.isspace() and first[:1].isspace():
        if parts and isinstance(parts[0], str):
            parts[0] = parts[0].lstrip()
        parts.insert(0, first[: len(first) - len(first.lstrip())])
    if isinstance(last, str) and not last.isspace() and last[-1:].isspace():
        if parts and isinstance(parts[-1], str):
            parts[-1] = parts[-1].rstrip()
        parts.append(last[len(last.rstrip()) :])
    return join_parts(parts)
