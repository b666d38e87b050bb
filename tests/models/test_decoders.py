"""Laws of today's decoders (M18, M37 to M41), against the formulas written out in numpy, in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from precision import EXACT

from uwaga.decoder import Choice, Symbols
from uwaga.engine.interventions import Heads, Positions
from uwaga.models.blocks import norm
from uwaga.models.decoder_only import DecoderOnly
from uwaga.models.interventions import with_interventions
from uwaga.models.layers.feedforward import FeedForward
from uwaga.models.layers.multihead import EditedAttention, MultiHeadAttention
from uwaga.models.layers.rotary import RotaryPositions, rotate
from uwaga.models.layers.scores import CappedScore, ScaledDotScore
from uwaga.settings import DecoderOnlySettings, RotarySettings

pytestmark = pytest.mark.numerical

Array = NDArray[np.float64]
SYMBOLS = Symbols(start=2, end=3, pad=0, unknown=1)
VOCABULARY = 29
LLAMA: dict[str, Any] = {
    "layers": 3,
    "width": 24,
    "heads": 4,
    "key_value_heads": 2,
    "head_width": 8,
    "feed_forward": 20,
    "max_length": 40,
    "norm": "pre",
    "norm_kind": "rms",
    "gated": True,
    "activation": "silu",
    "attention_bias": False,
    "feed_forward_bias": False,
    "embedding_scale": False,
    "positions": "rotary",
    "rotary": {"base": 100.0},
    "dropout": 0.0,
}
GEMMA2 = {
    "norm": "both",
    "activation": "gelu_tanh",
    "embedding_scale": True,
    "window": 4,
    "global_every": 2,
    "score_scale": 0.4,
    "score_cap": 2.0,
    "logit_cap": 3.0,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "gpt2": {
        **{"positions": "learned", "rotary": None, "key_value_heads": None, "norm_kind": "layer"},
        **{"gated": False, "activation": "gelu_tanh", "attention_bias": True, "feed_forward_bias": True},
    },
    "llama": {},
    "llama3": {
        "rotary": {
            **{"scaling": "llama3", "factor": 8.0, "original_length": 16, "base": 100.0},
            **{"low_frequency_factor": 1.0, "high_frequency_factor": 4.0},
        },
    },
    "yarn": {"rotary": {"scaling": "yarn", "factor": 4.0, "original_length": 16, "base": 100.0}},
    "multi-query": {"key_value_heads": 1},
    "mistral": {"window": 3, "global_every": 0},
    "qwen2": {"attention_bias": True, "output_projection_bias": False},
    "qwen3": {"query_key_norm": "before"},
    "hunyuan": {"query_key_norm": "after"},
    "gemma2": GEMMA2,
    "gemma3": GEMMA2
    | {"score_cap": None, "logit_cap": None, "query_key_norm": "before", "local_rotary": {"base": 9.0}},
}
each_variant = pytest.mark.parametrize("name", VARIANTS)


def settings(name: str = "llama", **changes: Any) -> DecoderOnlySettings:
    return DecoderOnlySettings.model_validate(LLAMA | VARIANTS[name] | changes)


def make(shape: DecoderOnlySettings) -> DecoderOnly:
    """A model in float64 whose norms and biases are not at rest."""
    torch.manual_seed(5)
    model = DecoderOnly(shape, SYMBOLS, VOCABULARY).double().eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 1:
                weight.copy_(0.5 * torch.randn_like(weight) + (0.0 if name.endswith("bias") else 1.0))
            elif "attention" in name:
                weight *= 2.0  # weights that are far from uniform
    return model


def read(model: DecoderOnly, tokens: list[int]) -> Array:
    """The log-probabilities (position, vocabulary) after each token of one text."""
    with torch.no_grad():
        return torch.log_softmax(model.logits(model.read(torch.tensor([tokens]))), -1)[0].numpy()


def by_hand(model: DecoderOnly, tokens: list[int]) -> Array:
    """The same, by loops over heads, positions and pairs."""
    shape, weights = model.settings, {name: w.detach().numpy() for name, w in model.state_dict().items()}
    head_width, each = shape.size_of_head, shape.heads // shape.groups

    def normed(x: Array, name: str) -> Array:
        if shape.norm_kind == "layer" and not name.endswith(("query_norm", "key_norm")):
            x = x - x.mean()
            x = x / math.sqrt((x**2).mean() + shape.norm_epsilon)
            return x * weights[f"{name}.weight"] + weights[f"{name}.bias"]
        return x / math.sqrt((x**2).mean() + shape.norm_epsilon) * weights[f"{name}.weight"]

    def linear(x: Array, name: str) -> Array:
        return x @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", 0.0)

    def turned(x: Array, position: int, layer: int) -> Array:
        rotary = shape.rotary_of(layer)
        if rotary is None:
            return x
        angles = position * rotary.frequencies(head_width, shape.max_length)
        pairs = (x[: head_width // 2] + 1j * x[head_width // 2 :]) * np.exp(1j * angles)
        return np.concatenate([pairs.real, pairs.imag]) * rotary.score_factor

    def placed(x: Array, position: int, layer: int, part: str) -> Array:
        name = f"decoder.{layer}.attention.{part}_norm"
        if shape.query_key_norm == "before":
            x = normed(x, name)
        x = turned(x, position, layer)
        return normed(x, name) if shape.query_key_norm == "after" else x

    def attended(x: Array, layer: int) -> Array:
        name = f"decoder.{layer}.attention"
        queries = linear(x, f"{name}.query").reshape(len(x), shape.heads, head_width)
        both = linear(x, f"{name}.key_value").reshape(len(x), 2, shape.groups, head_width)
        scale = shape.score_scale or head_width**-0.5
        out = np.zeros((len(x), shape.heads, head_width))
        for at in range(len(x)):
            first = max(0, at + 1 - (shape.window or 0)) if shape.local(layer) else 0
            for head in range(shape.heads):
                query = placed(queries[at, head], at, layer, "query")
                keys = [placed(both[j, 0, head // each], j, layer, "key") for j in range(first, at + 1)]
                scores = scale * np.array([query @ key for key in keys])
                if shape.score_cap:
                    scores = shape.score_cap * np.tanh(scores / shape.score_cap)
                shares = np.exp(scores) / np.exp(scores).sum()
                out[at, head] = shares @ both[first : at + 1, 1, head // each]
        return linear(out.reshape(len(x), -1), f"{name}.output")

    def fed_forward(x: Array, layer: int) -> Array:
        name = f"decoder.{layer}.feed_forward"
        hidden = linear(x, f"{name}.inner")
        if shape.activation == "silu":
            hidden = hidden / (1 + np.exp(-hidden))
        else:
            inner = math.sqrt(2 / math.pi) * (hidden + 0.044715 * hidden**3)
            hidden = 0.5 * hidden * (1 + np.tanh(inner))
        if shape.gated:
            hidden = hidden * linear(x, f"{name}.gate")
        return linear(hidden, f"{name}.outer")

    x = weights["embedding.weight"][tokens] * (math.sqrt(shape.width) if shape.embedding_scale else 1.0)
    if shape.positions == "learned":
        x = x + weights["positions.weight"][: len(tokens)]
    for layer in range(shape.layers):
        for part, sublayer in (("attention", attended), ("feed_forward", fed_forward)):
            name = f"decoder.{layer}.{part}"
            branch = sublayer(np.stack([normed(row, f"{name}_norm") for row in x]), layer)
            if shape.norm == "both":
                branch = np.stack([normed(row, f"{name}_after_norm") for row in branch])
            x = x + branch
    logits = np.stack([normed(row, "decoder_norm") for row in x]) @ weights["output_weight"].T
    if shape.logit_cap:
        logits = shape.logit_cap * np.tanh(logits / shape.logit_cap)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


@each_variant
def test_M18_a_model_is_its_formulas(name: str) -> None:
    tokens = [5, 9, 2, 7, 7, 28, 11, 4, 16]
    model = make(settings(name))
    np.testing.assert_allclose(read(model, tokens), by_hand(model, tokens), **EXACT)


@each_variant
def test_M20_steps_equal_teacher_forcing_with_prompts_of_any_length(name: str) -> None:
    model = make(settings(name))
    prompts = [[5, 6, 7, 8, 4, 9], [9], [9, 10, 0, 12]]  # a padding symbol inside is a token
    target = torch.tensor([[2, 11, 12, 13, 4], [2, 14, 15, 16, 5], [2, 7, 7, 7, 7]])
    padded = torch.tensor([row + [0] * (6 - len(row)) for row in prompts])
    with torch.no_grad():
        together = model(padded, target).numpy()
    for row, prompt in enumerate(prompts):  # a text alone
        alone = read(model, prompt + target[row, 1:].tolist())[len(prompt) - 1 :]
        np.testing.assert_allclose(together[row], alone, **EXACT)
    state = model.start(model.encode(prompts), 2)
    for position in range(5):
        step = model.step(
            np.repeat(target[:, position].numpy(), 2), state, Choice(VOCABULARY, all_tokens=True)
        )
        np.testing.assert_allclose(step.log_probs, together[:, position].repeat(2, axis=0), **EXACT)
        state = step.state if position != 2 else step.state.reorder(np.array([1, 0, 3, 2, 5, 4]))


@each_variant
def test_M8_recorded_weights_are_exactly_zero_where_a_token_may_not_attend(name: str) -> None:
    shape = settings(name)
    model = make(shape)
    found, shorter = model.attentions([[5, 6, 7, 8, 4, 9], [9, 8]], [[2, 11, 12, 13, 4], [2, 7]])
    assert found.decoder is not None
    assert shorter.decoder is not None
    assert found.decoder.shape == (3, 4, 10, 10)
    assert shorter.decoder.shape == (3, 4, 3, 3)
    for layer in range(shape.layers):
        back = np.arange(10)[:, None] - np.arange(10)
        seen = (back >= 0) & (back < (shape.window if shape.window and shape.local(layer) else 10))
        assert (found.decoder[layer][:, ~seen] == 0).all()
        assert (found.decoder[layer][:, seen] > 0).all()
    np.testing.assert_allclose(found.decoder.sum(-1), 1, rtol=1e-6)


@pytest.mark.parametrize("scaling", ["llama", "llama3", "yarn"])
def test_M37_a_rotated_product_depends_on_the_distance_alone(scaling: str) -> None:
    rotary = settings(scaling).rotary
    assert rotary is not None
    positions = RotaryPositions(rotary, 8, 40)
    torch.manual_seed(1)
    query, key = torch.randn(2, 1, 1, 1, 8, dtype=torch.float64)

    def product(at: int, other: int) -> float:
        turned = [
            rotate(x, positions(torch.tensor([[place]]), x.dtype)) for x, place in ((query, at), (key, other))
        ]
        return float((turned[0] * turned[1]).sum())

    for distance in (0, 1, 7):
        products = [product(at + distance, at) for at in (0, 3, 31, 100_000)]
        np.testing.assert_allclose(products, products[0], rtol=1e-9)
    assert abs(product(7, 0) - product(0, 7)) > 1e-3  # and on its sign
    plain = float((query * key).sum())
    assert product(5, 5) == pytest.approx(plain * rotary.score_factor**2, rel=1e-12)


def test_M37_a_pair_is_turned_as_a_complex_number() -> None:
    positions = RotaryPositions(RotarySettings(base=100.0), 4, 9)
    x = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64).expand(1, 1, 1, 4)
    [found] = rotate(x, positions(torch.tensor([[6]]), x.dtype)).reshape(1, 4).numpy()
    first, second = (1 + 3j) * np.exp(6j), (2 + 4j) * np.exp(6j / 10)  # θ = 100^0 and 100^(-2/4)
    np.testing.assert_allclose(found, [first.real, second.real, first.imag, second.imag], rtol=1e-12)


def test_M37_a_model_without_other_positions_sees_the_order() -> None:
    model = make(settings())
    one, other = read(model, [5, 6, 7, 8]), read(model, [6, 5, 7, 8])
    assert np.abs(one[-1] - other[-1]).max() > 1e-3


@pytest.mark.parametrize("groups", [1, 2])
def test_M38_grouped_attention_is_attention_with_repeated_heads(groups: int) -> None:
    grouped, plain = make(settings(key_value_heads=groups)), make(settings(key_value_heads=4))
    state = grouped.state_dict()
    for name, weight in state.items():
        if name.endswith("key_value.weight"):
            parts = weight.view(2, groups, 8, 24).repeat_interleave(4 // groups, dim=1)
            state[name] = parts.reshape(64, 24)
    plain.load_state_dict(state)
    tokens = [5, 9, 2, 7, 7, 28]
    np.testing.assert_allclose(read(grouped, tokens), read(plain, tokens), **EXACT)
    kept = grouped.encode([tokens]).layers[0]
    assert kept.keys.shape == kept.values.shape == (1, groups, 5, 8)


def test_M39_rms_norm_by_hand() -> None:
    layer = norm(settings(norm_epsilon=0.5)).double()
    assert [name for name, _ in layer.named_parameters()] == ["weight"]
    with torch.no_grad():
        layer.weight.copy_(torch.linspace(-1, 2, 24))
    x = torch.linspace(3, 9, 24, dtype=torch.float64)
    wanted = x / ((x**2).sum() / 24 + 0.5).sqrt() * torch.linspace(-1, 2, 24).double()
    torch.testing.assert_close(layer(x), wanted, **EXACT)
    assert float((layer(x + 10) - layer(x)).detach().abs().max()) > 1e-3  # the mean is not taken off
    torch.testing.assert_close(
        norm(settings(norm_epsilon=1e-30)).double()(7 * x), norm(settings(norm_epsilon=1e-30)).double()(x)
    )


@pytest.mark.parametrize("kind", ["silu", "gelu", "gelu_tanh"])
def test_M40_gated_feed_forward_by_hand(kind: Any) -> None:
    torch.manual_seed(3)
    layer = FeedForward(6, 10, kind, True, 0.0, bias=False).double().eval()
    assert layer.gate is not None
    x = torch.randn(5, 6, dtype=torch.float64)
    inner = x @ layer.inner.weight.T
    active = {
        "silu": inner * torch.sigmoid(inner),
        "gelu": inner * 0.5 * (1 + torch.erf(inner / math.sqrt(2))),
        "gelu_tanh": inner * 0.5 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (inner + 0.044715 * inner**3))),
    }[kind]
    wanted = (active * (x @ layer.gate.weight.T)) @ layer.outer.weight.T
    torch.testing.assert_close(layer(x), wanted, **EXACT)


def test_M41_a_window_is_a_mask_and_a_wide_one_is_none() -> None:
    tokens = [5, 9, 2, 7, 7, 28, 11, 4]
    local, whole = make(settings(layers=1, window=3, global_every=0)), make(settings(layers=1))
    wide = make(settings(layers=1, window=8, global_every=0))
    np.testing.assert_allclose(read(wide, tokens), read(whole, tokens), **EXACT)
    moved = [1, 2, 3, 4, 5, *tokens[5:]]
    # One local layer: the last token depends on three tokens, whatever comes before them.
    np.testing.assert_allclose(read(local, moved)[-1], read(local, tokens)[-1], **EXACT)
    assert np.abs(read(whole, moved)[-1] - read(whole, tokens)[-1]).max() > 1e-3
    # Two of them: on five.
    deeper = make(settings(layers=2, window=3, global_every=0))
    np.testing.assert_allclose(read(deeper, [1, 2, 3, *tokens[3:]])[-1], read(deeper, tokens)[-1], **EXACT)
    assert np.abs(read(deeper, [*tokens[:3], 1, *tokens[4:]])[-1] - read(deeper, tokens)[-1]).max() > 1e-6


def test_M41_normed_queries_and_keys_do_not_grow_with_their_weights() -> None:
    tokens = [5, 9, 2, 7, 7, 28]
    for name in ("qwen3", "hunyuan"):
        model = make(settings(name, norm_epsilon=1e-30))
        before = read(model, tokens)
        with torch.no_grad():
            for block in model.decoder:
                block.attention.query.weight *= 7.0
                block.attention.key_value.weight[:16] *= 0.1
        np.testing.assert_allclose(read(model, tokens), before, **EXACT)


def test_M41_caps_bound_scores_and_logits_and_keep_their_order() -> None:
    score = CappedScore(ScaledDotScore(8, 8), 5.0)
    torch.manual_seed(2)
    query, keys = 30 * torch.randn(1, 8, dtype=torch.float64), torch.randn(6, 8, dtype=torch.float64)
    plain, found = score.score(query, keys), score(query, score.prepare(keys))
    torch.testing.assert_close(found, 5 * torch.tanh(plain / 5), **EXACT)
    assert float(found.abs().max()) <= 5 < float(plain.abs().max())
    small = score(query * 1e-6, keys)
    torch.testing.assert_close(small, score.score(query * 1e-6, keys), atol=0, rtol=1e-9)
    shape = settings("gemma2")
    capped, free = make(shape), make(shape.model_copy(update={"logit_cap": None}))
    with torch.no_grad():
        features = 9 * capped.read(torch.tensor([[5, 6, 7]]))
        bounded, logits = capped.logits(features), free.logits(features)
    torch.testing.assert_close(bounded, 3 * torch.tanh(logits / 3), **EXACT)
    assert float(bounded.abs().max()) <= 3 < float(logits.abs().max())


@each_variant
def test_edited_attention_without_edits_is_the_plain_one(name: str) -> None:
    model = make(settings(name))
    tokens = [5, 9, 2, 7, 7, 28]
    before = read(model, tokens)
    for block in model.decoder:
        plain = block.attention
        assert isinstance(plain, MultiHeadAttention)
        block.attention = EditedAttention(plain)
        block.attention.scales.append((slice(None), plain.scale))
    np.testing.assert_allclose(read(model, tokens), before, **EXACT)
    for block in model.decoder:
        block.attention.scales.append((slice(0, 1), 0.0))
    assert np.abs(read(model, tokens) - before).max() > 1e-6


@pytest.mark.parametrize("name", ["llama", "gemma3"])
def test_interventions_know_positions_windows_and_rotations(name: str) -> None:
    shape = settings(name)
    model = make(shape)
    prompts, fed = [[5, 9, 2, 7, 7, 28], [4, 8]], [[2, 6, 5], [2, 9]]
    uniform = with_interventions(model, [Heads("decoder", None, 2, "uniform")])
    for found in uniform.attentions(prompts, fed):
        assert found.decoder is not None
        for layer, weights in enumerate(found.decoder[:, 1]):
            window = shape.window if shape.window and shape.local(layer) else len(weights)
            for at, row in enumerate(weights):
                seen = (np.arange(len(row)) <= at) & (np.arange(len(row)) > at - window)
                np.testing.assert_allclose(row, seen / seen.sum(), atol=1e-6)
    # Rotations of all positions by as much change nothing, and others do.
    tokens = torch.tensor([[5, 9, 2, 7, 7, 28]])
    for places, same in (((7, 8, 9, 10, 11, 12), True), ((0, 2, 1, 3, 4, 5), False)):
        moved = with_interventions(model, [Positions("target", places)])
        with torch.no_grad():
            apart = float((moved.read(tokens) - model.read(tokens)).abs().max())
        assert (apart < 1e-9) is same


@each_variant
def test_gradients_reach_every_weight(name: str) -> None:
    model = make(settings(name)).train()
    loss = model(torch.tensor([[5, 6, 7, 8], [9, 3, 0, 0]]), torch.tensor([[2, 11, 12], [2, 4, 5]])).sum()
    loss.backward()
    assert [n for n, w in model.named_parameters() if w.grad is None or not bool((w.grad != 0).any())] == []
