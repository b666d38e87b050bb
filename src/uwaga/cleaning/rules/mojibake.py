"""UTF-8 that somebody has read as Latin-1 or Windows-1252."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt

from uwaga.cleaning.characters import CODE_POINTS
from uwaga.cleaning.pairs import Mask, PairBlock, Side
from uwaga.cleaning.rule import Rule, register
from uwaga.settings.parsing import StrictModel


def _read(first: int, last: int) -> str:
    """The characters that bytes become in Latin-1 and in Windows-1252."""
    codes = bytes(range(first, last + 1))
    return "".join(sorted(set(codes.decode("latin-1")) | set(codes.decode("cp1252", "ignore"))))


def _both(first: int, last: int) -> str:
    """The same as a class of a regular expression."""
    return "[" + "".join(map(re.escape, _read(first, last))) + "]"


_NEXT = _both(0x80, 0xBF)
MOJIBAKE = re.compile(
    f"[ÂÃ]{_NEXT}"  # Latin-1's own letters and signs
    f"|[ÄÅ]{_both(0x80, 0xBF)}(?=[^\\W\\d_])"  # Latin Extended-A inside a word
    f"|â{_both(0x80, 0x84)}{_NEXT}"  # dashes, quotes, signs of currency
    f"|(?:[ÎÏÐÑ×ØÙ]{_NEXT}){{2}}"  # two letters of Greek, Cyrillic, Hebrew or Arabic on end
    f"|[ã-é]{_NEXT}{{2}}|ð{_both(0x90, 0xA0)}{_NEXT}{{2}}"  # East Asia; emoji
)
"""The lead byte of UTF-8 as a letter, then those that go on; hardly a language writes them so."""


class MojibakeSettings(StrictModel):
    """How much of it is too much."""

    least: PositiveInt = Field(1, description="a pair goes that has as many such places")


@register("mojibake", "characters were garbled by a wrong encoding (cafÃ© for café)", MojibakeSettings)
class Mojibake(Rule[MojibakeSettings]):
    """Sequences that are UTF-8 taken for Latin-1 or Windows-1252.

    Nothing is mended: whoever garbled one line may have lost bytes of the next.
    """

    def rejects(self, pairs: PairBlock) -> Mask:
        count = np.zeros(len(pairs), np.int64)
        for side, _ in pairs.sides:
            for index in np.flatnonzero(_candidates(side)).tolist():
                count[index] += len(MOJIBAKE.findall(side.text(index)))
        return count >= self.settings.least


@cache
def _following() -> NDArray[np.bool_]:
    table = np.zeros(CODE_POINTS, np.bool_)
    table[[ord(character) for character in _read(0x80, 0xBF)]] = True
    return table


def _candidates(texts: Side) -> Mask:
    """(pairs,) in which a letter from Â to ð stands before what a byte that goes on looks like."""
    codes = np.append(texts.codes, np.zeros(1, np.uint32))
    lead = (codes[:-1] >= 0xC2) & (codes[:-1] <= 0xF0)
    return texts.count(lead & _following()[codes[1:]]) > 0
