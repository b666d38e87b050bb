"""Symbols that stand for untranslated pieces in a model's input: names and numbers, which models copy."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from uwaga.alignment.words import word_spans
from uwaga.markup.inline import Inline, Tag, is_kept, joined
from uwaga.markup.placeholders import UNITS, is_counted, is_quantity
from uwaga.markup.strip_tags import separates
from uwaga.markup.units import translatable
from uwaga.markup.words import overlapping
from uwaga.results.translation import Span, WordAlignment, noisy_or

NAMES = ("Tom", "Paris", "Boston", "Maria", "Peter", "Berlin", "Anna", "London", "John")
NUMBERS = ("20", "2013", "30", "5", "250", "15", "7", "12", "40")
"""The words that models copy most often, measured on the bundled model and on Firefox's."""
WORDS = re.compile(r"\w+")
CANDIDATE = re.compile(
    rf"(?<!\w)[+-]?(?P<number>\d++(?>(?:[.,]\d++)*))(?:[ \u00a0\u202f]?(?:{UNITS}))?(?!\w)|\w+"
)
"""Every word that may be a symbol: a number, with its unit where there is one, or letters."""
ATTEMPTS = 4
"""Ways to choose symbols: by the kind of the piece, of the other kind, and further ones of both."""


@dataclass(frozen=True)
class Symbol:
    """The word that stands for an untranslated piece, and whether the piece touched a word on either side."""

    text: str
    tag: Tag
    touches_left: bool
    touches_right: bool


def find_symbols(symbols: Iterable[Symbol], text: str) -> dict[str, list[Span]]:
    """Find each symbol where it is a word by itself: ``20`` is not found in ``20.000`` or in ``2020``.

    Returns:
        the spans of each symbol that occurs, by its text.
    """
    wanted = {symbol.text for symbol in symbols}
    spans: dict[str, list[Span]] = {}
    for match in CANDIDATE.finditer(text) if wanted else ():
        start, end = match.span()
        if match["number"] is None:
            ranges = [(start, end)]
        else:
            number, stop = match.start("number"), match.end("number")
            ranges = [(start, end), (number, end), (start, stop), (number, stop)]
        for low, high in ranges:
            if text[low:high] in wanted and _is_word(text, low, high):
                spans.setdefault(text[low:high], []).append((low, high))
                break
    return spans


def _is_word(text: str, start: int, end: int) -> bool:
    before, after = text[start - 1 : start], text[end : end + 1]
    if _in_word(before) or _in_word(after):
        return False
    if not text[start:end].isdigit():
        return True
    return before not in (".", ",") and not (after in (".", ",") and text[end + 1 : end + 2].isdigit())


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def choose_symbols(inline: Inline, attempt: int) -> list[str | None]:
    """Choose a symbol for each untranslated piece, all different and none in the text; None if none is left.

    A text without letters beside its untranslated pieces is copied, and needs no symbols.

    Args:
        inline: the text.
        attempt: from 0; each attempt has other symbols.
    """
    if not translatable(inline):
        return [None for part in inline if is_kept(part)]
    texts = [part if isinstance(part, str) else part.text for part in inline]
    taken = {word for text in texts for word in WORDS.findall(text)}
    kinds = {True: list(NUMBERS), False: list(NAMES)}
    shift = 4 * (attempt // 2)
    left = {kind: [*every[shift:], *every[:shift]] for kind, every in kinds.items()}
    chosen: list[str | None] = []
    own_texts = Counter(part.text for part in inline if isinstance(part, Tag))
    plain = " ".join(part for part in inline if isinstance(part, str))
    outside = {match.group() for match in CANDIDATE.finditer(plain)} if attempt == 0 else set[str]()
    for part in inline:
        if is_kept(part):
            alone = own_texts[part.text] == 1 and part.text not in outside
            if attempt == 0 and alone and is_quantity(part.text):
                chosen.append(part.text)
                continue
            own = left[is_counted(part.text) != (attempt % 2 == 1)]
            other = left[is_counted(part.text) == (attempt % 2 == 1)]
            free = next((one for one in (*own, *other) if one not in taken), None)
            if free is not None:
                taken.add(free)
            chosen.append(free)
    return chosen


def substitute(inline: Inline, symbols: Sequence[str | None]) -> tuple[Inline, tuple[Symbol, ...]]:
    """Return the text with symbols for untranslated pieces, and the symbols; a piece without one stays a tag.

    Args:
        inline: the text.
        symbols: one, or None, for each untranslated piece.
    """
    parts: list[str | Tag] = []
    used: list[Symbol] = []
    choice = iter(symbols)
    touched_left = _touched(inline, last=True)
    touched_right = _touched(inline[::-1], last=False)[::-1]
    for part, left, right in zip(inline, touched_left, touched_right, strict=True):
        symbol = next(choice) if is_kept(part) else None
        if symbol is None or isinstance(part, str):
            parts.append(part)
            continue
        used.append(Symbol(symbol, part, left, right))
        apart = left and not (parts and isinstance(parts[-1], str) and parts[-1].endswith(" "))
        parts.append((" " if apart else "") + symbol + (" " if right else ""))
    return joined(parts), tuple(used)


def missing(symbols: Sequence[Symbol], translation: str) -> list[int]:
    """Return the numbers of the symbols that do not occur in a translation exactly once."""
    spans = find_symbols(symbols, translation)
    return [number for number, symbol in enumerate(symbols) if len(spans.get(symbol.text, ())) != 1]


def restore(inline: Inline, symbols: Sequence[Symbol]) -> Inline:
    """Replace the symbols in a translation with the pieces that they stand for.

    Args:
        inline: the translation.
        symbols: the symbols, each of which occurs once.
    """
    if not symbols:
        return inline
    by_text = {one.text: one for one in symbols}
    parts: list[str | Tag] = []
    for part in inline:
        if isinstance(part, Tag):
            parts.append(part)
            continue
        at = 0
        for start, after in sorted(span for own in find_symbols(symbols, part).values() for span in own):
            symbol = by_text[part[start:after]]
            before = part[at:start]
            beside = before[-2:-1].isalnum() or (before == " " and bool(parts) and isinstance(parts[-1], Tag))
            if symbol.touches_left and beside:
                before = before.rstrip(" ")
            if (
                symbol.touches_right
                and part[after : after + 1] == " "
                and part[after + 1 : after + 2].isalnum()
            ):
                after += 1
            parts += [before, symbol.tag]
            at = after
        parts.append(part[at:])
    return joined(parts)


def _touched(parts: Sequence[str | Tag], *, last: bool) -> list[bool]:
    """Return for each part whether a word or an untranslated piece comes right before it.

    Args:
        parts: in the order in which they are passed.
        last: which end of a text is passed last: its last character or its first.
    """
    touched, now = list[bool](), False
    for part in parts:
        touched.append(now)
        if isinstance(part, str):
            now = _in_word(part[-1 if last else 0]) if part else now
        elif part.kind == "kept":
            now = True
        elif separates(part):
            now = False
    return touched


def realign(
    alignment: WordAlignment,
    source: tuple[str, str],
    target: tuple[str, str],
    symbols: Sequence[Symbol],
    kept: Sequence[str],
) -> WordAlignment | None:
    """Return the links between the words of the final texts; None if these do not match the texts before.

    Args:
        alignment: the alignment of the texts with symbols.
        source: the source with symbols, and without.
        target: the translation with symbols, and without.
        symbols: the symbols in both.
        kept: pieces that only the final texts have.
    """
    sides, symbol_words = [], list[dict[str, range]]()
    for (before, after), spans in ((source, alignment.source), (target, alignment.target)):
        at_symbols = {text: found[0] for text, found in find_symbols(symbols, before).items()}
        positions = _map_characters(before, after, symbols, at_symbols, kept)
        if positions is None:
            return None
        words = word_spans(after)
        starts = [start for start, _ in words]
        moved = [[place for place in positions[start:end] if place is not None] for start, end in spans]
        owners = [overlapping(words, starts, own[0][0], own[-1][1]) if own else range(0) for own in moved]
        sides.append((tuple(words), owners))
        symbol_words.append(
            {
                text: overlapping(words, starts, *place)
                for text, (start, _) in at_symbols.items()
                if (place := positions[start]) is not None
            }
        )
    both = [text for text in symbol_words[0] if text in symbol_words[1]]
    taken = [{word for text in both for word in own[text]} for own in symbol_words]
    (sources, ours), (targets, theirs) = (
        (words, [[word for word in own if word not in gone] for own in owners])
        for (words, owners), gone in zip(sides, taken, strict=True)
    )
    links = {(one, two) for here, there in alignment.links for one in ours[here] for two in theirs[there]}
    chances = [
        ((one, two), chance)
        for here, there, chance in alignment.likely
        for one in ours[here]
        for two in theirs[there]
    ]
    for text in both:
        pairs = list(zip(symbol_words[0][text], symbol_words[1][text], strict=False))
        links.update(pairs)
        chances += [(pair, 1.0) for pair in pairs] if alignment.likely else []
    return WordAlignment(sources, targets, tuple(sorted(links)), noisy_or(chances))


def _map_characters(
    before: str,
    after: str,
    symbols: Sequence[Symbol],
    at_symbols: Mapping[str, Span],
    kept: Sequence[str],
) -> list[Span | None] | None:
    """Return for each character of ``before`` its span in ``after``; None for white space.

    Returns None where ``after`` is not ``before`` with the symbols replaced and the kept pieces inserted.
    """
    replaced = {
        at_symbols[one.text][0]: (at_symbols[one.text][1], one.tag.text)
        for one in symbols
        if one.text in at_symbols
    }
    pieces, lengths = frozenset(kept), sorted({len(one) for one in kept if one})
    positions: list[Span | None] = []
    at = to = 0
    while at < len(before):
        if before[at].isspace():
            positions.append(None)
            at += 1
            continue
        end, text = replaced.get(at, (at + 1, before[at]))
        while not after.startswith(text, to):
            skipped = next((length for length in lengths if after[to : to + length] in pieces), 0)
            if not skipped and not after[to : to + 1].isspace():
                return None
            to += skipped or 1
        positions += [(to, to + len(text))] * (end - at)
        at, to = end, to + len(text)
    return positions
