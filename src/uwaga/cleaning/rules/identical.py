"""Sources that stand as they are in the place of their translations."""

from __future__ import annotations

from pydantic import Field, NonNegativeInt

from uwaga.cleaning.pairs import Mask, PairBlock
from uwaga.cleaning.rule import Rule, register
from uwaga.settings.parsing import StrictModel


class IdenticalSettings(StrictModel):
    """What counts as the same, and what may be."""

    normalise: bool = Field(True, description="without regard to case, punctuation and compatibility forms")
    free_words: NonNegativeInt = Field(0, description="texts of at most so many words may be the same")


@register("identical", "both sides are the same", IdenticalSettings)
class Identical(Rule[IdenticalSettings]):
    """Both sides are one text."""

    def rejects(self, pairs: PairBlock) -> Mask:
        if self.settings.normalise:
            same = pairs.source.folds_as(pairs.target)
        else:
            same = pairs.source.equals(pairs.target)
        return same & (pairs.source.words > self.settings.free_words)
