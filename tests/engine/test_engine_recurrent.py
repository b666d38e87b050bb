"""Recurrent models on the engine: torch's numbers for every setting, and the laws of a decoder."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from native_models import SYMBOLS, WHOLE, native, random_model, recurrent_shapes, sentences, walk
from precision import close_for
from recurrent_variants import VARIANTS

from uwaga.decoder import Choice
from uwaga.engine import NativeModel
from uwaga.engine.cpu import usable
from uwaga.engine.layout import engine_refusal, stored_shapes
from uwaga.engine.packing import pack
from uwaga.errors import DataError, ModelError, SettingsError, TextTooLongError
from uwaga.models.ensemble import Ensemble
from uwaga.results.attention import select_head
from uwaga.search import SearchOptions, search
from uwaga.settings import TransformerSettings
from uwaga.settings.recurrent import BahdanauSettings, LuongSettings
from uwaga.training.validation import validation_decoder

pytestmark = pytest.mark.numerical

QUIET = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
FED = [[SYMBOLS.start, *one[:-1][::-1]] for one in sentences(7, seed=4)]
OPTIONS = [
    {"beam": 1},
    {"beam": 4, "nbest": 4, "early_stopping": False},
    {"beam": 2, "renormalise": True, "banned": (5, 9), "no_repeat_ngram": 2},
    {"sample": True, "nbest": 3, "seed": 7},
]


def step_alone(engine, source, tokens):
    """Every step's numbers of one sentence with one beam, fed the given tokens."""
    state = engine.start(engine.encode([source]), 1)
    made = []
    for token in tokens:
        step = engine.step(np.array([token]), state, WHOLE)
        made.append(step)
        state = step.state
    return made


@QUIET
@given(recurrent_shapes(), st.integers(0, 1000))
def test_log_probabilities_and_attention_are_torchs_for_every_setting(shape, seed):
    model = random_model(shape, seed)
    for theirs, ours in walk(model, native(model), sentences(3, seed), 5):
        np.testing.assert_allclose(ours.log_probs, theirs.log_probs, atol=1e-4, rtol=0)
        assert (ours.attention is None) == (theirs.attention is None)
        if theirs.attention is not None:
            width = theirs.attention.shape[1]
            np.testing.assert_allclose(ours.attention[:, :width], theirs.attention, atol=1e-4, rtol=0)
            assert not ours.attention[:, width:].any()


@pytest.mark.parametrize("isa", usable())
def test_every_instruction_set_gives_torchs_numbers(isa):
    for name in ("cho", "bahdanau", "luong-local-p", "gnmt"):
        model = random_model(VARIANTS[name])
        for theirs, ours in walk(model, native(model, isa=isa), sentences(5), 5):
            np.testing.assert_allclose(ours.log_probs, theirs.log_probs, atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", VARIANTS)
def test_search_finds_what_it_finds_with_torch(name):
    model = random_model(VARIANTS[name], spread=2.0)
    engine, sources = native(model), sentences(12)
    for options in OPTIONS:
        wanted = SearchOptions(max_length=10, attention=True, **options)
        for ours, theirs in zip(search(engine, sources, wanted), search(model, sources, wanted), strict=True):
            assert [one.tokens for one in ours] == [one.tokens for one in theirs]
            for one, two in zip(ours, theirs, strict=True):
                np.testing.assert_allclose(one.token_scores, two.token_scores, **close_for(two.token_scores))
                if two.attention is not None:
                    np.testing.assert_allclose(one.attention, two.attention, **close_for(1.0))


@pytest.mark.parametrize("options", [{"beam": 1}, {"beam": 3, "attention": True}])
def test_an_ensemble_of_any_models_finds_what_it_finds_with_torch(options):
    transformer = TransformerSettings(
        encoder_layers=1, decoder_layers=1, width=16, heads=2, feed_forward=24, max_length=24
    )
    shapes = (VARIANTS["bahdanau"], transformer, VARIANTS["sutskever"])
    members = [random_model(shape, number, spread=2.0) for number, shape in enumerate(shapes)]
    ours, theirs = Ensemble([native(member) for member in members]), Ensemble(members)
    sources, wanted = sentences(12), SearchOptions(max_length=10, **options)
    for one, other in zip(search(ours, sources, wanted), search(theirs, sources, wanted), strict=True):
        assert [each.tokens for each in one] == [each.tokens for each in other]


def test_validation_during_training_runs_on_the_engine():
    model = random_model(VARIANTS["luong"], spread=2.0)
    engine = validation_decoder(model)
    assert isinstance(engine, NativeModel)
    wanted = SearchOptions(beam=2, max_length=10)
    found = zip(search(engine, sentences(9), wanted), search(model, sentences(9), wanted), strict=True)
    assert all(ours[0].tokens == theirs[0].tokens for ours, theirs in found)
    assert validation_decoder(model.double()) is model


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8", "int4"])
@pytest.mark.parametrize("name", VARIANTS)
def test_a_sentence_has_the_same_bits_alone_in_a_batch_and_with_threads(name, precision):
    model = random_model(VARIANTS[name])
    sources = sentences(60, seed=1)
    tokens = np.random.default_rng(0).integers(0, model.vocabulary, (4, len(sources)))
    engine = native(model, precision)
    for batched in (engine, native(model, precision, threads=2)):
        state = batched.start(batched.encode(sources), 1)
        steps = []
        for row in tokens:
            steps.append(batched.step(row, state, WHOLE))
            state = steps[-1].state
        for number in (0, 17, 59):
            for step, alone in zip(
                steps, step_alone(engine, sources[number], tokens[:, number]), strict=True
            ):
                np.testing.assert_array_equal(step.log_probs[number], alone.log_probs[0])
                if step.attention is not None:
                    width = len(sources[number])
                    np.testing.assert_array_equal(step.attention[number, :width], alone.attention[0])
                    assert not step.attention[number, width:].any()


@QUIET
@given(recurrent_shapes(), st.integers(0, 1000), st.sampled_from(["float32", "int8"]))
def test_recorded_attention_has_the_bits_of_the_steps(shape, seed, precision):
    model = random_model(shape, seed)
    engine, sources = native(model, precision), sentences(7, seed)
    recorded = engine.attentions(sources, FED)
    for found, source, fed in zip(recorded, sources, FED, strict=True):
        steps = step_alone(engine, source, fed)
        if steps[0].attention is None:
            assert not found
            continue
        assert found.encoder is None and found.decoder is None and found.cross.shape[:2] == (1, 1)
        np.testing.assert_array_equal(found.cross[0, 0], np.concatenate([step.attention for step in steps]))
    if recorded[0].cross is None:
        with pytest.raises(SettingsError, match="no attention to a source"):
            engine.cross_attention(sources, FED, -1, None)
        return
    for head in (None, 0):
        for one, found in zip(engine.cross_attention(sources, FED, -1, head), recorded, strict=True):
            np.testing.assert_array_equal(one, select_head(found.cross, -1, head))
    theirs = model.attentions(sources, FED)
    if precision == "float32":
        for one, other in zip(recorded, theirs, strict=True):
            np.testing.assert_allclose(one.cross, other.cross, atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_state_is_a_value(name):
    engine = native(random_model(VARIANTS[name]))
    state = engine.start(engine.encode(sentences(3)), 2)
    first, second = np.full(6, SYMBOLS.start), np.arange(4, 10)
    before = engine.step(first, state, WHOLE)
    engine.step(second, before.state, WHOLE)
    again = engine.step(first, state, WHOLE)
    np.testing.assert_array_equal(before.log_probs, again.log_probs)
    rows = np.array([1, 1, 2, 3, 5, 4])
    one = engine.step(second, before.state, WHOLE).state.reorder(rows).select(np.array([2, 0]))
    other = engine.step(second[rows], before.state.reorder(rows), WHOLE).state.select(np.array([2, 0]))
    tokens = np.arange(4)
    np.testing.assert_array_equal(
        engine.step(tokens, one, WHOLE).log_probs, engine.step(tokens, other, WHOLE).log_probs
    )
    joined = engine.step(np.concatenate([first, tokens]), engine.join(state, one), WHOLE)
    np.testing.assert_array_equal(joined.log_probs[:6], before.log_probs)
    np.testing.assert_array_equal(joined.log_probs[6:], engine.step(tokens, one, WHOLE).log_probs)


@pytest.mark.parametrize("name", ["bahdanau", "bahdanau-conditional", "luong", "gnmt", "sutskever", "cho"])
def test_int8_and_bfloat16_are_near_float32(name):
    changes = {"hidden": 48, "embedding": 48} | (
        {"read_out": 48} if "read_out" in vars(VARIANTS[name]) else {}
    )
    model = random_model(VARIANTS[name].model_copy(update=changes))
    exact = native(model)
    for precision, bound in (("bfloat16", 0.02), ("int8", 0.04)):
        near = native(model, precision)
        pairs = walk(exact, near, sentences(6), 6)
        errors = [np.abs(one.log_probs - two.log_probs).mean() for one, two in pairs]
        assert 0 < np.mean(errors) < bound


def weights_of(shape):
    rng = np.random.default_rng(0)
    return {
        name: rng.normal(size=size).astype(np.float32) for name, size in stored_shapes(shape, 23, 23).items()
    }


@pytest.mark.parametrize("name", VARIANTS)
def test_the_stored_shapes_are_torchs(name):
    model = random_model(VARIANTS[name])
    shapes = {key: tuple(value.shape) for key, value in model.state_dict().items()}
    stored = stored_shapes(VARIANTS[name], 23, 23)
    assert stored.items() <= shapes.items()
    assert {key.split(".")[0] for key in shapes.keys() - stored.keys()} <= {
        "source_embedding",
        "target_embedding",
    }


@pytest.mark.parametrize("name", ["encoder.0.back.states", "score.query", "read_out", "decoder.0.inputs"])
def test_weights_of_another_shape_are_refused_by_name(name):
    shape = VARIANTS["bahdanau"]
    model, packed = random_model(shape), pack(shape, 23, 23, weights_of(shape).__getitem__)
    packed.matrices[name] = packed.matrices["bridge"] if name == "read_out" else packed.matrices["output"]
    with pytest.raises(ModelError, match=f"{name}: is"):
        type(native(model))(shape, SYMBOLS, 23, 23, packed)
    del packed.matrices[name]
    with pytest.raises(ModelError, match=f"{name}: weight is missing"):
        type(native(model))(shape, SYMBOLS, 23, 23, packed)


@pytest.mark.parametrize("name", ["score.vector", "decoder.layer.bias_hh_l0", "encoder.layer.weight_hh_l0"])
def test_weights_that_are_not_finite_are_refused_by_name(name):
    shape = VARIANTS["bahdanau" if name.startswith("score") else "cho"]
    weights = weights_of(shape)
    weights[name].flat[1] = np.nan
    with pytest.raises(ModelError, match=r"weight '(score|decoder|encoder)\..*not finite"):
        pack(shape, 23, 23, weights.__getitem__)


def test_scores_of_ones_own_need_torch():
    shape = BahdanauSettings(score="mine")
    assert engine_refusal(shape).endswith("not score: mine")


def test_texts_that_are_too_long_and_tokens_that_do_not_exist_are_refused():
    engine = native(
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
