"""Statistics of a model's scores on the validation set, stored in the model folder."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydantic import Field, model_validator

from uwaga.results.translation import Hypothesis
from uwaga.settings import StrictModel

LOW_QUANTILE = 0.01
MIN_SENTENCES = 100
"""Minimum number of sentences from which statistics are computed."""


class ScoreStats(StrictModel):
    """Statistics of the log-probability per target token, including the end symbol, on the validation set.

    Attributes:
        mean: the mean over all sentences.
        low: the first percentile.
        sentences: number of sentences.
        word: log-probability below which at most a fifth of the translations of frequent words are correct;
            None if it is not known.
    """

    mean: float = Field(le=0, ge=-1e4, allow_inf_nan=False)
    low: float = Field(le=0, ge=-1e4, allow_inf_nan=False)
    sentences: int = Field(ge=1)
    word: float | None = Field(default=None, le=0, ge=-1e4, allow_inf_nan=False)

    @model_validator(mode="after")
    def _check_order(self) -> ScoreStats:
        if self.low > self.mean:
            raise ValueError(f"low {self.low} is above the mean {self.mean}")
        return self


def summarise_scores(hypotheses: Sequence[Hypothesis]) -> ScoreStats | None:
    """Return statistics of the scores of translations, or None if there are too few."""
    scores = sorted(
        hypothesis.log_prob / len(hypothesis.token_scores)
        for hypothesis in hypotheses
        if hypothesis.token_scores
    )
    if len(scores) < MIN_SENTENCES or not math.isfinite(scores[0]):
        return None
    mean, low_score = math.fsum(scores) / len(scores), scores[int(LOW_QUANTILE * len(scores))]
    return ScoreStats(
        mean=round(min(mean, 0.0), 4), low=round(min(low_score, mean, 0.0), 4), sentences=len(scores)
    )
