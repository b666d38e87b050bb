"""Characters that no text has."""

from __future__ import annotations

from pydantic import Field, NonNegativeInt

from uwaga.cleaning.characters import BAD
from uwaga.cleaning.pairs import Mask, PairBlock
from uwaga.cleaning.rule import Rule, register
from uwaga.settings.parsing import StrictModel


class CharacterSettings(StrictModel):
    """How many of them may be there."""

    max_bad: NonNegativeInt = Field(0, description="most such characters in a side")


@register(
    "characters", "a side holds control, private-use or replacement characters (U+FFFD)", CharacterSettings
)
class Characters(Rule[CharacterSettings]):
    """Control characters, private use, surrogates, U+FFFD."""

    def rejects(self, pairs: PairBlock) -> Mask:
        return (pairs.source.of_kind(BAD) > self.settings.max_bad) | (
            pairs.target.of_kind(BAD) > self.settings.max_bad
        )
