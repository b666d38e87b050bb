"""Comparison of the numbers of a text and its translation, and the combined coverage of several parts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from typing import NamedTuple

from uwaga.results.translation import Coverage

MAX_SPELLED_OUT = 12
"""Largest number that is not compared, because small numbers are often spelled out in one language."""
NUMBER = re.compile(r"\d+(?:[.,:'’\u00a0\u202f]\d+|(?<!\d\d\d\d) \d{3}(?!\d))*")
"""A number, with any separators of thousands, decimals, or hours and minutes."""
DIGITS = re.compile(r"\d+")
SEPARATOR = re.compile(r"\D")
THOUSANDS = re.compile(r"\d{1,3}(?:\D\d{2,3})*\D\d{3}")
"""A whole number with thousands separators; in India, groups before the last three digits have two digits."""
MAGNITUDES: Mapping[tuple[int, ...], str] = {
    (3,): r"thousand|tausend|tsd|mil(?:le|a)?|duizend|tus(?:ind|en)|tys(?:i[ąę]c\w*)?|тыс(?:яч\w*)?|[千천]",
    (4,): "[万萬만]",
    (5,): r"lakhs?",
    (6,): r"mill?i[oóõ]\w*|mill[oó]n\w*|milh[õã]\w*|miljo[oe]?n\w*|mio|mln|мил[ьл]?ион\w*|млн|百万",
    (7,): r"crores?",
    (8,): "[億亿억]",
    (9,): r"milliard\w*|miliard\w*|miljard\w*|mrd|mld|миллиард\w*|мільярд\w*|млрд|bn",
    (9, 12): r"bill?i[oóõ]\w*|bill[oó]n\w*|bilh[õã]\w*",
    (12, 18): r"trill?i[oóõ]\w*|trill[oó]n\w*|trilh[õã]\w*",
    (12,): "兆|трлн",
    (0, 3): "k",
    (0, 6): "m",
}
"""Words that multiply the number before them, by the powers of ten that they may mean."""
WORDS = "|".join(f"({words})" for words in MAGNITUDES.values())
MAGNITUDE = re.compile(rf"[ \u00a0\u202f-]?(?:{WORDS})(?:(?<=[百万萬만千천億亿억兆])|\b)", re.IGNORECASE)
POWERS = tuple(MAGNITUDES)
LAST_SPACED_CHARACTER = "\u2fff"
"""Last character of scripts with spaces between words; later scripts are written without spaces."""
SYMBOL_COUNT = 2
"""Number of entries at the end of :data:`POWERS` whose symbols occur only directly after digits."""
MAX_MAGNITUDES = 2
"""Maximum number of words that multiply a number, as in ``mil milhões``."""
HALF_DAY = re.compile(r"[ \u00a0\u202f]?([ap])(?:m|\.[ \u00a0\u202f]?m\.?)(?!\w)", re.IGNORECASE)
"""``am`` or ``pm`` after a time of day."""
ROMAN = re.compile(r"\b[IVXL]{2,8}\b")
ROMAN_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50}


def combine_coverage(parts: Iterable[Coverage | None], starts: Sequence[int] = ()) -> Coverage | None:
    """Return the concatenated coverage of the parts whose coverage is known; None if it is known of no part.

    Args:
        parts: the coverage of each part; None for a part that is not compared, such as one from a memory.
        starts: the position of each part in the source. Without it, or if the spans of a part are unknown,
            ``omitted_spans`` is empty.
    """
    parts = list(parts)
    known = [part for part in parts if part is not None]
    if not known:
        return None
    spans = [
        (first + start, end + start)
        for part, start in zip(parts, starts, strict=False)
        if part is not None
        for first, end in part.omitted_spans
    ]
    omitted = tuple(chain.from_iterable(part.omitted for part in known))
    return Coverage(
        omitted,
        tuple(chain.from_iterable(part.missing_numbers for part in known)),
        tuple(chain.from_iterable(part.added_numbers for part in known)),
        tuple(spans) if len(spans) == len(omitted) else (),
    )


def differing_numbers(source: str, target: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the numbers of a source that its translation lacks, and the numbers that the translation adds.

    Numbers are compared by value: ``1,000`` equals ``1.000`` but not ``1,000,000``, ``24,000`` equals
    ``24 mil``, ``9:30`` equals ``9h30``, ``2:15 pm`` equals ``14:15``, and ``19`` equals ``XIX``. A separator
    before three digits is a thousands separator, unless it is the last of several separators and differs from
    those before it. Numbers up to :data:`MAX_SPELLED_OUT` are compared only if a word multiplies them. A
    number that a word multiplies may be spelled out: ``one hundred million`` equals ``100 Millionen``.
    """
    sources, targets = list(_numbers(source)), list(_numbers(target))
    return _missing_numbers(sources, targets, target), _missing_numbers(targets, sources, source)


def is_small_number(word: str) -> bool:
    """Return True if a word is a number in digits that is often spelled out."""
    return len(word) <= 2 and word.isdecimal() and int(word) <= MAX_SPELLED_OUT


Value = tuple[str, int]
"""The value of a number: its significant digits, and the power of ten that multiplies them."""


ZERO: Value = ("", 0)


class _Number(NamedTuple):
    """A number in a text.

    ``values`` are its possible values, ``parts`` the values of parts that may be separate numbers, and
    ``powers`` the powers of ten that the words after it may mean (empty without such words).
    """

    text: str
    values: frozenset[Value]
    parts: frozenset[Value]
    powers: frozenset[int]

    def is_compared(self, others: Set[Value]) -> bool:
        """Return False if the number may be spelled out in the other text, whose numbers are ``others``."""
        if not is_small_number(self.text):
            return True
        return bool(self.powers) and _value(_ascii_digits(self.text)) in others


def _numbers(text: str) -> Iterator[_Number]:
    for match in NUMBER.finditer(text):
        powers, position = [0], match.end()
        for _ in range(MAX_MAGNITUDES):
            word = MAGNITUDE.match(text, position)
            if word is None or word.lastindex is None:
                break
            powers = [power + other for power in powers for other in POWERS[word.lastindex - 1]]
            position = word.end()
        number, is_multiplied = match[0], position > match.end()
        half_day = None if is_multiplied else HALF_DAY.match(text, match.end())
        clock_values = _clock_values(number, half_day[1]) if half_day else set[Value]()
        if not clock_values and not is_multiplied and number.isascii() and number.isdigit():
            yield _Number(number, frozenset([_value(number)]), frozenset(), frozenset())
            continue
        readings = _readings(number, is_multiplied)
        values = frozenset(
            (digits, decimal_place + power) for digits, decimal_place in readings for power in powers
        )
        values |= clock_values
        yield _Number(number, values, _parts(number), frozenset(powers if is_multiplied else ()))


def _spelled_out_powers(text: str) -> set[int]:
    """Return the powers of ten that a text's words such as "million" may mean, except words after digits."""
    powers = set[int]()
    for match in MAGNITUDE.finditer(text):
        before = text[max(match.start() - 1, 0) : match.start()]
        is_whole = not match[0][0].isalpha() or match[0] > LAST_SPACED_CHARACTER or not before.isalpha()
        group = match.lastindex or 0
        if is_whole and not before.isdigit() and 0 < group <= len(POWERS) - SYMBOL_COUNT:
            powers.update(POWERS[group - 1])
    return powers


def _missing_numbers(
    numbers: Sequence[_Number], others: Sequence[_Number], other_text: str
) -> tuple[str, ...]:
    if not numbers:
        return ()
    values = {value for other in others for value in (*other.values, *other.parts)}
    values |= {_value(str(_roman_value(numeral))) for numeral in ROMAN.findall(other_text)}
    unmultiplied = values | {_value(_ascii_digits(other.text)) for other in others}
    missing_numbers = [
        number
        for number in numbers
        if number.is_compared(unmultiplied)
        and not number.values & values
        and not (number.parts and number.parts <= values)
    ]
    if any(number.powers for number in missing_numbers):  # rare: the other text is searched again
        spelled_out_powers = _spelled_out_powers(other_text)
        missing_numbers = [
            number for number in missing_numbers if number.powers.isdisjoint(spelled_out_powers)
        ]
    return tuple(dict.fromkeys(number.text for number in missing_numbers))


def _readings(number: str, is_multiplied: bool) -> set[Value]:
    """Return the possible values of a number: as an integer, or with decimals after its last separator."""
    digits, separators = _ascii_digits(number), SEPARATOR.findall(number)
    whole = _value(digits)
    if not separators:
        return {whole}
    decimal = _value(digits, len(DIGITS.findall(number)[-1]))
    if len(separators) > 1:
        return {whole} if separators[-1] in separators[:-1] else {decimal}
    if THOUSANDS.fullmatch(number) is None or digits.startswith("0"):
        return {decimal}
    return {whole, decimal} if is_multiplied else {whole}


def _clock_values(number: str, half_day: str) -> set[Value]:
    """Return the value on a 24-hour clock of a time with ``am`` or ``pm``; an empty set for other numbers."""
    hour, *minutes = map(_ascii_digits, DIGITS.findall(number))
    if len(minutes) > 1 or len(hour) > 2 or not 1 <= int(hour) <= 12:
        return set()
    hour_of_day = int(hour) % 12 + (12 if half_day in "pP" else 0)
    return {_value("".join((str(hour_of_day), *minutes)), sum(map(len, minutes)))}


def _parts(number: str) -> frozenset[Value]:
    """Return the values of the parts of a time, a date or several numbers separated by spaces."""
    parts = DIGITS.findall(number)
    values = [_value(_ascii_digits(part)) for part in parts]
    if len(parts) == 1:
        return frozenset()
    if THOUSANDS.fullmatch(number):
        are_separate_numbers = set(SEPARATOR.findall(number)) == {" "} and ZERO not in values[1:]
        return frozenset(values) if are_separate_numbers else frozenset()
    if len(parts) == 2:
        return frozenset(values)
    return frozenset(value for part, value in zip(parts, values, strict=True) if not is_small_number(part))


def _value(digits: str, decimals: int = 0) -> Value:
    """Return the value of a string of digits of which the last ``decimals`` follow the decimal point."""
    significant = digits.rstrip("0")
    return significant.lstrip("0"), len(digits) - len(significant) - decimals if significant else 0


def _ascii_digits(number: str) -> str:
    """Return the digits of a number in any script as ASCII digits."""
    return "".join(str(unicodedata.decimal(letter)) for letter in number if letter.isdecimal())


def _roman_value(numeral: str) -> int:
    values = [ROMAN_VALUES[letter] for letter in numeral]
    return sum(
        -value if value < following else value
        for value, following in zip(values, [*values[1:], 0], strict=True)
    )
