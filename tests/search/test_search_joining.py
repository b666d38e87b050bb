"""Continuous batching: results do not depend on other sentences or on when a sentence enters."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_inputs import inputs
from toy_decoders import JoiningToy, RecurrentToy

from uwaga.search import SearchOptions, search
from uwaga.search.length_batching import free_slots

END = 2
OPTIONS = [
    {"beam": 1},
    {"beam": 1, "no_repeat_ngram": 3, "min_length": 3},
    {"beam": 3, "nbest": 3, "no_repeat_ngram": 2, "min_length": 4, "attention": True},
    {"beam": 4, "nbest": 2, "length_formula": "gnmt", "early_stopping": True, "force_end": True},
    {"beam": 2, "early_stopping": "estimate", "score_forced": False},
    {"sample": True, "nbest": 2, "temperature": 0.7, "top_k": 5, "seed": 3, "attention": True},
]
sentences = st.lists(st.lists(st.integers(4, 40), max_size=9), min_size=1, max_size=14)


def assert_equal(hypothesis, expected):
    assert hypothesis.tokens == expected.tokens
    assert (hypothesis.score, hypothesis.log_prob, hypothesis.token_scores) == (
        expected.score,
        expected.log_prob,
        expected.token_scores,
    )
    assert hypothesis.truncated == expected.truncated
    assert (hypothesis.attention is None) == (expected.attention is None)
    assert hypothesis.attention is None or np.array_equal(hypothesis.attention, expected.attention)


@pytest.mark.parametrize("changes", OPTIONS, ids=str)
@given(sources=sentences, budget=st.integers(1, 80), seed=st.integers(0, 5), data=st.data())
def test_results_do_not_depend_on_when_a_sentence_joins_the_batch(changes, sources, budget, seed, data):
    sources = [[*source, END] for source in sources]
    prefix = st.lists(st.integers(4, 8), max_size=3)
    prefixes = [data.draw(prefix) for _ in sources]
    options = SearchOptions(**({"max_length": 9, "batch_tokens": budget} | changes))
    toy = {"vocabulary": 9, "seed": seed, "end_bias": 1.0}
    results = search(JoiningToy(**toy), inputs(sources, prefixes=prefixes), options)
    for source, prefix, nbest in zip(sources, prefixes, results, strict=True):
        (expected_nbest,) = search(RecurrentToy(**toy), inputs([source], prefixes=[prefix]), options)
        assert len(expected_nbest) == len(nbest)
        for hypothesis, expected in zip(expected_nbest, nbest, strict=True):
            assert_equal(hypothesis, expected)


def test_joining_a_running_batch_saves_decoder_steps():
    random = np.random.default_rng(1)
    sources = [[*random.integers(4, 40, size=random.integers(1, 12)).tolist(), END] for _ in range(60)]
    steps = {}
    for kind in (RecurrentToy, JoiningToy):
        decoder = kind(9, seed=4, end_bias=0.5)
        search(decoder, inputs(sources), SearchOptions(beam=1, max_length=20, batch_tokens=60))
        steps[kind] = decoder.calls["step"]
    assert decoder.calls["join"] > 3
    assert steps[JoiningToy] < 0.8 * steps[RecurrentToy]


@settings(deadline=None)
@given(
    running=st.lists(st.integers(1, 30), max_size=8),
    waiting=st.lists(st.integers(1, 30), max_size=8),
    rows=st.integers(1, 5),
    budget=st.integers(1, 300),
)
def test_sentences_admitted_to_free_slots_stay_within_the_token_budget(running, waiting, rows, budget):
    count = free_slots(np.array(running, dtype=int), np.array(waiting, dtype=int), rows, budget)
    assert 0 <= count <= len(waiting)
    if count > 1 or (count and running):
        assert rows * (sum(running) + sum(waiting[:count])) <= budget
    if waiting and not running:
        assert count >= 1
