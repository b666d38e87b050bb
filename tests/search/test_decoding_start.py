"""``start``: what decoding starts from, in the search, in streams and where targets are given."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tiny_models as tiny
from toy_decoders import JoiningToy, RecurrentToy

from uwaga.errors import SettingsError
from uwaga.search import SearchOptions, search, stream, to_generation_config
from uwaga.translator import Model, Translator
from uwaga.translator.score import force, parallel_scorer, step_scorer

SOURCES = [[5, 9, 2], [2], [7, 7, 4, 30, 2]]
OTHER = 6
WAYS = [{"beam": 1}, {"beam": 3, "nbest": 2}, {"sample": True, "nbest": 2, "seed": 4}]


def starting_from(decoder, start):
    """The same decoder with another start symbol of its own."""
    decoder.symbols = dataclasses.replace(decoder.symbols, start=start)
    return decoder


@pytest.mark.parametrize("kind", [RecurrentToy, JoiningToy])
@pytest.mark.parametrize("ways", WAYS, ids=str)
def test_to_start_elsewhere_is_to_have_another_start_symbol(kind, ways):
    options = SearchOptions(max_length=9, attention=True, **ways)
    told = search(kind(9), SOURCES, dataclasses.replace(options, start=OTHER))
    born = search(starting_from(kind(9), OTHER), SOURCES, options)
    for ours, theirs in zip(told, born, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            assert (one.tokens, one.token_scores) == (other.tokens, other.token_scores)
            assert OTHER not in one.tokens
            assert np.array_equal(one.attention, other.attention)
    assert told != search(kind(9), SOURCES, options)


def test_a_stream_starts_there_too():
    options = SearchOptions(beam=1, max_length=9, start=OTHER)
    events = list(stream(RecurrentToy(9), SOURCES, options))
    born = search(starting_from(RecurrentToy(9), OTHER), SOURCES, SearchOptions(beam=1, max_length=9))
    for number, [hypothesis] in enumerate(born):
        assert [e.token for e in events if e.sentence == number][:-1] == list(hypothesis.tokens)


def test_given_targets_are_scored_from_there():
    options = SearchOptions(beam=1, max_length=9, start=OTHER)
    decoder = RecurrentToy(9)
    for source, [best] in zip(SOURCES, search(decoder, SOURCES, options), strict=True):
        target = [*best.tokens, 2][: len(best.token_scores)]
        [scores] = step_scorer(decoder)([source], [target], OTHER)
        assert scores == pytest.approx(best.token_scores, abs=1e-6)
        forced = force(decoder, source, target, OTHER)
        assert forced.token_scores == pytest.approx(best.token_scores, abs=1e-6)
        assert scores != pytest.approx(step_scorer(decoder)([source], [target])[0], abs=1e-3)


def test_a_translator_scores_and_attends_from_where_it_starts():
    tokeniser = tiny.tokeniser()
    model = tiny.transformer(tiny.TINY, tokeniser, tokeniser)
    options = dataclasses.replace(tiny.SEARCH, start=40, beam=1)
    made = [
        Translator(Model(model, tokeniser, tokeniser, options, scorer=scorer))
        for scorer in (step_scorer(model), parallel_scorer(model))
    ]
    pairs = list(zip(tiny.ENGLISH[:3], tiny.GERMAN[:3], strict=True))
    by_steps, at_once = [translator.score(pairs) for translator in made]
    for one, other, (source, target) in zip(by_steps, at_once, pairs, strict=True):
        assert one.token_scores == pytest.approx(other.token_scores, abs=1e-4)
        assert made[0].attend(source, target).token_scores == pytest.approx(one.token_scores, abs=1e-4)
    plain = Translator(Model(model, tokeniser, tokeniser, tiny.SEARCH)).score(pairs)
    assert plain[0].log_prob != pytest.approx(by_steps[0].log_prob, abs=1e-2)


def test_it_is_a_token_of_the_model():
    with pytest.raises(SettingsError, match="start: token 9 is outside the vocabulary of 9"):
        search(RecurrentToy(9), SOURCES, SearchOptions(start=9))
    with pytest.raises(SettingsError, match="start must be a whole number, 0 or more, not -1"):
        SearchOptions(start=-1)


def test_a_checkpoint_says_it():
    told = to_generation_config(SearchOptions(start=OTHER), RecurrentToy(9).symbols, 20)
    assert told["decoder_start_token_id"] == OTHER
