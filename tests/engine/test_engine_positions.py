"""Tables of positions are those of the formula, to the last bit but one."""

import math

import numpy as np
import pytest

from uwaga.engine.layout import sinusoids
from uwaga.settings import TransformerSettings


@pytest.mark.parametrize("order", ["interleaved", "halves", "tensor2tensor"])
@pytest.mark.parametrize("offset", [0, 2])
def test_sinusoids_are_those_of_vaswani(order, offset):
    shape = TransformerSettings(width=96, heads=4, max_length=1200, sinusoids=order, position_offset=offset)
    half = shape.width // 2
    rates = np.arange(half) / (half - 1 if order == "tensor2tensor" else half)
    angles = np.arange(offset, offset + 1200)[:, None] * np.exp(-math.log(10000.0) * rates)
    sides = np.sin(angles), np.cos(angles)
    wanted = (
        np.stack(sides, axis=-1).reshape(1200, 96)
        if order == "interleaved"
        else np.concatenate(sides, axis=1)
    )
    found = sinusoids(shape)
    assert found.dtype == np.float32
    # A double of 1,200 has 2e-13 between neighbours: no table is closer to a zero of the sine.
    assert (np.abs(found - wanted) <= np.spacing(np.abs(wanted).astype(np.float32)) + 5e-13).all()
