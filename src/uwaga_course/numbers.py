"""Reading of numbers as people write them, as in page/src/lab/read_number.ts in the browser.

========================  ==========================================================================
written                   read as
========================  ==========================================================================
``0.5``, ``.5``, ``1e-3``  a decimal number with a point
``0,5``                   a decimal number with a comma
``-2``, ``−2``            a negative number, with a hyphen or a minus sign
``1,048,576``             groups of three digits, separated by commas, points or spaces
``1 048 576,5``
``2/7``                   a fraction
``50%``                   a percentage
========================  ==========================================================================

``1,048`` could be 1048 or 1.048, so it is rejected. A single point is always a decimal point: ``1.048``.
"""

from __future__ import annotations

import math
import re

SPACES = re.compile(r"\s+")
MINUS_SIGNS = str.maketrans("\u2212\u2013\uff0d", "---")
PLAIN_NUMBER = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(e[+-]?\d+)?", re.ASCII)
DECIMAL_COMMA = re.compile(r"\d*,\d+", re.ASCII)
AMBIGUOUS_NUMBER = re.compile(r"[1-9]\d{0,2},\d{3}", re.ASCII)
THOUSANDS = re.compile(
    r"([1-9]\d{0,2}(?:(?: \d{3})+(?=[.,]|$)|(?:,\d{3})+(?=\.|$)|(?:\.\d{3})+(?=,|$)))(?:[.,](\d+))?", re.ASCII
)
"""Groups of three digits with the same separator, and decimals after a different separator."""


class UnclearNumberError(ValueError):
    """A text is not a number, or could be two numbers.

    Args:
        text: the text.
        readings: the two numbers that the text could mean; empty if it is not a number.
    """

    def __init__(self, text: str, *readings: str) -> None:
        super().__init__(text)
        self.text = text
        self.readings = readings


def read_number(text: str) -> float:
    """Return the number that a text represents.

    Raises:
        UnclearNumberError: the text is not a number, or could be two numbers.
    """
    normalised_text = SPACES.sub(" ", text).strip().translate(MINUS_SIGNS).lower()
    if normalised_text.endswith("%"):
        return _read_signed(normalised_text[:-1].rstrip(), text) / 100
    numerator, slash, denominator = normalised_text.partition("/")
    value = _read_signed(numerator.rstrip(), text)
    if not slash:
        return value
    divisor = _read_signed(denominator.lstrip(), text)
    if divisor == 0:
        raise UnclearNumberError(text)
    return value / divisor


def _read_signed(normalised_text: str, text: str) -> float:
    sign = -1.0 if normalised_text.startswith("-") else 1.0
    value = sign * _read_unsigned(
        normalised_text[1:].lstrip() if normalised_text[:1] in "+-" else normalised_text, text
    )
    if not math.isfinite(value):
        raise UnclearNumberError(text)
    return value


def _read_unsigned(digits: str, text: str) -> float:
    if AMBIGUOUS_NUMBER.fullmatch(digits):
        raise UnclearNumberError(text, digits.replace(",", ""), digits.replace(",", "."))
    if PLAIN_NUMBER.fullmatch(digits):
        return float(digits)
    if DECIMAL_COMMA.fullmatch(digits):
        return float(digits.replace(",", "."))
    if groups := THOUSANDS.fullmatch(digits):
        return float(re.sub(r"[ .,]", "", groups[1]) + "." + (groups[2] or "0"))
    raise UnclearNumberError(text)
