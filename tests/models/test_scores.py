"""Attention scores compared with hand calculations (M2 to M7), and errors about them."""

import math

import pytest
import torch

from uwaga.decoder import Symbols
from uwaga.errors import SettingsError, TextTooLongError
from uwaga.models.build import build_model, check_model
from uwaga.models.layers.scores import (
    SCORES,
    AdditiveScore,
    AttentionScore,
    ConcatScore,
    JointAdditiveScore,
    LocationScore,
    make_score,
)
from uwaga.settings import ModelSettings, Settings, parse

pytestmark = pytest.mark.numerical

# One query s = (1, 2) and two keys h = (3, -1) and (0, 1).
QUERY = torch.tensor([[1.0, 2.0]])
KEYS = torch.tensor([[3.0, -1.0], [0.0, 1.0]])
MATRIX = torch.tensor([[1.0, 2.0], [0.0, 1.0]])
VECTOR = torch.tensor([1.0, -1.0])


def set_weights(score: torch.nn.Module) -> None:
    """Set W or W1 (for keys) to MATRIX, W2 (for queries) to the identity, and v to VECTOR."""
    identity = torch.eye(2)
    with torch.no_grad():
        if hasattr(score, "vector"):
            score.vector.copy_(VECTOR)
        if isinstance(score, AdditiveScore):
            score.key.weight.copy_(MATRIX)
            score.query.weight.copy_(identity)
        elif isinstance(score, JointAdditiveScore):
            score.weight.weight.copy_(torch.cat([MATRIX, identity], dim=1))  # [W1 W2] over [h; s]
        elif isinstance(score, ConcatScore):
            score.weight.copy_(torch.cat([identity, MATRIX], dim=1))  # over [s; h]
        elif isinstance(score, LocationScore):
            score.weight.weight[:3].copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [5.0, 5.0]]))
        elif hasattr(score, "weight"):
            score.weight.weight.copy_(MATRIX)


# MATRIX h is (1, -1) and (2, 1); with s they sum to (2, 1) and (3, 3).
TANH = [math.tanh(2) - math.tanh(1), math.tanh(3) - math.tanh(3)]
EXPECTED_SCORES = {
    "dot": [1.0, 2.0],  # 3 - 2, 0 + 2
    "scaled_dot": [1 / math.sqrt(2), 2 / math.sqrt(2)],
    "general": [-1.0, 4.0],  # (1, 2)·(1, -1), (1, 2)·(2, 1)
    "additive": TANH,
    "additive_joint": TANH,
    "concat": TANH,
    "location": [1.0, 2.0],  # the rows (1, 0) and (0, 1) of W_a, for any keys
}


@pytest.mark.parametrize("name", sorted(EXPECTED_SCORES))
def test_M2_to_M7_scores_match_hand_calculation(name: str) -> None:
    score = make_score(name, 2, 2)
    set_weights(score)
    scores = score(QUERY, score.prepare(KEYS))
    torch.testing.assert_close(scores, torch.tensor([EXPECTED_SCORES[name]]))


@pytest.mark.parametrize("other", ["additive_joint", "concat"])
def test_M2_scores_with_one_joint_weight_match_the_additive_score(other: str) -> None:
    """``vᵀ tanh(W [h; s])`` is ``vᵀ tanh(W1 h + W2 s)`` where W = [W1 W2]."""
    torch.manual_seed(0)
    additive, joined = AdditiveScore(4, 3), make_score(other, 4, 3)
    halves = [additive.key.weight, additive.query.weight]
    weight = joined.weight.weight if isinstance(joined, JointAdditiveScore) else joined.weight
    with torch.no_grad():
        weight.copy_(torch.cat(halves if other == "additive_joint" else halves[::-1], dim=1))
        joined.vector.copy_(additive.vector)
    query, keys = torch.randn(2, 5, 4), torch.randn(2, 6, 3)
    expected = additive(query, additive.prepare(keys))
    assert expected.shape == (2, 5, 6)
    torch.testing.assert_close(joined(query, joined.prepare(keys)), expected)


def test_M6_location_score_rejects_overlong_sources() -> None:
    score = make_score("location", 2, 2, positions=3)
    assert score(QUERY, torch.randn(3, 2)).shape == (1, 3)
    with pytest.raises(TextTooLongError, match=r"4 tokens.*3 positions"):
        score(QUERY, torch.randn(4, 2))


@pytest.fixture
def new_score(monkeypatch: pytest.MonkeyPatch) -> str:
    """Register a new score, as described in CONTRIBUTING."""
    monkeypatch.setattr(SCORES, "_added", dict(SCORES))

    @SCORES.register("negative_distance")
    class NegativeDistanceScore(AttentionScore):
        def forward(self, query: torch.Tensor, prepared: torch.Tensor) -> torch.Tensor:
            return -torch.cdist(query, prepared)

    return "negative_distance"


def model_settings(model: dict[str, object]) -> ModelSettings:
    """Parse the model section of a settings file."""
    return parse(
        Settings, {"run": "r", "data": {"train": ["a"], "dev": ["b"]}, "model": model}, "my.yaml"
    ).model


@pytest.mark.parametrize("family", ["luong", "gnmt"])
def test_new_attention_score_needs_only_one_class(family: str, new_score: str) -> None:
    """A registered score works in settings, models and training."""
    settings = model_settings({"family": family, "embedding": 8, "hidden": 8, "score": new_score})
    torch.manual_seed(0)
    model = build_model(settings, Symbols(2, 3, 0, 1), 12, 12).eval()
    assert type(model.score).__name__ == "NegativeDistanceScore"
    source, target_in, target = (torch.tensor([row]) for row in ([5, 6, 3], [2, 7, 8], [7, 8, 3]))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for _ in range(2):
        loss = torch.nn.functional.nll_loss(model(source, target_in).transpose(1, 2), target)
        losses.append(loss.item())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert losses[1] < losses[0]


def test_unknown_attention_score_error_suggests_the_nearest_name(new_score: str) -> None:
    settings = model_settings({"family": "luong", "score": "negative_distanse"})
    message = r"model\.score: .*'negative_distanse'; did you mean 'negative_distance'\? .*, scaled_dot"
    for build in (check_model, lambda settings: build_model(settings, Symbols(2, 3, 0, 1), 12, 12)):
        with pytest.raises(SettingsError, match=message):
            build(settings)
