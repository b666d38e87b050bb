"""Sides of too unequal lengths."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from uwaga.cleaning.pairs import Counts, Mask, PairBlock
from uwaga.cleaning.rule import Rule, register
from uwaga.settings.parsing import StrictModel


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
