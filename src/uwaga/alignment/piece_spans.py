"""Character spans of subword pieces, for tokenisers with any normalisation.

Tokenisers compose and decompose characters, change case, drop accents, and encode unknown characters as bytes
or drop them. If the characters of the pieces equal those of the text, they are aligned one to one; if not,
both are case-folded and decomposed before they are compared again. If they still differ, their longest common
substrings are aligned, and the characters between these substrings are divided evenly.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from functools import cache, lru_cache
from itertools import accumulate, pairwise

from uwaga.engine import _core
from uwaga.results.translation import Span
from uwaga.tokenizers.subwords import Subwords

SPACE_MARK, BYTE_SPACE_MARK, WORDPIECE_MARK = "\u2581", "\u0120", "##"
BYTE_MARKS = ("<0x", ">")
UNKNOWN = "\ufffc"
"""Placeholder for the characters of an unknown piece, which does not occur in texts."""
TEXT_PLACEHOLDER = -1
"""Placeholder for the tokens of a text, between the special tokens around them."""
MAX_CELLS = 1 << 22
"""Maximum product of the lengths of two compared strings; longer strings are aligned evenly."""
CharacterOwners = tuple[str, list[int], list[int]]
"""A string, with the first and last piece of each character, because a character may span several pieces."""


def piece_spans(text: str, ids: Sequence[int], tokeniser: Subwords) -> list[Span | None]:
    """Return the span of each piece in a text.

    Starts and ends never decrease. A piece of white space has an empty span at the start of the next piece.
    Every other character that pieces represent is in a span.

    Args:
        text: the text that ``ids`` were encoded from or decoded to.
        ids: token ids, special tokens included.
        tokeniser: the tokeniser of the ids.

    Returns:
        Start and end of each piece; None for special tokens, and for pieces not in the text, such as a
        language tag.
    """
    symbols = tokeniser.symbols
    frame = tokeniser.add_special_tokens([TEXT_PLACEHOLDER])
    index = frame.index(TEXT_PLACEHOLDER)
    prefix_ids, suffix_ids = frame[:index], frame[index + 1 :]
    text_range = range(len(prefix_ids), len(ids) - len(suffix_ids))
    special_tokens = {symbols.start, symbols.end, symbols.pad}
    # Without special tokens around the text:
    if list(ids[: text_range.start]) != prefix_ids or list(ids[max(text_range.stop, 0) :]) != suffix_ids:
        text_range, special_tokens = range(len(ids)), special_tokens.union(prefix_ids, suffix_ids)
    special_tokens.discard(symbols.unknown)
    surfaces = [
        None
        if piece_index not in text_range or token in special_tokens
        else UNKNOWN
        if token == symbols.unknown
        else piece
        for piece_index, (token, piece) in enumerate(zip(ids, tokeniser.pieces(list(ids)), strict=True))
    ]
    return _locate_pieces(text, surfaces)


def _locate_pieces(text: str, pieces: Sequence[str | None]) -> list[Span | None]:
    positions = [index for index, character in enumerate(text) if not character.isspace()]
    letters = "".join([text[index] for index in positions]) if len(positions) < len(text) else text
    surfaces = ["" if piece is None else _surface(piece) for piece in pieces]
    spans: list[Span | None] = [None] * len(pieces)
    if "".join(surfaces) == letters:  # the usual case
        index = 0
        for piece_index, surface in enumerate(surfaces):
            if surface:
                spans[piece_index] = (positions[index], positions[index + len(surface) - 1] + 1)
                index += len(surface)
    else:
        for first_piece, last_piece, start, stop in _match_characters(pieces, surfaces, letters):
            for piece_index in range(first_piece, last_piece + 1):
                span = spans[piece_index]
                character_start, end = positions[start], positions[stop - 1] + 1
                spans[piece_index] = (
                    (character_start, end)
                    if span is None
                    else (min(character_start, span[0]), max(end, span[1]))
                )
    if "" in surfaces:
        _locate_spaces(pieces, spans, len(text))
    return spans


def _locate_spaces(pieces: Sequence[str | None], spans: list[Span | None], end: int) -> None:
    """Give each white-space piece an empty span before the next piece or, if its neighbours overlap, their
    overlap.
    """
    ends, next_start = [0, *accumulate((0 if span is None else span[1] for span in spans), max)], end
    for index in range(len(pieces) - 1, -1, -1):
        piece, span = pieces[index], spans[index]
        if span is not None:
            next_start = span[0]
        elif piece is not None and not _surface(piece):
            spans[index] = (next_start, max(next_start, ends[index]))


def _match_characters(
    pieces: Sequence[str | None], surfaces: Sequence[str], letters: str
) -> Iterator[tuple[int, int, int, int]]:
    """Yield the first and last piece of each character of the pieces, and its start and end in the text."""
    spellings = list(_spellings(pieces, surfaces))
    for piece_text, first_piece, last_piece in spellings:
        if piece_text == letters:
            for index in range(len(piece_text)):
                yield first_piece[index], last_piece[index], index, index + 1
            return
    text, owner_indices = _fold(letters)
    folded_spellings = [
        (*_fold(piece_text), first_piece, last_piece) for piece_text, first_piece, last_piece in spellings
    ]
    match = next((spelling for spelling in folded_spellings if spelling[0] == text), None)
    piece_text, letter_indices, first_piece, last_piece = match or max(
        folded_spellings,
        key=lambda spelling: SequenceMatcher(None, spelling[0], text, autojunk=False).quick_ratio(),
    )
    for index, start, stop in _align_characters(piece_text, text):
        letter = letter_indices[index]
        yield first_piece[letter], last_piece[letter], owner_indices[start], owner_indices[stop - 1] + 1


def _spellings(pieces: Sequence[str | None], surfaces: Sequence[str]) -> Iterator[CharacterOwners]:
    """Yield possible spellings of the pieces: unchanged, without WordPiece marks, or decoded from bytes."""
    if any(piece is not None and _is_byte(piece) for piece in pieces):
        yield _decode_bytes([_bytes(piece) for piece in pieces])
    else:
        yield _join_pieces(surfaces)
    if any(piece.startswith(WORDPIECE_MARK) for piece in surfaces):
        yield _join_pieces([piece.removeprefix(WORDPIECE_MARK) for piece in surfaces])
    table = _byte_letters()
    if not "".join(surfaces).isascii() and all(letter in table for piece in surfaces for letter in piece):
        yield _decode_bytes([bytes(table[letter] for letter in piece) for piece in surfaces])


@lru_cache(1 << 16)
def _surface(piece: str) -> str:
    """Return the characters of a piece without white space and white-space markers."""
    return "".join(piece.replace(SPACE_MARK, "").replace(BYTE_SPACE_MARK, "").split())


def _is_byte(piece: str) -> bool:
    return len(piece) == 6 and piece.startswith(BYTE_MARKS[0]) and piece.endswith(BYTE_MARKS[1])


def _bytes(piece: str | None) -> bytes:
    if piece is None:
        return b""
    if _is_byte(piece):
        try:
            return bytes([int(piece[3:5], 16)])
        except ValueError:
            return piece.encode()
    return _surface(piece).encode("utf-8", "replace")


def _join_pieces(surfaces: Sequence[str]) -> CharacterOwners:
    piece_indices = [piece for piece, surface in enumerate(surfaces) for _ in surface]
    return "".join(surfaces), piece_indices, piece_indices


def _decode_bytes(surfaces: Sequence[bytes]) -> CharacterOwners:
    """Decode the bytes of pieces, and return the characters; each invalid byte is a separate character."""
    content = b"".join(surfaces)
    piece_indices = [piece for piece, surface in enumerate(surfaces) for _ in surface]
    letters = content.decode("utf-8", "surrogateescape")
    sizes = [1 if 0xDC80 <= ord(letter) <= 0xDCFF else len(letter.encode()) for letter in letters]
    bounds = list(pairwise(accumulate(sizes, initial=0)))
    visible_indices = [index for index, letter in enumerate(letters) if not letter.isspace()]
    first_pieces = [piece_indices[bounds[index][0]] for index in visible_indices]
    last_pieces = [piece_indices[bounds[index][1] - 1] for index in visible_indices]
    return "".join(letters[index] for index in visible_indices), first_pieces, last_pieces


@cache
def _byte_letters() -> dict[str, int]:
    """Return the byte that each character of byte-level BPE stands for (Radford 2019)."""
    return {letter: byte for byte, letter in enumerate(_core.BytePairs.letters())}


@cache
def _decompose(letter: str) -> str:
    return "".join(unicodedata.normalize("NFKD", letter).casefold().split()) or letter


def _fold(letters: str) -> tuple[str, list[int]]:
    """Return decomposed, case-folded characters, each with the index of its original character."""
    parts = [_decompose(letter) for letter in letters]
    return "".join(parts), [index for index, part in enumerate(parts) for _ in part]


def _align_characters(piece_text: str, text: str) -> Iterator[tuple[int, int, int]]:
    """Yield the index of each character of the pieces, and the start and end of its span in the text."""
    suffix = 0
    limit = min(len(piece_text), len(text))
    while suffix < limit and piece_text[len(piece_text) - 1 - suffix] == text[len(text) - 1 - suffix]:
        suffix += 1
    prefix = 0
    while prefix < limit - suffix and piece_text[prefix] == text[prefix]:
        prefix += 1
    for index in range(prefix):
        yield index, index, index + 1
    yield from _align_substrings(
        piece_text, text, range(prefix, len(piece_text) - suffix), range(prefix, len(text) - suffix)
    )
    for index in range(suffix, 0, -1):
        yield len(piece_text) - index, len(text) - index, len(text) - index + 1


def _align_substrings(
    piece_text: str, text: str, left_range: range, right_range: range
) -> Iterator[tuple[int, int, int]]:
    if not left_range or not right_range:
        return
    left, right = piece_text[left_range.start : left_range.stop], text[right_range.start : right_range.stop]
    if len(left) * len(right) > MAX_CELLS:
        yield from _align_evenly(left_range, right_range)
        return
    for _, i1, i2, j1, j2 in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        a = range(left_range.start + i1, left_range.start + i2)
        b = range(right_range.start + j1, right_range.start + j2)
        if a and b:
            yield from _align_evenly(a, b)


def _align_evenly(left_range: range, right_range: range) -> Iterator[tuple[int, int, int]]:
    """Yield an even alignment of two ranges, which is one to one if their lengths are equal."""
    for index in range(len(left_range)):
        start = index * len(right_range) // len(left_range)
        stop = -(-(index + 1) * len(right_range) // len(left_range))
        yield left_range.start + index, right_range.start + start, right_range.start + max(stop, start + 1)
