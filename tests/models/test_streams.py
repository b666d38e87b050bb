"""Multi-stream self-attention equals a numpy implementation of the equations of Qi 2020 (M29)."""

import numpy as np
import pytest
import torch
from precision import EXACT

from uwaga.models.layers.multihead import KeysValues
from uwaga.models.layers.streams import StreamAttention, stream_mask

pytestmark = pytest.mark.numerical

WIDTH, HEADS, BUCKETS, MAX_DISTANCE, STREAMS, TARGET = 12, 3, 6, 7, 4, 9


def bucket(distance: int) -> int:
    """Return the bucket of a key ``distance`` positions before the query: exact to 3, logarithmic to 7."""
    if distance < BUCKETS // 2:
        return max(distance, 0)
    exact = BUCKETS // 2
    return min(
        BUCKETS - 1, exact + int(np.log(distance / exact) / np.log(MAX_DISTANCE / exact) * (BUCKETS - exact))
    )


def make() -> tuple[StreamAttention, torch.Tensor]:
    torch.manual_seed(1)
    layer = StreamAttention(WIDTH, HEADS, BUCKETS, MAX_DISTANCE).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(std=0.5)
    return layer, torch.randn(2, STREAMS, TARGET, WIDTH, dtype=torch.float64)


def test_M29_prediction_streams_match_numpy() -> None:
    layer, inputs = make()
    w = {name: value.numpy() for name, value in layer.state_dict().items()}
    x, d = inputs[0].numpy(), WIDTH // HEADS
    query = x @ w["query.weight"].T + w["query.bias"]
    key, value = np.split(x @ w["key_value.weight"].T + w["key_value.bias"], 2, axis=-1)
    bucket_biases = (x @ w["relative.weight"].T + w["relative.bias"]).reshape(STREAMS, TARGET, BUCKETS, HEADS)
    joined = np.zeros_like(x)
    for s in range(STREAMS):
        for t in range(TARGET):
            for head in range(HEADS):
                part = slice(head * d, head * d + d)
                visible = [j for j in range(TARGET) if j <= t - max(s - 1, 0) or (s > 0 and j == 0)]
                # A predicting stream is one position further than its context.
                entries = [(key[0, j], value[0, j], bucket(t - j + (s > 0))) for j in visible]
                if s > 0:
                    entries.append((key[s, t], value[s, t], 0))
                scores = [
                    query[s, t, part] @ k[part] / np.sqrt(d) + bucket_biases[s, t, b, head]
                    for k, _, b in entries
                ]
                exponentials = np.exp(scores - np.max(scores))
                weighted = zip(exponentials / exponentials.sum(), entries, strict=True)
                joined[s, t, part] = sum(a * v[part] for a, (_, v, _) in weighted)
    with torch.no_grad():
        actual, cache = layer(inputs)
    np.testing.assert_allclose(actual[0].numpy(), joined @ w["output.weight"].T + w["output.bias"], **EXACT)
    assert cache.keys.shape == (2, HEADS, TARGET, d)


def test_M29_steps_match_a_full_pass() -> None:
    layer, x = make()
    with torch.no_grad():
        expected, _ = layer(x[:, :2])
        past: KeysValues | None = None
        for position in range(TARGET):
            actual, past = layer(x[:, :2, position : position + 1], past)
            torch.testing.assert_close(actual[:, :, 0], expected[:, :, position], **EXACT)


def test_M29_stream_mask_matches_hand_calculation() -> None:
    reading, next_token, token_after_next = stream_mask(3, 3, 3).int().tolist()
    assert reading == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]]
    assert next_token == [[1, 0, 0, 1], [1, 1, 0, 1], [1, 1, 1, 1]]
    assert token_after_next == [[1, 0, 0, 1], [1, 0, 0, 1], [1, 1, 0, 1]]
