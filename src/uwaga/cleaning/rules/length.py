"""Sides that are too short or too long."""

from __future__ import annotations

from pydantic import Field, NonNegativeInt, model_validator

from uwaga.cleaning.pairs import Mask, PairBlock
from uwaga.cleaning.rule import Rule, register
from uwaga.settings.parsing import StrictModel


class LengthSettings(StrictModel):
    """How long a side may be; words are what stands between white space."""

    min_words: NonNegativeInt = Field(1, description="fewest words of a side")
    max_words: NonNegativeInt = Field(150, description="most words of a side, 0 for any number")
    min_characters: NonNegativeInt = Field(1, description="fewest characters of a side")
    max_characters: NonNegativeInt = Field(1000, description="most characters of a side, 0 for any number")

    @model_validator(mode="after")
    def _agree(self) -> LengthSettings:
        if 0 < self.max_words < self.min_words or 0 < self.max_characters < self.min_characters:
            raise ValueError("a smallest length is above the largest")
        return self


@register("length", "a side is too short or too long", LengthSettings)
class Length(Rule[LengthSettings]):
    """Bounds of words and characters, each side by itself."""

    def rejects(self, pairs: PairBlock) -> Mask:
        limits = self.settings
        gone = (pairs.source.lengths < limits.min_characters) | (pairs.target.lengths < limits.min_characters)
        for side, _ in pairs.sides:
            gone |= side.words < limits.min_words
            if limits.max_words:
                gone |= side.words > limits.max_words
            if limits.max_characters:
                gone |= side.lengths > limits.max_characters
        return gone
