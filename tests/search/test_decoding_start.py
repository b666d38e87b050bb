"""The option ``start`` in searches, in streams and for forced targets."""

import dataclasses

import numpy as np
import pytest
import tiny_models as tiny
from search_inputs import inputs
from toy_decoders import JoiningToy, RecurrentToy

from uwaga.errors import SettingsError
from uwaga.search import SearchOptions, search, stream, to_generation_config
from uwaga.translator import Model, Translator
from uwaga.translator.score import force, parallel_scorer, step_scorer
from uwaga.translator.text import TokenPair

SOURCES = [[5, 9, 2], [2], [7, 7, 4, 30, 2]]
OTHER_START = 6
OPTIONS = [{"beam": 1}, {"beam": 3, "nbest": 2}, {"sample": True, "nbest": 2, "seed": 4}]


def starting_from(decoder, start):
    """Return the decoder with its start symbol replaced."""
    decoder.symbols = dataclasses.replace(decoder.symbols, start=start)
    return decoder


@pytest.mark.parametrize("kind", [RecurrentToy, JoiningToy])
@pytest.mark.parametrize("overrides", OPTIONS, ids=str)
def test_start_option_replaces_the_start_symbol(kind, overrides):
    options = SearchOptions(max_length=9, attention=True, **overrides)
    results = search(kind(9), inputs(SOURCES), dataclasses.replace(options, start=OTHER_START))
    expected = search(starting_from(kind(9), OTHER_START), inputs(SOURCES), options)
    for nbest, expected_nbest in zip(results, expected, strict=True):
        for hypothesis, peer in zip(nbest, expected_nbest, strict=True):
            assert (hypothesis.tokens, hypothesis.token_scores) == (peer.tokens, peer.token_scores)
            assert OTHER_START not in hypothesis.tokens
            assert np.array_equal(hypothesis.attention, peer.attention)
    assert results != search(kind(9), inputs(SOURCES), options)


def test_stream_uses_the_start_option():
    options = SearchOptions(beam=1, max_length=9, start=OTHER_START)
    events = list(stream(RecurrentToy(9), inputs(SOURCES), options))
    expected = search(
        starting_from(RecurrentToy(9), OTHER_START), inputs(SOURCES), SearchOptions(beam=1, max_length=9)
    )
    for number, [hypothesis] in enumerate(expected):
        assert [e.token for e in events if e.sentence == number][:-1] == list(hypothesis.tokens)


def test_start_option_applies_to_scores_of_forced_targets():
    options = SearchOptions(beam=1, max_length=9, start=OTHER_START)
    decoder = RecurrentToy(9)
    for source, [best] in zip(SOURCES, search(decoder, inputs(SOURCES), options), strict=True):
        target = [*best.tokens, 2][: len(best.token_scores)]
        pair = TokenPair(source, target)
        [scores] = step_scorer(decoder)([pair], OTHER_START)
        assert scores == pytest.approx(best.token_scores, abs=1e-6)
        forced = force(decoder, pair, OTHER_START)
        assert forced.token_scores == pytest.approx(best.token_scores, abs=1e-6)
        assert scores != pytest.approx(step_scorer(decoder)([pair])[0], abs=1e-3)


def test_translator_applies_the_start_option_to_scores_and_attention():
    tokeniser = tiny.tokeniser()
    model = tiny.transformer(tiny.TINY, tokeniser, tokeniser)
    options = dataclasses.replace(tiny.SEARCH, start=40, beam=1)
    translators = [
        Translator(Model(model, tokeniser, tokeniser, options, scorer=scorer))
        for scorer in (step_scorer(model), parallel_scorer(model))
    ]
    pairs = list(zip(tiny.ENGLISH[:3], tiny.GERMAN[:3], strict=True))
    stepwise, parallel = [translator.score(pairs) for translator in translators]
    for step_score, parallel_score, (source, target) in zip(stepwise, parallel, pairs, strict=True):
        assert step_score.token_scores == pytest.approx(parallel_score.token_scores, abs=1e-4)
        assert translators[0].attend(source, target).token_scores == pytest.approx(
            step_score.token_scores, abs=1e-4
        )
    plain = Translator(Model(model, tokeniser, tokeniser, tiny.SEARCH)).score(pairs)
    assert plain[0].log_prob != pytest.approx(stepwise[0].log_prob, abs=1e-2)


def test_start_option_must_be_a_token_of_the_vocabulary():
    with pytest.raises(SettingsError, match="start: token 9 is outside the vocabulary of 9"):
        search(RecurrentToy(9), inputs(SOURCES), SearchOptions(start=9))
    with pytest.raises(SettingsError, match="start must be a whole number, 0 or more, not -1"):
        SearchOptions(start=-1)


def test_generation_config_contains_the_start_option():
    config = to_generation_config(SearchOptions(start=OTHER_START), RecurrentToy(9).symbols, 20)
    assert config["decoder_start_token_id"] == OTHER_START
