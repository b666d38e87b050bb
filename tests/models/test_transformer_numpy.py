"""The Transformer equals a numpy implementation of the paper's equations (M16; Vaswani 2017 §3)."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from precision import EXACT

from uwaga.decoder import Symbols
from uwaga.models.transformer import Transformer
from uwaga.settings import TransformerSettings

pytestmark = pytest.mark.numerical

Weights = dict[str, np.ndarray]
WIDTH, HEADS, LAYERS = 8, 2, 2
SOURCE, TARGET = [5, 6, 7, 8, 3], [2, 11, 12, 13]


def softmax(x: np.ndarray) -> np.ndarray:
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def linear(w: Weights, name: str, x: np.ndarray) -> np.ndarray:
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def layer_norm(w: Weights, name: str, x: np.ndarray) -> np.ndarray:
    centred = x - x.mean(axis=-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
    return scaled * w[f"{name}.weight"] + w[f"{name}.bias"]


def multi_head(w: Weights, name: str, x: np.ndarray, source: np.ndarray, causal: bool) -> np.ndarray:
    """Return multi-head attention (§3.2.1 and §3.2.2), computed one head at a time."""
    q, (k, v) = linear(w, f"{name}.query", x), np.split(linear(w, f"{name}.key_value", source), 2, axis=-1)
    d_k, heads = WIDTH // HEADS, []
    for head in range(HEADS):
        part = slice(head * d_k, (head + 1) * d_k)
        scores = q[:, part] @ k[:, part].T / np.sqrt(d_k)  # (target, source)
        if causal:
            scores = np.where(np.tri(len(x), dtype=bool), scores, -np.inf)
        heads.append(softmax(scores) @ v[:, part])
    return linear(w, f"{name}.output", np.concatenate(heads, axis=-1))


def feed_forward(w: Weights, name: str, x: np.ndarray) -> np.ndarray:
    return linear(w, f"{name}.outer", np.maximum(0, linear(w, f"{name}.inner", x)))  # §3.3


def position_vector(position: int) -> np.ndarray:
    """Return the positional encoding of a position (§3.5)."""
    angles = [position / 10000 ** (2 * i / WIDTH) for i in range(WIDTH // 2)]
    return np.array([f(angle) for angle in angles for f in (np.sin, np.cos)])


def embed(table: np.ndarray, tokens: list[int]) -> np.ndarray:
    """Return the sums of embeddings and positional encodings (§3.4 and §3.5)."""
    return np.stack(
        [table[token] * np.sqrt(WIDTH) + position_vector(position) for position, token in enumerate(tokens)]
    )


def transformer(w: Weights, pre: bool) -> np.ndarray:
    """Return log-probabilities (target, vocabulary)."""

    def sublayer(x: np.ndarray, norm: str, inner: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        return x + inner(layer_norm(w, norm, x)) if pre else layer_norm(w, norm, x + inner(x))

    table = w["source_embedding.weight"]  # shared by source, target and output
    x = embed(table, SOURCE)
    for layer in range(LAYERS):
        block = f"encoder.{layer}"
        x = sublayer(
            x,
            f"{block}.attention_norm",
            lambda x, block=block: multi_head(w, f"{block}.attention", x, x, False),
        )
        x = sublayer(
            x,
            f"{block}.feed_forward_norm",
            lambda x, block=block: feed_forward(w, f"{block}.feed_forward", x),
        )
    memory = layer_norm(w, "encoder_norm", x) if pre else x
    y = embed(table, TARGET)
    for layer in range(LAYERS):
        block = f"decoder.{layer}"
        y = sublayer(
            y,
            f"{block}.self_attention_norm",
            lambda y, block=block: multi_head(w, f"{block}.self_attention", y, y, True),
        )
        y = sublayer(
            y,
            f"{block}.cross_attention_norm",
            lambda y, block=block: multi_head(w, f"{block}.cross_attention", y, memory, False),
        )
        y = sublayer(
            y,
            f"{block}.feed_forward_norm",
            lambda y, block=block: feed_forward(w, f"{block}.feed_forward", y),
        )
    y = layer_norm(w, "decoder_norm", y) if pre else y
    return np.log(softmax(y @ table.T))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_M16_transformer_matches_numpy(norm: str) -> None:
    torch.manual_seed(3)
    settings = TransformerSettings(
        encoder_layers=LAYERS, decoder_layers=LAYERS, width=WIDTH, heads=HEADS, feed_forward=12, norm=norm
    )
    model = Transformer(settings, Symbols(start=2, end=3, pad=0, unknown=1), 20, 20).eval().double()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:  # biases and norms away from zero and one
                parameter.add_(torch.randn_like(parameter) * 0.3)
        exact = torch.from_numpy(
            np.stack([position_vector(position) for position in range(settings.max_length)])
        )
        for positions in (model.source_positions, model.target_positions):
            torch.testing.assert_close(positions.table, exact, atol=1e-6, rtol=0)  # stored in float32
            positions.table.copy_(exact)
        actual = model(torch.tensor([SOURCE]), torch.tensor([TARGET]))[0].numpy()
    w = {name: value.numpy() for name, value in model.state_dict().items()}
    np.testing.assert_allclose(actual, transformer(w, norm == "pre"), **EXACT)


def test_M16_default_settings_match_the_base_model_of_the_paper() -> None:
    """Table 3: N = 6, d_model = 512, d_ff = 2048, h = 8, d_k = 64, P_drop = 0.1."""
    base = TransformerSettings()
    assert (base.encoder_layers, base.decoder_layers, base.width, base.feed_forward) == (6, 6, 512, 2048)
    assert (base.heads, base.width // base.heads, base.dropout) == (8, 64, 0.1)
    assert (base.norm, base.positions, base.embedding_scale, base.tie) == ("post", "sinusoidal", True, "all")
