"""Tables of sinusoidal positions equal the formula within one unit in the last place."""

import math

import numpy as np
import pytest

from uwaga.engine.layout import sinusoids
from uwaga.settings import TransformerSettings


@pytest.mark.parametrize("order", ["interleaved", "halves", "tensor2tensor"])
@pytest.mark.parametrize("offset", [0, 2])
def test_sinusoidal_positions_match_the_formula(order, offset):
    shape = TransformerSettings(width=96, heads=4, max_length=1200, sinusoids=order, position_offset=offset)
    half = shape.width // 2
    rates = np.arange(half) / (half - 1 if order == "tensor2tensor" else half)
    angles = np.arange(offset, offset + 1200)[:, None] * np.exp(-math.log(10000.0) * rates)
    waves = np.sin(angles), np.cos(angles)
    expected = (
        np.stack(waves, axis=-1).reshape(1200, 96)
        if order == "interleaved"
        else np.concatenate(waves, axis=1)
    )
    positions = sinusoids(shape)
    assert positions.dtype == np.float32
    # Doubles near 1,200 are 2e-13 apart, which limits accuracy near zeros of the sine.
    assert (np.abs(positions - expected) <= np.spacing(np.abs(expected).astype(np.float32)) + 5e-13).all()
