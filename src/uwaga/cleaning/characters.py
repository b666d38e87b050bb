"""What each character is, as tables by code point, so that whole blocks of text are judged at once."""

from __future__ import annotations

import unicodedata
from functools import cache

import numpy as np
from numpy.typing import NDArray

CODE_POINTS = 0x110000
LETTER, SPACE, TERMINAL, BAD, DIGIT = 1, 2, 4, 8, 16
"""Bits of :func:`kinds`: a letter or a mark on one, white space, a sentence's end, no text, a digit but 0."""
NO_DIGIT = 255

_TERMINALS = ".?!…。！？؟।｡"
_CLASSES = {"Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Mn", "Mc", "Me"}
_ASSIGNED = 0x32400
"""Beyond it Unicode has only selectors and tags (from 0xE0000 on) and characters for private use."""
_TAGS, _TAGS_END = 0xE0000, 0xE0200
_PRIVATE = 0xF0000
_JAMO, _JAMO_END = 0x1100, 0x1200


@cache
def kinds() -> NDArray[np.uint8]:
    """(code points,) the bits of every character.

    Bad are control characters but the tab, what is for private use, surrogates, and the replacement character
    U+FFFD, which stands where a converter has lost one. What Unicode has not assigned yet is not bad: it may
    be an emoji of next year.
    """
    table = np.zeros(CODE_POINTS, np.uint8)
    for code in (*range(_ASSIGNED), *range(_TAGS, _TAGS_END)):
        character = chr(code)
        category = unicodedata.category(character)
        if category in _CLASSES:
            table[code] |= LETTER
        elif category in ("Cc", "Co", "Cs"):
            table[code] |= BAD
        if character.isspace():
            table[code] |= SPACE
    table[_PRIVATE:] |= BAD
    table[[0xFFFD, *range(0xFDD0, 0xFDF0)]] |= BAD
    table[[ord(mark) for mark in _TERMINALS]] |= TERMINAL
    table[(np.arange(CODE_POINTS) & 0xFFFE) == 0xFFFE] |= BAD  # the last two of each plane are none
    table[ord("\t")] &= ~np.uint8(BAD)
    table[(digits() != NO_DIGIT) & (digits() != 0)] |= DIGIT
    return table


@cache
def digits() -> NDArray[np.uint8]:
    """(code points,) the value of each decimal digit of any script, :data:`NO_DIGIT` elsewhere."""
    table = np.full(CODE_POINTS, NO_DIGIT, np.uint8)
    for code in range(_ASSIGNED):
        if (value := unicodedata.decimal(chr(code), None)) is not None:
            table[code] = value
    return table


ANY_SCRIPT, OF_SCRIPT = 1, 2
"""Bits of :func:`script_letters`: a letter of some script, and of one of those asked for."""


@cache
def script_letters(scripts: tuple[str, ...]) -> NDArray[np.uint8]:
    """(code points,) the bits of every letter; marks that go with letters of any script have none.

    Args:
        scripts: how Unicode's names of the letters begin, such as ``LATIN``.
    """
    table = np.zeros(CODE_POINTS, np.uint8)
    wanted = set(scripts)
    for code in np.flatnonzero(kinds() & LETTER).tolist():
        character = chr(code)
        if unicodedata.category(character) not in ("Mn", "Me"):
            fits = unicodedata.name(character, "").partition(" ")[0] in wanted
            table[code] = ANY_SCRIPT | OF_SCRIPT if fits else ANY_SCRIPT
    return table


@cache
def unstable() -> NDArray[np.bool_]:
    """(code points,) whether a character may become more, fewer or another kind when forms are unified."""
    table = np.zeros(CODE_POINTS, np.bool_)
    for code in (*range(_ASSIGNED), *range(_TAGS, _TAGS_END)):
        character = chr(code)
        unified = unicodedata.normalize("NFKC", character).casefold()
        joins = unicodedata.combining(character) != 0 or unicodedata.category(character) == "Mc"
        table[code] = len(unified) != 1 or joins
        if not table[code] and unified != character:
            table[code] = is_word(code) != is_word(ord(unified))
    table[_JAMO:_JAMO_END] = True
    return table


def is_word(code: int) -> bool:
    """Whether a character is a letter or a digit."""
    return bool(kinds()[code] & LETTER) or bool(digits()[code] != NO_DIGIT)
