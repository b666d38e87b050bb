"""Every attention matrix, from the engine and from torch: the same numbers, and the laws of attention."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from native_models import SYMBOLS, native, random_model, sentences, shapes
from precision import close_for
from prompted_models import decoder_only, native_decoder, prompts, random_decoder

from uwaga.decoder import Choice
from uwaga.engine.cpu import usable
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
FED = [[SYMBOLS.start, *one[:-1][::-1]] for one in sentences(7, seed=4)]
PRECISIONS = ["float32", "bfloat16", "int8"]


def tables(found: Attentions):
    return {name: one for name, one in vars(found).items() if one is not None}


def check_laws(found: Attentions) -> None:
    for name, table in tables(found).items():
        assert table.dtype == np.float32 and (table >= 0).all(), name
        np.testing.assert_allclose(table.sum(-1), 1.0, **close_for(1.0))
    if found.decoder is not None:  # what has not been read yet weighs exactly nothing
        assert not np.triu(found.decoder, 1).any()


def check_equal(ours: list[Attentions], theirs: list[Attentions], bound: float = 1e-4) -> None:
    for one, other in zip(ours, theirs, strict=True):
        mine, wanted = tables(one), tables(other)
        assert {name: table.shape for name, table in mine.items()} == {
            name: table.shape for name, table in wanted.items()
        }
        assert max(np.abs(mine[name] - wanted[name]).max() for name in mine) < bound


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(shapes(), st.integers(0, 1000))
@example(BASE, 0)
def test_M10_every_matrix_of_the_engine_is_torchs(shape, seed):
    model = random_model(shape, seed)
    sources, fed = sentences(3, seed), [[SYMBOLS.start, *one] for one in sentences(3, seed + 1)]
    ours, theirs = native(model).attentions(sources, fed), model.attentions(sources, fed)
    check_equal(ours, theirs)
    for one in (*ours, *theirs):
        check_laws(one)
        assert (one.decoder is None) == (shape.self_attention == "ssru")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(decoder_only(), st.integers(0, 1000))
def test_M10_M18_a_decoder_alone_too(shape, seed):
    model = random_decoder(shape, seed)
    given, fed = prompts(3, seed), [[SYMBOLS.start, 5, 4], [SYMBOLS.start], [SYMBOLS.start, 7]]
    ours, theirs = native_decoder(model).attentions(given, fed), model.attentions(given, fed)
    check_equal(ours, theirs)
    for one, prompt, target in zip(ours, given, fed, strict=True):
        check_laws(one)
        length = len(prompt) + len(target) - 1
        assert one.decoder.shape == (shape.layers, shape.heads, length, length)
        assert one.encoder is one.cross is None


@pytest.mark.parametrize("isa", usable())
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("model", [MODEL, SSRU, RELATIVE], ids=["attention", "ssru", "relative"])
def test_M21_what_is_recorded_is_what_the_steps_saw_to_the_bit(model, precision, isa):
    """The last layer's cross-attention reads all that lies below it."""
    engine = native(model, precision, isa=isa)
    for source, fed, found in zip(SOURCES, FED, engine.attentions(SOURCES, FED), strict=True):
        check_laws(found)
        state, rows = engine.start(engine.encode([source]), 1), []
        for token in fed:
            step = engine.step(np.array([token]), state, Choice(1, attention=True))
            state, rows = step.state, [*rows, step.attention[0]]
        total = np.zeros_like(found.cross[-1, 0])
        for head in found.cross[-1]:
            total += head
        assert np.array_equal(total / np.float32(len(found.cross[-1])), np.stack(rows))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("threads", [1, 3])
def test_a_sentence_is_recorded_the_same_alone_and_in_any_batch(precision, threads):
    engine, alone = native(MODEL, precision, threads), native(MODEL, precision)
    together = engine.attentions(SOURCES * 30, FED * 30)
    for at, (source, fed) in enumerate(zip(SOURCES, FED, strict=True)):
        [one] = alone.attentions([source], [fed])
        assert one == together[at] == together[at + 29 * len(SOURCES)]


def test_in_torch_padding_leaves_no_trace():
    for model in (MODEL, RELATIVE):
        together = model.record(SOURCES, FED)
        check_equal(model.attentions(SOURCES * 9, FED * 9), together * 9, 1e-5)
        alone = [model.attentions([one], [fed])[0] for one, fed in zip(SOURCES, FED, strict=True)]
        check_equal(together, alone, 1e-5)
        for one in together:
            check_laws(one)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_recording_model_encodes_once_and_the_same(precision):
    engine = native(MODEL, precision)
    recorder = engine.recording(True)
    plain, kept = engine.encode(SOURCES), recorder.encode(SOURCES)
    assert plain.lengths.tolist() == kept.lengths.tolist()
    states = [engine.start(plain, 1), recorder.start(kept, 1)]
    tokens = np.full(len(SOURCES), SYMBOLS.start)
    for _ in range(4):
        one, other = engine.step(tokens, states[0], Choice(3)), recorder.step(tokens, states[1], Choice(3))
        assert np.array_equal(one.tokens, other.tokens) and np.array_equal(one.log_probs, other.log_probs)
        states, tokens = [one.state, other.state], one.tokens[:, 0]
    calls = []
    recorder.encode = lambda sources: calls.append(sources)
    assert recorder.attentions(SOURCES, FED) == engine.attentions(SOURCES, FED)
    assert calls == []


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(shapes(), st.integers(0, 1000), st.sampled_from(PRECISIONS), st.integers(1, 3))
@example(BASE, 0, "float32", 1)
def test_a_layers_cross_attention_alone_is_that_of_all(shape, seed, precision, threads):
    engine = native(random_model(shape, seed), precision, threads=threads)
    sources, fed = sentences(5, seed), [[SYMBOLS.start, *one] for one in sentences(5, seed + 1)]
    whole = [one.cross for one in engine.attentions(sources, fed)]
    layers, heads = whole[0].shape[:2]
    for layer in range(-2, layers):
        for head in (None, *range(heads)):
            found = engine.cross_attention(sources, fed, layer, head)
            for one, cross in zip(found, whole, strict=True):
                assert np.array_equal(one, select_head(cross, layer, head))
    keeper = engine.recording(False)
    keeper.encode(sources[:3])
    again = keeper.cross_attention(sources, fed, 0, 0)
    assert all(map(np.array_equal, again, engine.cross_attention(sources, fed, 0, 0)))


def test_M10_one_heads_cross_attention_in_torch():
    for model in (MODEL, SSRU, RELATIVE):
        whole = [one.cross for one in model.attentions(SOURCES, FED)]
        for layer, head in ((0, 1), (1, None), (-2, 0), (-9, None)):
            for one, cross in zip(model.cross_attention(SOURCES, FED, layer, head), whole, strict=True):
                assert np.array_equal(one, select_head(cross, layer, head))


def test_heads_that_are_not_there_are_refused():
    for model in (MODEL, native(MODEL)):
        for layer, head, message in ((2, 0, "layer 3"), (0, 2, "head 3"), (0, -1, "head 0")):
            with pytest.raises(SettingsError, match=message):
                model.cross_attention(SOURCES, FED, layer, head)
    with pytest.raises(DataError, match="outside the"):
        native(MODEL).cross_attention([[99]], [[2]], 0, 0)


def test_a_decoder_only_model_attends_to_its_prompt():
    alone = DecoderOnlySettings(layers=2, width=8, heads=2, feed_forward=8, max_length=12)
    model = native_decoder(random_decoder(alone))
    prompt, fed = [3, 4, 5], [3, 6, 7]
    [whole] = model.attentions([prompt], [fed])
    [cross] = model.cross_attention([prompt], [fed], 1, 0)
    np.testing.assert_array_equal(cross, whole.decoder[1, 0, 2:, :3])
    np.testing.assert_allclose(cross[0].sum(), 1, rtol=1e-5)
    with pytest.raises(SettingsError, match="layer 3"):
        model.cross_attention([prompt], [fed], 2, 0)


def test_what_cannot_be_recorded_is_refused():
    engine = native(MODEL)
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
    other = native(MODEL)
    with pytest.raises(ValueError, match="another model"):
        other._core.attentions([engine.encode([[5, 3]])], [0], [[2]])
    with pytest.raises(ValueError, match="no such sentence"):
        engine._core.attentions([engine.encode([[5, 3]])], [1], [[2]])
    with pytest.raises(ValueError, match="one memory and sentence"):
        engine._core.attentions([], [], [[2]])


@pytest.mark.slow
def test_M18_the_144_matrices_of_a_gpt2_size_are_torchs():
    shape = DecoderOnlySettings(
        layers=12, width=768, heads=12, feed_forward=3072, max_length=64, norm="pre", activation="gelu_tanh"
    )
    model = random_decoder(shape, vocabulary=50)
    text = [np.random.default_rng(1).integers(0, 50, 30).tolist()]
    with torch.inference_mode():
        [theirs] = model.attentions(text, [[2]])
    [ours] = native_decoder(model).attentions(text, [[2]])
    assert ours.decoder.shape == (12, 12, 30, 30)
    check_equal([ours], [theirs])
    check_laws(ours)
