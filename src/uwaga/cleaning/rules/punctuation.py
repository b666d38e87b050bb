"""Ends of sentences that do not go together."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from uwaga.cleaning.characters import TERMINAL
from uwaga.cleaning.pairs import Mask, PairBlock
from uwaga.cleaning.rule import Rule, register
from uwaga.settings.parsing import StrictModel


class PunctuationSettings(StrictModel):
    """How far the ends of sentences may differ."""

    min_score: float = Field(-2.0, le=0.0, description="0 for one on each side, lower for more and unequal")


@register("punctuation", "the sides end sentences differently often", PunctuationSettings)
class Punctuation(Rule[PunctuationSettings]):
    """``-log(1 + |s - t| + max(s - 1, 0) + max(t - 1, 0))`` for ``s`` and ``t`` marks that end sentences.

    Vázquez et al. 2019 (The University of Helsinki submission to the WMT19 parallel corpus filtering task),
    section 3.1.
    """

    def rejects(self, pairs: PairBlock) -> Mask:
        source, target = pairs.source.of_kind(TERMINAL), pairs.target.of_kind(TERMINAL)
        penalty = np.abs(source - target) + np.maximum(source - 1, 0) + np.maximum(target - 1, 0)
        gone: Mask = -np.log1p(penalty) < self.settings.min_score
        return gone
