"""Numbers of a text that its translation lacks, and what the parts of a text lack together."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import chain

from uwaga.results.translation import Coverage

SPELLED_OUT = 12
"""Numbers up to this one are often words in one language and digits in another, so they are not compared."""
NUMBER = re.compile(r"\d+(?:[.,:'’\u00a0\u202f]\d+|(?<!\d\d\d\d) \d{3}(?!\d))*")
"""A number with the separators of thousands, decimals, and hours and minutes."""
DIGITS = re.compile(r"\d+")
MILLIONS = re.compile(r"\d{1,3}(?:\D\d{3}){2,}")
SEPARATOR = re.compile(r"\D")
ROMAN = re.compile(r"\b[IVXL]{2,8}\b")
ROMAN_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50}


def joined_coverage(parts: Iterable[Coverage | None]) -> Coverage | None:
    """Return what several parts lack together; None if it is unknown for one of them."""
    known = [None if part is None else tuple(vars(part).values()) for part in parts]
    if not known or None in known:
        return None
    return Coverage(*(tuple(chain(*every)) for every in zip(*filter(None, known), strict=True)))


def differing_numbers(source: str, target: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the numbers of a source that its translation lacks, and those that it adds.

    Separators are ignored: ``1,000`` is ``1.000``, and ``9:30`` is ``9h30``; ``24,000`` is ``24 mil``, and
    ``19`` is ``XIX``. Only a last separator unlike those before it starts decimals: ``1,234,567`` is
    ``1.234.567``, but not ``1.234,567``. Numbers up to :data:`SPELLED_OUT` are not compared.
    """
    return _lacking(source, target), _lacking(target, source)


def is_small_number(word: str) -> bool:
    """Return True for digits that are often spelled out."""
    return len(word) <= 2 and word.isdecimal() and int(word) <= SPELLED_OUT


def _lacking(text: str, other: str) -> tuple[str, ...]:
    numbers = [one for one in dict.fromkeys(NUMBER.findall(text)) if not is_small_number(one)]
    if not numbers:
        return ()
    known = {way for pattern in (NUMBER, DIGITS) for one in pattern.findall(other) for way in _ways(one)}
    known |= {str(_roman(one)) for one in ROMAN.findall(other)}
    return tuple(
        one
        for one in numbers
        if not _ways(one) & known
        and (MILLIONS.fullmatch(one) or not all(_plain(part) in known for part in DIGITS.findall(one)))
    )


def _ways(number: str) -> set[str]:
    """Return the digits of a number, those without its thousands, and those with a point before decimals."""
    plain, separators = _plain(number), SEPARATOR.findall(number)
    decimals = len(DIGITS.findall(number)[-1])
    pointed = f"{plain[:-decimals]}.{plain[-decimals:]}"
    if len(separators) > 1 and separators[-1] not in separators[:-1]:
        return {pointed}
    zeros = len(plain) - len(plain.rstrip("0"))
    whole = {plain, plain[: len(plain) - zeros // 3 * 3]}
    return whole | {pointed} if len(separators) == 1 else whole


def _plain(number: str) -> str:
    """Return the digits of a number in any script as ASCII."""
    return "".join(str(unicodedata.decimal(letter)) for letter in number if letter.isdecimal())


def _roman(numeral: str) -> int:
    values = [ROMAN_VALUES[letter] for letter in numeral]
    return sum(-one if one < after else one for one, after in zip(values, [*values[1:], 0], strict=True))
