"""Read the numbers that people write, like page/src/lab/read_number.ts in the browser.

========================  ==========================================================================
written                   read as
========================  ==========================================================================
``0.5``, ``.5``, ``1e-3``  a decimal number with a point
``0,5``                   with a decimal comma
``-2``, ``−2``            negative, with a hyphen or a minus sign
``1,048,576``             thousands: groups of three digits, separated by commas, points or spaces
``1 048 576,5``
``2/7``                   a fraction
``50%``                   hundredths
========================  ==========================================================================

``1,048`` could be 1048 or 1.048, so it is refused. A point alone is always a decimal point: ``1.048``.
"""

from __future__ import annotations

import math
import re

SPACES = re.compile(r"\s+")
MINUS = str.maketrans("\u2212\u2013\uff0d", "---")
PLAIN = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(e[+-]?\d+)?", re.ASCII)
COMMA = re.compile(r"\d*,\d+", re.ASCII)
AMBIGUOUS = re.compile(r"[1-9]\d{0,2},\d{3}", re.ASCII)
THOUSANDS = re.compile(
    r"([1-9]\d{0,2}(?:(?: \d{3})+(?=[.,]|$)|(?:,\d{3})+(?=\.|$)|(?:\.\d{3})+(?=,|$)))(?:[.,](\d+))?", re.ASCII
)
"""Groups of three digits, separated in one way, and decimals after another mark."""


class UnclearNumberError(ValueError):
    """A text is not a number, or could be two numbers.

    Args:
        readings: the two numbers that the text could mean; empty if it means none.
    """

    def __init__(self, text: str, *readings: str) -> None:
        super().__init__(text)
        self.text = text
        self.readings = readings


def read_number(text: str) -> float:
    """Return the number that a text represents.

    Raises:
        UnclearNumberError: it means none, or could mean two.
    """
    written = SPACES.sub(" ", text).strip().translate(MINUS).lower()
    if written.endswith("%"):
        return _read_signed(written[:-1].rstrip(), text) / 100
    numerator, slash, denominator = written.partition("/")
    value = _read_signed(numerator.rstrip(), text)
    if not slash:
        return value
    divisor = _read_signed(denominator.lstrip(), text)
    if divisor == 0:
        raise UnclearNumberError(text)
    return value / divisor


def _read_signed(written: str, text: str) -> float:
    sign = -1.0 if written.startswith("-") else 1.0
    value = sign * _read_unsigned(written[1:].lstrip() if written[:1] in "+-" else written, text)
    if not math.isfinite(value):
        raise UnclearNumberError(text)
    return value


def _read_unsigned(digits: str, text: str) -> float:
    if AMBIGUOUS.fullmatch(digits):
        raise UnclearNumberError(text, digits.replace(",", ""), digits.replace(",", "."))
    if PLAIN.fullmatch(digits):
        return float(digits)
    if COMMA.fullmatch(digits):
        return float(digits.replace(",", "."))
    if groups := THOUSANDS.fullmatch(digits):
        return float(re.sub(r"[ .,]", "", groups[1]) + "." + (groups[2] or "0"))
    raise UnclearNumberError(text)
