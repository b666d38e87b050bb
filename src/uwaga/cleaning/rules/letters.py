"""Sides that are mostly numbers, signs and white space."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from uwaga.cleaning.pairs import Mask, PairBlock
from uwaga.cleaning.rule import Rule, register
from uwaga.settings.parsing import StrictModel


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
