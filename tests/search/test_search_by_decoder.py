"""The search in the native engine is bit-identical to the numpy search."""

import copy
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from native_models import (
    SYMBOLS,
    native_model,
    random_model,
    recurrent_settings,
    sentences,
    transformer_settings,
)
from prompted_models import decoder_only_settings, prompts, random_decoder
from random_searches import options, phrases_for, prefixes_for, random_shortlist, search_or_error
from search_inputs import inputs

from uwaga.decoder import BeamRules, NewSentence
from uwaga.errors import DataError, ModelError
from uwaga.search import SearchOptions, search
from uwaga.search.decoder_batch import DecoderBatch
from uwaga.search.phrases import Phrase, Phrases
from uwaga.settings import TransformerSettings

SHAPE = TransformerSettings(
    encoder_layers=1, decoder_layers=1, width=16, heads=2, feed_forward=24, max_length=24
)
ALLOW_SLOW_EXAMPLES = settings(suppress_health_check=[HealthCheck.too_slow])


def stepwise(engine):
    """Return a copy of a model that the numpy search calls at each step."""
    copied = copy.copy(engine)
    copied.beam_search = None
    return copied


def check_equal(engine, sources, options, prefixes, phrases=None):
    hypotheses, expected = (
        search_or_error(decoder, sources, options, prefixes, phrases)
        for decoder in (engine, stepwise(engine))
    )
    assert hypotheses == expected  # all fields are compared, bit for bit
    event("an error" if isinstance(expected, str) else "hypotheses")
    if prefixes is None and not isinstance(expected, str):
        for index, (source, nbest) in enumerate(zip(sources, expected, strict=True)):
            sentence_phrases = None if phrases is None else [phrases[index]]
            assert search(engine, inputs([source], phrases=sentence_phrases), options) == [nbest]


@ALLOW_SLOW_EXAMPLES
@given(st.data())
def test_engine_search_matches_numpy_search(data):
    seed, count = data.draw(st.integers(0, 10**6)), data.draw(st.integers(1, 9))
    shape = data.draw(transformer_settings() | recurrent_settings())
    spread = data.draw(st.sampled_from([0.0, 1.0, 3.0]))
    model = random_model(shape, seed, spread=spread)
    engine = native_model(
        model, data.draw(st.sampled_from(["float32", "int8"])), data.draw(st.integers(1, 2))
    )
    if data.draw(st.booleans()):
        engine = engine.with_shortlist(random_shortlist(seed))
    arguments = data.draw(options()), data.draw(prefixes_for(count)), data.draw(phrases_for(count))
    check_equal(engine, sentences(count, seed), *arguments)


@ALLOW_SLOW_EXAMPLES
@given(st.data())
def test_engine_continuations_match_numpy_search(data):
    seed, count = data.draw(st.integers(0, 10**6)), data.draw(st.integers(1, 7))
    engine = native_model(random_decoder(data.draw(decoder_only_settings()), seed, spread=2.0))
    search_options = replace(data.draw(options()), max_ratio=float("inf"))
    check_equal(
        engine, prompts(count, seed), search_options, data.draw(prefixes_for(count)),
        data.draw(phrases_for(count)),
    )  # fmt: skip


@ALLOW_SLOW_EXAMPLES
@given(st.data())
def test_search_ends_at_any_of_several_end_tokens(data):
    seed, count = data.draw(st.integers(0, 10**6)), data.draw(st.integers(1, 5))
    plain = native_model(random_decoder(data.draw(decoder_only_settings()), seed, spread=2.0))
    engine = copy.copy(plain)
    others = data.draw(st.lists(st.integers(4, plain.vocabulary - 1), min_size=1, max_size=9, unique=True))
    half = data.draw(st.integers(0, len(others)))
    engine.symbols = replace(plain.symbols, other_ends=tuple(others[:half]), stops=tuple(others[half:]))
    search_options = replace(data.draw(options()), max_ratio=float("inf"), banned=())
    check_equal(engine, prompts(count, seed), search_options, None)
    greedy = SearchOptions(beam=1, max_length=12, max_ratio=float("inf"))
    for decoder in (engine, stepwise(engine)):
        pairs = zip(
            *(search(model, inputs(prompts(count, seed)), greedy) for model in (plain, decoder)), strict=True
        )
        for [complete], [ended] in pairs:
            end = next(
                (end for end, token in enumerate(complete.tokens) if token in others), len(complete.tokens)
            )
            length = end + (end < len(complete.tokens) and complete.tokens[end] in others[half:])
            assert ended.tokens == complete.tokens[:length]
            assert ended.token_scores == complete.token_scores[: end + 1]
            assert ended.truncated == (complete.truncated and end == len(complete.tokens))


def test_waiting_sentences_enter_a_batch_in_progress(monkeypatch):
    engine, sources = native_model(random_model(SHAPE, spread=2.0)), sentences(60)
    entries = []
    admit = DecoderBatch.admit
    monkeypatch.setattr(
        DecoderBatch, "admit", lambda self, n: entries.append((len(self._running), n)) or admit(self, n)
    )
    for search_options in (SearchOptions(beam=1, batch_tokens=50), SearchOptions(beam=3, batch_tokens=200)):
        assert search(engine, inputs(sources), search_options) == search(
            stepwise(engine), inputs(sources), search_options
        )
    assert sum(running > 0 for running, _ in entries) >= 3


@pytest.mark.parametrize(
    "changes", [{"sample": True, "nbest": 2, "seed": 1}, {"no_repeat_ngram": 2}, {"attention": True}]
)
def test_searches_with_options_unsupported_by_the_engine_run_in_numpy(monkeypatch, changes):
    engine = native_model(random_model(SHAPE, spread=2.0))
    monkeypatch.setattr(DecoderBatch, "step", lambda self: pytest.fail("the engine searched"))
    assert search(engine, inputs(sentences(3)), SearchOptions(beam=2, **changes))
    with pytest.raises(pytest.fail.Exception):
        search(engine, inputs(sentences(3)), SearchOptions(beam=2))


def test_stream_gives_the_results_of_the_search():
    engine, options = native_model(random_model(SHAPE, spread=2.0)), SearchOptions(beam=1, batch_tokens=40)
    sources, events = sentences(20), []
    streamed = search(engine, inputs(sources), options, on_token=events.append)
    assert streamed == search(engine, inputs(sources), options)
    for index, ((hypothesis,)) in enumerate(streamed):
        tokens = [event.token for event in events if event.sentence == index and event.token is not None]
        assert tuple(tokens) == hypothesis.tokens


def test_error_for_nan_scores_matches_numpy_search():
    model = random_model(SHAPE)
    model.output_weight.data[7] = float(np.finfo(np.float32).max)
    engine = native_model(model)
    error, expected = (
        search_or_error(decoder, sentences(3), SearchOptions(beam=2), None)
        for decoder in (engine, stepwise(engine))
    )
    assert error == expected
    assert "not numbers at target token" in expected


RULES = BeamRules(
    beams=2, pool_size=2, nbest=1, start=SYMBOLS.start, banned=np.array([0, 2]), min_length=0,
    early_stopping=True, force_end=False, score_forced=True, renormalise=False, divisors=np.arange(1.0, 13.0),
)  # fmt: skip


@pytest.mark.parametrize("name", [rule.name for rule in fields(BeamRules)])
def test_search_rule_key_depends_on_every_rule_except_streams(name):
    old = getattr(RULES, name)
    other = np.append(old, old[-1:] if old.size else [True]) if isinstance(old, np.ndarray) else not old
    same = replace(RULES, banned=RULES.banned.copy(), divisors=RULES.divisors.copy())
    assert same.key == RULES.key
    assert (replace(RULES, **{name: other}).key == RULES.key) == (name == "streams")


@pytest.mark.parametrize(
    "changes",
    [
        {"beams": 0}, {"nbest": 3}, {"pool_size": 0}, {"pool_size": 3}, {"nbest": 2, "pool_size": 1},
        {"start": 23}, {"banned": np.array([5, 4])}, {"banned": np.array([SYMBOLS.end])},
        {"banned": np.array([-1])}, {"divisors": np.array([1.0, 0.0, 1.0])},
        {"divisors": np.array([1.0, np.nan, 1.0])},
    ],
)  # fmt: skip
def test_native_core_rejects_invalid_search_rules(changes):
    with pytest.raises(DataError):
        native_model(random_model(SHAPE)).beam_search(replace(RULES, **changes))


def test_native_core_rejects_sentences_that_do_not_match_the_encoded_sources():
    engine = native_model(random_model(SHAPE))
    sources = sentences(2)
    memory = engine.encode(sources)
    valid = [NewSentence(sources[0], 4), NewSentence(sources[1], 10, forced=[5])]
    invalid = [
        valid[:1], [valid[0], valid[1]._replace(limit=11)], [valid[0]._replace(limit=0), valid[1]],
        [valid[0], valid[1]._replace(uncounted=11)], [valid[0], valid[1]._replace(forced=[23])],
        [valid[0]._replace(forced=[-2]), valid[1]],
    ]  # fmt: skip
    for entering in invalid:
        with pytest.raises(DataError):
            engine.beam_search(RULES).enter(memory, entering)
    with pytest.raises(DataError):
        native_model(random_model(SHAPE)).beam_search(RULES).enter(memory, valid)
    beam_search = engine.beam_search(RULES)
    beam_search.enter(memory, valid)
    assert beam_search.running.tolist() == [0, 1]
    assert beam_search.finished() == [[], []]
    beam_search.run(0)
    assert [len(nbest) for nbest in beam_search.finished()] == [1, 1]
    beam_search.run(0)  # no sentences remain


@pytest.mark.parametrize(
    "changes",
    [
        {0: np.array([0])}, {1: np.array([1, 1])}, {3: np.array([23, 5])}, {4: np.array([0, 3, 2])},
        {4: np.array([1, 2, 2])}, {5: np.array([1, 3])}, {6: np.array([1])}, {8: np.array([-1, 0, 0])},
        {9: float("nan")},
    ],
)  # fmt: skip
def test_native_core_rejects_invalid_phrases(changes):
    engine = native_model(random_model(SHAPE))
    tables = list(Phrases([Phrase(((5, 6),))]).tables)
    for index, table in changes.items():
        tables[index] = table
    beam_search = engine.beam_search(RULES)
    [source] = sentences(1)
    with pytest.raises(DataError):
        beam_search.enter(engine.encode([source]), [NewSentence(source, 9, phrases=tuple(tables))])
    with pytest.raises(DataError):
        engine.beam_search(replace(RULES, continues_word=np.zeros(4, bool)))


def test_failed_search_cannot_continue():
    model = random_model(SHAPE)
    model.output_weight.data[7] = float(np.finfo(np.float32).max)
    engine = native_model(model)
    beam_search = engine.beam_search(RULES)
    [source] = sentences(1)
    beam_search.enter(engine.encode([source]), [NewSentence(source, 9)])
    with pytest.raises(ModelError):
        beam_search.run(0)
    with pytest.raises(DataError, match="failed"):
        beam_search.run(0)
