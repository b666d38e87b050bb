"""4-bit weights (M43): results bit-identical to int8 with equal weights, folders, and errors."""

import json
from dataclasses import replace

import numpy as np
import pytest
import tiny_models as tiny
from native_models import SYMBOLS, native_model, random_model, sentences, step_both
from prompted_models import random_decoder
from search_inputs import inputs

import uwaga
from uwaga.checkpoints.formats.uwaga.int8 import CONFIG, WEIGHTS, read_quantised
from uwaga.checkpoints.storage.safetensors_files import aligned_bytes, open_tensors
from uwaga.cli.main import main
from uwaga.conversion.quantise import quantise
from uwaga.decoder import Choice
from uwaga.engine import NativeModel, _core, pack
from uwaga.engine.cpu import available_isas
from uwaga.engine.shortlist import Shortlist
from uwaga.errors import ModelError, SettingsError
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


def test_M43_results_do_not_depend_on_the_batch_or_the_thread_count():
    sources = sentences(60, seed=1, max_length=30, vocabulary=97)
    single = native_model(MODEL, "int4")
    expected = [search(single, inputs([source]), OPTIONS)[0] for source in sources]
    for threads, budget in ((1, 4096), (2, 100), (3, 700)):
        options = replace(OPTIONS, batch_tokens=budget)
        assert (
            search(native_model(MODEL, "int4", threads, shared_width=1), inputs(sources), options) == expected
        )


def test_M43_int4_search_with_a_shortlist_equals_int8_with_the_same_weights():
    rng = np.random.default_rng(0)
    lists = [np.sort(rng.choice(97, 9, replace=False)) for _ in range(97)]
    shortlist = Shortlist(
        np.arange(4, dtype=np.int32),
        np.concatenate([[0], np.cumsum([len(tokens) for tokens in lists])]).astype(np.int32),
        np.concatenate(lists).astype(np.int32),
        vocabulary=97,
    )
    sources = sentences(8, seed=2, vocabulary=97)
    int4_results, int8_results = (
        search(engine.with_shortlist(shortlist), inputs(sources), OPTIONS)
        for engine in int4_and_int8_engines(MODEL)
    )
    assert int4_results == int8_results


@pytest.mark.numerical
def test_M43_keeping_matrices_in_int8_reduces_the_error():
    model = random_model(SHAPE.model_copy(update={"width": 64, "feed_forward": 128}))
    exact, sources = native_model(model), sentences(6)

    def error(keep):
        rounded = native_model(model, "int4", keep=keep)
        steps = step_both(exact, rounded, sources, 6)
        return np.mean(
            [
                np.abs(exact_step.log_probs - rounded_step.log_probs).mean()
                for exact_step, rounded_step in steps
            ]
        )

    all_int4, partly_int8, int8 = (error(keep) for keep in ((), ("output", "decoder.*"), ("*",)))
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


FOLDER = tiny.TINY.model_copy(update={"tie": "decoder", "norm": "pre", "gated": True, "output_bias": True})
SOURCE, TARGET = tiny.tokeniser("source"), tiny.tokeniser("target", size=330)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("int4") / "model"
    model = tiny.transformer(FOLDER, SOURCE, TARGET)
    tiny.save(folder, model, SOURCE, TARGET)
    return folder


@pytest.fixture
def folder(original, tmp_path):
    quantise(original, tmp_path / "int4", ("output",), precision="int4")
    return tmp_path / "int4"


def test_M43_int4_model_folder_gives_the_same_results_as_quantising_in_memory(original, tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        main(["convert", "--int4", str(original), str(tmp_path / "made")])
    assert end.value.code == 0
    assert "written in int4" in capsys.readouterr().out
    loaded, expected = uwaga.load(tmp_path / "made"), uwaga.load(original, dtype="int4")
    assert loaded.decoder.precision == expected.decoder.precision == "int4"
    shared = uwaga.load(tmp_path / "made", memory="shared")
    translations = [translator.translate(tiny.ENGLISH, beam=3) for translator in (loaded, expected, shared)]
    assert translations[0] == translations[1] == translations[2]
    with pytest.raises(SystemExit):
        main(["info", str(tmp_path / "made")])
    assert "(I4, F32)" in capsys.readouterr().out
    with pytest.raises(SystemExit) as end:
        main(["convert", "--int4", "--int8", str(original), str(tmp_path / "both")])
    assert end.value.code == 1


def test_M43_int4_model_folder_stores_kept_matrices_in_int8(folder):
    formats = {name: matrix.format for name, matrix in read_quantised(folder).packed.matrices.items()}
    assert {name for name, format_ in formats.items() if format_ == "int8"} == {"output"}
    assert set(formats.values()) == {"int4", "int8"}
    with pytest.raises(SettingsError, match="int8 requires the original model"):
        uwaga.load(folder, dtype="int8")
    with pytest.raises(SettingsError, match="int4 need the native engine"):
        uwaga.load(folder, engine="torch")
    with pytest.raises(ModelError, match="already quantised"):
        quantise(folder, folder.parent / "again", precision="int4")


def edit_config(folder, change):
    config = json.loads((folder / CONFIG).read_text())
    change(config)
    (folder / CONFIG).write_text(json.dumps(config))


def rewrite_weights(folder, change):
    """Change tensors of the weight file, and update its size and checksum in the configuration."""
    import hashlib

    tensors = {name: np.array(tensor.values) for name, tensor in open_tensors(folder / WEIGHTS).items()}
    change(tensors)
    content = aligned_bytes(tensors)
    (folder / WEIGHTS).write_bytes(content)
    metadata = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    edit_config(folder, lambda config: config["weights"].update(metadata))


INNER_MATRIX = "encoder.0.feed_forward.inner"
PANELS = f"{INNER_MATRIX}:panels"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda tensors: tensors.pop(f"{INNER_MATRIX}:scales"), [f"{INNER_MATRIX}:scales"]),
        (lambda tensors: tensors[f"{INNER_MATRIX}:scales"].__setitem__(3, np.nan),
         [INNER_MATRIX, "not finite"]),
        (lambda tensors: tensors.update({f"{INNER_MATRIX}:panels": tensors[PANELS][:-64]}), [WEIGHTS]),
        (lambda tensors: tensors.update({f"{INNER_MATRIX}:panels": tensors[PANELS].view(np.int8)}),
         [INNER_MATRIX]),
        (lambda tensors: tensors[PANELS].__setitem__(0, 99), ["grid of a group exceeds int8"]),
        (lambda tensors: tensors[f"{INNER_MATRIX}:sums"].__setitem__(0, 1), ["sums: do not match"]),
    ],
)  # fmt: skip
def test_M43_damaged_weights_are_rejected(folder, change, words):
    rewrite_weights(folder, change)
    with pytest.raises(ModelError) as error:
        uwaga.load(folder)
    for word in (str(folder), *words):
        assert word in str(error.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda config: config.update(version=2), ["version 2 of the int4 format", "newer version of uwaga"]),
        (
            lambda config: config.update(format="uwaga int8 model"),
            ["version 1 of the int8 format", "convert the model again"],
        ),
        (lambda config: config["weights"].update(kept=[]), [WEIGHTS]),
        (lambda config: config["model"].update(feed_forward=2**40), ["config.json", "feed_forward must be"]),
    ],
)
def test_M43_invalid_and_mismatched_configs_are_rejected(folder, change, words):
    edit_config(folder, change)
    with pytest.raises(ModelError) as error:
        uwaga.load(folder)
    for word in (str(folder), *words):
        assert word in str(error.value)
