"""Numbers that are missing from a translation, and the combined coverage of several parts of a text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import chain

from uwaga.results.translation import Coverage

MAX_SPELLED_OUT = 12
"""Numbers up to this are often words in one language and digits in the other, so they are not compared."""
NUMBER = re.compile(r"\d+(?:[.,:'’\u00a0\u202f]\d+|(?<!\d\d\d\d) \d{3}(?!\d))*")
"""A number with separators of thousands, of decimals, or of hours and minutes."""
DIGITS = re.compile(r"\d+")
MILLIONS = re.compile(r"\d{1,3}(?:\D\d{3}){2,}")
SEPARATOR = re.compile(r"\D")
ROMAN = re.compile(r"\b[IVXL]{2,8}\b")
ROMAN_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50}


def combine_coverage(parts: Iterable[Coverage | None]) -> Coverage | None:
    """Return the concatenated coverage of several parts; None if it is unknown for any of them."""
    fields = [None if part is None else tuple(vars(part).values()) for part in parts]
    if not fields or None in fields:
        return None
    return Coverage(*(tuple(chain(*values)) for values in zip(*filter(None, fields), strict=True)))


def differing_numbers(source: str, target: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the numbers of a source that are missing from its translation, and those that it adds.

    Separators are ignored: ``1,000`` is ``1.000``, and ``9:30`` is ``9h30``; ``24,000`` is ``24 mil``, and
    ``19`` is ``XIX``. Of several separators only a last one that differs from the others starts decimals:
    ``1,234,567`` is ``1.234.567``, but not ``1.234,567``. Numbers up to :data:`MAX_SPELLED_OUT` are not
    compared.
    """
    return _missing_numbers(source, target), _missing_numbers(target, source)


def is_small_number(word: str) -> bool:
    """Return True for digits that are often spelled out."""
    return len(word) <= 2 and word.isdecimal() and int(word) <= MAX_SPELLED_OUT


def _missing_numbers(text: str, other: str) -> tuple[str, ...]:
    numbers = [number for number in dict.fromkeys(NUMBER.findall(text)) if not is_small_number(number)]
    if not numbers:
        return ()
    other_readings = {
        reading
        for pattern in (NUMBER, DIGITS)
        for number in pattern.findall(other)
        for reading in _readings(number)
    }
    other_readings |= {str(_roman_value(number)) for number in ROMAN.findall(other)}
    return tuple(
        number
        for number in numbers
        if not _readings(number) & other_readings
        and (
            MILLIONS.fullmatch(number)
            or not all(_ascii_digits(part) in other_readings for part in DIGITS.findall(number))
        )
    )


def _readings(number: str) -> set[str]:
    """Return the possible values of a number: all digits, the digits without thousands, and a decimal."""
    digits, separators = _ascii_digits(number), SEPARATOR.findall(number)
    decimals = len(DIGITS.findall(number)[-1])
    decimal = f"{digits[:-decimals]}.{digits[-decimals:]}"
    if len(separators) > 1 and separators[-1] not in separators[:-1]:
        return {decimal}
    zeros = len(digits) - len(digits.rstrip("0"))
    integers = {digits, digits[: len(digits) - zeros // 3 * 3]}
    return integers | {decimal} if len(separators) == 1 else integers


def _ascii_digits(number: str) -> str:
    """Return the digits of a number of any script as ASCII digits."""
    return "".join(str(unicodedata.decimal(letter)) for letter in number if letter.isdecimal())


def _roman_value(numeral: str) -> int:
    values = [ROMAN_VALUES[letter] for letter in numeral]
    return sum(
        -value if value < following else value
        for value, following in zip(values, [*values[1:], 0], strict=True)
    )
