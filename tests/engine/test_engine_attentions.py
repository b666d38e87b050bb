"""Attention matrices recorded by the engine and by torch: agreement and properties."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from native_models import SYMBOLS, native_model, random_model, sentences, transformer_settings
from precision import tolerance
from prompted_models import decoder_only_settings, prompts, random_decoder

from uwaga.decoder import Choice
from uwaga.engine.cpu import available_isas
from uwaga.errors import DataError, SettingsError, TextTooLongError
from uwaga.results.attention import Attentions, select_head
from uwaga.settings import DecoderOnlySettings, TransformerSettings

pytestmark = pytest.mark.numerical

BASE = TransformerSettings(
    encoder_layers=3, decoder_layers=2, width=24, heads=2, feed_forward=36, max_length=24, dropout=0.0
)
MODEL = random_model(BASE, spread=2.0)
SSRU = random_model(BASE.model_copy(update={"self_attention": "ssru"}))
RELATIVE = random_model(BASE.model_copy(update={"positions": "relative"}))
SOURCES = sentences(7, seed=3)
INPUTS = [[SYMBOLS.start, *source[:-1][::-1]] for source in sentences(7, seed=4)]
PRECISIONS = ["float32", "bfloat16", "int8"]


def tables(attentions: Attentions):
    return {name: table for name, table in vars(attentions).items() if table is not None}


def check_attentions(attentions: Attentions) -> None:
    for name, table in tables(attentions).items():
        assert table.dtype == np.float32 and (table >= 0).all(), name
        np.testing.assert_allclose(table.sum(-1), 1.0, **tolerance(1.0))
    if attentions.decoder is not None:  # later tokens have a weight of exactly 0
        assert not np.triu(attentions.decoder, 1).any()


def check_equal(actual: list[Attentions], expected: list[Attentions], bound: float = 1e-4) -> None:
    for actual_attentions, expected_attentions in zip(actual, expected, strict=True):
        actual_tables, expected_tables = tables(actual_attentions), tables(expected_attentions)
        assert {name: table.shape for name, table in actual_tables.items()} == {
            name: table.shape for name, table in expected_tables.items()
        }
        assert (
            max(np.abs(actual_tables[name] - expected_tables[name]).max() for name in actual_tables) < bound
        )


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(transformer_settings(), st.integers(0, 1000))
@example(BASE, 0)
def test_M10_recorded_attentions_match_torch(shape, seed):
    model = random_model(shape, seed)
    sources = sentences(3, seed)
    inputs = [[SYMBOLS.start, *target] for target in sentences(3, seed + 1)]
    actual, expected = native_model(model).attentions(sources, inputs), model.attentions(sources, inputs)
    check_equal(actual, expected)
    for attentions in (*actual, *expected):
        check_attentions(attentions)
        assert (attentions.decoder is None) == (shape.self_attention == "ssru")


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(decoder_only_settings(), st.integers(0, 1000))
def test_M10_M18_attentions_of_decoder_only_models_match_torch(shape, seed):
    model = random_decoder(shape, seed)
    sources, inputs = prompts(3, seed), [[SYMBOLS.start, 5, 4], [SYMBOLS.start], [SYMBOLS.start, 7]]
    actual, expected = native_model(model).attentions(sources, inputs), model.attentions(sources, inputs)
    check_equal(actual, expected)
    for attentions, prompt, target in zip(actual, sources, inputs, strict=True):
        check_attentions(attentions)
        length = len(prompt) + len(target) - 1
        assert attentions.decoder.shape == (shape.layers, shape.heads, length, length)
        assert attentions.encoder is attentions.cross is None


@pytest.mark.parametrize("isa", available_isas())
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("model", [MODEL, SSRU, RELATIVE], ids=["attention", "ssru", "relative"])
def test_M21_recorded_attention_equals_stepwise_attention(model, precision, isa):
    """The cross-attention of the last layer depends on all layers below it."""
    engine = native_model(model, precision, isa=isa)
    for source, inputs, attentions in zip(SOURCES, INPUTS, engine.attentions(SOURCES, INPUTS), strict=True):
        check_attentions(attentions)
        state, rows = engine.start(engine.encode([source]), 1), []
        for token in inputs:
            step = engine.step(np.array([token]), state, Choice(1, attention=True))
            state, rows = step.state, [*rows, step.attention[0]]
        total = np.zeros_like(attentions.cross[-1, 0])
        for head in attentions.cross[-1]:
            total += head
        assert np.array_equal(total / np.float32(len(attentions.cross[-1])), np.stack(rows))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("threads", [1, 3])
def test_attentions_do_not_depend_on_the_batch(precision, threads):
    engine, single = native_model(MODEL, precision, threads), native_model(MODEL, precision)
    batch_attentions = engine.attentions(SOURCES * 30, INPUTS * 30)
    for index, (source, inputs) in enumerate(zip(SOURCES, INPUTS, strict=True)):
        [attentions] = single.attentions([source], [inputs])
        assert attentions == batch_attentions[index] == batch_attentions[index + 29 * len(SOURCES)]


def test_attentions_in_torch_do_not_depend_on_padding():
    for model in (MODEL, RELATIVE):
        batch_attentions = model.record(SOURCES, INPUTS)
        check_equal(model.attentions(SOURCES * 9, INPUTS * 9), batch_attentions * 9, 1e-5)
        separate = [
            model.attentions([source], [inputs])[0] for source, inputs in zip(SOURCES, INPUTS, strict=True)
        ]
        check_equal(batch_attentions, separate, 1e-5)
        for attentions in batch_attentions:
            check_attentions(attentions)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_recording_attention_does_not_change_steps(precision):
    engine = native_model(MODEL, precision)
    recorder = engine.recording(True)
    memory, recorded_memory = engine.encode(SOURCES), recorder.encode(SOURCES)
    assert memory.lengths.tolist() == recorded_memory.lengths.tolist()
    states = [engine.start(memory, 1), recorder.start(recorded_memory, 1)]
    tokens = np.full(len(SOURCES), SYMBOLS.start)
    for _ in range(4):
        step = engine.step(tokens, states[0], Choice(3))
        recorded_step = recorder.step(tokens, states[1], Choice(3))
        assert np.array_equal(step.tokens, recorded_step.tokens) and np.array_equal(
            step.log_probs, recorded_step.log_probs
        )
        states, tokens = [step.state, recorded_step.state], step.tokens[:, 0]
    calls = []
    recorder.encode = lambda sources: calls.append(sources)
    assert recorder.attentions(SOURCES, INPUTS) == engine.attentions(SOURCES, INPUTS)
    assert calls == []


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(transformer_settings(), st.integers(0, 1000), st.sampled_from(PRECISIONS), st.integers(1, 3))
@example(BASE, 0, "float32", 1)
def test_recording_one_cross_attention_head_gives_the_same_values_as_recording_all(
    shape, seed, precision, threads
):
    engine = native_model(random_model(shape, seed), precision, threads=threads)
    sources, inputs = sentences(5, seed), [[SYMBOLS.start, *target] for target in sentences(5, seed + 1)]
    all_attentions = [result.cross for result in engine.attentions(sources, inputs)]
    layers, heads = all_attentions[0].shape[:2]
    for layer in range(-2, layers):
        for head in (None, *range(heads)):
            results = engine.cross_attention(sources, inputs, layer, head)
            for result, cross in zip(results, all_attentions, strict=True):
                assert np.array_equal(result, select_head(cross, layer, head))
    recorder = engine.recording(False)
    recorder.encode(sources[:3])
    repeated = recorder.cross_attention(sources, inputs, 0, 0)
    assert all(map(np.array_equal, repeated, engine.cross_attention(sources, inputs, 0, 0)))


def test_M10_recording_one_head_in_torch_gives_the_same_values_as_recording_all():
    for model in (MODEL, SSRU, RELATIVE):
        all_attentions = [result.cross for result in model.attentions(SOURCES, INPUTS)]
        for layer, head in ((0, 1), (1, None), (-2, 0), (-9, None)):
            for result, cross in zip(
                model.cross_attention(SOURCES, INPUTS, layer, head), all_attentions, strict=True
            ):
                assert np.array_equal(result, select_head(cross, layer, head))


def test_nonexistent_layers_and_heads_are_rejected():
    for model in (MODEL, native_model(MODEL)):
        for layer, head, message in ((2, 0, "layer 3"), (0, 2, "head 3"), (0, -1, "head 0")):
            with pytest.raises(SettingsError, match=message):
                model.cross_attention(SOURCES, INPUTS, layer, head)
    with pytest.raises(DataError, match="outside the"):
        native_model(MODEL).cross_attention([[99]], [[2]], 0, 0)


def test_cross_attention_of_decoder_only_models_covers_the_prompt():
    shape = DecoderOnlySettings(layers=2, width=8, heads=2, feed_forward=8, max_length=12)
    model = native_model(random_decoder(shape))
    prompt, inputs = [3, 4, 5], [3, 6, 7]
    [attentions] = model.attentions([prompt], [inputs])
    [cross] = model.cross_attention([prompt], [inputs], 1, 0)
    np.testing.assert_array_equal(cross, attentions.decoder[1, 0, 2:, :3])
    np.testing.assert_allclose(cross[0].sum(), 1, rtol=1e-5)
    with pytest.raises(SettingsError, match="layer 3"):
        model.cross_attention([prompt], [inputs], 2, 0)


def test_invalid_attention_recording_requests_are_rejected():
    engine = native_model(MODEL)
    assert engine.attentions([], []) == MODEL.attentions([], []) == []
    with pytest.raises(DataError, match="target 1: no tokens"):
        engine.attentions([SOURCES[0]], [[]])
    with pytest.raises(DataError, match="sentence 1: no tokens"):
        engine.attentions([[]], [[2]])
    for source, target in ((99, 2), (5, 99), (5, -1)):
        with pytest.raises(DataError, match="outside the"):
            engine.attentions([[source, 3]], [[target]])
    with pytest.raises(TextTooLongError, match=r"target 1: 25 tokens, .*at most 24"):
        engine.attentions([[5, 3]], [[2] * 25])
    with pytest.raises(TextTooLongError, match="at most 24"):
        engine.attentions([[5] * 25], [[2]])
    other = native_model(MODEL)
    with pytest.raises(ValueError, match="another model"):
        other._core.attentions([engine.encode([[5, 3]])], [0], [[2]])
    with pytest.raises(ValueError, match="no such sentence"):
        engine._core.attentions([engine.encode([[5, 3]])], [1], [[2]])
    with pytest.raises(ValueError, match="one memory and sentence"):
        engine._core.attentions([], [], [[2]])


@pytest.mark.slow
def test_M18_attentions_of_a_gpt2_sized_model_match_torch():
    shape = DecoderOnlySettings(
        layers=12, width=768, heads=12, feed_forward=3072, max_length=64, norm="pre", activation="gelu_tanh"
    )
    model = random_decoder(shape, vocabulary=50)
    text = [np.random.default_rng(1).integers(0, 50, 30).tolist()]
    with torch.inference_mode():
        [expected] = model.attentions(text, [[2]])
    [actual] = native_model(model).attentions(text, [[2]])
    assert actual.decoder.shape == (12, 12, 30, 30)
    check_equal([actual], [expected])
    check_attentions(actual)
