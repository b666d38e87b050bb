"""Properties of scores, attention and multi-head attention (M1, M3, M4, M7, M8, M10; E1, E2)."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from precision import tolerance

from uwaga.errors import SettingsError
from uwaga.models.layers.attention import attend, causal_mask, masked_softmax
from uwaga.models.layers.multihead import MultiHeadAttention
from uwaga.models.layers.scores import SCORES, GeneralScore, ScaledDotScore, make_score

pytestmark = pytest.mark.numerical

INF = float("-inf")


def test_E1_scaled_scores_and_their_softmax_match_the_example() -> None:
    # q · k = 112 and 96 with d_k = 64: divided by 8 they are 14 and 12.
    query = torch.ones(1, 64)
    keys = torch.stack([torch.full((64,), 112 / 64), torch.full((64,), 96 / 64)])
    scores = ScaledDotScore(64, 64)(query, keys)
    torch.testing.assert_close(scores, torch.tensor([[14.0, 12.0]]))
    weights = masked_softmax(scores, None)[0].tolist()
    assert [round(weight, 2) for weight in weights] == [0.88, 0.12]


def test_E2_look_ahead_mask_gives_later_tokens_no_weight() -> None:
    scores = torch.tensor(
        [[0.7, 0.1, 0.1, 0.1], [0.1, 0.6, 0.2, 0.1], [0.1, 0.3, 0.6, 0.1], [0.1, 0.3, 0.3, 0.3]]
    )
    mask = causal_mask(4, 4)
    assert (scores.masked_fill(~mask, INF)[~mask] == INF).all() and int((~mask).sum()) == 6
    weights = masked_softmax(scores, mask)
    assert (weights.triu(1) == 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(4))
    exponentials = [math.exp(0.1), math.exp(0.6)]  # row 2 sees 0.1 and 0.6
    torch.testing.assert_close(weights[1, :2], torch.tensor([x / sum(exponentials) for x in exponentials]))


def test_M7_scaled_scores_have_variance_one() -> None:
    generator = torch.Generator().manual_seed(0)
    for width in (4, 64):
        query = torch.randn(20_000, 1, width, generator=generator)
        keys = torch.randn(20_000, 1, width, generator=generator)
        scaled = float(ScaledDotScore(width, width)(query, keys).var())
        plain = float(make_score("dot", width, width)(query, keys).var())
        assert abs(scaled - 1) < 0.06
        assert abs(plain / width - 1) < 0.06


def test_M4_general_score_with_an_identity_matrix_equals_the_dot_score() -> None:
    score = GeneralScore(3, 3)
    torch.nn.init.eye_(score.weight.weight)
    query, keys = torch.randn(2, 5, 3), torch.randn(2, 4, 3)
    expected = make_score("dot", 3, 3)(query, keys)
    torch.testing.assert_close(score(query, score.prepare(keys)), expected)


@pytest.mark.parametrize("name", sorted(SCORES))
@pytest.mark.parametrize("fused", [False, True])
def test_M1_M8_attention_is_masked_normalised_and_order_independent(name: str, fused: bool) -> None:
    torch.manual_seed(1)
    score = make_score(name, 6, 6)
    query, keys, values = torch.randn(2, 3, 6), torch.randn(2, 5, 6), torch.randn(2, 5, 4)
    mask = torch.tensor([[True, True, True, False, False], [True, False, True, True, True]])[:, None]

    context, weights = attend(query, score.prepare(keys), values, score, mask, need_weights=not fused)
    if weights is not None:
        assert weights.shape == (2, 3, 5)
        assert (weights[~mask.expand_as(weights)] == 0).all()
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3))
        torch.testing.assert_close(context, weights @ values)

    order = torch.randperm(5)
    if score.reads_keys:  # the order of keys and values does not matter
        permuted, _ = attend(
            query, score.prepare(keys[:, order]), values[:, order], score, mask[..., order],
            need_weights=not fused,
        )  # fmt: skip
    else:  # a score of positions depends only on the order: other keys change nothing
        permuted, _ = attend(
            query, score.prepare(keys[:, order]), values, score, mask, need_weights=not fused
        )
    torch.testing.assert_close(permuted, context)

    # Masked values have no influence.
    changed = values.clone()
    changed[0, 3:] = 1e6
    unchanged, _ = attend(query, score.prepare(keys), changed, score, mask, need_weights=not fused)
    torch.testing.assert_close(unchanged, context)


@pytest.mark.parametrize("name", sorted(SCORES))
def test_M1_gradients_match_finite_differences(name: str) -> None:
    torch.manual_seed(2)
    score = make_score(name, 3, 3).double()
    inputs = [torch.randn(2, n, 3, dtype=torch.float64, requires_grad=True) for n in (2, 4, 4)]
    mask = causal_mask(2, 4)

    def run(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return attend(query, score.prepare(keys), values, score, mask, need_weights=True)[0]

    assert torch.autograd.gradcheck(run, inputs)


@given(
    batch=st.integers(1, 3), heads=st.integers(1, 3), target=st.integers(1, 5), source=st.integers(1, 6),
    width=st.integers(1, 8), seed=st.integers(0, 2**31),
)  # fmt: skip
def test_M8_fused_attention_equals_explicit_attention(batch, heads, target, source, width, seed) -> None:
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(batch, heads, target, width, generator=generator)
    keys = torch.randn(batch, heads, source, width, generator=generator)
    values = torch.randn(batch, heads, source, width, generator=generator)
    mask = torch.rand(batch, 1, target, source, generator=generator) < 0.6
    score = ScaledDotScore(width, width)
    fused, fused_weights = attend(query, keys, values, score, mask)
    explicit, weights = attend(query, keys, values, score, mask, need_weights=True)
    assert fused_weights is None and weights is not None
    torch.testing.assert_close(fused, explicit, **tolerance(explicit))
    fully_masked = ~mask.any(-1, keepdim=True).expand_as(fused)
    assert (fused[fully_masked] == 0).all() and (explicit[fully_masked] == 0).all()


@pytest.mark.parametrize("need_weights", [False, True])
def test_M8_fully_masked_row_gives_zeros_and_finite_gradients(need_weights: bool) -> None:
    query, keys, values = (torch.randn(1, 1, 2, 4, requires_grad=True) for _ in range(3))
    mask = torch.tensor([[True, True], [False, False]])
    context, _ = attend(query, keys, values, ScaledDotScore(4, 4), mask, need_weights=need_weights)
    assert (context[0, 0, 1] == 0).all()
    context.sum().backward()
    assert all(torch.isfinite(x.grad).all() for x in (query, keys, values))


def test_M10_one_head_with_identity_projections_is_plain_attention() -> None:
    attention = MultiHeadAttention(4, 1)
    with torch.no_grad():
        for weight in (attention.query.weight, attention.output.weight):
            weight.copy_(torch.eye(4))
        attention.key_value.weight.copy_(torch.eye(4).repeat(2, 1))
    x, memory = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    out, _ = attention(x, attention.project(memory))
    expected = torch.softmax(x @ memory.transpose(1, 2) / 2, -1) @ memory
    torch.testing.assert_close(out, expected)


def test_M10_heads_are_concatenated_in_order() -> None:
    torch.manual_seed(3)
    attention = MultiHeadAttention(6, 3).eval()
    x, memory = torch.randn(1, 2, 6), torch.randn(1, 4, 6)
    out, weights = attention(x, attention.project(memory), need_weights=True)
    key, value = attention.key_value.weight.chunk(2)
    heads = []
    for head in range(3):
        rows = slice(2 * head, 2 * head + 2)
        query = x @ attention.query.weight[rows].T
        scores = query @ (memory @ key[rows].T).transpose(1, 2) / math.sqrt(2)
        heads.append(torch.softmax(scores, -1) @ (memory @ value[rows].T))
        torch.testing.assert_close(weights[:, head], torch.softmax(scores, -1))
    torch.testing.assert_close(out, torch.cat(heads, -1) @ attention.output.weight.T)


def test_invalid_attention_scores_are_rejected() -> None:
    with pytest.raises(SettingsError, match=r"'cosine'.*scaled_dot"):
        make_score("cosine", 4, 4)
    with pytest.raises(SettingsError, match="equal width, not 4 and 5"):
        make_score("dot", 4, 5)
