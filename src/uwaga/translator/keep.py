"""Pieces that a model must leave alone: symbols stand for them, tried until every one comes out again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from uwaga.markup import Inline, Tag
from uwaga.markup.strip_tags import strip_tags
from uwaga.markup.symbols import ATTEMPTS, Symbol, choose_symbols, find_symbols, missing, substitute
from uwaga.results.translation import Translation

LONGEST_FORCED = 400
"""Characters of a text whose beginning may be forced: one that a model takes in one piece, most likely."""

Run = Callable[[Sequence[int], Sequence[Inline], Sequence[str]], list[Translation]]
"""Translates texts with symbols: their numbers, the texts, and what each translation begins with."""


@dataclass(frozen=True)
class Kept:
    """A text with symbols and its translation; ``lost`` are the numbers of symbols that this lacks."""

    inline: Inline
    symbols: tuple[Symbol, ...]
    translation: Translation
    lost: tuple[int, ...] = ()
    dropped: tuple[str, ...] = ()


def translate_kept(inlines: Sequence[Inline], run: Run) -> list[Kept]:
    """Translate texts so that whatever is kept comes out exactly once.

    Symbols stand for it; where one is lost, others are tried, then the first lost one is forced at the place
    that its own word is aligned to. What no model keeps leaves the text, to be put back by alignment alone:
    ``dropped`` are those.

    Args:
        inlines: the texts.
        run: translates texts without what is kept.
    """
    made: dict[int, Kept] = {}
    waiting = list(range(len(inlines)))
    for attempt in range(ATTEMPTS):
        choices = [choose_symbols(inlines[at], attempt) for at in waiting]
        _try(
            waiting,
            [substitute(inlines[at], one) for at, one in zip(waiting, choices, strict=True)],
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
    """Translate, and keep what loses fewer symbols than before."""
    begun = list(prefixes) or [""] * len(texts)
    found = run(numbers, [inline for inline, _ in texts], begun) if numbers else []
    for at, (inline, symbols), translation in zip(numbers, texts, found, strict=True):
        lost = () if translation.error is not None else tuple(missing(symbols, translation.text))
        if at not in made or len(lost) < len(made[at].lost):
            left = tuple(part.text for part in inline if isinstance(part, Tag) and part.kind == "kept")
            made[at] = Kept(inline, symbols, translation, lost, left)


def _force(waiting: Sequence[int], run: Run, made: dict[int, Kept]) -> None:
    """Lead the search to the place of the first symbol that is lost, and let it go on from there."""
    numbers, prefixes = list[int](), list[str]()
    for at in waiting:
        prefix = _prefix(made[at])
        if prefix is not None:
            numbers.append(at)
            prefixes.append(prefix)
    _try(numbers, [(made[at].inline, made[at].symbols) for at in numbers], run, made, prefixes)


def _prefix(one: Kept) -> str | None:
    """The translation up to where the first lost symbol belongs, and this; None where nobody can tell."""
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
    """The text with symbols for what they have kept; for the rest there are tags."""
    lost = {id(one.symbols[number].tag) for number in one.lost}
    chosen: list[str | None] = []
    symbols = iter(one.symbols)
    for part in inline:
        if isinstance(part, Tag) and part.kind == "kept":
            symbol = None if part.text in one.dropped else next(symbols, None)
            gone = everything or symbol is None or id(symbol.tag) in lost
            chosen.append(None if gone or symbol is None else symbol.text)
    return substitute(inline, chosen)
