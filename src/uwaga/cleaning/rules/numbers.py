"""Numbers that are on one side only."""

from __future__ import annotations

from difflib import SequenceMatcher

import numpy as np
from pydantic import Field

from uwaga.cleaning.pairs import Mask, PairBlock
from uwaga.cleaning.rule import Rule, register
from uwaga.settings.parsing import StrictModel


class NumberSettings(StrictModel):
    """How alike the digits must be."""

    min_similarity: float = Field(0.5, ge=0.0, le=1.0, description="1 where both sides have the same digits")


@register("numbers", "the sides have different numbers", NumberSettings)
class Numbers(Rule[NumberSettings]):
    """The ratio of Ratcliff and Obershelp between the digits of both sides, in their order and without zeros.

    Vázquez et al. 2019, section 3.1: zeros are left out because 10 000 may be "10 thousand". Digits of any
    script count by their values.
    """

    def rejects(self, pairs: PairBlock) -> Mask:
        source, target = pairs.source.digits, pairs.target.digits
        gone = ~source.equals(target)
        for index in np.flatnonzero(gone).tolist():
            ratio = SequenceMatcher(None, source.text(index), target.text(index)).ratio()
            gone[index] = ratio < self.settings.min_similarity
        return gone
