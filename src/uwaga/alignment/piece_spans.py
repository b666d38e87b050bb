"""Where in its text each subword stands, whatever the tokeniser has done to the text first.

Tokenisers compose and decompose characters, change case, drop accents, spell unknown characters in bytes or
lose them. So the letters that the pieces spell are laid along those of the text: by equality where they are
equal, else by compatibility decomposition without case, else by the longest stretches that both have, and
what lies between two such stretches shares its characters out evenly.
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
"""Stands for the letters of an unknown piece: no text to be translated has it."""
CELLS = 1 << 22
"""Of a comparison of two stretches of letters; longer ones are laid along each other evenly."""
Owned = tuple[str, list[int], list[int]]
"""Letters, and of each the first and the last of the pieces that it is of: its bytes may be several's."""


def piece_spans(text: str, ids: Sequence[int], tokeniser: Subwords) -> list[Span | None]:
    """The characters of a text that each of its pieces stands for.

    Spans rise: neither begin nor end comes before that of the piece before. A piece of white space alone has
    an empty span where the next one begins. Every character but white space that a piece was made of is in a
    span.

    Args:
        text: what ``ids`` were made of, or what they were decoded to.
        ids: token ids, special ones where there are any.
        tokeniser: theirs.

    Returns:
        first character and end of each piece; None of special tokens, and of what the text does not have,
        such as the tag of a language.
    """
    symbols = tokeniser.symbols
    special = {symbols.start, symbols.end, symbols.pad, *tokeniser.add_special_tokens([])}
    special.discard(symbols.unknown)
    surfaces = [
        None if token in special else UNKNOWN if token == symbols.unknown else piece
        for token, piece in zip(ids, tokeniser.pieces(list(ids)), strict=True)
    ]
    return _laid_out(text, surfaces)


def _laid_out(text: str, pieces: Sequence[str | None]) -> list[Span | None]:
    places = [at for at, character in enumerate(text) if not character.isspace()]
    letters = "".join([text[at] for at in places]) if len(places) < len(text) else text
    plain = ["" if piece is None else _surface(piece) for piece in pieces]
    found: list[Span | None] = [None] * len(pieces)
    if "".join(plain) == letters:  # as nearly always
        at = 0
        for number, surface in enumerate(plain):
            if surface:
                found[number] = (places[at], places[at + len(surface) - 1] + 1)
                at += len(surface)
    else:
        for first, last, start, stop in _matched(pieces, plain, letters):
            for number in range(first, last + 1):
                one = found[number]
                begin, end = places[start], places[stop - 1] + 1
                found[number] = (begin, end) if one is None else (min(begin, one[0]), max(end, one[1]))
    if "" in plain:
        _place_spaces(pieces, found, len(text))
    return found


def _place_spaces(pieces: Sequence[str | None], found: list[Span | None], end: int) -> None:
    """Give pieces of white space alone an empty span where the next begins, if no other reaches over it."""
    ends, following = [0, *accumulate((0 if span is None else span[1] for span in found), max)], end
    for at in range(len(pieces) - 1, -1, -1):
        piece, span = pieces[at], found[at]
        if span is not None:
            following = span[0]
        elif piece is not None and not _surface(piece):
            found[at] = (following, max(following, ends[at]))


def _matched(
    pieces: Sequence[str | None], plain: Sequence[str], letters: str
) -> Iterator[tuple[int, int, int, int]]:
    """Of each letter of the pieces its first piece and its last, and the letters of the text, from and to."""
    ways = list(_spellings(pieces, plain))
    for spelt, first, last in ways:
        if spelt == letters:
            for at in range(len(spelt)):
                yield first[at], last[at], at, at + 1
            return
    text, owners = _folded(letters)
    folded = [(*_folded(spelt), first, last) for spelt, first, last in ways]
    same = next((one for one in folded if one[0] == text), None)
    spelt, own, first, last = same or max(folded, key=lambda one: _likeness(one[0], text))
    for at, start, stop in _along(spelt, text):
        letter = own[at]
        yield first[letter], last[letter], owners[start], owners[stop - 1] + 1


def _spellings(pieces: Sequence[str | None], plain: Sequence[str]) -> Iterator[Owned]:
    """What the pieces may spell: as they are, with WordPiece's marks taken off, or byte by byte."""
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
    """The letters of a piece, without white space and what stands for it."""
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
    """Bytes as letters; a byte that is no part of one is a letter of its own."""
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
    """The letters by which byte-level BPE writes bytes (Radford 2019): printable ones as themselves."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {chr(256 + at): byte for at, byte in enumerate(others)}


@cache
def _decomposed(letter: str) -> str:
    return "".join(unicodedata.normalize("NFKD", letter).casefold().split()) or letter


def _folded(letters: str) -> tuple[str, list[int]]:
    """Letters decomposed and without case, and of each the letter that it is of."""
    parts = [_decomposed(letter) for letter in letters]
    return "".join(parts), [at for at, part in enumerate(parts) for _ in part]


def _likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other, autojunk=False).quick_ratio()


def _along(spelt: str, text: str) -> Iterator[tuple[int, int, int]]:
    """Letters of one text and the stretch of the other that each is made of, rising."""
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


def _between(spelt: str, text: str, one: range, other: range) -> Iterator[tuple[int, int, int]]:
    if not one or not other:
        return
    left, right = spelt[one.start : one.stop], text[other.start : other.stop]
    if len(left) * len(right) > CELLS:
        yield from _even(one, other)
        return
    for _, i1, i2, j1, j2 in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        a, b = range(one.start + i1, one.start + i2), range(other.start + j1, other.start + j2)
        if a and b:
            yield from _even(a, b)


def _even(one: range, other: range) -> Iterator[tuple[int, int, int]]:
    """Stretches of like length letter by letter, others shared out evenly: none of either is left out."""
    for at in range(len(one)):
        start = at * len(other) // len(one)
        stop = -(-(at + 1) * len(other) // len(one))
        yield one.start + at, other.start + start, other.start + max(stop, start + 1)
