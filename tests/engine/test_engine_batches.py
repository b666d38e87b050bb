"""The engine's results are bit-identical in any batch and on any number of threads; states are immutable."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from native_models import native_model, random_model, random_shortlist, sentences
from prompted_models import GPT2, family_settings, random_decoder
from search_inputs import inputs

from uwaga.decoder import Choice
from uwaga.engine import _core
from uwaga.search import SearchOptions, search
from uwaga.settings import TransformerSettings

SHAPE = TransformerSettings(
    encoder_layers=1, decoder_layers=2, width=32, heads=4, feed_forward=48, max_length=40, norm="pre"
)
MODEL = random_model(SHAPE, spread=2.0, source=97, target=97)
MODELS = {
    "transformer": MODEL,
    "shortlist": MODEL,
    "gpt2": random_decoder(GPT2, spread=2.0, vocabulary=97),
    "gemma2": random_decoder(family_settings("gemma2"), spread=1.5, vocabulary=97),
}
SHORTLIST = random_shortlist(97, 97)
SOURCES = sentences(100, seed=1, max_length=28, vocabulary=97)
OPTIONS = {
    "greedy": SearchOptions(beam=1, max_length=12),
    "beam": SearchOptions(beam=4, nbest=2, max_length=12),
    "samples": SearchOptions(sample=True, nbest=2, max_length=12, top_p=0.9, seed=4),
}


@cache
def engine(precision, threads=1, shared_width=384, name="transformer"):
    model = native_model(MODELS[name], precision, threads, shared_width=shared_width)
    return model.with_shortlist(SHORTLIST) if name == "shortlist" else model


@cache
def separate_results(precision, search_kind, name):
    model, options = engine(precision, name=name), OPTIONS[search_kind]
    return [search(model, inputs([source]), options)[0] for source in SOURCES]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("search_kind", sorted(OPTIONS))
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8", "int4"])
@pytest.mark.parametrize("name", MODELS)
def test_results_do_not_depend_on_the_batch(name, precision, search_kind):
    """Hypotheses contain tokens and all scores, so they are compared bit for bit."""
    expected = separate_results(precision, search_kind, name)
    rng = np.random.default_rng(3)
    for threads, budget, shared_width in ((1, 4096, 384), (2, 700, 1), (3, 40, 384), (4, 2000, 384)):
        order = rng.permutation(len(SOURCES)).tolist()
        options = replace(OPTIONS[search_kind], batch_tokens=budget)
        model = engine(precision, threads, shared_width, name)
        results = search(model, inputs([SOURCES[index] for index in order]), options)
        assert results == [expected[index] for index in order]


@settings(max_examples=8, deadline=None)
@given(st.lists(st.integers(0, 99), min_size=1, max_size=40), st.integers(1, 4), st.integers(1, 3))
def test_log_probs_do_not_depend_on_the_batch(numbers, threads, beams):
    sources = [SOURCES[index] for index in numbers]
    batch_engine = engine("int8", threads)
    single_engine = engine("int8")
    state = batch_engine.start(batch_engine.encode(sources), beams)
    states = [single_engine.start(single_engine.encode([source]), beams) for source in sources]
    rng = np.random.default_rng(0)
    tokens = np.full(len(sources) * beams, 2)
    for _ in range(3):
        batch_step = batch_engine.step(tokens, state, Choice(5, attention=True))
        for index in range(len(sources)):
            rows = slice(index * beams, (index + 1) * beams)
            step = single_engine.step(tokens[rows], states[index], Choice(5, attention=True))
            assert np.array_equal(step.log_probs, batch_step.log_probs[rows])
            assert np.array_equal(step.tokens, batch_step.tokens[rows])
            assert np.array_equal(step.attention, batch_step.attention[rows, : len(sources[index])])
            assert not batch_step.attention[rows, len(sources[index]) :].any()
            states[index] = step.state
        state = batch_step.state
        tokens = rng.integers(4, 97, len(tokens))


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_results_do_not_depend_on_how_threads_divide_columns(precision):
    """With few rows, each thread computes some columns of all rows; the vocabulary is divided into four."""
    wide = {"width": 64, "feed_forward": 100, "gated": True, "output_bias": True, "tie": "decoder"}
    model = random_model(SHAPE.model_copy(update=wide), spread=2.0, source=97, target=9001)
    single, *parallel = (native_model(model, precision, threads, shared_width=1) for threads in (1, 2, 3))
    banned = np.array([[0, 9000], [1, 5], [1, 2400], [1, 7000]])
    for choice in (
        Choice(9, attention=True),
        Choice(4, banned=banned, renormalise=True),
        Choice(1, all_tokens=True),
        Choice(1, forced=np.array([8999, -1, 3])),
    ):
        steps = []
        for decoder in (single, *parallel):
            state = decoder.start(decoder.encode(SOURCES[:3]), 1)
            for token in (5, 6):
                state = decoder.step(np.full(3, token), state, Choice(1)).state
            steps.append(decoder.step(np.full(3, 9), state, choice))
        for step in steps[1:]:
            assert np.array_equal(step.tokens, steps[0].tokens)
            assert np.array_equal(step.log_probs, steps[0].log_probs)
            if choice.attention:
                assert np.array_equal(step.attention, steps[0].attention)


def test_stepping_a_state_does_not_modify_it():
    model = engine("float32")
    state = model.start(model.encode(SOURCES[:2]), 2)
    for token in (5, 6, 7):
        state = model.step(np.full(4, token), state, Choice(1)).state
    first = model.step(np.array([8, 9, 10, 11]), state, Choice(97))
    for _ in range(40):  # more than a page of entries
        model.step(np.full(4, 30), state, Choice(1))
    repeated = model.step(np.array([8, 9, 10, 11]), state, Choice(97))
    assert np.array_equal(first.log_probs, repeated.log_probs)
    later = [model.step(np.full(4, 12), step.state, Choice(97)).log_probs for step in (first, repeated)]
    assert np.array_equal(*later)


def test_reorder_and_select_do_not_modify_the_state():
    model = engine("float32")
    state = model.start(model.encode(SOURCES[:3]), 2)
    for token in (5, 6):
        state = model.step(np.arange(6) + token, state, Choice(1)).state
    expected = model.step(np.full(6, 9), state, Choice(97)).log_probs
    reordered = state.reorder(np.array([1, 0, 2, 2, 5, 4]))
    selected = state.select(np.array([2, 0]))
    assert np.array_equal(
        model.step(np.full(6, 9), reordered, Choice(97)).log_probs, expected[[1, 0, 2, 2, 5, 4]]
    )
    assert np.array_equal(model.step(np.full(4, 9), selected, Choice(97)).log_probs, expected[[4, 5, 0, 1]])
    assert np.array_equal(model.step(np.full(6, 9), state, Choice(97)).log_probs, expected)
    for rows in ([2, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 6], [0, 1], [-1, 1, 2, 3, 4, 5]):
        with pytest.raises(ValueError, match="row"):
            state.reorder(np.array(rows))
    with pytest.raises(ValueError, match="no such sentence"):
        state.select(np.array([3]))


@pytest.mark.parametrize("name", ["transformer", "gpt2"])
def test_joined_states_equal_separate_states(name):
    model = engine("int8", name=name)
    first = model.start(model.encode(SOURCES[:2]), 2)
    for token in (5, 6, 7):
        first = model.step(np.full(4, token), first, Choice(1)).state
    second = model.start(model.encode(SOURCES[2:3]), 2)
    joined = model.join(first, second)
    tokens = np.array([8, 9, 10, 11, 2, 2])
    for _ in range(3):
        joint = model.step(tokens, joined, Choice(9))
        separate = [model.step(tokens[:4], first, Choice(9)), model.step(tokens[4:], second, Choice(9))]
        assert np.array_equal(joint.log_probs, np.concatenate([step.log_probs for step in separate]))
        joined, first, second = joint.state, separate[0].state, separate[1].state
    with pytest.raises(ValueError, match="different models or beam"):
        model.join(joined, model.start(model.encode(SOURCES[:1]), 1))


@pytest.mark.parametrize("name", ["transformer", "gpt2"])
def test_model_is_thread_safe(name):
    expected, model = separate_results("int8", "greedy", name), engine("int8", 2, name=name)
    parts = [SOURCES[first::4] for first in range(4)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda part: search(model, inputs(part), OPTIONS["greedy"]), parts))
    assert results == [expected[first::4] for first in range(4)]


def test_state_remains_usable_after_its_model_is_deleted():
    model = native_model(MODEL)
    state = model.start(model.encode(SOURCES[:1]), 1)
    expected = model.step(np.array([2]), state, Choice(3)).log_probs
    del model
    assert isinstance(state, _core.State)
    result = state.step(np.array([2]), 3)
    assert np.array_equal(result[1], expected)
