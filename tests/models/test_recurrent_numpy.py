"""Recurrent models equal numpy implementations of the papers' equations (M11 to M15)."""

import numpy as np
import pytest
import torch
from recurrent_variants import VARIANTS, make

from uwaga.decoder import Choice
from uwaga.settings.recurrent import PRESETS

pytestmark = pytest.mark.numerical

SOURCE = [5, 6, 7, 8, 2]
TARGET = [1, 11, 12, 13, 4]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def softmax(x: np.ndarray) -> np.ndarray:
    return np.exp(x - x.max()) / np.exp(x - x.max()).sum()


def model_and_weights(name: str) -> tuple[torch.nn.Module, dict[str, np.ndarray]]:
    model = make(VARIANTS[name], sharp=1.0).double()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.normal_(std=0.3, generator=torch.Generator().manual_seed(len(parameter)))
    return model, {key: value.detach().numpy() for key, value in model.state_dict().items()}


def gru(w: dict, name: str, x: np.ndarray, s: np.ndarray, form: str) -> np.ndarray:
    """Bahdanau 2014 §A.1.1: ``s' = (1 - z) s + z s̃``. torch stores the gates as r, 1 - z, s̃."""
    W, U = w[f"{name}.layer.weight_ih_l0"], w[f"{name}.layer.weight_hh_l0"]
    b, d = w[f"{name}.layer.bias_ih_l0"], w[f"{name}.layer.bias_hh_l0"]
    n = len(s)
    W_r, W_z, W_s = W[:n], -W[n : 2 * n], W[2 * n :]
    U_r, U_z, U_s = U[:n], -U[n : 2 * n], U[2 * n :]
    r = sigmoid(W_r @ x + U_r @ s + (b + d)[:n])
    z = sigmoid(W_z @ x + U_z @ s - (b + d)[n : 2 * n])
    if form == "paper":
        candidate = np.tanh(W_s @ x + U_s @ (r * s) + (b + d)[2 * n :])
    else:
        candidate = np.tanh(W_s @ x + b[2 * n :] + r * (U_s @ s + d[2 * n :]))
    return (1 - z) * s + z * candidate


def lstm(w: dict, name: str, x: np.ndarray, h: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    W, U = w[f"{name}.layer.weight_ih_l0"], w[f"{name}.layer.weight_hh_l0"]
    gates = W @ x + U @ h + w[f"{name}.layer.bias_ih_l0"] + w[f"{name}.layer.bias_hh_l0"]
    i, f, g, o = np.split(gates, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def check(model: torch.nn.Module, features: list[np.ndarray]) -> None:
    with torch.no_grad():
        actual = model.features(torch.tensor([SOURCE]), torch.tensor([TARGET]))[0].numpy()
    np.testing.assert_allclose(actual, np.stack(features), atol=1e-9, rtol=0)


@pytest.mark.parametrize("name", ["bahdanau", "bahdanau-conditional"])
def test_M13_bahdanau_model_matches_numpy(name: str) -> None:
    model, w = model_and_weights(name)
    form, conditional = VARIANTS[name].gru, VARIANTS[name].decoder == "conditional"
    x = [w["source_embedding.weight"][token] for token in SOURCE]
    forward_states, s = [], np.zeros(8)
    for word in x:
        s = gru(w, "forward_encoder", word, s, form)
        forward_states.append(s)
    backward_states, s = [], np.zeros(8)
    for word in x[::-1]:
        s = gru(w, "backward_encoder", word, s, form)
        backward_states.insert(0, s)
    h = [np.concatenate(pair) for pair in zip(forward_states, backward_states, strict=True)]
    s = np.tanh(w["bridge.weight"] @ backward_states[0] + w["bridge.bias"])  # s_0 = tanh(W_s ←h_1)
    features = []
    for token in TARGET:
        y = w["target_embedding.weight"][token]
        if conditional:
            s = gru(w, "inner", y, s, form)
        e = [
            w["score.vector"] @ np.tanh(w["score.query.weight"] @ s + w["score.key.weight"] @ h_j)
            for h_j in h
        ]
        c = sum(a * h_j for a, h_j in zip(softmax(np.array(e)), h, strict=True))
        s = gru(w, "decoder", c if conditional else np.concatenate([y, c]), s, form)
        t = w["read_out.inner.weight"] @ np.concatenate([s, y, c]) + w["read_out.inner.bias"]
        features.append(np.array([max(t[2 * j], t[2 * j + 1]) for j in range(len(t) // 2)]))
    check(model, features)


@pytest.mark.parametrize(("preset", "attends_first"), [("bahdanau-published", True), ("bahdanau", False)])
def test_M13_only_the_published_decoder_attends_before_reading_the_previous_word(preset, attends_first):
    """α_i depends on s_{i-1}: y_{i-1} changes later steps, but not the attention of step i."""
    settings = PRESETS[f"{preset}-small"]().model_copy(update={"hidden": 8, "embedding": 8, "read_out": 8})
    model = make(settings)
    state = model.start(model.encode([SOURCE]), 1)
    first, second = (model.step(np.array([token]), state, Choice(1, attention=True)) for token in (11, 12))
    assert (first.attention == second.attention).all() == attends_first
    later = [model.step(np.array([13]), step.state, Choice(1, attention=True)) for step in (first, second)]
    assert (later[0].attention != later[1].attention).any()


@pytest.mark.parametrize("name", ["cho", "cho-fused-reversed"])
def test_M11_cho_model_matches_numpy(name: str) -> None:
    model, w = model_and_weights(name)
    settings = VARIANTS[name]
    words = [*SOURCE[-2::-1], SOURCE[-1]] if settings.reverse else SOURCE
    h = np.zeros(8)
    for token in words:
        h = gru(w, "encoder", w["source_embedding.weight"][token], h, settings.gru)
    c = np.tanh(w["summary.weight"] @ h + w["summary.bias"])
    h = np.tanh(w["bridge.weight"] @ c + w["bridge.bias"])
    targets = w["source_embedding.weight" if settings.tie == "all" else "target_embedding.weight"]
    W, U = w["decoder.layer.weight_ih_l0"], w["decoder.layer.weight_hh_l0"]
    b, d = w["decoder.layer.bias_ih_l0"], w["decoder.layer.bias_hh_l0"]
    (W_r, W_z, W_n), (U_r, U_z, U_n) = np.split(W[:, :8], 3), np.split(U, 3)
    (C_r, C_z, C_n), (b_r, b_z, b_n), (d_r, d_z, d_n) = np.split(W[:, 8:], 3), np.split(b, 3), np.split(d, 3)
    features = []
    for token in TARGET:
        y = targets[token]
        r = sigmoid(W_r @ y + U_r @ h + C_r @ c + b_r + d_r)
        z = sigmoid(W_z @ y + U_z @ h + C_z @ c + b_z + d_z)
        if settings.gru == "paper":
            n = np.tanh(W_n @ y + b_n + r * (U_n @ h + d_n + C_n @ c))  # §A.1.2
        else:
            n = np.tanh(W_n @ y + C_n @ c + b_n + r * (U_n @ h + d_n))
        h = z * h + (1 - z) * n
        t = w["read_out.inner.weight"] @ np.concatenate([h, y, c]) + w["read_out.inner.bias"]
        features.append(np.maximum(t[::2], t[1::2]))
    check(model, features)


@pytest.mark.parametrize("name", ["luong", "luong-local-p", "luong-dot-unfed"])
def test_M14_luong_model_matches_numpy(name: str) -> None:
    model, w = model_and_weights(name)
    settings = VARIANTS[name]
    inputs = [
        w["source_embedding.weight"][token] for token in [*SOURCE[-2::-1], SOURCE[-1]]
    ]  # reversed words
    state = []
    for layer in range(settings.layers):
        h, c = np.zeros(8), np.zeros(8)
        outputs = []
        for x in inputs:
            h, c = lstm(w, f"encoder.layers.{layer}", x, h, c)
            outputs.append(h)
        inputs = outputs
        state.append((h, c))
    annotations = [*inputs[-2::-1], inputs[-1]]  # in the order of the source
    S = len(SOURCE)
    attentional = np.zeros(8)
    features = []
    for token in TARGET:
        x = w["target_embedding.weight"][token]
        if settings.input_feeding:
            x = np.concatenate([x, attentional])
        for layer in range(settings.layers):
            state[layer] = lstm(w, f"decoder.layers.{layer}", x, *state[layer])
            x = state[layer][0]
        W_a = np.eye(8) if settings.score == "dot" else w["score.weight.weight"]
        scores = np.array([x @ W_a @ h_s for h_s in annotations])  # eq. 8
        if settings.attention == "local-p":
            p = S * sigmoid(w["window.vector"] @ np.tanh(w["window.inner.weight"] @ x))  # eq. 9
            positions, D = np.arange(S), settings.window
            scores = np.where(np.abs(positions - p) <= D, scores, -np.inf)
            a = softmax(scores) * np.exp(-((positions - p) ** 2) / (2 * (D / 2) ** 2))  # eq. 10
        else:
            a = softmax(scores)
        context = sum(weight * h_s for weight, h_s in zip(a, annotations, strict=True))
        attentional = np.tanh(w["combine.weight"] @ np.concatenate([context, x]))  # eq. 5
        features.append(attentional)
    check(model, features)


def test_M12_sutskever_model_matches_numpy() -> None:
    """Reversed words and deep LSTMs; the decoder reads only the final state of each encoder layer (§3)."""
    model, w = model_and_weights("sutskever")
    layers = VARIANTS["sutskever"].layers
    state = [(np.zeros(8), np.zeros(8))] * layers
    for token in [*SOURCE[-2::-1], SOURCE[-1]]:
        x = w["source_embedding.weight"][token]
        for layer in range(layers):
            state[layer] = lstm(w, f"encoder.layers.{layer}", x, *state[layer])
            x = state[layer][0]
    features = []
    for token in TARGET:
        x = w["target_embedding.weight"][token]
        for layer in range(layers):
            state[layer] = lstm(w, f"decoder.layers.{layer}", x, *state[layer])
            x = state[layer][0]
        features.append(x)
    check(model, features)


def lstm_run(w: dict, name: str, xs: list[np.ndarray]) -> list[np.ndarray]:
    h, c, states = np.zeros(8), np.zeros(8), []
    for x in xs:
        h, c = lstm(w, name, x, h, c)
        states.append(h)
    return states


def test_M15_gnmt_model_matches_numpy() -> None:
    """Bidirectional layer 1, residuals from layer 3, attention from its previous output (Wu 2016 §3)."""
    model, w = model_and_weights("gnmt")
    settings = VARIANTS["gnmt"]
    words = [w["source_embedding.weight"][token] for token in SOURCE]
    forward_states, backward_states = lstm_run(w, "ahead", words), lstm_run(w, "back", words[::-1])[::-1]
    x = [np.concatenate(pair) for pair in zip(forward_states, backward_states, strict=True)]
    for layer in range(settings.encoder_layers - 1):  # layers 2, 3, ... of the encoder
        out = lstm_run(w, f"encoder.layers.{layer}", x)
        x = out if layer == 0 else [output + residual for output, residual in zip(out, x, strict=True)]
    bottom, upper = (np.zeros(8), np.zeros(8)), [(np.zeros(8), np.zeros(8))] * (settings.decoder_layers - 1)
    features = []
    for token in TARGET:
        scores = [
            w["score.vector"] @ np.tanh(w["score.query.weight"] @ bottom[0] + w["score.key.weight"] @ x_t)
            for x_t in x
        ]  # eq. 4, with the first layer's previous output
        a = sum(weight * x_t for weight, x_t in zip(softmax(np.array(scores)), x, strict=True))
        bottom = lstm(w, "bottom", np.concatenate([w["target_embedding.weight"][token], a]), *bottom)
        y = bottom[0]
        for layer in range(settings.decoder_layers - 1):
            upper[layer] = lstm(w, f"upper.layers.{layer}", np.concatenate([y, a]), *upper[layer])
            y = upper[layer][0] if layer == 0 else upper[layer][0] + y
        features.append(y)
    check(model, features)
