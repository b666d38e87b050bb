"""Symbols that stand for what is kept while a model translates: names and numbers, which models leave alone.

A model that has never seen ``{user}`` makes anything of it. Of ``Tom`` it makes ``Tom``, and puts it where a
name belongs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from uwaga.markup.inline import Inline, Tag, joined
from uwaga.markup.placeholders import UNITS, is_counted, is_quantity
from uwaga.markup.strip_tags import separates
from uwaga.results.translation import Span

NAMES = ("Tom", "Paris", "Boston", "Maria", "Peter", "Berlin", "Anna", "London", "John")
NUMBERS = ("20", "2013", "30", "5", "250", "15", "7", "12", "40")
"""What models copy most often, measured on the bundled one and on Firefox's."""
WORDS = re.compile(r"\w+")
CANDIDATE = re.compile(
    rf"(?<!\w)[+-]?(?P<number>\d++(?:[.,]\d++)*+)(?:[ \u00a0\u202f]?(?:{UNITS}))?(?!\w)|\w+"
)
"""Every word that may be a symbol: a number, with its unit where there is one, or letters."""
ATTEMPTS = 4
"""Ways to choose symbols: by the looks of what is kept, of the other kind, and others of both."""


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
    """A symbol for each piece that is kept, all different and none in the text; None where none is left.

    Args:
        inline: the text.
        attempt: from 0; each has other symbols.
    """
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
        if isinstance(part, Tag) and part.kind == "kept":
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
    """The text with symbols for what is kept, and these; what has none stays a tag.

    Args:
        inline: the text.
        symbols: one, or None, for each piece that is kept.
    """
    parts: list[str | Tag] = []
    used: list[Symbol] = []
    choice = iter(symbols)
    touched_left = _touched(inline, last=True)
    touched_right = _touched(inline[::-1], last=False)[::-1]
    for part, left, right in zip(inline, touched_left, touched_right, strict=True):
        symbol = next(choice) if isinstance(part, Tag) and part.kind == "kept" else None
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
    """The translation with what was kept in the place of its symbols.

    Args:
        inline: the translation.
        symbols: that stand in it, each once.
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
    """For each part, whether a word or an untranslated piece comes right before it.

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
