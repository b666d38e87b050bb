"""Learning-rate schedules agree with their formulas."""

import math
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from uwaga.settings import ScheduleSettings
from uwaga.training.optimiser import learning_rate


@given(
    kind=st.sampled_from(["inverse_sqrt", "cosine", "linear", "constant"]),
    warmup=st.integers(0, 50),
    steps=st.integers(51, 500),
)
def test_learning_rate_rises_to_the_peak_and_then_never_increases(kind: str, warmup: int, steps: int) -> None:
    settings = ScheduleSettings(kind=kind, peak=0.5, warmup=warmup, floor=0.01)
    rates = [learning_rate(settings, step, steps) for step in range(1, steps + 1)]
    assert all(0 < rate <= 0.5 + 1e-12 for rate in rates)
    if warmup > 1:
        assert math.isclose(rates[warmup - 1], 0.5)
        assert all(a < b for a, b in pairwise(rates[:warmup]))
    decay = rates[max(warmup, 1) - 1 :]
    assert all(a >= b for a, b in pairwise(decay))
    if kind in ("cosine", "linear"):
        assert math.isclose(rates[-1], 0.01)


def test_inverse_sqrt_schedule_matches_hand_calculation() -> None:
    settings = ScheduleSettings(kind="inverse_sqrt", peak=5e-3, warmup=2000)
    assert math.isclose(learning_rate(settings, 1000, 10**6), 2.5e-3)
    assert math.isclose(learning_rate(settings, 8000, 10**6), 2.5e-3)  # √(2000 / 8000) = 1/2
