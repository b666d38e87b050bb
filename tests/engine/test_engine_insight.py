"""Internal activations of a translation equal those of torch, and exactly those of single steps."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from native_models import SYMBOLS, native_model, random_model, sentences, transformer_settings
from prompted_models import random_decoder

import uwaga
from uwaga.engine.interventions import Heads
from uwaga.engine.layout import Sizes
from uwaga.errors import DataError, SettingsError, TextTooLongError
from uwaga.inspection import look_inside
from uwaga.models.base import pad
from uwaga.settings import DecoderOnlySettings, TransformerSettings
from uwaga.translator.score import step_scorer
from uwaga.translator.text import TokenPair

pytestmark = pytest.mark.numerical

BASE = TransformerSettings(
    encoder_layers=3, decoder_layers=2, width=24, heads=2, feed_forward=36, max_length=24, dropout=0.0
)
MODEL = random_model(BASE, spread=2.0)
[SOURCE], [TARGET] = sentences(1, seed=3), sentences(1, seed=4)
INPUTS = [SYMBOLS.start, *TARGET[:-1]]


def array_names(shape):
    """Return the names of all activations of a model with the given settings, in order of computation."""
    sizes, names = Sizes.from_settings(shape), []
    attention = ("query", "key", "value", "scores", "weights", "context", "attention")
    with_source = not isinstance(shape, DecoderOnlySettings)
    if with_source:
        names.append("encoder.embedding")
        for layer in range(1, sizes.encoder_layers + 1):
            names += [f"encoder.{layer}.{name}" for name in (*attention, "feed_forward")]
        names.append("encoder.output")
    names.append("decoder.embedding")
    ssru = getattr(shape, "self_attention", "attention") == "ssru"
    for layer in range(1, sizes.decoder_layers + 1):
        names += [f"decoder.{layer}.{name}" for name in (("recurrence",) if ssru else attention)]
        names += [f"cross.{layer}.{name}" for name in (attention if with_source else ())]
        names.append(f"decoder.{layer}.feed_forward")
    return [*names, "decoder.output", "logits"]


def softmax(scores):
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def torch_outputs(model, source, inputs):
    """Return outputs of torch's layers by activation name: projections, block outputs and logits."""
    outputs = {}

    def store_output(name, heads=None, part=None):
        def hook(module, arguments, output):
            rows = (output[0] if isinstance(output, tuple) else output)[0].detach()
            if heads is not None:
                rows = rows.chunk(2, -1)[part] if part is not None else rows
                rows = rows.unflatten(-1, (heads, -1)).transpose(0, 1)
            outputs.setdefault(name, rows.numpy())

        return hook

    shape, hooks = model.settings, []
    blocks = [("encoder", "attention", model.encoder, shape.heads)]
    decoder_heads = shape.decoder_heads or shape.heads
    if shape.self_attention == "attention":
        blocks.append(("decoder", "self_attention", model.decoder, decoder_heads))
    blocks.append(("cross", "cross_attention", model.decoder, decoder_heads))
    for kind, attribute, layers, heads in blocks:
        for layer_number, block in enumerate(layers, start=1):
            layer = getattr(block, attribute)
            hooks.append(
                layer.query.register_forward_hook(store_output(f"{kind}.{layer_number}.query", heads))
            )
            for part, name in enumerate(("key", "value")):
                hooks.append(
                    layer.key_value.register_forward_hook(
                        store_output(f"{kind}.{layer_number}.{name}", heads, part)
                    )
                )
    with torch.inference_mode():
        tensors = (pad([row], SYMBOLS.pad, model.device) for row in (source, inputs))
        outputs["logits"] = model.logits(model.features(*tensors))[0].numpy()
    for hook in hooks:
        hook.remove()
    return outputs


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(transformer_settings(), st.integers(0, 1000))
def test_recorded_activations_match_torch_and_single_steps(shape, seed):
    model = random_model(shape, seed)
    [source], [target] = sentences(1, seed), sentences(1, seed + 1)
    inputs, engine = [SYMBOLS.start, *target[:-1]], native_model(model)
    arrays = engine.insight(source, inputs)
    assert list(arrays) == array_names(shape)
    for name, expected in torch_outputs(model, source, inputs).items():
        scale = max(1.0, float(np.abs(expected).max()))
        np.testing.assert_allclose(arrays[name] / scale, expected / scale, atol=1e-4, err_msg=name)
    [attentions] = engine.attentions([source], [inputs])
    for kind in ("encoder", "decoder", "cross"):
        matrices = getattr(attentions, kind)
        for layer in range(0 if matrices is None else len(matrices)):
            name = f"{kind}.{layer + 1}"
            assert np.array_equal(arrays[f"{name}.weights"], matrices[layer])
            np.testing.assert_allclose(softmax(arrays[f"{name}.scores"]), matrices[layer], atol=1e-4)
            context = matrices[layer] @ arrays[f"{name}.value"]
            np.testing.assert_allclose(
                arrays[f"{name}.context"], context, atol=1e-4 * max(1, np.abs(context).max())
            )
    [scores] = step_scorer(engine)([TokenPair(source, target)])
    log_probs = np.log(softmax(arrays["logits"].astype(np.float64)))
    np.testing.assert_allclose(log_probs[np.arange(len(target)), target], scores, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_low_precision_activations_equal_separately_recorded_attention(precision):
    engine = native_model(MODEL, precision)
    arrays, [attentions] = engine.insight(SOURCE, INPUTS), engine.attentions([SOURCE], [INPUTS])
    for layer in range(2):
        for kind in ("decoder", "cross"):
            name = f"{kind}.{layer + 1}"
            assert np.array_equal(arrays[f"{name}.weights"], getattr(attentions, kind)[layer])
            np.testing.assert_allclose(
                softmax(arrays[f"{name}.scores"]), arrays[f"{name}.weights"], atol=1e-4
            )


def test_recorded_activations_reflect_edits():
    edited = native_model(MODEL).with_interventions(
        Heads("encoder", 1, 1, "silent"), Heads("cross", 2, 2, scale=0.0)
    )
    arrays, plain = edited.insight(SOURCE, INPUTS), native_model(MODEL).insight(SOURCE, INPUTS)
    assert not arrays["encoder.1.weights"][0].any() and not arrays["encoder.1.context"][0].any()
    assert not arrays["cross.2.scores"][1].any()
    assert np.array_equal(arrays["encoder.1.scores"], plain["encoder.1.scores"])


def test_selected_activations_equal_those_of_a_request_for_all():
    engine = native_model(MODEL)
    all_arrays = engine.insight(SOURCE, INPUTS)
    selected = engine.insight(SOURCE, INPUTS, ["cross.2", "encoder.1.weights", "logits"])
    assert list(selected) == [name for name in all_arrays if name in selected] and len(selected) == 9
    assert all(np.array_equal(selected[name], all_arrays[name]) for name in selected)


def test_activations_of_decoder_only_models_include_attention():
    shape = DecoderOnlySettings(layers=2, width=24, heads=2, feed_forward=36, max_length=40, dropout=0.0)
    engine = native_model(random_decoder(shape, 1))
    arrays = engine.insight([], [5, 7, 4, 9])
    assert list(arrays) == array_names(shape)
    [attentions] = engine.attentions([[5]], [[SYMBOLS.start, 7, 4, 9]])
    assert np.array_equal(arrays["decoder.2.weights"], attentions.decoder[1])


def test_invalid_activation_requests_are_rejected():
    engine = native_model(MODEL)
    with pytest.raises(
        SettingsError, match=r"no array has the name 'cross.3'; the model has encoder.embedding"
    ):
        engine.insight(SOURCE, INPUTS, ["cross.3"])
    with pytest.raises(SettingsError, match=r"encoder.1.key: the selected arrays take more than 2000 bytes"):
        engine.insight(SOURCE, INPUTS, max_bytes=2000)
    with pytest.raises(TextTooLongError):
        engine.insight(SOURCE, INPUTS * 30)
    with pytest.raises(DataError):
        engine.insight(SOURCE, [999])
    with pytest.raises(DataError):
        engine.insight([], INPUTS)


def test_look_inside_returns_activations_of_a_translation():
    translator = uwaga.load()
    insight = look_inside(translator, "The dog sleeps.", names=["cross.2.weights", "logits"])
    assert insight.arrays["cross.2.weights"].shape == (4, len(insight.fed), len(insight.source))
    best = insight.arrays["logits"].argmax(-1)
    assert list(translator.target.pieces(best.tolist())) == list(insight.predicted)  # as in greedy search
    with pytest.raises(SettingsError, match="engine='native'"):
        look_inside(uwaga.Translator.load(engine="torch"), "The dog sleeps.")
