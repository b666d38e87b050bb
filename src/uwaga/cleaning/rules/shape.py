"""Rules about the lengths of the sides and the characters they consist of."""

from __future__ import annotations

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from uwaga.cleaning.pairs import ANY_SCRIPT, BAD, Counts, Mask, PairBlock, script_letters
from uwaga.cleaning.rule import Rule, register
from uwaga.languages.codes import scripts_of
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


class RatioSettings(StrictModel):
    """How much longer one side may be than the other; a pair goes at the limit."""

    max_words: float = Field(3.0, ge=0.0, description="longer side by shorter, in words: below it; 0: any")
    max_characters: float = Field(3.0, ge=0.0, description="the same in characters; 0: any")
    free_words: int = Field(0, ge=0, description="no limit where neither side has more words than this")


@register("ratio", "one side is much longer than the other", RatioSettings)
class Ratio(Rule[RatioSettings]):
    """The longer side by the shorter, in words and in characters."""

    def rejects(self, pairs: PairBlock) -> Mask:
        source, target = pairs.source, pairs.target
        gone = np.zeros(len(pairs), np.bool_)
        if self.settings.max_words:
            gone |= _unequal(source.words, target.words, self.settings.max_words)
        if self.settings.max_characters:
            gone |= _unequal(source.lengths, target.lengths, self.settings.max_characters)
        return gone & (np.maximum(source.words, target.words) > self.settings.free_words)


def _unequal(one: Counts, other: Counts, most: float) -> Mask:
    longer, shorter = np.maximum(one, other), np.minimum(one, other)
    unequal: Mask = (longer / np.maximum(shorter, 1) >= most) | ((shorter == 0) & (longer > 0))
    return unequal


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


class CharacterSettings(StrictModel):
    """How many of them may be there."""

    max_bad: NonNegativeInt = Field(0, description="most such characters in a side")


@register(
    "characters", "a side holds control, private-use or replacement characters (U+FFFD)", CharacterSettings
)
class Characters(Rule[CharacterSettings]):
    """Control characters, private use, surrogates, U+FFFD."""

    def rejects(self, pairs: PairBlock) -> Mask:
        return (pairs.source.count_bits(BAD) > self.settings.max_bad) | (
            pairs.target.count_bits(BAD) > self.settings.max_bad
        )


class LetterSettings(StrictModel):
    """How much of a side must be letters."""

    min_share: float = Field(0.25, ge=0.0, le=1.0, description="letters by all characters, of each side")


@register("letters", "a side has few letters for its length", LetterSettings)
class Letters(Rule[LetterSettings]):
    """The share of letters, and of marks on letters, among all characters."""

    def rejects(self, pairs: PairBlock) -> Mask:
        gone = np.zeros(len(pairs), np.bool_)
        for side, _ in pairs.sides:
            gone |= side.letters / np.maximum(side.lengths, 1) < self.settings.min_share
        return gone


class ScriptSettings(StrictModel):
    """How many of the letters must be the language's."""

    min_share: float = Field(
        0.9, ge=0.0, le=1.0, description="letters of the language's script by all letters, of each side"
    )


@register("script", "letters are not of the language's script", ScriptSettings)
class Script(Rule[ScriptSettings]):
    """The share of a side's letters that are of its language's script; sides without letters pass.

    Languages whose script is not known here pass too.
    """

    needs_languages = True

    def rejects(self, pairs: PairBlock) -> Mask:
        gone = np.zeros(len(pairs), np.bool_)
        for side, language in pairs.sides:
            wanted = scripts_of(language)
            if wanted is not None:
                found = script_letters(wanted)[side.codes]  # (characters,)
                count, fitting = side.count(found != 0), side.count(found > ANY_SCRIPT)
                gone |= (count > 0) & (fitting < self.settings.min_share * count)
        return gone
