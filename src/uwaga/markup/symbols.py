"""Symbols that stand for what is kept while a model translates: names and numbers, which models leave alone.

A model that has never seen ``{user}`` makes anything of it. Of ``Tom`` it makes ``Tom``, and puts it where a
name belongs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from uwaga.markup.inline import Inline, Tag
from uwaga.markup.lifting import separates
from uwaga.markup.placeholders import is_counted, is_quantity
from uwaga.markup.placing import joined

NAMES = ("Tom", "Paris", "Boston", "Maria", "Peter", "Berlin", "Anna", "London", "John")
NUMBERS = ("20", "2013", "30", "5", "250", "15", "7", "12", "40")
"""What models copy most often, measured on the bundled one and on Firefox's."""
WORDS = re.compile(r"\w+")
ATTEMPTS = 4
"""Ways to choose symbols: by the looks of what is kept, of the other kind, and others of both."""


@dataclass(frozen=True)
class Symbol:
    """What stands for a piece that is kept, and whether that touched a word on its left and on its right."""

    text: str
    tag: Tag
    touches_left: bool
    touches_right: bool

    def places(self, translation: str) -> list[tuple[int, int]]:
        """Where it stands in a translation."""
        found = _pattern(self.text).finditer(translation)
        return [one.span() for one in found]


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
    plain = "".join(part if isinstance(part, str) else " " for part in inline)
    for part in inline:
        if isinstance(part, Tag) and part.kind == "kept":
            alone = own_texts[part.text] == 1 and part.text not in plain
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
    for number, part in enumerate(inline):
        symbol = next(choice) if isinstance(part, Tag) and part.kind == "kept" else None
        if symbol is None or isinstance(part, str):
            parts.append(part)
            continue
        left = _touched(inline[:number][::-1], -1)
        right = _touched(inline[number + 1 :], 0)
        used.append(Symbol(symbol, part, left, right))
        apart = left and not (parts and isinstance(parts[-1], str) and parts[-1].endswith(" "))
        parts.append((" " if apart else "") + symbol + (" " if right else ""))
    return joined(parts), tuple(used)


def missing(symbols: Sequence[Symbol], translation: str) -> list[int]:
    """The numbers of the symbols that do not stand in a translation exactly once."""
    return [number for number, one in enumerate(symbols) if len(one.places(translation)) != 1]


def restore(inline: Inline, symbols: Sequence[Symbol]) -> Inline:
    """The translation with what was kept in the place of its symbols.

    Args:
        inline: the translation.
        symbols: that stand in it, each once.
    """
    if not symbols:
        return inline
    by_text = {one.text: one for one in symbols}
    pattern = re.compile("|".join(_pattern(one.text).pattern for one in symbols))
    parts: list[str | Tag] = []
    for part in inline:
        if isinstance(part, Tag):
            parts.append(part)
            continue
        at = 0
        for found in pattern.finditer(part):
            symbol = by_text[found.group()]
            before, after = part[at : found.start()], found.end()
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


def _pattern(symbol: str) -> re.Pattern[str]:
    digits = symbol.isdigit()
    before, after = (r"(?<![\w.,])", r"(?!\w)(?![.,]\d)") if digits else (r"(?<!\w)", r"(?!\w)")
    return re.compile(f"{before}{re.escape(symbol)}{after}")


def _touched(beside: Sequence[str | Tag], edge: int) -> bool:
    """Whether a word, or another piece that is kept, stands right beside."""
    for part in beside:
        if isinstance(part, Tag):
            if part.kind == "kept":
                return True
            if separates(part):
                return False
        elif part:
            return part[edge].isalnum() or part[edge] == "_"
    return False
