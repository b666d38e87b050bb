"""Statistics of a model's scores on its dev set, stored in its folder."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydantic import Field, model_validator

from uwaga.results.translation import Hypothesis
from uwaga.settings import StrictModel

LOWEST_SHARE = 0.01
FEWEST = 100
"""Least number of sentences: a percentile of fewer is meaningless."""


class ScoreStats(StrictModel):
    """Log-probabilities per target token, including the end symbol, of a model's translations of its dev set.

    ``mean``: the mean over the sentences; ``low``: the first percentile; ``sentences``: their number.
    """

    mean: float = Field(le=0, ge=-1e4, allow_inf_nan=False)
    low: float = Field(le=0, ge=-1e4, allow_inf_nan=False)
    sentences: int = Field(ge=1)

    @model_validator(mode="after")
    def _low_is_low(self) -> ScoreStats:
        if self.low > self.mean:
            raise ValueError(f"low {self.low} is above the mean {self.mean}")
        return self


def measured_stats(hypotheses: Sequence[Hypothesis]) -> ScoreStats | None:
    """Return the statistics of these translations, the best of each sentence; None if they are too few."""
    scores = sorted(one.log_prob / len(one.token_scores) for one in hypotheses if one.token_scores)
    if len(scores) < FEWEST or not math.isfinite(scores[0]):
        return None
    mean, low = math.fsum(scores) / len(scores), scores[int(LOWEST_SHARE * len(scores))]
    return ScoreStats(mean=round(min(mean, 0.0), 4), low=round(min(low, mean, 0.0), 4), sentences=len(scores))
