"""Words that are no words: addresses, keys, lines without spaces."""

from __future__ import annotations

from pydantic import Field, PositiveInt

from uwaga.cleaning.pairs import Mask, PairBlock
from uwaga.cleaning.rule import Rule, register
from uwaga.settings.parsing import StrictModel

SPACELESS = ("zh", "ja", "th", "yue", "km", "lo", "my", "bo", "dz")
"""Languages whose words are not set apart."""


class LongWordSettings(StrictModel):
    """How long a word may be."""

    max_characters: PositiveInt = Field(40, description="a pair goes whose longest word has as many")


@register("long_words", "a word is too long to be one", LongWordSettings)
class LongWords(Rule[LongWordSettings]):
    """The longest word of either side; sides in languages that set no spaces are not looked at."""

    def rejects(self, pairs: PairBlock) -> Mask:
        gone = pairs.source.lengths < 0
        for side, language in pairs.sides:
            if language not in SPACELESS:
                gone |= side.longest_words >= self.settings.max_characters
        return gone
