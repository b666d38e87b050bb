"""Comparison of the numbers of a text and its translation."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Set
from functools import cached_property
from typing import NamedTuple

from uwaga.languages.number_words import (
    NumberWords,
    find_numbers,
    has_fraction,
    has_number_words,
    possible_numbers,
)

MAX_SPELLED_OUT = 12
"""Largest number in digits that is not compared, because small numbers are often spelled out."""
MAX_IN_TIME = 60
"""Smallest number that cannot be a part of a time of day."""
CLOCK = re.compile(
    r"\b(?:uhr|o['’]clock|heures?|horas?|godzin\w*)\b|\d[:h]\d\d|\d ?[ap]m\b|[ap]\. ?m\.", re.IGNORECASE
)
"""A word or sign of a time of day."""
TIME = re.compile(r"\d[:h]\d\d")
"""A time of day in digits; the other text may have it in words, as in *five to twelve*."""
METRIC = re.compile(
    r"\b(?:(?:(?:[cz]ent|[kq]u?il|mil|quadr|kub)\w*)?met(?:er|re|ro|r)(?:n|s|[óo]w|y|ach)?|(?:kilo|quilo)\w*|"
    r"lit(?:er|re|ro|r)(?:n|s|[óo]w|y)?|[ck]m|kg)\b|(?<=\d) ?m\b",
    re.IGNORECASE,
)
"""A metric unit; if only one of two texts has any, their numbers are not compared: they were converted."""
NUMBER = re.compile(r"\d+(?:[.,:'’\u00a0\u202f]\d+|(?<!\d\d\d\d) \d{3}(?!\d))*")
"""A number, with its thousands separators, its decimals or its minutes, if any."""
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


def differing_numbers(
    source: str, target: str, languages: tuple[str, str] = ("", "")
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the numbers of a source that its translation lacks, and the numbers that the translation adds.

    Numbers are compared by value: ``1,000`` equals ``1.000`` but not ``1,000,000``, ``24,000`` equals
    ``24 mil``, ``9:30`` equals ``9h30``, ``2:15 pm`` equals ``14:15``, and ``19`` equals ``XIX``. A separator
    before three digits is a thousands separator, unless it is the last of several separators and differs from
    those before it. Numbers in digits up to :data:`MAX_SPELLED_OUT` are compared only if a word
    multiplies them. A number that a word multiplies may be spelled out: ``one hundred million`` equals
    ``100 Millionen``.

    Numbers in words are compared if both languages have an entry in
    :data:`uwaga.languages.number_words.NUMBER_WORDS`: ``eighty`` equals ``achtzig`` and ``80``, but not
    ``acht``. Only those of the source may be missing. In texts with fractions or times
    of day in digits, numbers below :data:`MAX_IN_TIME` are not compared, because *half past six* is *halb
    sieben*. If only one text has a
    metric unit, none are, because *ten miles* is *sechzehn Kilometer*. Those of idioms are never compared.

    Args:
        source: the source.
        target: its translation.
        languages: the codes of their languages.
    """
    texts = [_Text(text, language) for text, language in zip((source, target), languages, strict=True)]
    missing_words = _missing_words(*texts)
    return (*_missing_numbers(*texts), *missing_words), _missing_numbers(*reversed(texts))


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
        character_before = text[max(match.start() - 1, 0) : match.start()]
        is_whole = (
            not match[0][0].isalpha() or match[0] > LAST_SPACED_CHARACTER or not character_before.isalpha()
        )
        group = match.lastindex or 0
        if is_whole and not character_before.isdigit() and 0 < group <= len(POWERS) - SYMBOL_COUNT:
            powers.update(POWERS[group - 1])
    return powers


class _Text:
    """A text with its numbers in digits and in words.

    ``values`` are the values of its numbers.
    """

    def __init__(self, text: str, language: str) -> None:
        self.text, self.language = text, language
        self.digits = list(_numbers(text))

    @cached_property
    def words(self) -> list[NumberWords]:
        return find_numbers(self.text, self.language)

    @cached_property
    def values(self) -> frozenset[Value]:
        values = {value for number in self.digits for value in (*number.values, *number.parts)}
        values |= {_value(str(_roman_value(numeral))) for numeral in ROMAN.findall(self.text)}
        values |= {_value(str(value)) for number in self.words for value in (number.value, *number.parts)}
        return frozenset(values)

    @cached_property
    def possible_values(self) -> frozenset[Value]:
        """The values of numbers and of other words that may stand for numbers, such as *dozen*."""
        return self.values | {_value(str(value)) for value in possible_numbers(self.text, self.language)}


def _missing_numbers(text: _Text, other: _Text) -> tuple[str, ...]:
    """Return the numbers in digits of a text that the other text lacks."""
    if not text.digits:
        return ()
    unmultiplied = other.values | {_value(_ascii_digits(number.text)) for number in other.digits}
    missing_numbers = [
        number
        for number in text.digits
        if number.is_compared(unmultiplied)
        and not number.values & other.values
        and not (number.parts and number.parts <= other.values)
    ]
    if any(number.powers for number in missing_numbers):  # rare: the other text is searched again
        spelled_out_powers = _spelled_out_powers(other.text)
        missing_numbers = [
            number for number in missing_numbers if number.powers.isdisjoint(spelled_out_powers)
        ]
    return tuple(dict.fromkeys(number.text for number in missing_numbers))


def _missing_words(text: _Text, other: _Text) -> tuple[str, ...]:
    """Return the numbers in words of a text that the other text lacks."""
    if not has_number_words(other.language):
        return ()
    missing_numbers = [
        number for number in text.words if number.is_certain and not _has(other.values, number)
    ]
    if not missing_numbers:
        return ()
    # What follows is rare.
    if bool(METRIC.search(text.text)) != bool(METRIC.search(other.text)):
        return ()
    texts = (text, other)
    is_time = any(CLOCK.search(text.text) for text in texts)
    has_fractions = any(TIME.search(text.text) or has_fraction(text.text, text.language) for text in texts)
    copied = {other.text[slice(*number.span)] for number in find_numbers(other.text, text.language)}
    words = [
        text.text[slice(*number.span)]
        for number in missing_numbers
        if not _has(other.possible_values, number, is_time)
        and not (has_fractions and max(number.parts or (number.value,)) < MAX_IN_TIME)
    ]
    return tuple(word for word in dict.fromkeys(words) if word not in copied)


def _has(values: Set[Value], number: NumberWords, is_time: bool = False) -> bool:
    """Return True if ``values`` contains the value of a number, or the values of all its parts.

    Args:
        values: the values of the other text.
        number: the number.
        is_time: whether the number may be an hour, which one text gives on a clock of 12 hours and the other
            on a clock of 24 hours.
    """
    return any(
        all(
            _value(str(part)) in values
            or (is_time and part <= 24 and {_value(str(part + 12)), _value(str(part - 12))} & values)
            for part in parts
        )
        for parts in ((number.value,), number.parts)
        if parts
    )


def _readings(number: str, is_multiplied: bool) -> set[Value]:
    """Return the possible values of a number: as an integer, or with decimals after its last separator."""
    digits, separators = _ascii_digits(number), SEPARATOR.findall(number)
    whole_value = _value(digits)
    if not separators:
        return {whole_value}
    decimal = _value(digits, len(DIGITS.findall(number)[-1]))
    if len(separators) > 1:
        return {whole_value} if separators[-1] in separators[:-1] else {decimal}
    if THOUSANDS.fullmatch(number) is None or digits.startswith("0"):
        return {decimal}
    return {whole_value, decimal} if is_multiplied else {whole_value}


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
    significant_digits = digits.rstrip("0")
    return significant_digits.lstrip("0"), len(digits) - len(
        significant_digits
    ) - decimals if significant_digits else 0


def _ascii_digits(number: str) -> str:
    """Return the digits of a number in any script as ASCII digits."""
    return "".join(str(unicodedata.decimal(letter)) for letter in number if letter.isdecimal())


def _roman_value(numeral: str) -> int:
    values = [ROMAN_VALUES[letter] for letter in numeral]
    return sum(
        -value if value < next_value else value
        for value, next_value in zip(values, [*values[1:], 0], strict=True)
    )
