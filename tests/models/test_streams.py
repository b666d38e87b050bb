"""Self-attention of several streams against plain numpy, written from Qi 2020 alone (M29)."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from precision import EXACT

from uwaga.models.layers.multihead import KeysValues
from uwaga.models.layers.streams import StreamAttention, stream_mask

pytestmark = pytest.mark.numerical

WIDTH, HEADS, BUCKETS, FARTHEST, STREAMS, TARGET = 12, 3, 6, 7, 4, 9


def bucket(back: int) -> int:
    """Of a key ``back`` positions before the query: exact up to 3, then logarithmic up to 7."""
    if back < BUCKETS // 2:
        return max(back, 0)
    exact = BUCKETS // 2
    return min(BUCKETS - 1, exact + int(np.log(back / exact) / np.log(FARTHEST / exact) * (BUCKETS - exact)))


def make() -> tuple[StreamAttention, torch.Tensor]:
    torch.manual_seed(1)
    layer = StreamAttention(WIDTH, HEADS, BUCKETS, FARTHEST).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(std=0.5)
    return layer, torch.randn(2, STREAMS, TARGET, WIDTH, dtype=torch.float64)


def test_M29_streams_are_their_equations() -> None:
    layer, given = make()
    w = {name: value.numpy() for name, value in layer.state_dict().items()}
    x, d = given[0].numpy(), WIDTH // HEADS
    query = x @ w["query.weight"].T + w["query.bias"]
    key, value = np.split(x @ w["key_value.weight"].T + w["key_value.bias"], 2, axis=-1)
    offered = (x @ w["relative.weight"].T + w["relative.bias"]).reshape(STREAMS, TARGET, BUCKETS, HEADS)
    joined = np.zeros_like(x)
    for s in range(STREAMS):
        for t in range(TARGET):
            for head in range(HEADS):
                part = slice(head * d, head * d + d)
                known = [j for j in range(TARGET) if j <= t - max(s - 1, 0) or (s > 0 and j == 0)]
                # A predicting stream stands one position further than what it reads.
                seen = [(key[0, j], value[0, j], bucket(t - j + (s > 0))) for j in known]
                if s > 0:
                    seen.append((key[s, t], value[s, t], 0))
                scores = [
                    query[s, t, part] @ k[part] / np.sqrt(d) + offered[s, t, b, head] for k, _, b in seen
                ]
                raised = np.exp(scores - np.max(scores))
                mixed = zip(raised / raised.sum(), seen, strict=True)
                joined[s, t, part] = sum(a * v[part] for a, (_, v, _) in mixed)
    with torch.no_grad():
        found, cache = layer(given)
    np.testing.assert_allclose(found[0].numpy(), joined @ w["output.weight"].T + w["output.bias"], **EXACT)
    assert cache.keys.shape == (2, HEADS, TARGET, d)


def test_M29_positions_one_by_one_are_all_at_once() -> None:
    layer, x = make()
    with torch.no_grad():
        together, _ = layer(x[:, :2])
        past: KeysValues | None = None
        for position in range(TARGET):
            found, past = layer(x[:, :2, position : position + 1], past)
            torch.testing.assert_close(found[:, :, 0], together[:, :, position], **EXACT)


def test_M29_the_mask_by_hand() -> None:
    reading, next_token, one_further = stream_mask(3, 3, 3).int().tolist()
    assert reading == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]]
    assert next_token == [[1, 0, 0, 1], [1, 1, 0, 1], [1, 1, 1, 1]]
    assert one_further == [[1, 0, 0, 1], [1, 0, 0, 1], [1, 1, 0, 1]]
