"""Decoder-only models and their layers (M18, M37 to M41) against numpy formulas in float64."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from precision import EXACT

from uwaga.decoder import Choice, Symbols
from uwaga.engine.interventions import Heads, Positions
from uwaga.models.blocks import make_norm
from uwaga.models.decoder_only import DecoderOnly
from uwaga.models.interventions import scale_scores, with_interventions
from uwaga.models.layers.feedforward import FeedForward
from uwaga.models.layers.multihead import MultiHeadAttention
from uwaga.models.layers.rotary import RotaryPositions, rotate
from uwaga.models.layers.scores import CappedScore, ScaledDotScore
from uwaga.settings import DecoderOnlySettings, RotarySettings

pytestmark = pytest.mark.numerical

Array = NDArray[np.float64]
SYMBOLS = Symbols(start=2, end=3, pad=0, unknown=1)
VOCABULARY = 29
LLAMA: dict[str, Any] = {
    "layers": 3, "width": 24, "heads": 4, "key_value_heads": 2, "head_width": 8, "feed_forward": 20,
    "max_length": 40, "norm": "pre", "norm_kind": "rms", "gated": True, "activation": "silu",
    "attention_bias": False, "feed_forward_bias": False, "embedding_scale": False, "positions": "rotary",
    "rotary": {"base": 100.0}, "dropout": 0.0,
}  # fmt: skip
GEMMA2 = {
    "norm": "both", "activation": "gelu_tanh", "embedding_scale": True, "window": 4, "global_every": 2,
    "score_scale": 0.4, "score_cap": 2.0, "logit_cap": 3.0,
}  # fmt: skip
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
        }
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
    """Return a float64 model with random norms and biases."""
    torch.manual_seed(5)
    model = DecoderOnly(shape, SYMBOLS, VOCABULARY).double().eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 1:
                weight.copy_(0.5 * torch.randn_like(weight) + (0.0 if name.endswith("bias") else 1.0))
            elif "attention" in name:
                weight *= 2.0  # weights that are far from uniform
    return model


def text_log_probs(model: DecoderOnly, tokens: list[int]) -> Array:
    """Return the log-probabilities (position, vocabulary) after each token of a text."""
    with torch.no_grad():
        return torch.log_softmax(model.logits(model.read(torch.tensor([tokens]))), -1)[0].numpy()


def numpy_log_probs(model: DecoderOnly, tokens: list[int]) -> Array:
    """Compute :func:`text_log_probs` with loops over heads, positions and pairs."""
    shape, weights = model.settings, {name: w.detach().numpy() for name, w in model.state_dict().items()}
    head_width, group_size = shape.head_size, shape.heads // shape.groups

    def normalise(x: Array, name: str) -> Array:
        if shape.norm_kind == "layer" and not name.endswith(("query_norm", "key_norm")):
            x = x - x.mean()
            x = x / math.sqrt((x**2).mean() + shape.norm_epsilon)
            return x * weights[f"{name}.weight"] + weights[f"{name}.bias"]
        return x / math.sqrt((x**2).mean() + shape.norm_epsilon) * weights[f"{name}.weight"]

    def linear(x: Array, name: str) -> Array:
        return x @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", 0.0)

    def rotated(x: Array, position: int, layer: int) -> Array:
        rotary = shape.layer_rotary(layer)
        if rotary is None:
            return x
        angles = position * rotary.frequencies(head_width, shape.max_length)
        pairs = (x[: head_width // 2] + 1j * x[head_width // 2 :]) * np.exp(1j * angles)
        return np.concatenate([pairs.real, pairs.imag]) * rotary.score_factor

    def prepare(x: Array, position: int, layer: int, part: str) -> Array:
        name = f"decoder.{layer}.attention.{part}_norm"
        if shape.query_key_norm == "before":
            x = normalise(x, name)
        x = rotated(x, position, layer)
        return normalise(x, name) if shape.query_key_norm == "after" else x

    def attention(x: Array, layer: int) -> Array:
        name = f"decoder.{layer}.attention"
        queries = linear(x, f"{name}.query").reshape(len(x), shape.heads, head_width)
        keys_values = linear(x, f"{name}.key_value").reshape(len(x), 2, shape.groups, head_width)
        scale = shape.score_scale or head_width**-0.5
        out = np.zeros((len(x), shape.heads, head_width))
        for position in range(len(x)):
            first = max(0, position + 1 - (shape.window or 0)) if shape.is_local(layer) else 0
            for head in range(shape.heads):
                query = prepare(queries[position, head], position, layer, "query")
                keys = [
                    prepare(keys_values[j, 0, head // group_size], j, layer, "key")
                    for j in range(first, position + 1)
                ]
                scores = scale * np.array([query @ key for key in keys])
                if shape.score_cap:
                    scores = shape.score_cap * np.tanh(scores / shape.score_cap)
                weights_ = np.exp(scores) / np.exp(scores).sum()
                out[position, head] = weights_ @ keys_values[first : position + 1, 1, head // group_size]
        return linear(out.reshape(len(x), -1), f"{name}.output")

    def feed_forward(x: Array, layer: int) -> Array:
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
        for part, sublayer in (("attention", attention), ("feed_forward", feed_forward)):
            name = f"decoder.{layer}.{part}"
            branch = sublayer(np.stack([normalise(row, f"{name}_norm") for row in x]), layer)
            if shape.norm == "both":
                branch = np.stack([normalise(row, f"{name}_after_norm") for row in branch])
            x = x + branch
    logits = np.stack([normalise(row, "decoder_norm") for row in x]) @ weights["output_weight"].T
    if shape.logit_cap:
        logits = shape.logit_cap * np.tanh(logits / shape.logit_cap)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


@each_variant
def test_M18_decoder_only_models_match_numpy(name: str) -> None:
    tokens = [5, 9, 2, 7, 7, 28, 11, 4, 16]
    model = make(settings(name))
    np.testing.assert_allclose(text_log_probs(model, tokens), numpy_log_probs(model, tokens), **EXACT)


@each_variant
def test_M20_steps_match_teacher_forcing_after_prompts(name: str) -> None:
    model = make(settings(name))
    prompts = [[5, 6, 7, 8, 4, 9], [9], [9, 10, 0, 12]]  # a padding symbol inside is a token
    target = torch.tensor([[2, 11, 12, 13, 4], [2, 14, 15, 16, 5], [2, 7, 7, 7, 7]])
    padded = torch.tensor([row + [0] * (6 - len(row)) for row in prompts])
    with torch.no_grad():
        log_probs = model(padded, target).numpy()
    for row, prompt in enumerate(prompts):  # a single text
        expected = text_log_probs(model, prompt + target[row, 1:].tolist())[len(prompt) - 1 :]
        np.testing.assert_allclose(log_probs[row], expected, **EXACT)
    state = model.start(model.encode(prompts), 2)
    for position in range(5):
        step = model.step(
            np.repeat(target[:, position].numpy(), 2), state, Choice(VOCABULARY, all_tokens=True)
        )
        np.testing.assert_allclose(step.log_probs, log_probs[:, position].repeat(2, axis=0), **EXACT)
        state = step.state if position != 2 else step.state.reorder(np.array([1, 0, 3, 2, 5, 4]))


@each_variant
def test_M8_recorded_weights_are_zero_on_masked_positions(name: str) -> None:
    shape = settings(name)
    model = make(shape)
    longer, shorter = model.attentions([[5, 6, 7, 8, 4, 9], [9, 8]], [[2, 11, 12, 13, 4], [2, 7]])
    assert longer.decoder is not None
    assert shorter.decoder is not None
    assert longer.decoder.shape == (3, 4, 10, 10)
    assert shorter.decoder.shape == (3, 4, 3, 3)
    for layer in range(shape.layers):
        distance = np.arange(10)[:, None] - np.arange(10)
        visible = (distance >= 0) & (
            distance < (shape.window if shape.window and shape.is_local(layer) else 10)
        )
        assert (longer.decoder[layer][:, ~visible] == 0).all()
        assert (longer.decoder[layer][:, visible] > 0).all()
    np.testing.assert_allclose(longer.decoder.sum(-1), 1, rtol=1e-6)


@pytest.mark.parametrize("scaling", ["llama", "llama3", "yarn"])
def test_M37_rotated_product_depends_only_on_the_distance(scaling: str) -> None:
    rotary = settings(scaling).rotary
    assert rotary is not None
    positions = RotaryPositions(rotary, 8, 40)
    torch.manual_seed(1)
    query, key = torch.randn(2, 1, 1, 1, 8, dtype=torch.float64)

    def product(query_position: int, key_position: int) -> float:
        rotated = [
            rotate(x, positions(torch.tensor([[position]]), x.dtype))
            for x, position in ((query, query_position), (key, key_position))
        ]
        return float((rotated[0] * rotated[1]).sum())

    for distance in (0, 1, 7):
        products = [product(position + distance, position) for position in (0, 3, 31, 100_000)]
        np.testing.assert_allclose(products, products[0], rtol=1e-9)
    assert abs(product(7, 0) - product(0, 7)) > 1e-3  # and on its sign
    plain = float((query * key).sum())
    assert product(5, 5) == pytest.approx(plain * rotary.score_factor**2, rel=1e-12)


def test_M37_dimension_pairs_rotate_like_complex_numbers() -> None:
    positions = RotaryPositions(RotarySettings(base=100.0), 4, 9)
    x = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64).expand(1, 1, 1, 4)
    [rotated] = rotate(x, positions(torch.tensor([[6]]), x.dtype)).reshape(1, 4).numpy()
    first, second = (1 + 3j) * np.exp(6j), (2 + 4j) * np.exp(6j / 10)  # θ = 100^0 and 100^(-2/4)
    np.testing.assert_allclose(rotated, [first.real, second.real, first.imag, second.imag], rtol=1e-12)


def test_M37_outputs_of_a_rotary_model_depend_on_the_order_of_the_tokens() -> None:
    model = make(settings())
    log_probs, swapped = text_log_probs(model, [5, 6, 7, 8]), text_log_probs(model, [6, 5, 7, 8])
    assert np.abs(log_probs[-1] - swapped[-1]).max() > 1e-3


@pytest.mark.parametrize("groups", [1, 2])
def test_M38_grouped_attention_matches_repeated_heads(groups: int) -> None:
    grouped, plain = make(settings(key_value_heads=groups)), make(settings(key_value_heads=4))
    state = grouped.state_dict()
    for name, weight in state.items():
        if name.endswith("key_value.weight"):
            parts = weight.view(2, groups, 8, 24).repeat_interleave(4 // groups, dim=1)
            state[name] = parts.reshape(64, 24)
    plain.load_state_dict(state)
    tokens = [5, 9, 2, 7, 7, 28]
    np.testing.assert_allclose(text_log_probs(grouped, tokens), text_log_probs(plain, tokens), **EXACT)
    cache = grouped.encode([tokens]).layers[0]
    assert cache.keys.shape == cache.values.shape == (1, groups, 5, 8)


def test_M39_rms_norm_matches_its_formula() -> None:
    layer = make_norm(settings(norm_epsilon=0.5)).double()
    assert [name for name, _ in layer.named_parameters()] == ["weight"]
    with torch.no_grad():
        layer.weight.copy_(torch.linspace(-1, 2, 24))
    x = torch.linspace(3, 9, 24, dtype=torch.float64)
    expected = x / ((x**2).sum() / 24 + 0.5).sqrt() * torch.linspace(-1, 2, 24).double()
    torch.testing.assert_close(layer(x), expected, **EXACT)
    assert float((layer(x + 10) - layer(x)).detach().abs().max()) > 1e-3  # the mean is not subtracted
    torch.testing.assert_close(
        make_norm(settings(norm_epsilon=1e-30)).double()(7 * x),
        make_norm(settings(norm_epsilon=1e-30)).double()(x),
    )


@pytest.mark.parametrize("kind", ["silu", "gelu", "gelu_tanh"])
def test_M40_gated_feed_forward_matches_its_formula(kind: Any) -> None:
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
    expected = (active * (x @ layer.gate.weight.T)) @ layer.outer.weight.T
    torch.testing.assert_close(layer(x), expected, **EXACT)


def test_M41_attention_window_masks_distant_tokens() -> None:
    tokens = [5, 9, 2, 7, 7, 28, 11, 4]
    local, unlimited = make(settings(layers=1, window=3, global_every=0)), make(settings(layers=1))
    wide = make(settings(layers=1, window=8, global_every=0))
    np.testing.assert_allclose(text_log_probs(wide, tokens), text_log_probs(unlimited, tokens), **EXACT)
    changed = [1, 2, 3, 4, 5, *tokens[5:]]
    # One local layer: the last token depends on three tokens only.
    np.testing.assert_allclose(text_log_probs(local, changed)[-1], text_log_probs(local, tokens)[-1], **EXACT)
    assert np.abs(text_log_probs(unlimited, changed)[-1] - text_log_probs(unlimited, tokens)[-1]).max() > 1e-3
    # Two local layers: it depends on five.
    deeper = make(settings(layers=2, window=3, global_every=0))
    np.testing.assert_allclose(
        text_log_probs(deeper, [1, 2, 3, *tokens[3:]])[-1], text_log_probs(deeper, tokens)[-1], **EXACT
    )
    assert (
        np.abs(
            text_log_probs(deeper, [*tokens[:3], 1, *tokens[4:]])[-1] - text_log_probs(deeper, tokens)[-1]
        ).max()
        > 1e-6
    )


def test_M41_query_key_norm_makes_scores_independent_of_the_scale_of_the_weights() -> None:
    tokens = [5, 9, 2, 7, 7, 28]
    for name in ("qwen3", "hunyuan"):
        model = make(settings(name, norm_epsilon=1e-30))
        before = text_log_probs(model, tokens)
        with torch.no_grad():
            for block in model.decoder:
                block.attention.query.weight *= 7.0
                block.attention.key_value.weight[:16] *= 0.1
        np.testing.assert_allclose(text_log_probs(model, tokens), before, **EXACT)


def test_M41_soft_caps_bound_attention_scores_and_logits() -> None:
    score = CappedScore(ScaledDotScore(8, 8), 5.0)
    torch.manual_seed(2)
    query, keys = 30 * torch.randn(1, 8, dtype=torch.float64), torch.randn(6, 8, dtype=torch.float64)
    plain, capped_scores = score.score(query, keys), score(query, score.prepare(keys))
    torch.testing.assert_close(capped_scores, 5 * torch.tanh(plain / 5), **EXACT)
    assert float(capped_scores.abs().max()) <= 5 < float(plain.abs().max())
    small = score(query * 1e-6, keys)
    torch.testing.assert_close(small, score.score(query * 1e-6, keys), atol=0, rtol=1e-9)
    shape = settings("gemma2")
    capped, uncapped = make(shape), make(shape.model_copy(update={"logit_cap": None}))
    with torch.no_grad():
        features = 9 * capped.read(torch.tensor([[5, 6, 7]]))
        bounded, logits = capped.logits(features), uncapped.logits(features)
    torch.testing.assert_close(bounded, 3 * torch.tanh(logits / 3), **EXACT)
    assert float(bounded.abs().max()) <= 3 < float(logits.abs().max())


@each_variant
def test_attention_with_identity_edits_is_unchanged(name: str) -> None:
    model = make(settings(name))
    tokens = [5, 9, 2, 7, 7, 28]
    before = text_log_probs(model, tokens)
    for block in model.decoder:
        plain = block.attention
        assert isinstance(plain, MultiHeadAttention)
        plain.edits.append(lambda weights, mask: weights)
        scale_scores(plain, slice(None), plain.scale)
    np.testing.assert_allclose(text_log_probs(model, tokens), before, **EXACT)
    for block in model.decoder:
        scale_scores(block.attention, slice(0, 1), 0.0)
    assert np.abs(text_log_probs(model, tokens) - before).max() > 1e-6


@pytest.mark.parametrize("name", ["llama", "gemma3"])
def test_interventions_respect_windows_and_rotary_positions(name: str) -> None:
    shape = settings(name)
    model = make(shape)
    prompts, targets = [[5, 9, 2, 7, 7, 28], [4, 8]], [[2, 6, 5], [2, 9]]
    uniform = with_interventions(model, [Heads("decoder", None, 2, "uniform")])
    for attentions in uniform.attentions(prompts, targets):
        assert attentions.decoder is not None
        for layer, weights in enumerate(attentions.decoder[:, 1]):
            window = shape.window if shape.window and shape.is_local(layer) else len(weights)
            for query, row in enumerate(weights):
                visible = (np.arange(len(row)) <= query) & (np.arange(len(row)) > query - window)
                np.testing.assert_allclose(row, visible / visible.sum(), atol=1e-6)
    # Shifting all positions equally changes nothing; other changes do.
    tokens = torch.tensor([[5, 9, 2, 7, 7, 28]])
    for positions, unchanged in (((7, 8, 9, 10, 11, 12), True), ((0, 2, 1, 3, 4, 5), False)):
        edited = with_interventions(model, [Positions("target", positions)])
        with torch.no_grad():
            difference = float((edited.read(tokens) - model.read(tokens)).abs().max())
        assert (difference < 1e-9) is unchanged


@each_variant
def test_gradients_reach_all_weights_of_decoder_only_models(name: str) -> None:
    model = make(settings(name)).train()
    loss = model(torch.tensor([[5, 6, 7, 8], [9, 3, 0, 0]]), torch.tensor([[2, 11, 12], [2, 4, 5]])).sum()
    loss.backward()
    assert [n for n, w in model.named_parameters() if w.grad is None or not bool((w.grad != 0).any())] == []
