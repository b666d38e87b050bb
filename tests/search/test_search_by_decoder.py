"""A search that the engine runs by itself finds what the numpy search finds: the same tokens and bits."""

import copy
from dataclasses import fields, replace

import numpy as np
import pytest
from drawn_searches import found, options, phrases_for, prefixes_for, random_list
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from native_models import SYMBOLS, native, random_model, recurrent_shapes, sentences, shapes
from prompted_models import decoder_only, native_decoder, prompts, random_decoder

from uwaga.decoder import BeamRules
from uwaga.errors import DataError, ModelError
from uwaga.search import SearchOptions, search
from uwaga.search.decoder_batch import DecoderBatch
from uwaga.search.phrases import Phrase, Phrases
from uwaga.settings import TransformerSettings

SHAPE = TransformerSettings(
    encoder_layers=1, decoder_layers=1, width=16, heads=2, feed_forward=24, max_length=24
)
QUIET = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def stepwise(engine):
    """The same model for the numpy search, step by step."""
    made = copy.copy(engine)
    made.beam_search = None
    return made


def both(engine, sources, wanted, prefixes, phrases=None):
    ours, law = (found(each, sources, wanted, prefixes, phrases) for each in (engine, stepwise(engine)))
    assert ours == law  # hypotheses compare every field: equality is of bits
    event("an error" if isinstance(law, str) else "hypotheses")
    if prefixes is None and not isinstance(law, str):
        for at, (source, nbest) in enumerate(zip(sources, law, strict=True)):
            alone = None if phrases is None else [phrases[at]]
            assert search(engine, [source], wanted, phrases=alone) == [nbest]


@QUIET
@given(st.data())
def test_the_engine_finds_what_the_numpy_search_finds(data):
    seed, count = data.draw(st.integers(0, 10**6)), data.draw(st.integers(1, 9))
    shape, spread = data.draw(shapes() | recurrent_shapes()), data.draw(st.sampled_from([0.0, 1.0, 3.0]))
    model = random_model(shape, seed, spread=spread)
    engine = native(model, data.draw(st.sampled_from(["float32", "int8"])), data.draw(st.integers(1, 2)))
    if data.draw(st.booleans()):
        engine = engine.with_shortlist(random_list(seed))
    given = data.draw(options()), data.draw(prefixes_for(count)), data.draw(phrases_for(count))
    both(engine, sentences(count, seed), *given)


@settings(QUIET, max_examples=40)
@given(st.data())
def test_it_continues_prompts_as_the_numpy_search_does(data):
    seed, count = data.draw(st.integers(0, 10**6)), data.draw(st.integers(1, 7))
    engine = native_decoder(random_decoder(data.draw(decoder_only()), seed, spread=2.0))
    wanted = replace(data.draw(options()), max_ratio=float("inf"))
    both(engine, prompts(count, seed), wanted, data.draw(prefixes_for(count)), data.draw(phrases_for(count)))


@settings(QUIET, max_examples=40)
@given(st.data())
def test_each_of_several_tokens_ends_a_target(data):
    seed, count = data.draw(st.integers(0, 10**6)), data.draw(st.integers(1, 5))
    plain = native_decoder(random_decoder(data.draw(decoder_only()), seed, spread=2.0))
    engine = copy.copy(plain)
    others = data.draw(st.lists(st.integers(4, plain.vocabulary - 1), min_size=1, max_size=9, unique=True))
    half = data.draw(st.integers(0, len(others)))
    engine.symbols = replace(plain.symbols, other_ends=tuple(others[:half]), stops=tuple(others[half:]))
    wanted = replace(data.draw(options()), max_ratio=float("inf"), banned=())
    both(engine, prompts(count, seed), wanted, None)
    greedy = SearchOptions(beam=1, max_length=12, max_ratio=float("inf"))
    for one in (engine, stepwise(engine)):
        texts = zip(*(search(each, prompts(count, seed), greedy) for each in (plain, one)), strict=True)
        for [whole], [ended] in texts:
            at = next((at for at, token in enumerate(whole.tokens) if token in others), len(whole.tokens))
            kept = at + (at < len(whole.tokens) and whole.tokens[at] in others[half:])
            assert ended.tokens == whole.tokens[:kept]
            assert ended.token_scores == whole.token_scores[: at + 1]
            assert ended.truncated == (whole.truncated and at == len(whole.tokens))


def test_it_is_what_searches_and_sentences_enter_while_others_are_decoded(monkeypatch):
    engine, sources = native(random_model(SHAPE, spread=2.0)), sentences(60)
    entered = []
    admit = DecoderBatch.admit
    monkeypatch.setattr(
        DecoderBatch, "admit", lambda self, n: entered.append((len(self.running), n)) or admit(self, n)
    )
    for wanted in (SearchOptions(beam=1, batch_tokens=50), SearchOptions(beam=3, batch_tokens=200)):
        assert search(engine, sources, wanted) == search(stepwise(engine), sources, wanted)
    assert sum(beside > 0 for beside, _ in entered) >= 3


@pytest.mark.parametrize(
    "changes",
    [{"sample": True, "nbest": 2, "seed": 1}, {"no_repeat_ngram": 2}, {"attention": True}],
)
def test_what_looks_at_tokens_is_left_to_the_numpy_search(monkeypatch, changes):
    engine = native(random_model(SHAPE, spread=2.0))
    monkeypatch.setattr(DecoderBatch, "step", lambda self: pytest.fail("the engine searched"))
    assert search(engine, sentences(3), SearchOptions(beam=2, **changes))
    with pytest.raises(pytest.fail.Exception):
        search(engine, sentences(3), SearchOptions(beam=2))


def test_streams_and_searches_agree():
    engine, wanted = native(random_model(SHAPE, spread=2.0)), SearchOptions(beam=1, batch_tokens=40)
    sources, events = sentences(20), []
    streamed = search(engine, sources, wanted, on_token=events.append)
    assert streamed == search(engine, sources, wanted)
    for number, ((hypothesis,)) in enumerate(streamed):
        tokens = [event.token for event in events if event.sentence == number and event.token is not None]
        assert tuple(tokens) == hypothesis.tokens


def test_numbers_that_are_none_are_told_in_the_same_words():
    model = random_model(SHAPE)
    model.output_weight.data[7] = float(np.finfo(np.float32).max)
    engine = native(model)
    ours, law = (
        found(each, sentences(3), SearchOptions(beam=2), None) for each in (engine, stepwise(engine))
    )
    assert ours == law
    assert "not numbers at target token" in law


RULES = BeamRules(
    beams=2,
    enough=2,
    nbest=1,
    start=SYMBOLS.start,
    banned=np.array([0, 2]),
    min_length=0,
    early_stopping=True,
    force_end=False,
    score_forced=True,
    renormalise=False,
    divisors=np.arange(1.0, 13.0),
)


@pytest.mark.parametrize("name", [one.name for one in fields(BeamRules)])
def test_rules_that_differ_share_no_steps_but_for_who_is_told(name):
    old = getattr(RULES, name)
    other = np.append(old, old[-1:] if old.size else [True]) if isinstance(old, np.ndarray) else not old
    same = replace(RULES, banned=RULES.banned.copy(), divisors=RULES.divisors.copy())
    assert same.key == RULES.key
    assert (replace(RULES, **{name: other}).key == RULES.key) == (name == "streams")


@pytest.mark.parametrize(
    "changes",
    [
        {"beams": 0},
        {"nbest": 3},
        {"enough": 0},
        {"enough": 3},
        {"nbest": 2, "enough": 1},
        {"start": 23},
        {"banned": np.array([5, 4])},
        {"banned": np.array([SYMBOLS.end])},
        {"banned": np.array([-1])},
        {"divisors": np.array([1.0, 0.0, 1.0])},
        {"divisors": np.array([1.0, np.nan, 1.0])},
    ],
)
def test_the_core_refuses_impossible_rules(changes):
    with pytest.raises(DataError):
        native(random_model(SHAPE)).beam_search(replace(RULES, **changes))


def test_the_core_refuses_what_does_not_fit_a_memory():
    engine = native(random_model(SHAPE))
    memory = engine.encode(sentences(2))
    good = np.array([4, 10]), np.array([0, 0]), np.array([[-1], [5]])
    bad = [
        (np.array([4]), *good[1:]),
        (np.array([4, 11]), *good[1:]),
        (np.array([0, 4]), *good[1:]),
        (good[0], np.array([0, 11]), good[2]),
        (*good[:2], np.array([[-1], [23]])),
        (*good[:2], np.array([[-2], [5]])),
    ]
    for arguments in bad:
        with pytest.raises(DataError):
            engine.beam_search(RULES).enter(memory, *arguments)
    with pytest.raises(DataError):
        native(random_model(SHAPE)).beam_search(RULES).enter(memory, *good)
    one = engine.beam_search(RULES)
    one.enter(memory, *good)
    assert one.running.tolist() == [0, 1]
    assert one.finished() == [[], []]
    one.run(0)
    assert [len(nbest) for nbest in one.finished()] == [1, 1]
    one.run(0)  # nothing is left to do


@pytest.mark.parametrize(
    "changes",
    [
        {0: np.array([0])},
        {1: np.array([1, 1])},
        {3: np.array([23, 5])},
        {4: np.array([0, 3, 2])},
        {4: np.array([1, 2, 2])},
        {5: np.array([1, 3])},
        {6: np.array([1])},
        {8: np.array([-1, 0, 0])},
        {9: float("nan")},
    ],
)
def test_the_core_refuses_impossible_phrases(changes):
    engine = native(random_model(SHAPE))
    tables = list(Phrases([Phrase(((5, 6),))]).tables)
    for at, table in changes.items():
        tables[at] = table
    one = engine.beam_search(RULES)
    given = (np.array(each) for each in ([9], [0], [[-1]]))
    with pytest.raises(DataError):
        one.enter(engine.encode(sentences(1)), *given, [tuple(tables)])
    with pytest.raises(DataError):
        engine.beam_search(replace(RULES, inside=np.zeros(4, bool)))


def test_a_search_that_has_failed_does_not_go_on():
    model = random_model(SHAPE)
    model.output_weight.data[7] = float(np.finfo(np.float32).max)
    engine = native(model)
    one = engine.beam_search(RULES)
    one.enter(engine.encode(sentences(1)), *(np.array(given) for given in ([9], [0], [[-1]])))
    with pytest.raises(ModelError):
        one.run(0)
    with pytest.raises(DataError, match="failed"):
        one.run(0)
