"""Translation of numerals by the tiny trained model, including numerals held out from training."""

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


def test_reference_numerals_are_spelt_correctly():
    assert english(342) == "three hundred forty two"
    assert [german(number) for number in (1, 21, 101, 342)] == [
        "eins", "einundzwanzig", "einhunderteins", "dreihundertzweiundvierzig",
    ]  # fmt: skip


@pytest.mark.numerical
@pytest.mark.parametrize("options", [{}, {"beam": 1}, {"beam": 6, "batch_tokens": 100}])
def test_trained_model_translates_held_out_numbers(translator, options):
    translations = translator.translate(SOURCES, **options)
    assert [translation.text for translation in translations] == TARGETS
    assert not any(translation.truncated for translation in translations)


@pytest.mark.numerical
def test_scores_differ_by_at_most_1e_5_between_batches(translator):
    batch = translator.translate(SOURCES[:30], nbest=3)
    for text, expected in zip(SOURCES[:30], batch, strict=True):
        separate = translator.translate(text, nbest=3)
        assert separate.tokens == expected.tokens
        np.testing.assert_allclose(separate.token_scores, expected.token_scores, atol=1e-5, rtol=0)
        alternatives = zip(separate.alternatives, expected.alternatives, strict=True)
        assert all(abs(actual.score - reference.score) <= 1e-5 for actual, reference in alternatives)


def test_M20_correct_translation_scores_higher(translator):
    correct = translator.score(zip(SOURCES, TARGETS, strict=True))
    incorrect = translator.score(zip(SOURCES, TARGETS[1:] + TARGETS[:1], strict=True))
    assert all(
        score.log_prob > incorrect_score.log_prob + 3
        for score, incorrect_score in zip(correct, incorrect, strict=True)
    )
    best = translator.translate(SOURCES)
    for score, translation in zip(correct, best, strict=True):
        if score.tokens == translation.tokens:
            assert score.token_scores == pytest.approx(translation.token_scores, abs=1e-4)


def test_joined_stream_pieces_are_the_correct_translation(translator):
    pieces = list(translator.stream(SOURCES[0]))
    assert len(pieces) > 2
    assert "".join(pieces) == TARGETS[0]


def test_M24_most_prefixes_are_completed_to_the_correct_translation(translator):
    prefixes = [target[: target.index("hundert") + number % 3] for number, target in enumerate(TARGETS[:20])]
    translations = translator.translate(SOURCES[:20], prefix=prefixes)
    assert all(
        translation.text.startswith(prefix)
        for translation, prefix in zip(translations, prefixes, strict=True)
    )
    assert (
        sum(
            translation.text == target for translation, target in zip(translations, TARGETS[:20], strict=True)
        )
        >= 15
    )


def test_M25_low_temperature_samples_are_correct_translations(translator):
    translations = translator.translate(SOURCES, sample=True, temperature=0.2, seed=1)
    assert [translation.text for translation in translations] == TARGETS
