"""A sentence beyond a model's limit, cut where it hurts least."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence

from uwaga.errors import TextTooLongError

CLAUSE = re.compile(r"(?<=[,;:–—])(?=\s)|(?<=[،؛、，；：])")
"""Behind the punctuation of a clause; where a script puts spaces, one must follow."""
WORD = re.compile(r"(?<=\s)(?=\S)")
JOINERS = frozenset("\u200c\u200d\ufe0e\ufe0f")


def cut_to_fit(text: str, limit: int, count: Callable[[str], int]) -> list[str]:
    """A text in as few parts as fit, as even as can be; joined, they are the text.

    It is cut behind the punctuation of clauses, a clause that is too long at spaces, and a word that is too
    long between characters.

    Args:
        text: the text.
        limit: most tokens of a part.
        count: tokens of a text, end symbol included.

    Raises:
        TextTooLongError: a single character has more tokens than that.
    """
    pieces = list(_pieces(text, limit, count, (CLAUSE, WORD)))
    if len(pieces) < 2:
        return pieces
    while True:
        sizes = [count(piece) for piece in pieces]
        parts = ["".join(pieces[first:last]) for first, last in _even(sizes, limit)]
        # Tokens of pieces add up where no token crosses a space; elsewhere the odd part is too long.
        if all(count(part) <= limit for part in parts):
            return parts
        pieces = [piece for part in parts for piece in (_halves(part) if count(part) > limit else [part])]
        pieces = [one for piece in pieces for one in _pieces(piece, limit, count, (CLAUSE, WORD))]


def _pieces(
    text: str, limit: int, count: Callable[[str], int], cuts: Sequence[re.Pattern[str]]
) -> Iterator[str]:
    if not text:
        return
    if not cuts:
        yield from _characters(text, limit, count)
        return
    for piece in cuts[0].split(text):
        if count(piece) <= limit:
            yield piece
        else:
            yield from _pieces(piece, limit, count, cuts[1:])


def _characters(text: str, limit: int, count: Callable[[str], int]) -> Iterator[str]:
    """A word in pieces that fit, each halved until it does; marks stay with their letters."""
    if count(text) <= limit:
        yield text
        return
    halves = _halves(text)
    if len(halves) == 1:
        raise TextTooLongError(
            f"{text!r} alone has {count(text)} tokens, and the model takes at most {limit}"
        )
    for half in halves:
        yield from _characters(half, limit, count)


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    for distance in range(len(text)):
        for at in (middle - distance, middle + distance):
            if 0 < at < len(text) and not _belongs(text[at - 1], text[at]):
                return [text[:at], text[at:]]
    return [text]


def _belongs(before: str, character: str) -> bool:
    return unicodedata.category(character).startswith("M") or character in JOINERS or before == "\u200d"


def _even(sizes: Sequence[int], limit: int) -> list[tuple[int, int]]:
    """Ranges of pieces of at most ``limit`` together: as few as can be, and then the longest the shortest."""
    best = _packed(sizes, limit)
    least, most = 0, limit
    while least < most:
        middle = (least + most) // 2
        tried = _packed(sizes, middle)
        if len(tried) <= len(best) and max(sizes) <= middle:
            best, most = tried, middle
        else:
            least = middle + 1
    return best


def _packed(sizes: Sequence[int], limit: int) -> list[tuple[int, int]]:
    ranges, first, total = [], 0, 0
    for index, size in enumerate(sizes):
        if index > first and total + size > limit:
            ranges.append((first, index))
            first, total = index, 0
        total += size
    ranges.append((first, len(sizes)))
    return ranges
