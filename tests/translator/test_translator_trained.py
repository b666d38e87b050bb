"""The tiny trained model that the tests ship: number words, held-out ones too."""

import sys
from pathlib import Path

import numpy as np
import pytest

import uwaga

MODELS = Path(__file__).parents[1] / "support/models"
sys.path.insert(0, str(MODELS))
from make import english, german, held_out

NUMBERS = held_out()
SOURCES = [english(number) for number in NUMBERS]
TARGETS = [german(number) for number in NUMBERS]


@pytest.fixture(scope="module")
def translator():
    return uwaga.load(MODELS / "numbers-en-de", device="cpu")


def test_the_corpus_is_right():
    assert english(342) == "three hundred forty two"
    assert [german(number) for number in (1, 21, 101, 342)] == [
        "eins",
        "einundzwanzig",
        "einhunderteins",
        "dreihundertzweiundvierzig",
    ]


@pytest.mark.numerical
@pytest.mark.parametrize("options", [{}, {"beam": 1}, {"beam": 6, "batch_tokens": 100}])
def test_unseen_numbers_are_translated(translator, options):
    found = translator.translate(SOURCES, **options)
    assert [one.text for one in found] == TARGETS
    assert not any(one.truncated for one in found)


@pytest.mark.numerical
def test_scores_agree_to_1e_5_in_any_batch(translator):
    together = translator.translate(SOURCES[:30], nbest=3)
    for text, one in zip(SOURCES[:30], together, strict=True):
        alone = translator.translate(text, nbest=3)
        assert alone.tokens == one.tokens
        np.testing.assert_allclose(alone.token_scores, one.token_scores, atol=1e-5, rtol=0)
        ways = zip(alone.alternatives, one.alternatives, strict=True)
        assert all(abs(left.score - right.score) <= 1e-5 for left, right in ways)


def test_M20_the_right_translation_is_the_likelier(translator):
    right = translator.score(zip(SOURCES, TARGETS, strict=True))
    wrong = translator.score(zip(SOURCES, TARGETS[1:] + TARGETS[:1], strict=True))
    assert all(one.log_prob > other.log_prob + 3 for one, other in zip(right, wrong, strict=True))
    best = translator.translate(SOURCES)
    for score, translation in zip(right, best, strict=True):
        if score.tokens == translation.tokens:
            assert score.token_scores == pytest.approx(translation.token_scores, abs=1e-4)


def test_a_stream_grows_to_the_translation(translator):
    pieces = list(translator.stream(SOURCES[0]))
    assert len(pieces) > 2
    assert "".join(pieces) == TARGETS[0]


def test_M24_a_prefix_is_completed(translator):
    prefixes = [target[: target.index("hundert") + number % 3] for number, target in enumerate(TARGETS[:20])]
    found = translator.translate(SOURCES[:20], prefix=prefixes)
    assert all(one.text.startswith(prefix) for one, prefix in zip(found, prefixes, strict=True))
    assert sum(one.text == target for one, target in zip(found, TARGETS[:20], strict=True)) >= 15


def test_M25_cool_samples_are_right(translator):
    found = translator.translate(SOURCES, sample=True, temperature=0.2, seed=1)
    assert [one.text for one in found] == TARGETS
