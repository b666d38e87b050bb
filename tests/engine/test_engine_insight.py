"""The arrays inside a translation: torch's numbers, and the bits of encoding and steps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from native_models import SYMBOLS, native, random_model, sentences, shapes
from prompted_models import native_decoder, random_decoder

import uwaga
from uwaga.engine.interventions import Heads
from uwaga.engine.layout import Sizes
from uwaga.errors import DataError, SettingsError, TextTooLongError
from uwaga.inspection import look_inside
from uwaga.models.base import pad
from uwaga.settings import DecoderOnlySettings, TransformerSettings
from uwaga.translator.score import step_scorer

pytestmark = pytest.mark.numerical

BASE = TransformerSettings(
    encoder_layers=3, decoder_layers=2, width=24, heads=2, feed_forward=36, max_length=24, dropout=0.0
)
MODEL = random_model(BASE, spread=2.0)
[SOURCE], [TARGET] = sentences(1, seed=3), sentences(1, seed=4)
FED = [SYMBOLS.start, *TARGET[:-1]]


def names_of(shape):
    """The names of all arrays of a model with these settings, in the order of the computation."""
    sizes, names = Sizes.of(shape), []
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
    raised = np.exp(scores - scores.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def outputs_of(model, source, fed):
    """Outputs of torch's layers by the names of insight: projections, encoder and decoder outputs, logits."""
    kept = {}

    def keep(name, heads=None, part=None):
        def hook(module, given, made):
            rows = (made[0] if isinstance(made, tuple) else made)[0].detach()
            if heads is not None:
                rows = rows.chunk(2, -1)[part] if part is not None else rows
                rows = rows.unflatten(-1, (heads, -1)).transpose(0, 1)
            kept.setdefault(name, rows.numpy())

        return hook

    shape, hooks = model.settings, []
    blocks = [("encoder", "attention", model.encoder, shape.heads)]
    decoder_heads = shape.decoder_heads or shape.heads
    if shape.self_attention == "attention":
        blocks.append(("decoder", "self_attention", model.decoder, decoder_heads))
    blocks.append(("cross", "cross_attention", model.decoder, decoder_heads))
    for kind, attribute, layers, heads in blocks:
        for number, block in enumerate(layers, start=1):
            layer = getattr(block, attribute)
            hooks.append(layer.query.register_forward_hook(keep(f"{kind}.{number}.query", heads)))
            for part, name in enumerate(("key", "value")):
                hooks.append(
                    layer.key_value.register_forward_hook(keep(f"{kind}.{number}.{name}", heads, part))
                )
    with torch.inference_mode():
        tensors = (pad([row], SYMBOLS.pad, model.device) for row in (source, fed))
        kept["logits"] = model.logits(model.features(*tensors))[0].numpy()
    for hook in hooks:
        hook.remove()
    return kept


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(shapes(), st.integers(0, 1000))
def test_the_arrays_are_those_of_torch_and_of_the_steps(shape, seed):
    model = random_model(shape, seed)
    [source], [target] = sentences(1, seed), sentences(1, seed + 1)
    fed, engine = [SYMBOLS.start, *target[:-1]], native(model)
    found = engine.insight(source, fed)
    assert list(found) == names_of(shape)
    for name, wanted in outputs_of(model, source, fed).items():
        scale = max(1.0, float(np.abs(wanted).max()))
        np.testing.assert_allclose(found[name] / scale, wanted / scale, atol=1e-4, err_msg=name)
    [maps] = engine.attentions([source], [fed])
    for kind in ("encoder", "decoder", "cross"):
        matrices = getattr(maps, kind)
        for layer in range(0 if matrices is None else len(matrices)):
            name = f"{kind}.{layer + 1}"
            assert np.array_equal(found[f"{name}.weights"], matrices[layer])
            np.testing.assert_allclose(softmax(found[f"{name}.scores"]), matrices[layer], atol=1e-4)
            context = matrices[layer] @ found[f"{name}.value"]
            np.testing.assert_allclose(
                found[f"{name}.context"], context, atol=1e-4 * max(1, np.abs(context).max())
            )
    [scores] = step_scorer(engine)([source], [target])
    log_probs = np.log(softmax(found["logits"].astype(np.float64)))
    np.testing.assert_allclose(log_probs[np.arange(len(target)), target], scores, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_weights_in_low_precision_are_those_of_the_steps(precision):
    engine = native(MODEL, precision)
    found, [maps] = engine.insight(SOURCE, FED), engine.attentions([SOURCE], [FED])
    for layer in range(2):
        for kind in ("decoder", "cross"):
            name = f"{kind}.{layer + 1}"
            assert np.array_equal(found[f"{name}.weights"], getattr(maps, kind)[layer])
            np.testing.assert_allclose(softmax(found[f"{name}.scores"]), found[f"{name}.weights"], atol=1e-4)


def test_edits_are_seen():
    edited = native(MODEL).edited(Heads("encoder", 1, 1, "silent"), Heads("cross", 2, 2, scale=0.0))
    found, plain = edited.insight(SOURCE, FED), native(MODEL).insight(SOURCE, FED)
    assert not found["encoder.1.weights"][0].any() and not found["encoder.1.context"][0].any()
    assert not found["cross.2.scores"][1].any()
    assert np.array_equal(found["encoder.1.scores"], plain["encoder.1.scores"])


def test_a_selection_is_part_of_the_whole():
    engine = native(MODEL)
    whole = engine.insight(SOURCE, FED)
    some = engine.insight(SOURCE, FED, ["cross.2", "encoder.1.weights", "logits"])
    assert list(some) == [name for name in whole if name in some] and len(some) == 9
    assert all(np.array_equal(some[name], whole[name]) for name in some)


def test_a_decoder_alone():
    shape = DecoderOnlySettings(layers=2, width=24, heads=2, feed_forward=36, max_length=40, dropout=0.0)
    engine = native_decoder(random_decoder(shape, 1))
    found = engine.insight([], [5, 7, 4, 9])
    assert list(found) == names_of(shape)
    [maps] = engine.attentions([[5]], [[SYMBOLS.start, 7, 4, 9]])
    assert np.array_equal(found["decoder.2.weights"], maps.decoder[1])


def test_what_cannot_be_given_is_refused():
    engine = native(MODEL)
    with pytest.raises(
        SettingsError, match=r"no array has the name 'cross.3'; the model has encoder.embedding"
    ):
        engine.insight(SOURCE, FED, ["cross.3"])
    with pytest.raises(SettingsError, match=r"encoder.1.key: the selected arrays take more than 2000 bytes"):
        engine.insight(SOURCE, FED, max_bytes=2000)
    with pytest.raises(TextTooLongError):
        engine.insight(SOURCE, FED * 30)
    with pytest.raises(DataError):
        engine.insight(SOURCE, [999])
    with pytest.raises(DataError):
        engine.insight([], FED)


def test_of_a_translation():
    translator = uwaga.load()
    found = look_inside(translator, "The dog sleeps.", names=["cross.2.weights", "logits"])
    assert found.arrays["cross.2.weights"].shape == (4, len(found.fed), len(found.source))
    best = found.arrays["logits"].argmax(-1)
    assert list(translator.target.pieces(best.tolist())) == list(found.predicted)  # greedy finds it, too
    with pytest.raises(SettingsError, match="engine='native'"):
        look_inside(uwaga.Translator.load(engine="torch"), "The dog sleeps.")
