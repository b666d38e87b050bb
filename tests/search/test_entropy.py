"""Entropy at each token: hand calculations, bounds, and agreement of engine and torch."""

import dataclasses

import native_models as models
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from precision import tolerance
from search_inputs import inputs
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


def test_entropy_matches_hand_calculation():
    certain, even, half = [0.0, -np.inf, -np.inf, -np.inf], [np.log(0.25)] * 4, [np.log(0.5)] * 2
    table = np.array([certain, even, [*half, -np.inf, -np.inf]], dtype=np.float32)
    np.testing.assert_allclose(entropy(table), [0.0, np.log(4), np.log(2)], atol=1e-6)


@given(st.lists(st.floats(-300, 300, width=32), min_size=1, max_size=40))
def test_entropy_is_between_zero_and_log_vocabulary_size(logits):
    log_probs = torch.log_softmax(torch.tensor([logits], dtype=torch.float32), dim=1).numpy()
    [value] = entropy(log_probs)
    assert 0.0 <= value <= np.log(len(logits))
    shuffled = np.random.default_rng(0).permutation(log_probs, axis=1)
    np.testing.assert_allclose(entropy(shuffled), value, atol=1e-12)


@pytest.mark.numerical
@pytest.mark.parametrize("precision", ["torch", "float32", "int8"])
def test_entropies_match_the_token_distributions_of_steps(precision):
    model = models.random_model(SHAPE)
    decoder = model if precision == "torch" else models.native_model(model, precision)
    sources = models.sentences(5)
    options = dataclasses.replace(OPTIONS, entropy=True)
    for source, hypotheses in zip(sources, search(decoder, inputs(sources), options), strict=True):
        for hypothesis in hypotheses:
            assert len(hypothesis.entropies) == len(hypothesis.token_scores)
            state = decoder.start(decoder.encode([source]), 1)
            for token, score, value in zip(
                (decoder.symbols.start, *hypothesis.tokens),
                hypothesis.token_scores,
                hypothesis.entropies,
                strict=False,
            ):
                step = decoder.step(np.array([token]), state, models.ALL_TOKENS)
                state = step.state
                probabilities = np.exp(step.log_probs[0].astype(np.float64))
                expected = -np.sum(probabilities * step.log_probs[0])
                np.testing.assert_allclose(value, expected, **tolerance(expected))
                assert np.abs(step.log_probs[0] - score).min() < 1e-4
                assert 0.0 <= value <= np.log(decoder.vocabulary)


@pytest.mark.numerical
def test_entropies_of_the_engine_match_torch():
    model = models.random_model(SHAPE, seed=3)
    sources = models.sentences(6, seed=3)
    options = dataclasses.replace(OPTIONS, entropy=True, beam=1, nbest=1)
    for [torch_hypothesis], [engine_hypothesis] in zip(
        search(model, inputs(sources), options),
        search(models.native_model(model), inputs(sources), options),
        strict=True,
    ):
        assert torch_hypothesis.tokens == engine_hypothesis.tokens
        np.testing.assert_allclose(
            torch_hypothesis.entropies, engine_hypothesis.entropies, **tolerance(torch_hypothesis.entropies)
        )


def test_entropies_do_not_change_other_results_or_depend_on_the_batch():
    decoder = models.native_model(models.random_model(SHAPE, seed=1))
    sources = models.sentences(7, seed=1)
    plain = search(decoder, inputs(sources), OPTIONS)
    results = search(decoder, inputs(sources), dataclasses.replace(OPTIONS, entropy=True))
    assert [[dataclasses.replace(result, entropies=()) for result in nbest] for nbest in results] == plain
    assert results == with_entropies(
        decoder, inputs(sources), plain, dataclasses.replace(OPTIONS, batch_tokens=1)
    )


def test_truncated_and_empty_hypotheses_have_entropies():
    decoder = RecurrentToy(8)
    source = (4, 5, decoder.symbols.end)
    truncated = Hypothesis((4, 5), 0.0, 0.0, (-1.0, -1.0), truncated=True)
    empty = Hypothesis((), 0.0, 0.0, (-1.0,))
    truncated_empty = Hypothesis((), 0.0, 0.0, (), truncated=True)
    [[first, second, third]] = with_entropies(
        decoder, inputs([source]), [[truncated, empty, truncated_empty]], OPTIONS
    )
    assert [len(hypothesis.entropies) for hypothesis in (first, second, third)] == [2, 1, 0]
    assert first.entropies[0] == second.entropies[0]
    assert with_entropies(decoder, inputs([source]), [[]], OPTIONS) == [[]]


def test_streams_reject_the_entropy_option():
    with pytest.raises(SettingsError, match="cannot return entropy"):
        SearchOptions(beam=1, entropy=True).check_streams()
