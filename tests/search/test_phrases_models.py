"""Lexically constrained search on models: torch, ensembles, the engine with and without a shortlist (M27)."""

import numpy as np
import pytest
from native_models import native, random_model, sentences

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
TORCH = random_model(SHAPE, spread=2.0)
NARROW = Shortlist(
    np.array([2, 5], dtype=np.int32),
    np.zeros(VOCABULARY + 1, dtype=np.int32),
    np.array([], dtype=np.int32),
    VOCABULARY,
)


def narrow(engine):
    """The engine with a list of hardly any tokens."""
    return engine.with_shortlist(NARROW)


DECODERS = {
    "torch": TORCH,
    "engine": native(TORCH),
    "int8": native(TORCH, "int8", 2),
    "shortlist": narrow(native(TORCH)),
    "ensemble": Ensemble([TORCH, native(random_model(SHAPE, 1, spread=2.0))]),
    "ensemble of shortlists": Ensemble(
        [narrow(native(random_model(SHAPE, at, spread=2.0))) for at in (1, 2)]
    ),
}


def some_phrases(count, seed=0):
    rng = np.random.default_rng(seed)

    def one():
        return tuple(rng.integers(4, VOCABULARY, rng.integers(1, 4)).tolist())

    return [[Phrase((one(), one())) for _ in range(rng.integers(0, 4))] for _ in range(count)]


@pytest.mark.parametrize("kind", DECODERS)
@pytest.mark.parametrize("beam", [1, 5])
def test_M27_phrases_are_in_the_targets_of_every_model(kind, beam):
    decoder, sources, each = DECODERS[kind], sentences(24), some_phrases(24)
    phrases = [Phrases(one) for one in each]
    found = search(decoder, sources, SearchOptions(beam=beam, max_length=39), phrases=phrases)
    for [hypothesis], one, of_it in zip(found, each, phrases, strict=True):
        assert of_it.met(hypothesis.tokens) == [1] * len(one)


@pytest.mark.parametrize("kind", ["engine", "int8", "shortlist"])
def test_M27_the_engine_finds_the_same_bits_in_any_batch(kind):
    decoder, sources = DECODERS[kind], sentences(20)
    phrases = [Phrases(one, None, None if at % 4 else 1.5) for at, one in enumerate(some_phrases(20))]
    options = SearchOptions(beam=4, nbest=2, max_length=39)
    together = search(decoder, sources, options, phrases=phrases)
    few = SearchOptions(beam=4, nbest=2, max_length=39, batch_tokens=90)
    assert search(decoder, sources, few, phrases=phrases) == together
    for at, one in enumerate(phrases):
        assert search(decoder, [sources[at]], options, phrases=[one]) == [together[at]]


def test_M27_the_engine_finds_what_torch_finds():
    sources, phrases = sentences(20), [Phrases(one) for one in some_phrases(20)]
    options = SearchOptions(beam=4, max_length=39)
    theirs, ours = (search(each, sources, options, phrases=phrases) for each in (TORCH, DECODERS["engine"]))
    for [one], [other] in zip(theirs, ours, strict=True):
        assert one.tokens == other.tokens
        assert one.score == pytest.approx(other.score, abs=1e-4)


def test_M27_a_token_outside_a_shortlist_is_wanted_as_if_it_were_added_to_it():
    plain, listed = DECODERS["engine"], DECODERS["shortlist"]
    source, rows = [(5, 6, 3)], np.array([2, 2])
    (state, other), inside = ((one.start(one.encode(source), 2) for one in (plain, listed)), [1, 2, 3, 5])
    whole = plain.step(rows, state, Choice(1, all_tokens=True)).log_probs[0].astype(np.float64)
    made = listed.step(rows, other, Choice(2, extra_tokens=np.array([[9, 5, -1], [-1, 4, 9]])))
    assert made.tokens.shape == (2, 5)
    for token, log_prob in ((9, made.log_probs[0, 2]), (4, made.log_probs[1, 3]), (9, made.log_probs[1, 4])):
        expected = whole[token] - np.log(np.exp(whole[[*inside, token]]).sum())
        assert log_prob == pytest.approx(expected, abs=1e-5)
    assert made.log_probs[0, 3] == pytest.approx(whole[5] - np.log(np.exp(whole[inside]).sum()), abs=1e-5)
    assert made.log_probs[0, 4] == made.log_probs[1, 2] == -np.inf
    every = listed.step(
        rows, other, Choice(1, all_tokens=True, extra_tokens=np.array([[9, -1], [-1, -1]]))
    ).log_probs
    assert every[0, 9] == pytest.approx(made.log_probs[0, 2], abs=1e-6)
    assert every[1, 9] == -np.inf
