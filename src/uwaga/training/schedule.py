"""Learning rates over time."""

from __future__ import annotations

import math

from uwaga.settings import ScheduleSettings


def learning_rate(settings: ScheduleSettings, step: int, steps: int) -> float:
    """The rate of update ``step`` (from 1) of ``steps``.

    After a linear warm-up to the peak: ``inverse_sqrt`` falls as √(warmup / step) (Vaswani 2017 eq. 3,
    with the peak named instead of implied), ``cosine`` and ``linear`` fall to the floor at the last step.
    """
    warmup = settings.warmup
    if step < warmup:
        return settings.peak * step / warmup
    if settings.kind == "constant":
        return settings.peak
    if settings.kind == "inverse_sqrt":
        return settings.peak * math.sqrt(max(warmup, 1) / max(step, 1))
    done = min(1.0, (step - warmup) / max(1, steps - warmup))
    share = 0.5 * (1.0 + math.cos(math.pi * done)) if settings.kind == "cosine" else 1.0 - done
    return settings.floor + (settings.peak - settings.floor) * share
