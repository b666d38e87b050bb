"""Lexically constrained search with torch models, ensembles, and the engine with shortlists (M27)."""

import numpy as np
import pytest
from native_models import native_model, random_model, sentences
from search_inputs import inputs

from uwaga.decoder import Choice
from uwaga.engine import Shortlist
from uwaga.models.ensemble import Ensemble
from uwaga.search import SearchOptions, search
from uwaga.search.phrases import Phrase, Phrases
from uwaga.settings import TransformerSettings

SHAPE = TransformerSettings(
    encoder_layers=1, decoder_layers=1, width=16, heads=2, feed_forward=24, max_length=40
)
VOCABULARY = 23
TORCH_MODEL = random_model(SHAPE, spread=2.0)
SMALL_SHORTLIST = Shortlist(
    np.array([2, 5], dtype=np.int32),
    np.zeros(VOCABULARY + 1, dtype=np.int32),
    np.array([], dtype=np.int32),
    VOCABULARY,
)


def with_small_shortlist(engine):
    """Return the engine with a shortlist of few tokens."""
    return engine.with_shortlist(SMALL_SHORTLIST)


DECODERS = {
    "torch": TORCH_MODEL,
    "engine": native_model(TORCH_MODEL),
    "int8": native_model(TORCH_MODEL, "int8", 2),
    "shortlist": with_small_shortlist(native_model(TORCH_MODEL)),
    "ensemble": Ensemble([TORCH_MODEL, native_model(random_model(SHAPE, 1, spread=2.0))]),
    "ensemble of shortlists": Ensemble(
        [with_small_shortlist(native_model(random_model(SHAPE, seed, spread=2.0))) for seed in (1, 2)]
    ),
}


def random_phrases(count, seed=0):
    rng = np.random.default_rng(seed)

    def alternative():
        return tuple(rng.integers(4, VOCABULARY, rng.integers(1, 4)).tolist())

    return [[Phrase((alternative(), alternative())) for _ in range(rng.integers(0, 4))] for _ in range(count)]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", DECODERS)
@pytest.mark.parametrize("beam", [1, 5])
def test_M27_targets_of_all_models_contain_their_phrases(kind, beam):
    decoder, sources, phrase_lists = DECODERS[kind], sentences(24), random_phrases(24)
    phrases = [Phrases(phrase_list) for phrase_list in phrase_lists]
    results = search(decoder, inputs(sources, phrases=phrases), SearchOptions(beam=beam, max_length=39))
    for [hypothesis], phrase_list, compiled in zip(results, phrase_lists, phrases, strict=True):
        assert compiled.occurrences(hypothesis.tokens) == [1] * len(phrase_list)


@pytest.mark.parametrize("kind", ["engine", "int8", "shortlist"])
def test_M27_engine_results_do_not_depend_on_the_batch(kind):
    decoder, sources = DECODERS[kind], sentences(20)
    phrases = [
        Phrases(phrase_list, None, None if i % 4 else 1.5) for i, phrase_list in enumerate(random_phrases(20))
    ]
    options = SearchOptions(beam=4, nbest=2, max_length=39)
    results = search(decoder, inputs(sources, phrases=phrases), options)
    small_batches = SearchOptions(beam=4, nbest=2, max_length=39, batch_tokens=90)
    assert search(decoder, inputs(sources, phrases=phrases), small_batches) == results
    for i, sentence_phrases in enumerate(phrases):
        assert search(decoder, inputs([sources[i]], phrases=[sentence_phrases]), options) == [results[i]]


def test_M27_phrase_search_on_the_engine_matches_torch():
    sources, phrases = sentences(20), [Phrases(phrase_list) for phrase_list in random_phrases(20)]
    options = SearchOptions(beam=4, max_length=39)
    torch_results, engine_results = (
        search(decoder, inputs(sources, phrases=phrases), options)
        for decoder in (TORCH_MODEL, DECODERS["engine"])
    )
    for [expected], [hypothesis] in zip(torch_results, engine_results, strict=True):
        assert expected.tokens == hypothesis.tokens
        assert expected.score == pytest.approx(hypothesis.score, abs=1e-4)


def test_M27_extra_tokens_outside_a_shortlist_are_scored():
    plain, listed = DECODERS["engine"], DECODERS["shortlist"]
    source, rows = [(5, 6, 3)], np.array([2, 2])
    (state, listed_state), shortlist = (
        (decoder.start(decoder.encode(source), 2) for decoder in (plain, listed)),
        [1, 2, 3, 5],
    )
    log_probs = plain.step(rows, state, Choice(1, all_tokens=True)).log_probs[0].astype(np.float64)
    step = listed.step(rows, listed_state, Choice(2, extra_tokens=np.array([[9, 5, -1], [-1, 4, 9]])))
    assert step.tokens.shape == (2, 5)
    for token, log_prob in ((9, step.log_probs[0, 2]), (4, step.log_probs[1, 3]), (9, step.log_probs[1, 4])):
        expected = log_probs[token] - np.log(np.exp(log_probs[[*shortlist, token]]).sum())
        assert log_prob == pytest.approx(expected, abs=1e-5)
    assert step.log_probs[0, 3] == pytest.approx(
        log_probs[5] - np.log(np.exp(log_probs[shortlist]).sum()), abs=1e-5
    )
    assert step.log_probs[0, 4] == step.log_probs[1, 2] == -np.inf
    all_log_probs = listed.step(
        rows, listed_state, Choice(1, all_tokens=True, extra_tokens=np.array([[9, -1], [-1, -1]]))
    ).log_probs
    assert all_log_probs[0, 9] == pytest.approx(step.log_probs[0, 2], abs=1e-6)
    assert all_log_probs[1, 9] == -np.inf
