"""A batch that many searches share finds what each finds alone, to the bit, however they come and go."""

import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from drawn_searches import VOCABULARY, found, options, phrases_for, prefixes_for, random_list
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from native_models import native, random_model, recurrent_shapes, sentences, shapes
from prompted_models import decoder_only, native_decoder, prompts, random_decoder
from toy_decoders import RecurrentToy

from uwaga.decoder import BeamRules
from uwaga.errors import CancelledRequestError, DataError, ModelError, UwagaError
from uwaga.scheduling.batching_decoder import BatchingDecoder
from uwaga.scheduling.call_context import CallContext
from uwaga.scheduling.model_batch import ModelBatch
from uwaga.scheduling.token_budget import TokenBudget
from uwaga.search import SearchOptions, search, stream
from uwaga.settings import TransformerSettings

SHAPE = TransformerSettings(
    encoder_layers=1, decoder_layers=1, width=16, heads=2, feed_forward=24, max_length=24
)
QUIET = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def small():
    """Few places, so that sentences must wait."""
    return TokenBudget(most=80, reserved=30)


def crowd(shared, works, seconds=60):
    """What each of several threads gets from a decoder of its own, or the error."""
    made = [None] * len(works)

    def run(number, work):
        try:
            made[number] = work(BatchingDecoder(shared, CallContext(str(number % 3))))
        except Exception as error:
            made[number] = error

    threads = [threading.Thread(target=run, args=one) for one in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
        assert not thread.is_alive()
    return made


def is_empty(shared):
    return (shared.budget.waiting, shared.budget.running, shared.budget.used) == (0, 0, 0)


def check(decoder, drawn):
    """Threads with searches of their own find what each finds alone."""
    shared = ModelBatch(decoder, small)
    made = crowd(shared, [lambda decoder, one=one: found(decoder, *one) for one in drawn])
    assert made == [found(decoder, *one) for one in drawn]
    assert is_empty(shared)
    shared.close()


def drawn_searches(data, make):
    """Searches of few sets of options, so that some share their steps."""
    kinds = data.draw(st.lists(options(), min_size=1, max_size=3))
    made = []
    for number in range(data.draw(st.integers(1, 7))):
        count = data.draw(st.integers(1, 6))
        how = data.draw(st.sampled_from(kinds)), data.draw(prefixes_for(count)), data.draw(phrases_for(count))
        made.append((make(count, number), *how))
    return made


@QUIET
@given(st.data())
def test_it_finds_what_each_search_finds_alone(data):
    seed = data.draw(st.integers(0, 10**6))
    shape, spread = data.draw(shapes() | recurrent_shapes()), data.draw(st.sampled_from([1.0, 3.0]))
    model = random_model(shape, seed, spread=spread)
    engine = native(model, data.draw(st.sampled_from(["float32", "int8"])), data.draw(st.integers(1, 2)))
    if data.draw(st.booleans()):
        engine = engine.with_shortlist(random_list(seed))
    check(engine, drawn_searches(data, sentences))


@settings(QUIET, max_examples=12)
@given(st.data())
def test_it_continues_prompts(data):
    model = random_decoder(data.draw(decoder_only()), data.draw(st.integers(0, 99)), spread=2.0)
    drawn = drawn_searches(data, prompts)
    fitting = {"max_ratio": float("inf"), "max_length": 8, "min_length": 2}
    check(native_decoder(model), [(one[0], replace(one[1], **fitting), *one[2:]) for one in drawn])


@settings(QUIET, max_examples=15)
@given(st.data())
def test_decoders_without_a_batch_have_what_waits_collected(data):
    toy = RecurrentToy(VOCABULARY, seed=data.draw(st.integers(0, 99)), end_bias=1.0)
    check(toy, drawn_searches(data, sentences))


@settings(QUIET, max_examples=12)
@given(st.data())
def test_cancelled_ones_leave_and_the_others_find_the_same(data):
    engine = native(random_model(SHAPE, data.draw(st.integers(0, 99)), spread=3.0))
    shared, wanted = ModelBatch(engine, small), SearchOptions(beam=data.draw(st.integers(1, 4)))
    pauses = data.draw(st.lists(st.floats(0, 0.01), min_size=2, max_size=10))
    made = [None] * len(pauses)

    def run(number):
        request = CallContext()
        if number % 2:
            threading.Timer(pauses[number], request.cancel).start()
        try:
            made[number] = search(BatchingDecoder(shared, request), sentences(30, number), wanted)
        except CancelledRequestError as error:
            made[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(pauses))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for number, one in enumerate(made):
        if not (number % 2 and isinstance(one, CancelledRequestError)):
            assert one == search(engine, sentences(30, number), wanted)
    assert is_empty(shared)
    shared.close()


def test_streams_tell_of_the_same_tokens():
    engine = native(random_model(SHAPE, spread=3.0))
    shared, wanted = ModelBatch(engine, small), SearchOptions(beam=1)
    made = crowd(
        shared,
        [lambda decoder, at=at: list(stream(decoder, sentences(2, at), wanted)) for at in range(8)]
        + [lambda decoder: search(decoder, sentences(50), SearchOptions(beam=3))],
    )
    for at, events in enumerate(made[:8]):
        law = list(stream(engine, sentences(2, at), wanted))
        for sentence in range(2):
            assert [one for one in events if one.sentence == sentence] == [
                one for one in law if one.sentence == sentence
            ]
    assert is_empty(shared)


def broken(token):
    """A model whose log-probabilities are no numbers where a source holds a token."""
    import torch

    model = random_model(SHAPE.model_copy(update={"tie": "none"}), spread=3.0)
    with torch.no_grad():
        model.source_embedding.weight[token] = float(np.finfo(np.float32).max)
    return native(model)


def test_a_sentence_whose_numbers_are_none_fails_alone():
    engine, wanted = broken(7), SearchOptions(beam=2)
    good = [[one for one in sentences(12, at) if 7 not in one] for at in range(6)]
    bad = [[(8, 7, 2), *sentences(4, at)] for at in range(3)]
    shared = ModelBatch(engine, small)
    works = [
        lambda decoder, one=one: search(decoder, one, wanted)
        for pair in zip(good, [*bad, *bad], strict=True)
        for one in pair
    ]
    made = crowd(shared, works)
    assert made[::2] == [search(engine, one, wanted) for one in good]
    for error in made[1::2]:
        assert isinstance(error, ModelError)
        assert "not numbers at target token" in str(error)
    assert is_empty(shared)
    assert crowd(shared, works[:1]) == made[:1]


class Failing(RecurrentToy):
    """One that cannot encode a source with a token."""

    def encode(self, sources):
        if any(7 in source for source in sources):
            raise RuntimeError("out of memory")
        return super().encode(sources)


def test_whatever_a_decoder_raises_reaches_its_own_search_alone():
    toy, wanted = Failing(VOCABULARY), SearchOptions(beam=2)
    shared = ModelBatch(toy, small)
    good = [[one for one in sentences(5, at) if 7 not in one] for at in range(4)]
    works = [lambda decoder, one=one: search(decoder, one, wanted) for one in good]
    made = crowd(shared, [*works, lambda decoder: search(decoder, [(7, 2)], wanted)])
    assert made[:-1] == [search(toy, one, wanted) for one in good]
    assert isinstance(made[-1], RuntimeError)
    assert is_empty(shared)


def test_the_next_that_comes_makes_its_first_steps_at_once():
    """Beside a search of 400 sentences it is done after few more steps than it has tokens.

    The steps that are made while Python's threads wait for one another are counted too, and on a busy machine
    they are many: the best of several tries says what the batch does.
    """
    engine = native(random_model(SHAPE, spread=3.0))
    shared = ModelBatch(engine, lambda: TokenBudget(most=400, reserved=100))
    wanted = SearchOptions(beam=1, max_length=20, min_length=18)
    steps = []
    ended = []

    def long():
        search(BatchingDecoder(shared, CallContext("long")), sentences(20000), wanted)
        ended.append(True)

    thread = threading.Thread(target=long)
    thread.start()
    while not shared.counters[0]:
        time.sleep(0.001)
    for at in range(10):
        before = shared.counters[0]
        search(BatchingDecoder(shared, CallContext("short")), sentences(1, at), wanted)
        assert not ended
        steps.append(shared.counters[0] - before)
    thread.join(60)
    assert min(steps) < 100  # of the long one's thousand: 50 rounds of 20
    assert is_empty(shared)


def test_one_thread_serves_and_closing_tells_those_who_wait():
    engine = native(random_model(SHAPE))
    batch = engine.running_batch()
    thread = threading.Thread(target=batch.serve)
    thread.start()
    time.sleep(0.05)
    with pytest.raises(ValueError, match="served by another thread"):
        batch.serve()
    batch.close()
    thread.join(10)
    assert not thread.is_alive()


def rules(beams=1, min_length=0):
    return BeamRules(
        beams=beams,
        enough=beams,
        nbest=1,
        start=1,
        banned=np.zeros(0, dtype=np.int64),
        min_length=min_length,
        early_stopping=True,
        force_end=False,
        score_forced=True,
        renormalise=False,
        divisors=np.maximum(np.arange(64.0), 1.0),
    )


def hand(ticket, sources, limit):
    every = np.full(len(sources), limit, dtype=np.int64)
    nothing = np.zeros(len(sources), dtype=np.int64)
    ticket.submit(sources, every, nothing, np.zeros((len(sources), 0), dtype=np.int64), [None] * len(sources))


def taken(ticket, count):
    """What is found of so many sentences, or the error."""
    done = {}
    try:
        while len(done) < count:
            done.update(ticket.collect(60.0)[0])
    except UwagaError as error:
        return error
    return done


def test_closing_tells_those_whose_sentences_have_not_entered():
    """Each time, at once: whoever waits in a loop gets out of it."""
    batch = native(random_model(SHAPE)).running_batch()
    ticket, without = batch.ticket(rules()), batch.ticket(rules())
    hand(ticket, sentences(3), 5)
    batch.close()
    for one in (ticket, without, ticket):
        with pytest.raises(CancelledRequestError, match="closed"):
            one.collect(60.0)
    ticket.leave()
    assert ticket.collect(60.0) == ([], [])


@pytest.mark.parametrize("beams", [1, 3])
def test_a_step_that_fails_through_one_sentence_is_made_again_without_it(beams):
    """A target longer than the model can make; others of the same rules enter before, with and after it."""
    batch = native(random_model(SHAPE, spread=3.0)).running_batch()
    never_ending = rules(beams, min_length=40)
    before, bad, after = (batch.ticket(never_ending) for _ in range(3))
    every = sentences(200)
    hand(before, every[:50], 23)
    hand(bad, every[50:51], 40)
    hand(after, every[51:], 23)
    thread = threading.Thread(target=batch.serve)
    thread.start()
    error = taken(bad, 1)
    assert isinstance(error, DataError)
    assert "longer than the model" in str(error)
    found = taken(before, 50), taken(after, 149)
    again = batch.ticket(never_ending)
    hand(again, every[:50], 23)
    assert taken(again, 50) == found[0]
    for ticket, those in ((before, every[:50]), (after, every[51:])):
        alone = batch.ticket(never_ending)
        hand(alone, those, 23)
        assert taken(alone, len(those)) == found[ticket is after]
    batch.close()
    thread.join(10)


def test_divisors_of_any_length_begin_alike():
    """Searches of different limits share their steps, since their rules are made for the same lengths."""
    from uwaga.search.rank import Ranking

    for formula in ("average", "gnmt", "none"):
        for alpha in (0.0, 0.3, 0.6, 1.0, 1.7, -2.0):
            whole = Ranking(formula, alpha).divisor(np.arange(1024))
            for size in (1, 5, 17, 300, 777):
                assert Ranking(formula, alpha).divisor(np.arange(size)).tobytes() == whole[:size].tobytes()
