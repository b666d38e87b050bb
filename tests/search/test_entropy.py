"""How undecided a model was at each token: closed forms, laws, engine and torch."""

from __future__ import annotations

import dataclasses

import native_models as models
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from precision import close_for
from toy_decoders import RecurrentToy

from uwaga.errors import SettingsError
from uwaga.results.translation import Hypothesis
from uwaga.search import SearchOptions, search
from uwaga.search.entropy import entropy, with_entropies
from uwaga.settings import TransformerSettings

SHAPE = TransformerSettings(
    encoder_layers=1, decoder_layers=2, width=16, heads=2, feed_forward=24, max_length=24, dropout=0.0
)
OPTIONS = SearchOptions(beam=3, nbest=2, max_length=10, max_ratio=9.0)


def test_by_hand():
    certain, even, half = [0.0, -np.inf, -np.inf, -np.inf], [np.log(0.25)] * 4, [np.log(0.5)] * 2
    table = np.array([certain, even, [*half, -np.inf, -np.inf]], dtype=np.float32)
    np.testing.assert_allclose(entropy(table), [0.0, np.log(4), np.log(2)], atol=1e-6)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-300, 300, width=32), min_size=1, max_size=40))
def test_it_lies_between_none_and_that_of_the_even_distribution(logits):
    log_probs = torch.log_softmax(torch.tensor([logits], dtype=torch.float32), dim=1).numpy()
    [found] = entropy(log_probs)
    assert 0.0 <= found <= np.log(len(logits))
    shuffled = np.random.default_rng(0).permutation(log_probs, axis=1)
    np.testing.assert_allclose(entropy(shuffled), found, atol=1e-12)


@pytest.mark.numerical
@pytest.mark.parametrize("precision", ["torch", "float32", "int8"])
def test_it_is_that_of_the_distribution_of_a_step(precision):
    model = models.random_model(SHAPE)
    decoder = model if precision == "torch" else models.native(model, precision)
    sources = models.sentences(5)
    options = dataclasses.replace(OPTIONS, entropy=True)
    for source, ways in zip(sources, search(decoder, sources, options), strict=True):
        for way in ways:
            assert len(way.entropies) == len(way.token_scores)
            state = decoder.start(decoder.encode([source]), 1)
            for token, score, found in zip(
                (decoder.symbols.start, *way.tokens), way.token_scores, way.entropies, strict=False
            ):
                step = decoder.step(np.array([token]), state, models.WHOLE)
                state = step.state
                probabilities = np.exp(step.log_probs[0].astype(np.float64))
                wanted = -np.sum(probabilities * step.log_probs[0])
                np.testing.assert_allclose(found, wanted, **close_for(wanted))
                assert np.abs(step.log_probs[0] - score).min() < 1e-4
                assert 0.0 <= found <= np.log(decoder.vocabulary)


@pytest.mark.numerical
def test_engine_equals_torch():
    model = models.random_model(SHAPE, seed=3)
    sources = models.sentences(6, seed=3)
    options = dataclasses.replace(OPTIONS, entropy=True, beam=1, nbest=1)
    for [one], [other] in zip(
        search(model, sources, options), search(models.native(model), sources, options), strict=True
    ):
        assert one.tokens == other.tokens
        np.testing.assert_allclose(one.entropies, other.entropies, **close_for(one.entropies))


def test_asking_changes_nothing_else_and_no_batch_does():
    decoder = models.native(models.random_model(SHAPE, seed=1))
    sources = models.sentences(7, seed=1)
    plain = search(decoder, sources, OPTIONS)
    asked = search(decoder, sources, dataclasses.replace(OPTIONS, entropy=True))
    assert [[dataclasses.replace(way, entropies=()) for way in ways] for ways in asked] == plain
    assert asked == with_entropies(decoder, sources, plain, decoder.symbols.start, 1)


def test_a_cut_or_empty_hypothesis():
    decoder = RecurrentToy(8)
    source = (4, 5, decoder.symbols.end)
    cut = Hypothesis((4, 5), 0.0, 0.0, (-1.0, -1.0), truncated=True)
    empty = Hypothesis((), 0.0, 0.0, (-1.0,))
    nothing = Hypothesis((), 0.0, 0.0, (), truncated=True)
    [[first, second, third]] = with_entropies(
        decoder, [source], [[cut, empty, nothing]], decoder.symbols.start, 100
    )
    assert [len(one.entropies) for one in (first, second, third)] == [2, 1, 0]
    assert first.entropies[0] == second.entropies[0]
    assert with_entropies(decoder, [source], [[]], decoder.symbols.start, 100) == [[]]


def test_it_is_not_measured_while_text_grows():
    with pytest.raises(SettingsError, match="cannot return entropy"):
        SearchOptions(beam=1, entropy=True).check_streams()
