"""4-bit weights (M43): results bit-identical to int8 with equal weights, and errors."""

import numpy as np
import pytest
from native_models import (
    SYMBOLS,
    mean_difference,
    native_model,
    random_model,
    random_shortlist,
    sentences,
    step_both,
)
from prompted_models import random_decoder
from search_inputs import inputs

from uwaga.decoder import Choice
from uwaga.engine import NativeModel, _core, pack
from uwaga.engine.cpu import available_isas
from uwaga.search import SearchOptions, search
from uwaga.settings import DecoderOnlySettings, TransformerSettings

PANEL, GROUP, GROUP_BYTES = 32, 32, 576
SHAPE = TransformerSettings(
    encoder_layers=1, decoder_layers=2, width=40, heads=4, feed_forward=72, max_length=40, norm="pre"
)
MODEL = random_model(SHAPE, spread=2.0, source=97, target=97)
OPTIONS = SearchOptions(beam=3, nbest=2, max_length=10)


def int8_panels(panels):
    """Convert int4 panels to int8 panels as the description of the format defines."""
    groups = panels.reshape(-1, GROUP_BYTES)
    pairs = groups[:, : 2 * PANEL].view(np.int8).reshape(-1, PANEL, 2).astype(int)
    nibbles = groups[:, 2 * PANEL :].reshape(-1, 4, PANEL, 4)
    q = np.stack([nibbles & 15, nibbles >> 4], axis=2).astype(int)  # groups, 4, halves, outputs, inputs
    step, middle = (pairs[:, None, None, :, column, None] for column in (0, 1))
    return (step * (q - 8) + middle).astype(np.int8).reshape(-1)


def dequantised(panels, scales, outputs, inputs):
    unpacked = int8_panels(panels).reshape(len(scales) // PANEL, -1, PANEL, 4)
    rows = unpacked.transpose(0, 2, 1, 3).reshape(len(scales), -1)
    return rows[:outputs, :inputs].astype(float) * scales[:outputs, None]


def as_int8(matrix):
    if matrix.format != "int4":
        return matrix
    unpacked = int8_panels(matrix.arrays[0])
    buffer = np.empty(unpacked.size + 64, np.int8)
    first = -buffer.ctypes.data % 64
    panels = buffer[first : first + unpacked.size]
    panels[:] = unpacked
    return matrix._replace(format="int8", arrays=(panels, *matrix.arrays[1:]))


def int4_and_int8_engines(model, isa=None, threads=1, keep=()):
    """Return an engine in int4, and an engine in int8 with the same weights."""
    state = {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}
    source = getattr(model, "source_embedding", None)
    sizes = (model.vocabulary if source is None else source.num_embeddings, model.vocabulary)
    packed = pack(model.settings, sizes, state.__getitem__, "int4", keep)
    int8_matrices = {name: as_int8(matrix) for name, matrix in packed.matrices.items()}
    int8 = packed._replace(matrices=int8_matrices, precision="int8")
    return [NativeModel(model.settings, SYMBOLS, sizes, weights, threads, isa) for weights in (packed, int8)]


@pytest.mark.parametrize("isa", available_isas())
def test_M43_int4_steps_equal_int8_steps_with_the_same_weights(isa):
    for keep in ((), ("output", "decoder.1.*")):
        for int4, int8 in step_both(*int4_and_int8_engines(MODEL, isa, keep=keep), sentences(5), 4):
            assert np.array_equal(int4.log_probs, int8.log_probs)


def test_M43_decoder_only_search_in_int4_equals_int8_with_the_same_weights():
    model = random_decoder(DecoderOnlySettings(layers=2, width=64, heads=4, max_length=40), vocabulary=97)
    prompts = sentences(6, seed=3, vocabulary=97)
    int4_results, int8_results = (
        search(engine, inputs(prompts), OPTIONS) for engine in int4_and_int8_engines(model, keep=("output",))
    )
    assert int4_results == int8_results


def test_log_probs_of_extra_tokens_equal_those_of_all_tokens():
    settings = DecoderOnlySettings(layers=2, width=64, heads=4, max_length=40)
    _, model = int4_and_int8_engines(random_decoder(settings, vocabulary=97), keep=("output",))
    state = model.start(model.encode(sentences(4, seed=3, vocabulary=97)), 1)
    tokens = np.full(4, SYMBOLS.start)
    all_tokens = np.tile(np.arange(97), (4, 1))
    log_probs = model.step(tokens, state, Choice(count=1, all_tokens=True)).log_probs
    extra_log_probs = model.step(tokens, state, Choice(count=1, extra_tokens=all_tokens)).log_probs[:, 1:]
    assert np.abs(log_probs - extra_log_probs).max() < 2e-6


def test_M43_int4_search_with_a_shortlist_equals_int8_with_the_same_weights():
    shortlist = random_shortlist(97, 97, longest=9)
    sources = sentences(8, seed=2, vocabulary=97)
    int4_results, int8_results = (
        search(engine.with_shortlist(shortlist), inputs(sources), OPTIONS)
        for engine in int4_and_int8_engines(MODEL)
    )
    assert int4_results == int8_results


@pytest.mark.numerical
def test_M43_keeping_matrices_in_int8_reduces_the_error():
    model = random_model(SHAPE.model_copy(update={"width": 64, "feed_forward": 128}))
    all_int4, partly_int8, int8 = (
        mean_difference(native_model(model), native_model(model, "int4", keep=keep), sentences(6))
        for keep in ((), ("output", "decoder.*"), ("*",))
    )
    assert int8 < partly_int8 < all_int4 < 0.3
    assert int8 < 0.03


@pytest.mark.numerical
@pytest.mark.parametrize(("outputs", "inputs"), [(1, 1), (33, 70), (64, 256), (5, 1000)])
def test_M43_root_mean_square_rounding_errors_are_at_most_half_a_step(outputs, inputs):
    """The step belongs to the grid that spans the group: an integer multiple of the output's scale."""
    rng = np.random.default_rng(inputs)
    weight = rng.normal(size=(outputs, inputs)) * np.exp(rng.normal(size=(outputs, 1)))
    weight[:, :: GROUP + 1] += 3 * rng.normal(size=weight[:, :: GROUP + 1].shape)
    weight = weight.astype(np.float32)
    panels, scales, _ = _core.pack_int4(weight)
    errors = np.abs(dequantised(panels, scales, outputs, inputs) - weight)
    np.testing.assert_allclose(scales[:outputs], np.abs(weight).max(1) / 127, rtol=1e-6)
    for first in range(0, inputs, GROUP):
        group = weight[:, first : first + GROUP]
        steps = np.clip(np.ceil(np.ptp(group, axis=1) / 15 / scales[:outputs] - 1e-4), 1, 16)
        half_step = steps * scales[:outputs] / 2
        assert (errors[:, first : first + GROUP] ** 2).mean(1).max() <= (half_step**2).max() * 1.001
        root_mean_square = np.sqrt((errors[:, first : first + GROUP] ** 2).mean(1))
        assert (root_mean_square <= half_step * 1.001).all()


@pytest.mark.numerical
def test_M43_grid_search_is_more_accurate_than_rounding_to_the_range():
    """For normal weights the error is less than with 16 even levels over the range of each group."""
    weight = np.random.default_rng(0).normal(size=(64, 512)).astype(np.float32)
    panels, scales, _ = _core.pack_int4(weight)
    errors = dequantised(panels, scales, 64, 512) - weight
    groups = weight.reshape(64, -1, GROUP).astype(float)
    minimum, step = groups.min(2, keepdims=True), np.ptp(groups, axis=2, keepdims=True) / 15
    plain = np.rint((groups - minimum) / step) * step + minimum - groups
    assert (errors**2).mean() < (plain**2).mean()


@pytest.mark.parametrize("change", ["step", "middle", "number", "sum"])
def test_M43_quantisation_grids_and_sums_are_validated(change):
    panels, scales, sums = _core.pack_int4(np.random.default_rng(0).normal(size=(40, 100)).astype(np.float32))
    _core.Matrix.int4(40, 100, panels, scales, sums)
    group = panels[GROUP_BYTES:]
    if change == "step":
        group[2 * 5] = 17
    elif change == "middle":
        group[2 * 5 + 1] = 127
    elif change == "number":
        group[2 * PANEL + 9] ^= 1
    else:
        sums = sums + 128
    message = "grid of a group exceeds int8" if change in ("step", "middle") else "sums: do not match"
    with pytest.raises(ValueError, match=message):
        _core.Matrix.int4(40, 100, panels, scales, sums)


def test_M43_wrong_array_sizes_are_rejected():
    arrays = _core.pack_int4(np.ones((40, 100), np.float32))
    for index in range(3):
        truncated = [array[:-1] if index == i else array for i, array in enumerate(arrays)]
        with pytest.raises(ValueError, match=("panels", "scales", "sums")[index]):
            _core.Matrix.int4(40, 100, *truncated)
    with pytest.raises(ValueError, match=r"65537 inputs.* at most 65536"):
        _core.pack_int4(np.zeros((1, 65537), dtype=np.float32))
