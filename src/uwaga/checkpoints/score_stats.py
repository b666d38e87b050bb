"""What a model's scores usually are: the figures that a model folder carries."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydantic import Field, model_validator

from uwaga.results.translation import Hypothesis
from uwaga.settings import StrictModel

LOWEST_SHARE = 0.01
FEWEST = 100
"""Sentences: a hundredth part of fewer means nothing."""


class ScoreStats(StrictModel):
    """Log-probabilities per target token, end symbol counted, of a model's own translations of its dev set.

    ``mean`` over the sentences; ``low``, the hundredth part from below; ``sentences``, how many there were.
    """

    mean: float = Field(le=0, ge=-1e4, allow_inf_nan=False)
    low: float = Field(le=0, ge=-1e4, allow_inf_nan=False)
    sentences: int = Field(ge=1)

    @model_validator(mode="after")
    def _low_is_low(self) -> ScoreStats:
        if self.low > self.mean:
            raise ValueError(f"low {self.low} is above the mean {self.mean}")
        return self


def usual_score(hypotheses: Sequence[Hypothesis]) -> ScoreStats | None:
    """The figures of these translations, best of each sentence; None of too few to tell."""
    scores = sorted(one.log_prob / len(one.token_scores) for one in hypotheses if one.token_scores)
    if len(scores) < FEWEST or not math.isfinite(scores[0]):
        return None
    mean, low = math.fsum(scores) / len(scores), scores[int(LOWEST_SHARE * len(scores))]
    return ScoreStats(mean=round(min(mean, 0.0), 4), low=round(min(low, mean, 0.0), 4), sentences=len(scores))
