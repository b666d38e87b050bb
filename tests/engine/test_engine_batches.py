"""The engine's promises: the same bits in any batch and on any number of threads; states are values."""

import threading
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from native_models import native, random_model, sentences

from uwaga.decoder import Choice
from uwaga.engine import _core
from uwaga.search import SearchOptions, search
from uwaga.settings import TransformerSettings

SHAPE = TransformerSettings(
    encoder_layers=1, decoder_layers=2, width=32, heads=4, feed_forward=48, max_length=40, norm="pre"
)
MODEL = random_model(SHAPE, spread=2.0, source=97, target=97)
SOURCES = sentences(200, seed=1, longest=30, vocabulary=97)
GREEDY = SearchOptions(beam=1, max_length=12)
BEAM = SearchOptions(beam=4, nbest=2, max_length=12)
SAMPLES = SearchOptions(sample=True, nbest=2, max_length=12, seed=4)
WAYS = {"greedy": GREEDY, "beam": BEAM, "samples": SAMPLES}


@cache
def engine(precision, threads=1, shared_width=384):
    return native(MODEL, precision, threads, shared_width=shared_width)


@cache
def alone(precision, way):
    found = []
    for source in SOURCES:
        found += search(engine(precision), [source], WAYS[way])
    return found


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("way", sorted(WAYS))
def test_results_are_the_same_bits_alone_and_in_any_batch(precision, way):
    """Hypotheses hold tokens and every score: equality is of bits."""
    expected = alone(precision, way)
    rng = np.random.default_rng(3)
    for threads, budget in ((1, 4096), (2, 700), (3, 40), (4, 2000)):
        order = rng.permutation(len(SOURCES)).tolist()
        options = replace(WAYS[way], batch_tokens=budget)
        found = search(engine(precision, threads), [SOURCES[number] for number in order], options)
        assert found == [expected[number] for number in order]


@settings(max_examples=8, deadline=None)
@given(st.lists(st.integers(0, 199), min_size=1, max_size=40), st.integers(1, 4), st.integers(1, 3))
def test_log_probabilities_are_the_same_bits_beside_any_neighbours(numbers, threads, beams):
    sources = [SOURCES[number] for number in numbers]
    together = engine("int8", threads)
    single = engine("int8")
    state = together.start(together.encode(sources), beams)
    states = [single.start(single.encode([source]), beams) for source in sources]
    rng = np.random.default_rng(0)
    tokens = np.full(len(sources) * beams, 2)
    for _ in range(3):
        made = together.step(tokens, state, Choice(5, attention=True))
        for number in range(len(sources)):
            rows = slice(number * beams, (number + 1) * beams)
            one = single.step(tokens[rows], states[number], Choice(5, attention=True))
            assert np.array_equal(one.log_probs, made.log_probs[rows])
            assert np.array_equal(one.tokens, made.tokens[rows])
            assert np.array_equal(one.attention, made.attention[rows, : len(sources[number])])
            assert not made.attention[rows, len(sources[number]) :].any()
            states[number] = one.state
        state = made.state
        tokens = rng.integers(4, 97, len(tokens))


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_threads_that_share_a_matrix_give_the_same_bits(precision):
    """Few rows are done by all threads together, each its columns; the vocabulary is cut into four."""
    wide = {"width": 64, "feed_forward": 100, "gated": True, "output_bias": True, "tie": "decoder"}
    model = random_model(SHAPE.model_copy(update=wide), spread=2.0, source=97, target=9001)
    alone, *teams = (native(model, precision, threads, shared_width=1) for threads in (1, 2, 3))
    bans = np.array([[0, 9000], [1, 5], [1, 2400], [1, 7000]])
    for choice in (
        Choice(9, attention=True),
        Choice(4, banned=bans, renormalise=True),
        Choice(1, all_tokens=True),
        Choice(1, forced=np.array([8999, -1, 3])),
    ):
        steps = []
        for one in (alone, *teams):
            state = one.start(one.encode(SOURCES[:3]), 1)
            for token in (5, 6):
                state = one.step(np.full(3, token), state, Choice(1)).state
            steps.append(one.step(np.full(3, 9), state, choice))
        for step in steps[1:]:
            assert np.array_equal(step.tokens, steps[0].tokens)
            assert np.array_equal(step.log_probs, steps[0].log_probs)
            if choice.attention:
                assert np.array_equal(step.attention, steps[0].attention)


def test_a_state_may_be_stepped_any_number_of_times():
    model = engine("float32")
    state = model.start(model.encode(SOURCES[:2]), 2)
    for token in (5, 6, 7):
        state = model.step(np.full(4, token), state, Choice(1)).state
    first = model.step(np.array([8, 9, 10, 11]), state, Choice(97))
    for _ in range(40):  # more than a page of entries
        model.step(np.full(4, 30), state, Choice(1))
    again = model.step(np.array([8, 9, 10, 11]), state, Choice(97))
    assert np.array_equal(first.log_probs, again.log_probs)
    after = [model.step(np.full(4, 12), step.state, Choice(97)).log_probs for step in (first, again)]
    assert np.array_equal(*after)


def test_reorder_and_select_leave_their_state_as_it_was():
    model = engine("float32")
    state = model.start(model.encode(SOURCES[:3]), 2)
    for token in (5, 6):
        state = model.step(np.arange(6) + token, state, Choice(1)).state
    before = model.step(np.full(6, 9), state, Choice(97)).log_probs
    turned = state.reorder(np.array([1, 0, 2, 2, 5, 4]))
    chosen = state.select(np.array([2, 0]))
    assert np.array_equal(model.step(np.full(6, 9), turned, Choice(97)).log_probs, before[[1, 0, 2, 2, 5, 4]])
    assert np.array_equal(model.step(np.full(4, 9), chosen, Choice(97)).log_probs, before[[4, 5, 0, 1]])
    assert np.array_equal(model.step(np.full(6, 9), state, Choice(97)).log_probs, before)
    for rows in ([2, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 6], [0, 1], [-1, 1, 2, 3, 4, 5]):
        with pytest.raises(ValueError, match="row"):
            state.reorder(np.array(rows))
    with pytest.raises(ValueError, match="no such sentence"):
        state.select(np.array([3]))


def test_joined_states_step_as_apart():
    model = engine("int8")
    one = model.start(model.encode(SOURCES[:2]), 2)
    for token in (5, 6, 7):
        one = model.step(np.full(4, token), one, Choice(1)).state
    other = model.start(model.encode(SOURCES[2:3]), 2)
    joined = model.join(one, other)
    tokens = np.array([8, 9, 10, 11, 2, 2])
    for _ in range(3):
        together = model.step(tokens, joined, Choice(9))
        apart = [model.step(tokens[:4], one, Choice(9)), model.step(tokens[4:], other, Choice(9))]
        assert np.array_equal(together.log_probs, np.concatenate([step.log_probs for step in apart]))
        joined, one, other = together.state, apart[0].state, apart[1].state
    with pytest.raises(ValueError, match="different models or beam"):
        model.join(joined, model.start(model.encode(SOURCES[:1]), 1))


def test_threads_share_a_model():
    expected = alone("int8", "greedy")
    model = engine("int8", 2)
    wrong = []

    def work(start):
        part = list(range(start, len(SOURCES), 4))
        found = search(model, [SOURCES[number] for number in part], GREEDY)
        wrong.extend(number for number, one in zip(part, found, strict=True) if one != expected[number])

    threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_state_outlives_its_model():
    model = native(MODEL)
    state = model.start(model.encode(SOURCES[:1]), 1)
    expected = model.step(np.array([2]), state, Choice(3)).log_probs
    del model
    assert isinstance(state, _core.State)
    found = state.step(np.array([2]), 3)
    assert np.array_equal(found[1], expected)
