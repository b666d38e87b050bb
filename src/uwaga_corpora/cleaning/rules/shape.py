"""Rules about the lengths and characters of the sides."""

from __future__ import annotations

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from uwaga.languages.codes import language_scripts
from uwaga.settings.parsing import StrictModel
from uwaga_corpora.cleaning.pairs import ANY_SCRIPT, BAD_CHARACTER, Counts, Mask, PairBlock, script_letters
from uwaga_corpora.cleaning.rule import Rule


class LengthSettings(StrictModel):
    """Limits on the length of a side; words are separated by white space."""

    min_words: NonNegativeInt = Field(1, description="minimum number of words in a side")
    max_words: NonNegativeInt = Field(150, description="maximum number of words in a side, 0 for any number")
    min_characters: NonNegativeInt = Field(1, description="minimum number of characters in a side")
    max_characters: NonNegativeInt = Field(
        1000, description="maximum number of characters in a side, 0 for any number"
    )

    @model_validator(mode="after")
    def _check_limits(self) -> LengthSettings:
        if 0 < self.max_words < self.min_words or 0 < self.max_characters < self.min_characters:
            raise ValueError("a minimum is greater than its maximum")
        return self


class Length(Rule[LengthSettings]):
    """A rule that limits the numbers of words and characters of each side."""

    summary = "a side is too short or too long"
    settings_type = LengthSettings

    def rejects(self, pairs: PairBlock) -> Mask:
        limits = self.settings
        is_rejected = (pairs.source.lengths < limits.min_characters) | (
            pairs.target.lengths < limits.min_characters
        )
        for side, _ in pairs.sides:
            is_rejected |= side.words < limits.min_words
            if limits.max_words:
                is_rejected |= side.words > limits.max_words
            if limits.max_characters:
                is_rejected |= side.lengths > limits.max_characters
        return is_rejected


class RatioSettings(StrictModel):
    """Limits on the ratio of the lengths of a pair's two sides; pairs at the limit are rejected."""

    max_words: float = Field(
        3.0, ge=0.0, description="limit on the ratio of the longer side to the shorter in words; 0 for none"
    )
    max_characters: float = Field(3.0, ge=0.0, description="the same limit in characters; 0 for none")
    free_words: int = Field(0, ge=0, description="no limit if neither side has more words than this")


class Ratio(Rule[RatioSettings]):
    """A rule that limits the ratio of the longer side to the shorter side, in words and in characters."""

    summary = "one side is much longer than the other"
    settings_type = RatioSettings

    def rejects(self, pairs: PairBlock) -> Mask:
        source, target = pairs.source, pairs.target
        is_rejected = np.zeros(len(pairs), np.bool_)
        if self.settings.max_words:
            is_rejected |= _exceeds_ratio(source.words, target.words, self.settings.max_words)
        if self.settings.max_characters:
            is_rejected |= _exceeds_ratio(source.lengths, target.lengths, self.settings.max_characters)
        return is_rejected & (np.maximum(source.words, target.words) > self.settings.free_words)


def _exceeds_ratio(first: Counts, second: Counts, limit: float) -> Mask:
    longer, shorter = np.maximum(first, second), np.minimum(first, second)
    is_unequal: Mask = (longer / np.maximum(shorter, 1) >= limit) | ((shorter == 0) & (longer > 0))
    return is_unequal


LANGUAGES_WITHOUT_SPACES = ("zh", "ja", "th", "yue", "km", "lo", "my", "bo", "dz")
"""Languages written without spaces between words."""


class LongWordSettings(StrictModel):
    """Limits on the length of words."""

    max_characters: PositiveInt = Field(
        40, description="a pair is rejected if its longest word has at least this number of characters"
    )


class LongWords(Rule[LongWordSettings]):
    """A rule that limits the length of each side's longest word; languages without spaces are not checked."""

    summary = "a word is implausibly long"
    settings_type = LongWordSettings

    def rejects(self, pairs: PairBlock) -> Mask:
        is_rejected = pairs.source.lengths < 0
        for side, language in pairs.sides:
            if language not in LANGUAGES_WITHOUT_SPACES:
                is_rejected |= side.longest_words >= self.settings.max_characters
        return is_rejected


class CharacterSettings(StrictModel):
    """Limits on bad characters."""

    max_bad: NonNegativeInt = Field(0, description="maximum number of bad characters in a side")


class Characters(Rule[CharacterSettings]):
    """A rule that limits control, private-use, surrogate and replacement (U+FFFD) characters."""

    summary = "a side contains control, private-use or replacement characters (U+FFFD)"
    settings_type = CharacterSettings

    def rejects(self, pairs: PairBlock) -> Mask:
        return (pairs.source.count_bits(BAD_CHARACTER) > self.settings.max_bad) | (
            pairs.target.count_bits(BAD_CHARACTER) > self.settings.max_bad
        )


class LetterSettings(StrictModel):
    """The share of a side that must be letters."""

    min_share: float = Field(
        0.25, ge=0.0, le=1.0, description="minimum ratio of letters to all characters on each side"
    )


class Letters(Rule[LetterSettings]):
    """A rule that requires a minimum share of letters, and marks on letters, among all characters."""

    summary = "a side has few letters for its length"
    settings_type = LetterSettings

    def rejects(self, pairs: PairBlock) -> Mask:
        is_rejected = np.zeros(len(pairs), np.bool_)
        for side, _ in pairs.sides:
            is_rejected |= side.letters / np.maximum(side.lengths, 1) < self.settings.min_share
        return is_rejected


class ScriptSettings(StrictModel):
    """The share of letters that must belong to the language's script."""

    min_share: float = Field(
        0.9,
        ge=0.0,
        le=1.0,
        description="minimum ratio of letters of the language's script to all letters on each side",
    )


class Script(Rule[ScriptSettings]):
    """A rule that requires a minimum share of a side's letters to belong to the language's script.

    Sides without letters, and sides in languages whose script is unknown, pass.
    """

    summary = "too few letters are in the script of the language"
    settings_type = ScriptSettings
    needs_languages = True

    def rejects(self, pairs: PairBlock) -> Mask:
        is_rejected = np.zeros(len(pairs), np.bool_)
        for side, language in pairs.sides:
            scripts = language_scripts(language)
            if scripts is not None:
                letters = script_letters(scripts)[side.codes]  # (characters,)
                letter_count, script_count = side.count(letters != 0), side.count(letters > ANY_SCRIPT)
                is_rejected |= (letter_count > 0) & (script_count < self.settings.min_share * letter_count)
        return is_rejected
