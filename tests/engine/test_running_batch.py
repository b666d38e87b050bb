"""Searches that share a running batch give results bit-identical to those of separate searches."""

import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from native_models import native_model, random_model, recurrent_settings, sentences, transformer_settings
from prompted_models import decoder_only_settings, prompts, random_decoder
from random_searches import (
    VOCABULARY_SIZE,
    options,
    phrases_for,
    prefixes_for,
    random_shortlist,
    search_or_error,
)
from search_inputs import inputs
from toy_decoders import RecurrentToy

from uwaga.decoder import BeamRules, NewSentence
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
ALLOW_SLOW_EXAMPLES = settings(suppress_health_check=[HealthCheck.too_slow])


def small_budget():
    """Return a small budget, so that sentences must wait."""
    return TokenBudget(max_tokens=80, reserved_tokens=30)


def run_in_threads(shared, functions, seconds=60):
    """Call functions in threads, each with its own decoder; return their results or exceptions."""
    results = [None] * len(functions)

    def run(index, function):
        try:
            results[index] = function(BatchingDecoder(shared, CallContext(str(index % 3))))
        except Exception as error:
            results[index] = error

    threads = [threading.Thread(target=run, args=item) for item in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
        assert not thread.is_alive()
    return results


def is_empty(shared):
    return (shared.budget.waiting, shared.budget.running, shared.budget.used) == (0, 0, 0)


def check_shared_batch(decoder, searches):
    """Check that searches in threads equal separate searches."""
    shared = ModelBatch(decoder, small_budget)
    results = run_in_threads(
        shared,
        [lambda decoder, arguments=arguments: search_or_error(decoder, *arguments) for arguments in searches],
    )
    assert results == [search_or_error(decoder, *arguments) for arguments in searches]
    assert is_empty(shared)
    shared.close()


def draw_searches(data, make):
    """Return random searches with few different options, so that some of them share steps."""
    option_sets = data.draw(st.lists(options(), min_size=1, max_size=3))
    searches = []
    for index in range(data.draw(st.integers(1, 7))):
        count = data.draw(st.integers(1, 6))
        arguments = (
            data.draw(st.sampled_from(option_sets)),
            data.draw(prefixes_for(count)),
            data.draw(phrases_for(count)),
        )
        searches.append((make(count, index), *arguments))
    return searches


@ALLOW_SLOW_EXAMPLES
@given(st.data())
def test_shared_batch_equals_separate_searches(data):
    seed = data.draw(st.integers(0, 10**6))
    shape = data.draw(transformer_settings() | recurrent_settings())
    spread = data.draw(st.sampled_from([1.0, 3.0]))
    model = random_model(shape, seed, spread=spread)
    engine = native_model(
        model, data.draw(st.sampled_from(["float32", "int8"])), data.draw(st.integers(1, 2))
    )
    if data.draw(st.booleans()):
        engine = engine.with_shortlist(random_shortlist(seed))
    check_shared_batch(engine, draw_searches(data, sentences))


@ALLOW_SLOW_EXAMPLES
@given(st.data())
def test_shared_batch_of_prompts_equals_separate_searches(data):
    model = random_decoder(data.draw(decoder_only_settings()), data.draw(st.integers(0, 99)), spread=2.0)
    searches = draw_searches(data, prompts)
    limits = {"max_ratio": float("inf"), "max_length": 8, "min_length": 2}
    check_shared_batch(
        native_model(model),
        [(arguments[0], replace(arguments[1], **limits), *arguments[2:]) for arguments in searches],
    )


@ALLOW_SLOW_EXAMPLES
@given(st.data())
def test_decoders_without_a_running_batch_give_equal_results(data):
    toy = RecurrentToy(VOCABULARY_SIZE, seed=data.draw(st.integers(0, 99)), end_bias=1.0)
    check_shared_batch(toy, draw_searches(data, sentences))


@ALLOW_SLOW_EXAMPLES
@given(st.data())
def test_cancelled_searches_leave_the_batch(data):
    engine = native_model(random_model(SHAPE, data.draw(st.integers(0, 99)), spread=3.0))
    shared, options = ModelBatch(engine, small_budget), SearchOptions(beam=data.draw(st.integers(1, 4)))
    pauses = data.draw(st.lists(st.floats(0, 0.01), min_size=2, max_size=10))
    results = [None] * len(pauses)

    def run(index):
        request = CallContext()
        if index % 2:
            threading.Timer(pauses[index], request.cancel).start()
        try:
            results[index] = search(BatchingDecoder(shared, request), inputs(sentences(30, index)), options)
        except CancelledRequestError as error:
            results[index] = error

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(pauses))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for index, result in enumerate(results):
        if not (index % 2 and isinstance(result, CancelledRequestError)):
            assert result == search(engine, inputs(sentences(30, index)), options)
    assert is_empty(shared)
    shared.close()


def test_streams_in_a_shared_batch_equal_separate_streams():
    engine = native_model(random_model(SHAPE, spread=3.0))
    shared, options = ModelBatch(engine, small_budget), SearchOptions(beam=1)
    results = run_in_threads(
        shared,
        [
            lambda decoder, seed=seed: list(stream(decoder, inputs(sentences(2, seed)), options))
            for seed in range(8)
        ]
        + [lambda decoder: search(decoder, inputs(sentences(50)), SearchOptions(beam=3))],
    )
    for seed, events in enumerate(results[:8]):
        expected = list(stream(engine, inputs(sentences(2, seed)), options))
        for sentence in range(2):
            assert [event for event in events if event.sentence == sentence] == [
                event for event in expected if event.sentence == sentence
            ]
    assert is_empty(shared)


def model_with_nan(token):
    """Return a model whose log-probabilities are NaN for sources that contain a token."""
    import torch

    model = random_model(SHAPE.model_copy(update={"tie": "none"}), spread=3.0)
    with torch.no_grad():
        model.source_embedding.weight[token] = float(np.finfo(np.float32).max)
    return native_model(model)


def test_nan_affects_only_the_search_it_occurs_in():
    engine, options = model_with_nan(7), SearchOptions(beam=2)
    valid_sources = [[source for source in sentences(12, seed) if 7 not in source] for seed in range(6)]
    invalid_sources = [[(8, 7, 2), *sentences(4, seed)] for seed in range(3)]
    shared = ModelBatch(engine, small_budget)
    functions = [
        lambda decoder, sources=sources: search(decoder, inputs(sources), options)
        for pair in zip(valid_sources, [*invalid_sources, *invalid_sources], strict=True)
        for sources in pair
    ]
    results = run_in_threads(shared, functions)
    assert results[::2] == [search(engine, inputs(sources), options) for sources in valid_sources]
    for error in results[1::2]:
        assert isinstance(error, ModelError)
        assert "not numbers at target token" in str(error)
    assert is_empty(shared)
    assert run_in_threads(shared, functions[:1]) == results[:1]


class FailingToy(RecurrentToy):
    """A decoder that raises an error for sources with token 7."""

    def encode(self, sources):
        if any(7 in source for source in sources):
            raise RuntimeError("out of memory")
        return super().encode(sources)


def test_exceptions_affect_only_the_search_they_occur_in():
    toy, options = FailingToy(VOCABULARY_SIZE), SearchOptions(beam=2)
    shared = ModelBatch(toy, small_budget)
    valid_sources = [[source for source in sentences(5, seed) if 7 not in source] for seed in range(4)]
    functions = [
        lambda decoder, sources=sources: search(decoder, inputs(sources), options)
        for sources in valid_sources
    ]
    results = run_in_threads(shared, [*functions, lambda decoder: search(decoder, inputs([(7, 2)]), options)])
    assert results[:-1] == [search(toy, inputs(sources), options) for sources in valid_sources]
    assert isinstance(results[-1], RuntimeError)
    assert is_empty(shared)


def test_short_search_does_not_wait_for_a_long_one():
    """During a long search, a short search takes only a few more steps than it has tokens.

    Steps during waits of Python threads for each other are counted too, and there are many on a busy machine,
    so the best of several attempts is checked.
    """
    engine = native_model(random_model(SHAPE, spread=3.0))
    shared = ModelBatch(engine, lambda: TokenBudget(max_tokens=400, reserved_tokens=100))
    options = SearchOptions(beam=1, max_length=20, min_length=18)
    steps = []
    finish_flags = []

    def search_long():
        search(BatchingDecoder(shared, CallContext("long")), inputs(sentences(6000)), options)
        finish_flags.append(True)

    thread = threading.Thread(target=search_long)
    thread.start()
    while not shared.counters[0]:
        time.sleep(0.001)
    for seed in range(4):
        steps_before = shared.counters[0]
        search(BatchingDecoder(shared, CallContext("short")), inputs(sentences(1, seed)), options)
        assert not finish_flags
        steps.append(shared.counters[0] - steps_before)
    thread.join(60)
    assert min(steps) < 100  # the long search takes thousands
    assert is_empty(shared)


def test_running_batch_is_served_by_only_one_thread():
    engine = native_model(random_model(SHAPE))
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
        beams=beams, pool_size=beams, nbest=1, start=1, banned=np.zeros(0, dtype=np.int64),
        min_length=min_length, early_stopping=True, force_end=False, score_forced=True, renormalise=False,
        divisors=np.maximum(np.arange(64.0), 1.0),
    )  # fmt: skip


def submit_sentences(ticket, sources, limit):
    ticket.submit([NewSentence(source, limit) for source in sources])


def collect_results(ticket, count):
    """Return the results of a number of sentences, or the error."""
    results = {}
    try:
        while len(results) < count:
            results.update(ticket.collect(60.0)[0])
    except UwagaError as error:
        return error
    return results


def test_closing_the_batch_cancels_waiting_searches():
    """Waiting calls raise an error immediately, so that loops around them end."""
    batch = native_model(random_model(SHAPE)).running_batch()
    ticket, empty_ticket = batch.ticket(rules()), batch.ticket(rules())
    submit_sentences(ticket, sentences(3), 5)
    batch.close()
    for waiting_ticket in (ticket, empty_ticket, ticket):
        with pytest.raises(CancelledRequestError, match="closed"):
            waiting_ticket.collect(60.0)
    ticket.leave()
    assert ticket.collect(60.0) == ([], [])


@pytest.mark.parametrize("beams", [1, 3])
def test_failed_step_is_repeated_without_the_failing_sentence(beams):
    """One target becomes too long for the model; other sentences enter before and after it."""
    batch = native_model(random_model(SHAPE, spread=3.0)).running_batch()
    batch_rules = rules(beams, min_length=40)
    earlier, failing, later = (batch.ticket(batch_rules) for _ in range(3))
    all_sources = sentences(200)
    submit_sentences(earlier, all_sources[:50], 23)
    submit_sentences(failing, all_sources[50:51], 40)
    submit_sentences(later, all_sources[51:], 23)
    thread = threading.Thread(target=batch.serve)
    thread.start()
    error = collect_results(failing, 1)
    assert isinstance(error, DataError)
    assert "longer than the model" in str(error)
    results = collect_results(earlier, 50), collect_results(later, 149)
    repeated = batch.ticket(batch_rules)
    submit_sentences(repeated, all_sources[:50], 23)
    assert collect_results(repeated, 50) == results[0]
    for ticket, sources in ((earlier, all_sources[:50]), (later, all_sources[51:])):
        separate = batch.ticket(batch_rules)
        submit_sentences(separate, sources, 23)
        assert collect_results(separate, len(sources)) == results[ticket is later]
    batch.close()
    thread.join(10)


def test_length_divisors_do_not_depend_on_the_table_size():
    """Searches with different limits can share steps, since their rules have the same divisors."""
    from uwaga.search.rank import Ranking

    for formula in ("average", "gnmt", "none"):
        for alpha in (0.0, 0.3, 0.6, 1.0, 1.7, -2.0):
            divisors = Ranking(formula, alpha).divisor(np.arange(1024))
            for size in (1, 5, 17, 300, 777):
                assert Ranking(formula, alpha).divisor(np.arange(size)).tobytes() == divisors[:size].tobytes()
