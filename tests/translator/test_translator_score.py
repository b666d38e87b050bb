"""Probabilities of given targets, by steps and in parallel, agree with the definition (M20)."""

import numpy as np
import pytest
import tiny_models as tiny
import torch
from search_inputs import inputs

from uwaga.errors import TextTooLongError
from uwaga.search import SearchOptions, search
from uwaga.translator import Model, Translator
from uwaga.translator.score import parallel_scorer
from uwaga.translator.text import TokenPair

SOURCE, TARGET = tiny.tokeniser("source", size=330), tiny.tokeniser("target", size=335)
SHAPE = tiny.TINY.model_copy(update={"tie": "none", "norm": "pre"})
MODEL = tiny.transformer(SHAPE, SOURCE, TARGET, sharp=1.0)
PAIRS = [*zip(tiny.ENGLISH, tiny.GERMAN, strict=True), ("", ""), ("", "Haus"), ("Hi", ""), ("a", "b c d")]
STEPWISE_TRANSLATOR = Translator(Model(MODEL, SOURCE, TARGET, tiny.SEARCH))
PARALLEL_TRANSLATOR = Translator(Model(MODEL, SOURCE, TARGET, tiny.SEARCH, scorer=parallel_scorer(MODEL)))


@pytest.mark.parametrize("translator", [STEPWISE_TRANSLATOR, PARALLEL_TRANSLATOR])
@pytest.mark.parametrize("batch_tokens", [1, 60, 4096])
def test_M20_scores_equal_the_product_of_conditional_probabilities(translator, batch_tokens):
    for (source, target), score in zip(
        PAIRS, translator.score(PAIRS, batch_tokens=batch_tokens), strict=True
    ):
        ids = torch.tensor([[*SOURCE.encode(source), SOURCE.symbols.end]])
        out = [*TARGET.encode(target), TARGET.symbols.end]
        with torch.inference_mode():  # no padding, no batch: the definition
            log_probs = MODEL(ids, torch.tensor([[TARGET.symbols.start, *out[:-1]]]))[0]
        expected = log_probs[torch.arange(len(out)), torch.tensor(out)].tolist()
        assert score.token_scores == pytest.approx(expected, abs=1e-4)
        assert score.log_prob == pytest.approx(sum(expected), abs=1e-3)
        assert score.mean == pytest.approx(sum(expected) / len(out), abs=1e-4)
        assert score.perplexity == pytest.approx(np.exp(-score.mean))
        assert score.tokens == tuple(TARGET.pieces(out[:-1]))
        assert score.source_tokens == tuple(SOURCE.pieces(ids[0, :-1].tolist()))


def test_M20_first_token_probabilities_sum_to_one():
    decoder = STEPWISE_TRANSLATOR.decoder
    source = [*SOURCE.encode("Where is the station?"), SOURCE.symbols.end]
    pairs = [TokenPair(source, [token]) for token in range(decoder.vocabulary)]
    for scorer in (STEPWISE_TRANSLATOR.model.scores, PARALLEL_TRANSLATOR.model.scores):
        scores = np.array(scorer(pairs))
        assert np.exp(scores).sum() == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("translator", [STEPWISE_TRANSLATOR, PARALLEL_TRANSLATOR])
def test_forced_score_of_a_hypothesis_equals_its_search_score(translator):
    sources = [[*SOURCE.encode(text), SOURCE.symbols.end] for text in tiny.ENGLISH]
    hypotheses = search(MODEL, inputs(sources), SearchOptions(beam=2, min_length=3, max_length=16))
    targets = [[*best.tokens, TARGET.symbols.end] for [best] in hypotheses]
    pairs = list(map(TokenPair, sources, targets))
    for [best], scores in zip(hypotheses, translator.model.scores(pairs), strict=True):
        assert scores[: len(best.token_scores)] == pytest.approx(best.token_scores, abs=1e-4)
    prefixed = translator.translate("Hi", prefix="Der Hund", beam=1)
    [score] = translator.score([("Hi", "Der Hund")])
    prefix_length = len(score.tokens)
    assert prefixed.token_scores[:prefix_length] == pytest.approx(
        score.token_scores[:prefix_length], abs=1e-4
    )


def test_surrounding_white_space_does_not_affect_scores():
    spaced, plain = PARALLEL_TRANSLATOR.score([(" Hi \n", "\tDer Hund "), ("Hi", "Der Hund")])
    assert spaced.log_prob == pytest.approx(plain.log_prob, abs=1e-5)


@pytest.mark.parametrize("translator", [STEPWISE_TRANSLATOR, PARALLEL_TRANSLATOR])
def test_overlong_pairs_are_rejected_with_their_number(translator):
    with pytest.raises(TextTooLongError, match=r"pair 2: the source has \d+ tokens.* at most 40"):
        translator.score([("a", "b"), ("x " * 90, "b")])
    with pytest.raises(TextTooLongError, match="pair 1: the target"):
        translator.score([("a", "Haus " * 60)])
