"""Character spans of subword pieces, whatever normalisation the tokeniser applied.

Tokenisers compose and decompose characters, change case, drop accents, spell unknown characters as bytes or
drop them. The characters of the pieces are aligned with those of the text: by equality where they are equal,
else after case folding and compatibility decomposition, else by the longest common substrings, with the
characters between them divided evenly.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from functools import cache, lru_cache
from itertools import accumulate, pairwise

from uwaga.results.translation import Span
from uwaga.tokenizers.subwords import Subwords

MARK, LETTER_SPACE, INSIDE = "\u2581", "\u0120", "##"
BYTE = ("<0x", ">")
UNKNOWN = "\ufffc"
"""Placeholder for the characters of an unknown piece; it does not occur in texts."""
TEXT = -1
"""Stands for the tokens of a text among the special tokens around it."""
MAX_CELLS = 1 << 22
"""Largest product of lengths of two strings to compare; longer ones are aligned evenly."""
Owned = tuple[str, list[int], list[int]]
"""Characters, and the first and last piece of each: its bytes may belong to several."""


def piece_spans(text: str, ids: Sequence[int], tokeniser: Subwords) -> list[Span | None]:
    """Return the span of each piece in a text.

    Starts and ends never decrease. A piece of white space has an empty span at the start of the next piece.
    Every other character that a piece was made of is in a span.

    Args:
        text: the text that ``ids`` were encoded from or decoded to.
        ids: token ids, special tokens included.
        tokeniser: the tokeniser of the ids.

    Returns:
        Start and end of each piece; None for special tokens, and for pieces not in the text, such as a
        language tag.
    """
    symbols = tokeniser.symbols
    framed = tokeniser.add_special_tokens([TEXT])
    at = framed.index(TEXT)
    before, after = framed[:at], framed[at + 1 :]
    inside = range(len(before), len(ids) - len(after))
    special = {symbols.start, symbols.end, symbols.pad}
    if list(ids[: inside.start]) != before or list(ids[max(inside.stop, 0) :]) != after:  # no frame around it
        inside, special = range(len(ids)), special.union(before, after)
    special.discard(symbols.unknown)
    surfaces = [
        None if number not in inside or token in special else UNKNOWN if token == symbols.unknown else piece
        for number, (token, piece) in enumerate(zip(ids, tokeniser.pieces(list(ids)), strict=True))
    ]
    return _laid_out(text, surfaces)


def _laid_out(text: str, pieces: Sequence[str | None]) -> list[Span | None]:
    places = [at for at, character in enumerate(text) if not character.isspace()]
    letters = "".join([text[at] for at in places]) if len(places) < len(text) else text
    plain = ["" if piece is None else _surface(piece) for piece in pieces]
    spans: list[Span | None] = [None] * len(pieces)
    if "".join(plain) == letters:  # the usual case
        at = 0
        for number, surface in enumerate(plain):
            if surface:
                spans[number] = (places[at], places[at + len(surface) - 1] + 1)
                at += len(surface)
    else:
        for first, last, start, stop in _matched(pieces, plain, letters):
            for number in range(first, last + 1):
                span = spans[number]
                begin, end = places[start], places[stop - 1] + 1
                spans[number] = (begin, end) if span is None else (min(begin, span[0]), max(end, span[1]))
    if "" in plain:
        _place_spaces(pieces, spans, len(text))
    return spans


def _place_spaces(pieces: Sequence[str | None], spans: list[Span | None], end: int) -> None:
    """Give pieces of white space an empty span at the start of the next, unless another span covers it."""
    ends, following = [0, *accumulate((0 if span is None else span[1] for span in spans), max)], end
    for at in range(len(pieces) - 1, -1, -1):
        piece, span = pieces[at], spans[at]
        if span is not None:
            following = span[0]
        elif piece is not None and not _surface(piece):
            spans[at] = (following, max(following, ends[at]))


def _matched(
    pieces: Sequence[str | None], plain: Sequence[str], letters: str
) -> Iterator[tuple[int, int, int, int]]:
    """Yield first and last piece, and start and end in the text, of each character of the pieces."""
    ways = list(_spellings(pieces, plain))
    for spelt, first, last in ways:
        if spelt == letters:
            for at in range(len(spelt)):
                yield first[at], last[at], at, at + 1
            return
    text, owners = _folded(letters)
    folded = [(*_folded(spelt), first, last) for spelt, first, last in ways]
    same = next((spelling for spelling in folded if spelling[0] == text), None)
    spelt, letters_of, first, last = same or max(folded, key=lambda spelling: _likeness(spelling[0], text))
    for at, start, stop in _along(spelt, text):
        letter = letters_of[at]
        yield first[letter], last[letter], owners[start], owners[stop - 1] + 1


def _spellings(pieces: Sequence[str | None], plain: Sequence[str]) -> Iterator[Owned]:
    """Yield possible spellings of the pieces: as they are, without WordPiece marks, or decoded from bytes."""
    if any(piece is not None and _is_byte(piece) for piece in pieces):
        yield _decoded([_bytes(piece) for piece in pieces])
    else:
        yield _owned(plain)
    if any(piece.startswith(INSIDE) for piece in plain):
        yield _owned([piece.removeprefix(INSIDE) for piece in plain])
    table = _byte_letters()
    if not "".join(plain).isascii() and all(letter in table for piece in plain for letter in piece):
        yield _decoded([bytes(table[letter] for letter in piece) for piece in plain])


@lru_cache(1 << 16)
def _surface(piece: str) -> str:
    """Return the characters of a piece without white space and its marks."""
    return "".join(piece.replace(MARK, "").replace(LETTER_SPACE, "").split())


def _is_byte(piece: str) -> bool:
    return len(piece) == 6 and piece.startswith(BYTE[0]) and piece.endswith(BYTE[1])


def _bytes(piece: str | None) -> bytes:
    if piece is None:
        return b""
    if _is_byte(piece):
        try:
            return bytes([int(piece[3:5], 16)])
        except ValueError:
            return piece.encode()
    return _surface(piece).encode("utf-8", "replace")


def _owned(surfaces: Sequence[str]) -> Owned:
    owners = [piece for piece, surface in enumerate(surfaces) for _ in surface]
    return "".join(surfaces), owners, owners


def _decoded(surfaces: Sequence[bytes]) -> Owned:
    """Decode bytes to characters; an invalid byte is a character by itself."""
    whole = b"".join(surfaces)
    owners = [piece for piece, surface in enumerate(surfaces) for _ in surface]
    letters = whole.decode("utf-8", "surrogateescape")
    sizes = [1 if 0xDC80 <= ord(letter) <= 0xDCFF else len(letter.encode()) for letter in letters]
    bounds = list(pairwise(accumulate(sizes, initial=0)))
    kept = [at for at, letter in enumerate(letters) if not letter.isspace()]
    first = [owners[bounds[at][0]] for at in kept]
    last = [owners[bounds[at][1] - 1] for at in kept]
    return "".join(letters[at] for at in kept), first, last


@cache
def _byte_letters() -> dict[str, int]:
    """Return the characters that byte-level BPE uses for bytes (Radford 2019); printable ones stand for
    themselves.
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {chr(256 + at): byte for at, byte in enumerate(others)}


@cache
def _decomposed(letter: str) -> str:
    return "".join(unicodedata.normalize("NFKD", letter).casefold().split()) or letter


def _folded(letters: str) -> tuple[str, list[int]]:
    """Return decomposed, case-folded characters, and the index of the original character of each."""
    parts = [_decomposed(letter) for letter in letters]
    return "".join(parts), [at for at, part in enumerate(parts) for _ in part]


def _likeness(text: str, other_text: str) -> float:
    return SequenceMatcher(None, text, other_text, autojunk=False).quick_ratio()


def _along(spelt: str, text: str) -> Iterator[tuple[int, int, int]]:
    """Yield the characters of one text, each with the span of the other that it corresponds to."""
    same = 0
    most = min(len(spelt), len(text))
    while same < most and spelt[len(spelt) - 1 - same] == text[len(text) - 1 - same]:
        same += 1
    head = 0
    while head < most - same and spelt[head] == text[head]:
        head += 1
    for at in range(head):
        yield at, at, at + 1
    yield from _between(spelt, text, range(head, len(spelt) - same), range(head, len(text) - same))
    for at in range(same, 0, -1):
        yield len(spelt) - at, len(text) - at, len(text) - at + 1


def _between(spelt: str, text: str, left_range: range, right_range: range) -> Iterator[tuple[int, int, int]]:
    if not left_range or not right_range:
        return
    left, right = spelt[left_range.start : left_range.stop], text[right_range.start : right_range.stop]
    if len(left) * len(right) > MAX_CELLS:
        yield from _even(left_range, right_range)
        return
    for _, i1, i2, j1, j2 in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        a, b = (
            range(left_range.start + i1, left_range.start + i2),
            range(right_range.start + j1, right_range.start + j2),
        )
        if a and b:
            yield from _even(a, b)


def _even(left_range: range, right_range: range) -> Iterator[tuple[int, int, int]]:
    """Align two spans evenly, one to one if their lengths are equal."""
    for at in range(len(left_range)):
        start = at * len(right_range) // len(left_range)
        stop = -(-(at + 1) * len(right_range) // len(left_range))
        yield left_range.start + at, right_range.start + start, right_range.start + max(stop, start + 1)
