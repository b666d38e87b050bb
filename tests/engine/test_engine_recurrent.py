"""Recurrent models on the engine: agreement with torch for all settings, and properties of decoders."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from native_models import (
    ALL_TOKENS,
    SYMBOLS,
    mean_difference,
    native_model,
    random_model,
    recurrent_settings,
    sentences,
    step_both,
)
from precision import tolerance
from recurrent_variants import VARIANTS
from search_inputs import inputs

from uwaga.decoder import Choice
from uwaga.engine import NativeModel
from uwaga.engine.cpu import available_isas
from uwaga.engine.layout import stored_shapes, unsupported_reason
from uwaga.engine.packing import pack
from uwaga.errors import DataError, ModelError, SettingsError, TextTooLongError
from uwaga.models.ensemble import Ensemble
from uwaga.results.attention import select_head
from uwaga.search import SearchOptions, search
from uwaga.settings import TransformerSettings
from uwaga.settings.recurrent import BahdanauSettings, LuongSettings
from uwaga.training.validation import validation_decoder

pytestmark = pytest.mark.numerical

ALLOW_SLOW_EXAMPLES = settings(suppress_health_check=[HealthCheck.too_slow])
INPUTS = [[SYMBOLS.start, *source[:-1][::-1]] for source in sentences(7, seed=4)]
OPTIONS = [
    {"beam": 1},
    {"beam": 4, "nbest": 4, "early_stopping": False},
    {"beam": 2, "renormalise": True, "banned": (5, 9), "no_repeat_ngram": 2},
    {"sample": True, "nbest": 3, "seed": 7},
]


def single_steps(engine, source, tokens):
    """Return the steps of a sentence with one beam and the given tokens."""
    state = engine.start(engine.encode([source]), 1)
    steps = []
    for token in tokens:
        step = engine.step(np.array([token]), state, ALL_TOKENS)
        steps.append(step)
        state = step.state
    return steps


@ALLOW_SLOW_EXAMPLES
@given(recurrent_settings(), st.integers(0, 1000))
def test_log_probs_and_attention_match_torch(shape, seed):
    model = random_model(shape, seed)
    for expected, actual in step_both(model, native_model(model), sentences(3, seed), 5):
        np.testing.assert_allclose(actual.log_probs, expected.log_probs, atol=1e-4, rtol=0)
        assert (actual.attention is None) == (expected.attention is None)
        if expected.attention is not None:
            width = expected.attention.shape[1]
            np.testing.assert_allclose(actual.attention[:, :width], expected.attention, atol=1e-4, rtol=0)
            assert not actual.attention[:, width:].any()


@pytest.mark.parametrize("isa", available_isas())
def test_log_probs_of_all_instruction_sets_match_torch(isa):
    for name in ("cho", "bahdanau", "luong-local-p", "gnmt"):
        model = random_model(VARIANTS[name])
        for expected, actual in step_both(model, native_model(model, isa=isa), sentences(5), 5):
            np.testing.assert_allclose(actual.log_probs, expected.log_probs, atol=1e-4, rtol=0)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", VARIANTS)
def test_search_with_recurrent_models_matches_torch(name):
    model = random_model(VARIANTS[name], spread=2.0)
    engine, sources = native_model(model), sentences(12)
    for options in OPTIONS:
        search_options = SearchOptions(max_length=10, attention=True, **options)
        for nbest, expected_nbest in zip(
            search(engine, inputs(sources), search_options),
            search(model, inputs(sources), search_options),
            strict=True,
        ):
            assert [result.tokens for result in nbest] == [result.tokens for result in expected_nbest]
            for hypothesis, expected in zip(nbest, expected_nbest, strict=True):
                np.testing.assert_allclose(
                    hypothesis.token_scores, expected.token_scores, **tolerance(expected.token_scores)
                )
                if expected.attention is not None:
                    np.testing.assert_allclose(hypothesis.attention, expected.attention, **tolerance(1.0))


@pytest.mark.parametrize("options", [{"beam": 1}, {"beam": 3, "attention": True}])
def test_ensemble_search_matches_torch(options):
    transformer = TransformerSettings(
        encoder_layers=1, decoder_layers=1, width=16, heads=2, feed_forward=24, max_length=24
    )
    shapes = (VARIANTS["bahdanau"], transformer, VARIANTS["sutskever"])
    members = [random_model(shape, index, spread=2.0) for index, shape in enumerate(shapes)]
    engine_ensemble = Ensemble([native_model(member) for member in members])
    torch_ensemble = Ensemble(members)
    sources, search_options = sentences(12), SearchOptions(max_length=10, **options)
    for nbest, expected_nbest in zip(
        search(engine_ensemble, inputs(sources), search_options),
        search(torch_ensemble, inputs(sources), search_options),
        strict=True,
    ):
        assert [result.tokens for result in nbest] == [result.tokens for result in expected_nbest]


def test_validation_during_training_runs_on_the_engine():
    model = random_model(VARIANTS["luong"], spread=2.0)
    engine = validation_decoder(model)
    assert isinstance(engine, NativeModel)
    options = SearchOptions(beam=2, max_length=10)
    pairs = zip(
        search(engine, inputs(sentences(9)), options),
        search(model, inputs(sentences(9)), options),
        strict=True,
    )
    assert all(engine_nbest[0].tokens == torch_nbest[0].tokens for engine_nbest, torch_nbest in pairs)
    assert validation_decoder(model.double()) is model


@pytest.mark.sampled(5)
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8", "int4"])
@pytest.mark.parametrize("name", VARIANTS)
def test_results_do_not_depend_on_the_batch_or_the_thread_count(name, precision):
    model = random_model(VARIANTS[name])
    sources = sentences(60, seed=1)
    tokens = np.random.default_rng(0).integers(0, model.vocabulary, (4, len(sources)))
    engine = native_model(model, precision)
    for batch_engine in (engine, native_model(model, precision, threads=2)):
        state = batch_engine.start(batch_engine.encode(sources), 1)
        steps = []
        for row in tokens:
            steps.append(batch_engine.step(row, state, ALL_TOKENS))
            state = steps[-1].state
        for index in (0, 17, 59):
            for step, single_step in zip(
                steps, single_steps(engine, sources[index], tokens[:, index]), strict=True
            ):
                np.testing.assert_array_equal(step.log_probs[index], single_step.log_probs[0])
                if step.attention is not None:
                    width = len(sources[index])
                    np.testing.assert_array_equal(step.attention[index, :width], single_step.attention[0])
                    assert not step.attention[index, width:].any()


@ALLOW_SLOW_EXAMPLES
@given(recurrent_settings(), st.integers(0, 1000), st.sampled_from(["float32", "int8"]))
def test_recorded_attention_equals_stepwise_attention(shape, seed, precision):
    model = random_model(shape, seed)
    engine, sources = native_model(model, precision), sentences(7, seed)
    recorded = engine.attentions(sources, INPUTS)
    for attentions, source, targets in zip(recorded, sources, INPUTS, strict=True):
        steps = single_steps(engine, source, targets)
        if steps[0].attention is None:
            assert not attentions
            continue
        assert (
            attentions.encoder is None and attentions.decoder is None and attentions.cross.shape[:2] == (1, 1)
        )
        np.testing.assert_array_equal(
            attentions.cross[0, 0], np.concatenate([step.attention for step in steps])
        )
    if recorded[0].cross is None:
        with pytest.raises(SettingsError, match="no source attention"):
            engine.cross_attention(sources, INPUTS, -1, None)
        return
    for head in (None, 0):
        for cross_attention, attentions in zip(
            engine.cross_attention(sources, INPUTS, -1, head), recorded, strict=True
        ):
            np.testing.assert_array_equal(cross_attention, select_head(attentions.cross, -1, head))
    expected = model.attentions(sources, INPUTS)
    if precision == "float32":
        for attentions, expected_attentions in zip(recorded, expected, strict=True):
            np.testing.assert_allclose(attentions.cross, expected_attentions.cross, atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", VARIANTS)
def test_stepping_a_recurrent_state_does_not_modify_it(name):
    engine = native_model(random_model(VARIANTS[name]))
    state = engine.start(engine.encode(sentences(3)), 2)
    first, second = np.full(6, SYMBOLS.start), np.arange(4, 10)
    first_step = engine.step(first, state, ALL_TOKENS)
    engine.step(second, first_step.state, ALL_TOKENS)
    repeated = engine.step(first, state, ALL_TOKENS)
    np.testing.assert_array_equal(first_step.log_probs, repeated.log_probs)
    rows = np.array([1, 1, 2, 3, 5, 4])
    selected = engine.step(second, first_step.state, ALL_TOKENS).state.reorder(rows).select(np.array([2, 0]))
    expected = engine.step(second[rows], first_step.state.reorder(rows), ALL_TOKENS).state.select(
        np.array([2, 0])
    )
    tokens = np.arange(4)
    np.testing.assert_array_equal(
        engine.step(tokens, selected, ALL_TOKENS).log_probs,
        engine.step(tokens, expected, ALL_TOKENS).log_probs,
    )
    joined = engine.step(np.concatenate([first, tokens]), engine.join(state, selected), ALL_TOKENS)
    np.testing.assert_array_equal(joined.log_probs[:6], first_step.log_probs)
    np.testing.assert_array_equal(joined.log_probs[6:], engine.step(tokens, selected, ALL_TOKENS).log_probs)


@pytest.mark.parametrize("name", ["bahdanau", "bahdanau-conditional", "luong", "gnmt", "sutskever", "cho"])
def test_int8_and_bfloat16_results_are_close_to_float32(name):
    changes = {"hidden": 48, "embedding": 48} | (
        {"read_out": 48} if "read_out" in vars(VARIANTS[name]) else {}
    )
    model = random_model(VARIANTS[name].model_copy(update=changes))
    exact = native_model(model)
    for precision, bound in (("bfloat16", 0.02), ("int8", 0.04)):
        assert 0 < mean_difference(exact, native_model(model, precision), sentences(6)) < bound


def weights_of(shape):
    rng = np.random.default_rng(0)
    return {
        name: rng.normal(size=size).astype(np.float32) for name, size in stored_shapes(shape, 23, 23).items()
    }


@pytest.mark.parametrize("name", VARIANTS)
def test_weight_shapes_match_torch(name):
    model = random_model(VARIANTS[name])
    shapes = {key: tuple(value.shape) for key, value in model.state_dict().items()}
    stored = stored_shapes(VARIANTS[name], 23, 23)
    assert stored.items() <= shapes.items()
    assert {key.split(".")[0] for key in shapes.keys() - stored.keys()} <= {
        "source_embedding",
        "target_embedding",
    }


@pytest.mark.parametrize("name", ["encoder.0.back.states", "score.query", "read_out", "decoder.0.inputs"])
def test_missing_and_wrongly_shaped_weights_are_rejected(name):
    shape = VARIANTS["bahdanau"]
    model, packed = random_model(shape), pack(shape, (23, 23), weights_of(shape).__getitem__)
    packed.matrices[name] = packed.matrices["bridge"] if name == "read_out" else packed.matrices["output"]
    with pytest.raises(ModelError, match=f"{name}: is"):
        type(native_model(model))(shape, SYMBOLS, (23, 23), packed)
    del packed.matrices[name]
    with pytest.raises(ModelError, match=f"{name}: weight is missing"):
        type(native_model(model))(shape, SYMBOLS, (23, 23), packed)


@pytest.mark.parametrize("name", ["score.vector", "decoder.layer.bias_hh_l0", "encoder.layer.weight_hh_l0"])
def test_non_finite_weights_are_rejected(name):
    shape = VARIANTS["bahdanau" if name.startswith("score") else "cho"]
    weights = weights_of(shape)
    weights[name].flat[1] = np.nan
    with pytest.raises(ModelError, match=r"weight '(score|decoder|encoder)\..*not finite"):
        pack(shape, (23, 23), weights.__getitem__)


def test_custom_attention_scores_require_torch():
    shape = BahdanauSettings(score="mine")
    assert unsupported_reason(shape).endswith("not 'mine'")


def test_invalid_texts_and_tokens_are_rejected():
    engine = native_model(
        random_model(LuongSettings(hidden=8, embedding=8, layers=1, score="location", max_length=5))
    )
    with pytest.raises(TextTooLongError, match="6 tokens"):
        engine.encode([(4, 4, 4, 4, 4, 2)])
    with pytest.raises(DataError, match="outside the source vocabulary"):
        engine.encode([(23, 2)])
    state = engine.start(engine.encode([(4, 4, 4, 4, 2)]), 1)
    for _ in range(5):
        state = engine.step(np.array([4]), state, Choice(count=1)).state
    with pytest.raises(TextTooLongError):
        engine.step(np.array([4]), state, Choice(count=1))
