"""A sentence beyond a model's limit, cut where it hurts least."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise

from uwaga.errors import TextTooLongError, shown

CLAUSE = re.compile(r"(?<=[,;:–—])(?=\s)|(?<=[،؛、，；：])")
"""Behind the punctuation of a clause; where a script puts spaces, one must follow."""
WORD = re.compile(r"(?<=\s)(?=\S)")
FINENESS = 4
"""Pieces of a word that is too long for a part: with more of them parts are more even."""
JOINERS = frozenset("\u200c\u200d\ufe0e\ufe0f")


def cut_to_fit(text: str, limit: int, count: Callable[[str], int]) -> list[str]:
    """A text in few parts that fit, as even as can be; joined, they are the text.

    It is cut behind the punctuation of clauses, a clause that is too long at spaces, and a word that is too
    long between characters. What is counted grows with the length of the text, however it is made.

    Args:
        text: the text.
        limit: most tokens of a part.
        count: tokens of a text, end symbol included; what has none by itself may have some between others.

    Raises:
        TextTooLongError: a single character has more tokens than that.
    """
    pieces = list(_pieces(text, limit, count, (CLAUSE, WORD)))
    if len(pieces) < 2:
        return [piece for piece, _ in pieces]
    parts = []
    for first, last in _even([size for _, size in pieces], limit):
        # Tokens of pieces add up where no token crosses a space; elsewhere there can be more together.
        parts += [
            part for part, _ in _fitting([piece for piece, _ in pieces[first:last]], limit, limit, count)
        ]
    return parts


def share_out(
    text: str, sizes: Sequence[int], whole: Callable[[str], Sequence[tuple[int, int]]] | None = None
) -> list[str]:
    """A text in parts that are about as long to each other as ``sizes``; joined, they are the text.

    Args:
        text: the text.
        sizes: one for each part; none for no part at all.
        whole: from the text to the places in it that no part may end in.
    """
    if len(sizes) < 2:
        return [text] * len(sizes)
    inside = [range(start + 1, end) for start, end in whole(text)] if whole else []
    cuts = [one.start() for one in WORD.finditer(text)]
    allowed = [0, *(at for at in cuts if not any(at in places for places in inside)), len(text)]
    bounds = [0]
    for size in accumulate(sizes[:-1]):
        wanted = len(text) * size / sum(sizes)
        _, nearest = min((abs(at - wanted), at) for at in allowed)
        bounds.append(nearest)
    return [text[first:last] for first, last in pairwise([*bounds, len(text)])]


def _pieces(
    text: str, limit: int, count: Callable[[str], int], cuts: Sequence[re.Pattern[str]]
) -> Iterator[tuple[str, int]]:
    """Clauses, words of those that do not fit, and parts of words that do not, each with its tokens."""
    if not cuts:
        yield from _fitting(_characters(text), limit, max(1, limit // FINENESS), count)
        return
    for piece in filter(None, cuts[0].split(text)):
        size = count(piece)
        if size <= limit:
            yield piece, size
        else:
            yield from _pieces(piece, limit, count, cuts[1:])


def _fitting(
    units: Sequence[str], limit: int, wanted: int, count: Callable[[str], int]
) -> Iterator[tuple[str, int]]:
    """Units put together, and their tokens; those that are too many in as many groups as ``wanted`` asks for.

    A group is split again by what it was found to have, so that one that is far too long is not counted a
    dozen times on the way to what fits.
    """
    text = "".join(units)
    tokens = count(text)
    if tokens <= limit:
        yield text, tokens
        return
    if len(units) == 1:
        raise TextTooLongError(
            f"{shown(text)} alone has {tokens} tokens, and the model takes at most {limit}"
        )
    groups = min(len(units), -(-tokens // wanted))
    bounds = [len(units) * number // groups for number in range(groups + 1)]
    for first, last in pairwise(bounds):
        yield from _fitting(units[first:last], limit, wanted, count)


def _characters(text: str) -> list[str]:
    """The characters of a text, marks with their letters."""
    starts = [at for at in range(1, len(text)) if not _belongs(text[at - 1], text[at])]
    return [text[first:last] for first, last in pairwise([0, *starts, len(text)])]


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
