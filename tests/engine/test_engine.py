"""Agreement of the native engine with torch in log-probabilities, for all settings and token choices."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from native_models import (
    ALL_TOKENS,
    mean_difference,
    native_model,
    random_model,
    sentences,
    step_both,
    transformer_settings,
)
from precision import tolerance
from search_inputs import inputs

from uwaga.decoder import Choice, Sampling
from uwaga.engine import _core
from uwaga.engine.cpu import available_isas
from uwaga.errors import DataError, ModelError, SettingsError
from uwaga.search import SearchOptions, choose, search
from uwaga.settings import TransformerSettings

pytestmark = pytest.mark.numerical

BASE = TransformerSettings(
    encoder_layers=1, decoder_layers=2, width=20, heads=2, feed_forward=36, max_length=24, dropout=0.0
)
MODEL = random_model(BASE, spread=2.0)
T5 = BASE.model_copy(
    update={"positions": "relative", "relative_buckets": 32, "relative_distance": 128, "max_length": 400}
)


def max_difference(model, engine, sources, steps=5):
    return max(
        max(
            np.abs(expected.log_probs - actual.log_probs).max(),
            np.abs(expected.attention - actual.attention[:, : expected.attention.shape[1]]).max(),
        )
        for expected, actual in step_both(model, engine, sources, steps)
    )


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(transformer_settings(), st.integers(0, 1000))
@example(BASE, 0)
def test_log_probs_match_torch(shape, seed):
    model = random_model(shape, seed)
    max_error = 1e-4 if shape.width >= 8 else 1e-3  # a norm over two equal numbers amplifies rounding errors
    assert max_difference(model, native_model(model), sentences(3, seed)) < max_error


def test_relative_positions_match_torch():
    from uwaga.engine.layout import distances

    for both_ways, table in ((True, "source"), (False, "target")):
        positions = getattr(random_model(T5), f"{table}_positions")
        weight = positions.weight.detach().numpy()
        reach = T5.relative_distance
        biases = distances(weight, T5, both_ways)
        for query in (0, 150, 399):
            expected = positions(query, 1, 400)[:, 0].detach().numpy()  # (heads, 400)
            columns = np.clip(np.arange(400) - query, -reach, reach) + reach
            np.testing.assert_array_equal(biases[:, columns], expected)


@pytest.mark.parametrize("name", available_isas())
def test_log_probs_of_all_instruction_sets_match_torch(name):
    for shape in (BASE, T5.model_copy(update={"norm": "pre", "gated": True, "activation": "gelu_tanh"})):
        model = random_model(shape)
        assert max_difference(model, native_model(model, isa=name), sentences(5)) < 1e-4


def test_int8_log_probs_match_across_instruction_sets():
    """Integer products are exact; only the rounding of float sums may differ."""
    sources = sentences(4)
    first, *engines = (native_model(MODEL, "int8", isa=name) for name in available_isas())
    for engine in engines:
        for first_step, second_step in step_both(first, engine, sources, 4):
            np.testing.assert_allclose(first_step.log_probs, second_step.log_probs, atol=0.05)


def test_int8_and_bfloat16_results_are_close_to_float32():
    shape = BASE.model_copy(update={"width": 64, "feed_forward": 128})
    model = random_model(shape)
    exact = native_model(model)
    for precision, bound in (("bfloat16", 0.02), ("int8", 0.03)):
        assert 0 < mean_difference(exact, native_model(model, precision), sentences(6)) < bound


def test_keeping_matrices_in_bfloat16_reduces_the_int8_error():
    model = random_model(BASE.model_copy(update={"width": 64}))
    all_int8, partly_int8, all_bfloat16 = (
        mean_difference(native_model(model), native_model(model, "int8", keep=keep), sentences(6))
        for keep in ((), ("output", "decoder.*"), ("*",))
    )
    assert all_bfloat16 < partly_int8 < all_int8
    with pytest.raises(SettingsError, match=r"keep: 'nowhere\.\*' matches no matrix"):
        native_model(model, "int8", keep=("nowhere.*",))


OPTIONS = [
    {"beam": 1},
    {"beam": 4, "nbest": 4, "early_stopping": False},
    {"beam": 3, "no_repeat_ngram": 2, "min_length": 3, "banned": (5, 9), "unknown": False},
    {"beam": 2, "renormalise": True, "banned": tuple(range(8, 14)), "force_end": True, "first": 7},
    {"sample": True, "nbest": 3, "seed": 7},
    {"sample": True, "nbest": 2, "temperature": 0.7, "top_k": 5, "seed": 3},
    {"sample": True, "nbest": 2, "temperature": 1.6, "top_p": 0.8, "renormalise": True, "banned": (6,)},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_engine_search_matches_torch(options):
    options = SearchOptions(max_length=10, attention=True, **options)
    engine = native_model(MODEL)
    sources = sentences(12)
    prefixes = [[6, 7] if index % 3 == 0 and options.first is None else [] for index in range(len(sources))]
    for actual, expected in zip(
        search(engine, inputs(sources, prefixes=prefixes), options),
        search(MODEL, inputs(sources, prefixes=prefixes), options),
        strict=True,
    ):
        assert [actual_hypothesis.tokens for actual_hypothesis in actual] == [
            actual_hypothesis.tokens for actual_hypothesis in expected
        ]
        assert [actual_hypothesis.truncated for actual_hypothesis in actual] == [
            actual_hypothesis.truncated for actual_hypothesis in expected
        ]
        for actual_hypothesis, expected_hypothesis in zip(actual, expected, strict=True):
            np.testing.assert_allclose(
                actual_hypothesis.token_scores,
                expected_hypothesis.token_scores,
                **tolerance(expected_hypothesis.token_scores),
            )
            np.testing.assert_allclose(
                actual_hypothesis.attention,
                expected_hypothesis.attention,
                **tolerance(expected_hypothesis.attention),
            )


@given(st.data())
def test_native_token_choice_matches_the_reference(data):
    """The C++ code equals :func:`uwaga.search.choose` on the log-probabilities of the vocabulary."""
    engine = ENGINE[data.draw(st.sampled_from(sorted(ENGINE)))]
    rows, vocabulary = 4, engine.vocabulary
    state = engine.start(engine.encode([(5, 6, 3), (7, 3)]), 2)
    tokens = np.array(data.draw(st.lists(st.integers(0, vocabulary - 1), min_size=rows, max_size=rows)))
    logits = engine.step(tokens, state, ALL_TOKENS).log_probs.astype(np.float64)
    banned = data.draw(
        st.lists(st.tuples(st.integers(0, rows - 1), st.integers(0, vocabulary - 1)), max_size=vocabulary * 3)
    )
    forced = data.draw(
        st.none() | st.lists(st.integers(-1, vocabulary - 1), min_size=rows, max_size=rows).map(np.array)
    )
    sampling = None
    if data.draw(st.booleans()):
        sampling = Sampling(
            np.array(data.draw(st.lists(st.floats(0, 0.999), min_size=rows, max_size=rows))),
            data.draw(st.sampled_from([0.5, 1.0, 2.0])),
            data.draw(st.sampled_from([0, 1, 4, 100])),
            data.draw(st.sampled_from([1.0, 0.9, 0.3])),
        )
    token_lists = st.lists(st.integers(-1, vocabulary - 1), min_size=3, max_size=3)
    choice = Choice(
        count=1 if sampling else data.draw(st.integers(1, vocabulary + 2)),
        banned=np.array(banned, dtype=np.int64).reshape(-1, 2) if banned else None,
        forced=forced,
        sampling=sampling,
        renormalise=data.draw(st.booleans()),
        extra_tokens=data.draw(st.none() | st.lists(token_lists, min_size=rows, max_size=rows).map(np.array)),
    )
    step = engine.step(tokens, state, choice)
    expected, log_probs = choose(logits, choice)
    finite = np.isfinite(log_probs)
    np.testing.assert_array_equal(np.isfinite(step.log_probs), finite)
    np.testing.assert_array_equal(step.tokens[finite], expected[finite])
    np.testing.assert_allclose(step.log_probs[finite], log_probs[finite], atol=2e-5, rtol=1e-5)


ENGINE = {precision: native_model(MODEL, precision) for precision in ("float32", "bfloat16", "int8")}


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ([[5, 3], []], "sentence 2: no tokens"),
        ([[5, 23, 3]], "sentence 1: token 23 is outside the source vocabulary of 23"),
        ([[-1, 3]], "token -1 is outside"),
        ([[5] * 25], "sentence 1: 25 tokens, .*at most 24"),
    ],
)
def test_invalid_sources_are_rejected(sources, message):
    with pytest.raises(DataError, match=message):
        ENGINE["float32"].encode(sources)


def test_invalid_tokens_and_lengths_are_rejected():
    engine = ENGINE["float32"]
    state = engine.start(engine.encode([[5, 3]]), 1)
    for token in (-1, 23, 2**40):
        with pytest.raises(DataError, match="outside the vocabulary of 23"):
            engine.step(np.array([token]), state, Choice(1))
    for choice in (
        Choice(1, banned=np.array([[0, 23]])),
        Choice(1, banned=np.array([[1, 2]])),
        Choice(1, forced=np.array([99])),
        Choice(1, forced=np.array([1, 2])),
    ):
        with pytest.raises(DataError):
            engine.step(np.array([2]), state, choice)
    with pytest.raises(DataError, match="tokens: "):
        engine.step(np.array([2, 2]), state, Choice(1))
    for _ in range(24):
        state = engine.step(np.array([4]), state, Choice(1)).state
    with pytest.raises(DataError, match="longer than the model"):
        engine.step(np.array([4]), state, Choice(1))


def test_non_finite_weights_are_rejected():
    for value in (float("nan"), float("inf")):
        model = random_model(BASE)
        with torch.no_grad():
            model.decoder[1].feed_forward.outer.weight[3, 2] = value
        for precision in ("float32", "bfloat16", "int8"):
            with pytest.raises(ModelError, match=r"decoder\.1\.feed_forward\.outer.*not finite"):
                native_model(model, precision)


def test_unavailable_instruction_set_cannot_be_forced(monkeypatch):
    missing = next((name for name in _core.ISAS if name not in available_isas()), None)
    monkeypatch.setenv("UWAGA_ISA", "mmx")
    with pytest.raises(SettingsError, match="UWAGA_ISA: 'mmx' is not one of portable"):
        native_model(MODEL)
    assert missing is not None
    monkeypatch.setenv("UWAGA_ISA", missing)
    with pytest.raises(SettingsError, match=f"does not support {missing}; choose one of portable"):
        native_model(MODEL)
    monkeypatch.setenv("UWAGA_ISA", "portable")
    assert native_model(MODEL).isa == "portable"
