"""Sinusoidal positions (M16; Vaswani 2017 §3.5)."""

import math

import pytest
import torch

from uwaga.models.layers.positions import RelativePositions, sinusoids

pytestmark = pytest.mark.numerical


def test_M16_sinusoidal_positions_match_hand_calculation() -> None:
    table = sinusoids(3, 4)
    torch.testing.assert_close(table[0], torch.tensor([0.0, 1.0, 0.0, 1.0]))
    expected = [math.sin(2), math.cos(2), math.sin(2 / 100), math.cos(2 / 100)]  # 10000^(2/4) = 100
    torch.testing.assert_close(table[2], torch.tensor(expected))


def test_M16_shifting_positions_rotates_their_vectors() -> None:
    # sin and cos of p + d are a rotation of those of p that depends only on d.
    table = sinusoids(40, 8).double()
    for pair in range(4):
        columns = table[:, 2 * pair : 2 * pair + 2]  # (positions, 2)
        products = columns[:-5] * columns[5:]
        dots = products.sum(1)
        torch.testing.assert_close(dots, dots[:1].expand_as(dots), atol=1e-5, rtol=0)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "distance"), [(32, 128), (8, 20), (10, 11)])
def test_relative_position_buckets_match_transformers(bidirectional, buckets, distance) -> None:
    peer = pytest.importorskip("transformers.models.t5.modeling_t5").T5Attention
    distances = torch.arange(-300, 300)
    actual = RelativePositions(2, buckets, distance, bidirectional).bucket(distances)
    assert torch.equal(actual, peer._relative_position_bucket(distances, bidirectional, buckets, distance))
