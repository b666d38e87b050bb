"""k-nearest-neighbour translation (M44): the engine, torch and a numpy reference agree."""

import copy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
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

from uwaga.decoder import MAX_WEIGHT, Choice, Datastore, Sampling
from uwaga.errors import DataError
from uwaga.models.ensemble import Ensemble
from uwaga.scheduling.batching_decoder import ModelBatches
from uwaga.scheduling.call_context import CallContext
from uwaga.search import SearchOptions, search
from uwaga.search.retrieval import RetrievalDecoder, forced_features, mix, nearest
from uwaga.settings import TransformerSettings

SHAPE = TransformerSettings(
    encoder_layers=1, decoder_layers=1, width=16, heads=2, feed_forward=24, max_length=24
)
ALLOW_SLOW_EXAMPLES = settings(suppress_health_check=[HealthCheck.too_slow])


def datastores_for(decoder, count, seed, share=0.7):
    """Return for each sentence a datastore with states of random pairs, or None."""
    rng = np.random.default_rng(seed)
    sources = sentences(4, seed + 1) if decoder.shared_positions is None else prompts(4, seed + 1)
    targets = [[*rng.integers(4, 23, rng.integers(1, 6)).tolist(), SYMBOLS.end] for _ in sources]
    keys = np.concatenate(forced_features(decoder, sources, targets, SYMBOLS.start)).astype(np.float16)
    tokens = np.array([token for target in targets for token in target])
    distances = np.square(keys.astype(float)[:, None] - keys.astype(float)).sum(axis=2)
    scale = float(np.median(distances)) + 1e-3
    return [
        Datastore(keys, tokens, scale * rng.uniform(0.2, 2), scale * rng.uniform(0.01, 1), rng.integers(1, 7))
        if rng.random() < share
        else None
        for _ in range(count)
    ]


@st.composite
def engines(draw):
    """Draw a native model of any family, with its sources."""
    seed, count = draw(st.integers(0, 10**6)), draw(st.integers(1, 6))
    if draw(st.booleans()):
        model = random_decoder(draw(decoder_only_settings()), seed, spread=2.0)
        return native_model(model), prompts(count, seed), seed
    model = random_model(draw(transformer_settings() | recurrent_settings()), seed, spread=2.0)
    engine = native_model(model, draw(st.sampled_from(["float32", "int8"])), draw(st.integers(1, 2)))
    if draw(st.booleans()):
        engine = engine.with_shortlist(random_shortlist(seed))
    return engine, sentences(count, seed), seed


def test_M44_neighbour_shares_and_mixture_weight_match_the_equations():
    keys = np.array([[0, 0], [3, 0], [0, 4], [0, 1]], dtype=np.float16)
    datastore = Datastore(keys, np.array([5, 6, 5, 6]), radius=16.0, temperature=8.0, neighbours=3)
    neighbours = nearest(datastore, np.array([0, 2], dtype=np.float32))  # squared distances 4, 13, 4, 1
    assert neighbours.entries.tolist() == [3, 0, 2]
    expected = np.exp(-np.array([1, 4, 4]) / 8)
    np.testing.assert_allclose(neighbours.shares, expected / expected.sum())
    assert neighbours.weight == 1 - 1 / 16
    log_probs = np.log([0.25, 0.25, 0.5])
    mix(log_probs, neighbours, np.array([2, 0, 2, 0]))
    share = expected[0] / expected.sum()
    knn = np.array([share, 0, 1 - share])
    np.testing.assert_allclose(np.exp(log_probs), 15 / 16 * knn + np.array([0.25, 0.25, 0.5]) / 16)
    assert nearest(datastore, keys[0].astype(np.float32)).weight == MAX_WEIGHT
    assert nearest(replace(datastore, radius=0.5), np.array([0, 2], dtype=np.float32)).weight == 0


@ALLOW_SLOW_EXAMPLES
@given(st.data())
def test_M44_engine_search_matches_numpy_search(data):
    engine, sources, seed = data.draw(engines())
    stepwise, count = copy.copy(engine), len(sources)
    stepwise.beam_search = None
    datastores = datastores_for(engine, count, seed)
    search_options = replace(data.draw(options()), max_ratio=float("inf"))
    arguments = search_options, data.draw(prefixes_for(count)), data.draw(phrases_for(count)), datastores
    results = search_or_error(engine, sources, *arguments)
    assert results == search_or_error(stepwise, sources, *arguments)
    if not isinstance(results, str) and arguments[1] is None and arguments[2] is None:
        for source, datastore, nbest in zip(sources, datastores, results, strict=True):
            assert search(engine, inputs([source], datastores=[datastore]), search_options) == [nbest]


@ALLOW_SLOW_EXAMPLES
@given(st.data())
def test_M44_engine_steps_match_the_numpy_reference(data):
    engine, sources, seed = data.draw(engines())
    engine = engine.without_shortlist()
    reference, beams = RetrievalDecoder(engine), data.draw(st.integers(1, 3))
    datastores = datastores_for(engine, len(sources), seed)
    states = [
        decoder.start(decoder.with_datastores(decoder.encode(sources), datastores), beams)
        for decoder in (engine, reference)
    ]
    rng, rows = np.random.default_rng(seed), len(sources) * beams
    forced = np.where(rng.random(rows) < 0.3, rng.integers(4, 23, rows), -1)
    banned = np.stack([rng.integers(0, rows, 12), rng.integers(4, 23, 12)], axis=1)
    choices = [
        Choice(1, all_tokens=True, features=True),
        Choice(5, banned=banned, renormalise=data.draw(st.booleans())),
        Choice(3, forced=forced, extra_tokens=rng.integers(-1, 23, (rows, 4))),
        Choice(1, sampling=Sampling(rng.random(rows), top_k=5)),
    ]
    tokens = np.full(rows, SYMBOLS.start)
    for choice in choices:
        steps = [
            decoder.step(tokens, state, choice)
            for decoder, state in zip((engine, reference), states, strict=True)
        ]
        np.testing.assert_allclose(steps[0].log_probs, steps[1].log_probs, atol=2e-4)
        possible = np.isfinite(steps[1].log_probs)
        values = np.where(possible, steps[1].log_probs, -1e3 - np.arange(possible.shape[1]))
        if choice.sampling is None and (np.diff(values, axis=1) < -1e-3).all():  # no two are nearly equal
            np.testing.assert_array_equal(steps[0].tokens[possible], steps[1].tokens[possible])
        states = [step.state for step in steps]
        tokens = rng.integers(4, 23, rows)


@pytest.mark.parametrize("make", [lambda model: model, lambda model: Ensemble([model, model])])
def test_M44_retrieval_with_torch_models_and_ensembles_matches_the_engine(make):
    model = random_model(SHAPE, 3, spread=2.0)
    decoder, sources = make(model), sentences(6, 3)
    engine = native_model(model)
    scale = 1 if decoder is model else 2  # squared distances add up
    datastores = datastores_for(engine, 6, 3, share=1.0)
    scaled = [
        replace(
            datastore,
            keys=np.tile(datastore.keys, scale),
            radius=scale * datastore.radius,
            temperature=scale * datastore.temperature,
        )
        for datastore in datastores
    ]
    search_options = SearchOptions(beam=3, max_length=12)
    lists = search(decoder, inputs(sources, datastores=scaled), search_options)
    expected = search(engine, inputs(sources, datastores=datastores), search_options)
    for [first, *_], [best, *_] in zip(lists, expected, strict=True):
        assert first.tokens == best.tokens
        np.testing.assert_allclose(first.token_scores, best.token_scores, atol=1e-4)


def test_M44_decoder_features_of_torch_and_the_engine_are_equal():
    model, sources = random_model(SHAPE, 4, spread=2.0), sentences(3, 4)
    targets = [[5, 6, SYMBOLS.end], [7, SYMBOLS.end], [8, 9, 10, SYMBOLS.end]]
    arguments = sources, targets, SYMBOLS.start
    expected = forced_features(native_model(model), *arguments)
    for features, engine_features in zip(forced_features(model, *arguments), expected, strict=True):
        np.testing.assert_allclose(features, engine_features, atol=1e-4)


@pytest.mark.parametrize("beam", [1, 4])
def test_M44_stored_translations_are_repeated_and_distant_neighbours_are_ignored(beam):
    engine, sources = native_model(random_model(SHAPE, 1, spread=2.0)), sentences(5, 1)
    plain = search(engine, inputs(sources), SearchOptions(beam=beam, max_length=20))
    rng = np.random.default_rng(0)
    targets = [[*rng.integers(4, 23, 8).tolist(), SYMBOLS.end] for _ in sources]
    keys = forced_features(engine, sources, targets, SYMBOLS.start)
    assert [key.shape for key in keys] == [(9, 16)] * 5
    near = [
        Datastore(key.astype(np.float16), np.array(target), radius=1.0, temperature=1e-3)
        for key, target in zip(keys, targets, strict=True)
    ]
    search_options = SearchOptions(beam=beam, max_length=20)
    lists = search(engine, inputs(sources, datastores=near), search_options)
    assert [[*nbest[0].tokens, SYMBOLS.end] for nbest in lists] == targets
    far = [replace(datastore, keys=datastore.keys + np.float16(50)) for datastore in near]
    assert search(engine, inputs(sources, datastores=far), search_options) == plain


def test_searches_with_datastores_give_equal_results_in_a_shared_batch():
    engine, sources = native_model(random_model(SHAPE, 2, spread=2.0), threads=2), sentences(30, 2)
    datastores = datastores_for(engine, 30, 2)
    search_options = SearchOptions(beam=2, max_length=15)
    expected = search(engine, inputs(sources, datastores=datastores), search_options)
    batches = ModelBatches()
    try:
        shared = batches.decoder_for(CallContext())(engine)
        assert search(shared, inputs(sources, datastores=datastores), search_options) == expected
    finally:
        batches.close()


def test_invalid_datastores_are_rejected():
    engine = native_model(random_model(SHAPE))
    memory = engine.encode(sentences(1))
    good = Datastore(np.zeros((2, 16), np.float16), np.array([4, 5]), 1.0, 1.0)
    engine.with_datastores(memory, [good])
    for bad in (
        replace(good, keys=np.zeros((2, 15), np.float16)),
        replace(good, tokens=np.array([4, 23])),
        replace(good, tokens=np.array([4])),
        replace(good, radius=0.0),
        replace(good, temperature=-1.0),
        replace(good, neighbours=17),
    ):
        with pytest.raises(DataError):
            engine.with_datastores(memory, [bad])
    with pytest.raises(DataError):
        engine.with_datastores(memory, [])
