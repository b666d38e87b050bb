"""Comparison of the numbers of a text and its translation."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from string import ascii_letters
from typing import NamedTuple

from uwaga.languages.number_words import (
    MAX_LIST,
    NumberWords,
    find_numbers,
    has_fraction,
    has_list,
    has_number_words,
    possible_numbers,
)

MAX_SPELLED_OUT = 12
"""Largest number in digits that is often spelled out."""
MAX_IN_TIME = 60
"""Smallest number that is not a part of a time of day."""
CLOCK = r"\b(?:uhr|o['’]clock|heures?|horas?|godzin\w*)\b|\d[:h]\d\d|\d ?[ap]m\b|[ap]\. ?m\."
"""A word or sign of a time of day, as a regular expression."""
TIME = re.compile(r"\d[:h]\d\d")
"""A time of day in digits, which may be that of *five to twelve*."""
METRIC = (
    r"(?:(?<![^\W\d])(?:(?:(?:[cz]ent|[kq]u?il|mil|quadr|kub)\w*)?met(?:er|re|ro|r)(?:n|s|[óo]w|y|ach)?|"
    r"(?:kilo|quilo)\w*|lit(?:er|re|ro|r)(?:n|s|[óo]w|y)?|[ck]m|kg|kph|gram\w*|he[ck]t\w*|celsius)\b|"
    r"(?<=\d)[ \u00a0\u202f]?(?:[gm]|ha)\b|°c)"
)
"""A metric unit, as a regular expression."""
NOT_METRIC = (
    r"(?:(?<![^\W\d])(?:feet|foot|ft|miles?|milers?|mph|inch(?:es)?|yards?|acres?|gallons?|pints?|pounds?|lbs?|"
    r"ounces?|oz|cups?|fuß|füße|pieds?|pies?|pés?|st[oó]p\w?|meilen?|mil[aeęi]|milles|milhas?|millas?|zoll|cal[aei]|"
    r"pouces?|pulgadas?|polegadas?|pfund|livres?|libras?|funt\w*|unzen?|onces?|onzas?|onças?|uncj\w+|akr\w*|"
    r"fahrenheit\w*)\b|°f|\(f\))"
)
"""A unit that is not metric, as a regular expression."""
UNITS = (METRIC, NOT_METRIC)
BEFORE_UNIT = r"(?:[ -]\w{1,20}){,2}[ \u00a0\u202f-]?"
"""What may stand between a number and its unit: up to two words, as in *5 to 10 miles*."""
NUMBER = re.compile(r"\d+(?:[.,:'’\u00a0\u202f]\d+|(?<!\d\d\d\d) \d{3}(?!\d))*")
"""A number, with any separators of thousands, decimals, or hours and minutes."""
DIGITS = re.compile(r"\d+")
SEPARATOR = re.compile(r"\D")
THOUSANDS = re.compile(r"\d{1,3}(?:\D\d{2,3})*\D\d{3}")
"""A whole number with thousands separators; in India, groups before the last three digits have two digits."""
SMALL_DIGIT = re.compile("[²³¹\u2070-\u2079\u2080-\u2089]")
"""A digit above or below the line, as in *m²* and *CO₂*."""
YEARS = range(1700, 2100)
"""Years that may be written with their last two digits only."""
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
MAGNITUDE = rf"[ \u00a0\u202f-]?(?:{WORDS})(?:(?<=[百万萬만千천億亿억兆])|\b)"
POWERS = tuple(MAGNITUDES)
LAST_SPACED_CHARACTER = "\u2fff"
"""Last character of scripts with spaces between words; later scripts are written without spaces."""
SYMBOL_COUNT = 2
"""Number of entries at the end of :data:`POWERS` whose symbols occur only directly after digits."""
MAX_MAGNITUDES = 2
"""Maximum number of words that multiply a number, as in ``mil milhões``."""
HALF_DAY = re.compile(r"[ \u00a0\u202f]?([ap])(?:m|\.[ \u00a0\u202f]?m\.?)(?!\w)", re.IGNORECASE)
"""``am`` or ``pm`` after a time of day."""
ROMAN = re.compile(r"\b[IVXL]{1,8}\b")
LETTERS = frozenset(ascii_letters)
ROMAN_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50}


def differing_numbers(
    source: str, target: str, languages: tuple[str, str] = ("", "")
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the numbers of a source that its translation lacks, and the numbers that the translation adds.

    Each number of a text is matched with one of the other text, so that of two equal numbers the loss of one
    is found. Numbers are compared by value: ``1,000`` equals ``1.000`` but not ``1,000,000``, ``24,000``
    equals ``24 mil``, ``9:30`` equals ``9h30``, ``2:15 pm`` equals ``14:15``, and ``19`` equals ``XIX``. A
    separator before three digits is a thousands separator, unless it is the last of several separators and
    differs from those before it. A number that a word multiplies may be spelled out: ``one hundred million``
    equals ``100 Millionen``.

    If both languages have an entry in :data:`uwaga.languages.number_words.NUMBER_WORDS`, numbers in words are
    compared, too: ``eighty`` equals ``achtzig`` and ``80``, but not ``acht``. Only those of the source may be
    missing, and those of idioms are never compared. Between other languages, a number in digits up to
    :data:`MAX_SPELLED_OUT` may be spelled out, and is compared only if the other text has a number in digits
    without a counterpart: ``3`` may be ``三``, but not ``4``. The same holds for ``1`` between all languages,
    because it may be an article.

    A number without a counterpart may also be

    - an ordinal, a month or a word such as *dozen* of the other text;
    - in texts with a time of day, the same hour of the other half of the day;
    - the last two digits of a year, as in ``'98`` and *the 50s*;
    - below :data:`MAX_IN_TIME` in texts with fractions, because *half past six* is *halb sieben*; in digits
      above :data:`MAX_SPELLED_OUT`, if only the other text has them, as *half an hour* for *30 minutes*;
    - the sum of those listed after it, as in *two people, a man and a woman*;
    - converted, if it stands before a metric unit and the other text has another unit, or the reverse, unless
      both texts have both.

    Args:
        source: the source.
        target: its translation.
        languages: the codes of their languages.
    """
    first, second = _Text(source, languages[0]), _Text(target, languages[1])
    missing, added = _Comparison(first, second), _Comparison(second, first)
    missing.match(first.digits)
    if has_number_words(second.language):
        missing.match(first.words)
    added.match(second.digits)
    if not (missing.unmatched or added.unmatched):
        return (), ()
    # What follows is rare.
    added.match(second.words)
    missing.match_other_forms()
    added.match_other_forms()
    return missing.reported(added.unmatched), tuple(filter(_is_in_digits, added.reported(missing.unmatched)))


def is_small_number(word: str) -> bool:
    """Return True if a word is a number in digits that is often spelled out."""
    return len(word) <= 2 and word.isdecimal() and int(word) <= MAX_SPELLED_OUT


Value = tuple[str, int]
"""The value of a number: its significant digits, and the power of ten that multiplies them."""

ZERO: Value = ("", 0)


class _Number(NamedTuple):
    """A number in a text, and its position.

    ``values`` are its possible values, ``parts`` the values of parts that may be separate numbers, and
    ``powers`` the powers of ten that the words after it may mean (empty without such words).
    """

    text: str
    start: int
    values: tuple[Value, ...]
    parts: tuple[Value, ...] = ()
    powers: frozenset[int] = frozenset()

    @property
    def necessary_parts(self) -> tuple[Value, ...]:
        """The parts that the other text must have; the day and the month of a date are left out."""
        if len(self.parts) <= 2:
            return self.parts
        return tuple(part for part in self.parts if not _is_below(part, MAX_SPELLED_OUT + 1))

    def is_below(self, bound: int) -> bool:
        """Return True if the number, or each of its parts, is below a bound of two digits."""
        return all(_is_below(value, bound) for value in self.parts or self.values)


def _numbers(text: str) -> Iterator[_Number]:
    """Yield the numbers in digits of a text."""
    for match in NUMBER.finditer(text):
        powers, position = [0], match.end()
        for _ in range(MAX_MAGNITUDES):
            word = re.compile(MAGNITUDE, re.IGNORECASE).match(text, position)
            if word is None or word.lastindex is None:
                break
            powers = [power + other for power in powers for other in POWERS[word.lastindex - 1]]
            position = word.end()
        number, is_multiplied = match[0], position > match.end()
        half_day = None if is_multiplied else HALF_DAY.match(text, match.end())
        clock_values = _clock_values(number, half_day[1]) if half_day else []
        if not clock_values and not is_multiplied and number.isascii() and number.isdigit():
            yield _Number(number, match.start(), (_value(number),))
            continue
        readings = _readings(number, is_multiplied)
        values = [(digits, decimal_place + power) for digits, decimal_place in readings for power in powers]
        values = list(dict.fromkeys((*values, *clock_values)))
        multipliers = frozenset(powers if is_multiplied else ())
        yield _Number(number, match.start(), tuple(values), _parts(number), multipliers)


def _spelled_out_powers(text: str) -> set[int]:
    """Return the powers of ten that a text's words such as "million" may mean, except words after digits."""
    powers = set[int]()
    for match in re.compile(MAGNITUDE, re.IGNORECASE).finditer(text):
        before = text[max(match.start() - 1, 0) : match.start()]
        is_whole = not match[0][0].isalpha() or match[0] > LAST_SPACED_CHARACTER or not before.isalpha()
        group = match.lastindex or 0
        if is_whole and not before.isdigit() and 0 < group <= len(POWERS) - SYMBOL_COUNT:
            powers.update(POWERS[group - 1])
    return powers


class _Text:
    """A text with its numbers in digits and in words."""

    def __init__(self, text: str, language: str) -> None:
        self.text, self.language = text, language
        self.digits = list(_numbers(text))

    @cached_property
    def number_words(self) -> list[NumberWords]:
        return find_numbers(self.text, self.language)

    @property
    def words(self) -> list[_Number]:
        """The numbers in words that have no other meaning."""
        return [self._number(words) for words in self.number_words if words.is_certain]

    @property
    def counterparts(self) -> Iterator[_Number]:
        """The numbers of this text with which numbers of the other text may be matched."""
        yield from self.digits
        yield from map(self._number, self.number_words)
        for numeral in ROMAN.findall(self.text):
            yield _integer(_roman_value(numeral))

    @property
    def possible_counterparts(self) -> Iterator[_Number]:
        """Other words and signs that may stand for numbers, such as *dozen*, *May* and *²*."""
        words = Counter(possible_numbers(self.text, self.language))
        words -= Counter(number.value for number in self.number_words)
        signs = (unicodedata.digit(sign) for sign in SMALL_DIGIT.findall(self.text))
        return map(_integer, (*words.elements(), *signs))

    @cached_property
    def has_fraction(self) -> bool:
        return has_fraction(self.text, self.language)

    @cached_property
    def has_time(self) -> bool:
        """True if there is a time of day in digits."""
        return TIME.search(self.text) is not None

    @cached_property
    def has_units(self) -> tuple[bool, ...]:
        """Two flags: True if the text has a metric unit, and True if it has a unit that is not metric."""
        return tuple(re.search(units, self.text, re.IGNORECASE) is not None for units in UNITS)

    def _number(self, words: NumberWords) -> _Number:
        parts = tuple(map(_integer_value, words.parts))
        return _Number(self.text[slice(*words.span)], words.span[0], (_integer_value(words.value),), parts)


class _Comparison:
    """The comparison of a text's numbers with those of another text, each of which has one counterpart.

    ``unmatched`` are the numbers without a counterpart.
    """

    def __init__(self, text: _Text, other: _Text) -> None:
        self._text, self._other = text, other
        self.unmatched = list[_Number]()

    @cached_property
    def _counterparts(self) -> _Counterparts:
        return _Counterparts(self._other.counterparts)

    def match(self, numbers: Iterable[_Number]) -> None:
        """Match numbers of the text with numbers of the other text."""
        # First the numbers with one value: the others have more counterparts.
        others = [
            number
            for number in sorted(numbers, key=lambda number: len(number.values))
            if not self._counterparts.take_whole(number)
        ]
        self.unmatched += [number for number in others if not self._counterparts.take_parts(number)]

    def match_other_forms(self) -> None:
        """Match the remaining numbers with other forms of numbers; see :func:`differing_numbers`."""
        if not self.unmatched:
            return
        text, other = self._text, self._other
        self._counterparts.add(other.possible_counterparts)
        copied = {other.text[slice(*number.span)] for number in find_numbers(other.text, text.language)}
        is_clock = any(re.search(CLOCK, either.text, re.IGNORECASE) for either in (text, other))
        numbers, self.unmatched = self.unmatched, []
        self.match(numbers)
        self.unmatched = [
            number
            for number in self.unmatched
            if number.text not in copied
            and not self._may_be_fraction(number)
            and not self._may_be_converted(number)
            and not any(map(self._counterparts.take, _other_forms(number, is_clock)))
        ]

    def _may_be_converted(self, number: _Number) -> bool:
        """Return True if a number has a metric unit and the other text another unit, or the reverse."""
        if self._text.has_units == self._other.has_units:
            return False
        end = number.start + len(number.text)
        return any(
            has_units and re.compile(BEFORE_UNIT + units, re.IGNORECASE).match(self._text.text, end)
            for units, has_units in zip(UNITS, reversed(self._other.has_units), strict=True)
        )

    def _may_be_fraction(self, number: _Number) -> bool:
        """Return True if a number may be expressed by a fraction, as in times of day."""
        text, other = self._text, self._other
        if not number.is_below(MAX_IN_TIME):
            return False
        if _is_in_digits(number.text):
            return other.has_fraction and (not text.has_fraction or number.is_below(MAX_SPELLED_OUT + 1))
        return any(either.has_fraction or either.has_time for either in (text, other))

    def reported(self, others: Sequence[_Number]) -> tuple[str, ...]:
        """Return the numbers without a counterpart that are reported.

        Args:
            others: the numbers of the other text without a counterpart.
        """
        numbers = sorted(self.unmatched, key=attrgetter("start"))
        if not any(_is_in_digits(number.text) for number in others):
            numbers = [number for number in numbers if not self._is_optional(number)]
        if not others:
            numbers = [number for number in numbers if not self._is_sum(number)]
        if not has_number_words(self._other.language) and any(number.powers for number in numbers):
            powers = _spelled_out_powers(self._other.text)
            numbers = [number for number in numbers if number.powers.isdisjoint(powers)]
        return tuple(dict.fromkeys(number.text for number in numbers))

    def _is_optional(self, number: _Number) -> bool:
        """Return True if the other text may express the number in another way, such as *a* or *H₂O*."""
        text, start = self._text.text, number.start
        return is_small_number(number.text) and (
            not has_number_words(self._other.language)
            or int(number.text) == 1
            or text[max(start - 1, 0) : start] in LETTERS
        )

    def _is_sum(self, number: _Number) -> bool:
        """Return True if a number is the sum of those listed after it, and the other text has no list."""
        [(digits, power), *_] = number.values
        if len(digits) != 1 or power:
            return False
        text, other, value = self._text, self._other, int(digits)
        end = number.start + len(number.text)
        return has_list(text.text[end : end + MAX_LIST], value, text.language) and not has_list(
            other.text, value, other.language
        )


class _Counterparts:
    """The numbers of a text, each of which may be the counterpart of one number of another text.

    The parts of a number may be counterparts unless the whole number is one.
    """

    def __init__(self, numbers: Iterable[_Number]) -> None:
        self._wholes, self._parts = dict[Value, list[int]](), dict[Value, list[int]]()
        self._is_taken = list[bool]()
        self.add(numbers)

    def add(self, numbers: Iterable[_Number]) -> None:
        """Add numbers."""
        for index, number in enumerate(numbers, len(self._is_taken)):
            self._is_taken.append(False)
            for value in number.values:
                self._wholes.setdefault(value, []).append(index)
            for part in number.parts:
                self._parts.setdefault(part, []).append(index)

    def take(self, number: _Number) -> bool:
        """Take the counterpart of a number, whole or in parts; return False if there is none."""
        return self.take_whole(number) or self.take_parts(number)

    def take_whole(self, number: _Number) -> bool:
        """Take a whole number that equals one of the possible values of ``number``."""
        return any(self._take(value, self._wholes) is not None for value in number.values)

    def take_parts(self, number: _Number) -> bool:
        """Take a part that equals one of the values of ``number``, or a counterpart of each of its parts."""
        if any(self._take(value, self._parts) is not None for value in number.values):
            return True
        matches = list[tuple[list[int], int]]()
        for part in number.necessary_parts:
            for numbers in (self._wholes, self._parts):
                index = self._take(part, numbers)
                if index is not None:
                    matches.append((numbers[part], index))
                    break
            else:
                for indices, index in matches:
                    self._is_taken[index] = False
                    indices.append(index)
                return False
        return bool(matches)

    def _take(self, value: Value, numbers: dict[Value, list[int]]) -> int | None:
        """Take a whole number or a part with this value, and return its index; None if there is none."""
        indices = numbers.get(value, [])
        while indices:
            index = indices.pop()
            if not self._is_taken[index]:
                self._is_taken[index] = numbers is self._wholes
                return index
        return None


def _other_forms(number: _Number, is_clock: bool) -> Iterator[_Number]:
    """Yield other forms of a number: of a year, and of a time of day if ``is_clock``."""
    [(digits, power), *_] = number.values
    value = int(digits + "0" * power) if power >= 0 and 2 <= len(digits) + power <= 4 else 0
    if value in YEARS:
        yield _integer(value % 100)
        if value % 100 == 0:
            yield _integer(value // 100 + 1)  # the century
    elif 10 <= value < 100:
        for century in range(YEARS.start, YEARS.stop, 100):
            yield _integer(century + value)
        yield _integer(100 * (value - 1))  # the years of the century
    if is_clock:
        groups = list(map(_ascii_digits, DIGITS.findall(number.text)))
        groups = groups or [digits + "0" * power for digits, power in number.parts or number.values]
        hour, *minutes = groups
        if len(hour) <= 2 and len(minutes) <= 1:
            for other_hour in (int(hour) - 12, int(hour) + 12):
                if 0 <= other_hour <= 24:
                    yield _time(str(other_hour), *minutes)
            if minutes and len(minutes[0]) == 2 and 30 < int(minutes[0]) < 60:  # five to twelve
                yield _time(str(int(hour) % 12 + 1), str(60 - int(minutes[0])))


def _time(hour: str, *minutes: str) -> _Number:
    """Return a time of day, an hour or an hour and minutes, as a number without a position in a text."""
    value = _value("".join((hour, *minutes)), sum(map(len, minutes)))
    return _Number("", 0, (value,), (_value(hour), *map(_value, minutes)) if minutes else ())


def _readings(number: str, is_multiplied: bool) -> list[Value]:
    """Return the possible values of a number: as an integer, or with decimals after its last separator."""
    digits, separators = _ascii_digits(number), SEPARATOR.findall(number)
    whole = _value(digits)
    if not separators:
        return [whole]
    decimal = _value(digits, len(DIGITS.findall(number)[-1]))
    if len(separators) > 1:
        return [whole] if separators[-1] in separators[:-1] else [decimal]
    if THOUSANDS.fullmatch(number) is None or digits.startswith("0"):
        return [decimal]
    return [whole, decimal] if is_multiplied else [whole]


def _clock_values(number: str, half_day: str) -> list[Value]:
    """Return the value on a 24-hour clock of a time with ``am`` or ``pm``; nothing for other numbers."""
    hour, *minutes = map(_ascii_digits, DIGITS.findall(number))
    if len(minutes) > 1 or len(hour) > 2 or not 1 <= int(hour) <= 12:
        return []
    hour_of_day = int(hour) % 12 + (12 if half_day in "pP" else 0)
    return [_value("".join((str(hour_of_day), *minutes)), sum(map(len, minutes)))]


def _parts(number: str) -> tuple[Value, ...]:
    """Return the values of the parts of a time, a date or several numbers separated by spaces."""
    parts = DIGITS.findall(number)
    values = tuple(_value(_ascii_digits(part)) for part in parts)
    if len(parts) == 1:
        return ()
    if THOUSANDS.fullmatch(number):
        are_separate_numbers = set(SEPARATOR.findall(number)) == {" "} and ZERO not in values[1:]
        return values if are_separate_numbers else ()
    return values


def _value(digits: str, decimals: int = 0) -> Value:
    """Return the value of a string of digits of which the last ``decimals`` follow the decimal point."""
    significant = digits.rstrip("0")
    return significant.lstrip("0"), len(digits) - len(significant) - decimals if significant else 0


def _integer_value(value: int) -> Value:
    """Return the value of a whole number."""
    return _value(str(value))


def _integer(value: int) -> _Number:
    """Return a whole number without a position in a text."""
    return _Number("", 0, (_integer_value(value),))


def _is_below(value: Value, bound: int) -> bool:
    """Return True if a value is below a bound of two digits."""
    digits, power = value
    if len(digits) + power > 2:
        return False
    return int(digits[: len(digits) + min(power, 0)] + "0" * power or "0") < bound


def _is_in_digits(number: str) -> bool:
    """Return True if a number is written in digits."""
    return number[:1].isdecimal()


def _ascii_digits(number: str) -> str:
    """Return the digits of a number in any script as ASCII digits."""
    return "".join(str(unicodedata.decimal(letter)) for letter in number if letter.isdecimal())


def _roman_value(numeral: str) -> int:
    values = [ROMAN_VALUES[letter] for letter in numeral]
    return sum(
        -value if value < following else value
        for value, following in zip(values, [*values[1:], 0], strict=True)
    )
