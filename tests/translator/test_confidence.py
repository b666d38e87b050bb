"""Words with their probabilities, and estimates of a translation's quality."""

from __future__ import annotations

import json
import math

import pytest
import tiny_models as tiny
from hypothesis import given
from hypothesis import strategies as st

import uwaga
from uwaga.checkpoints.formats.uwaga.folder import save_model
from uwaga.results.confidence import END, split_words, word_spans, words_from_tokens
from uwaga.results.translation import Translation

TEXTS = ["I want to buy a car.", "The dog sees the cat. Where is the station?", "", "12", "One\n\ntwo three"]
PIECES = st.lists(st.sampled_from(["▁Auto", "s", "▁", "##e", "Ġof", "a", ".", END]), max_size=12)


@pytest.fixture(scope="module", params=["native", "torch"])
def translator(request, tmp_path_factory):
    joint = tiny.tokeniser()
    folder = tmp_path_factory.mktemp("confidence") / "model"
    model = tiny.transformer(tiny.TINY, joint, joint)
    save_model(folder, model, tiny.TINY, tiny.DECODING, joint, joint, ("en", "de"), "card")
    return uwaga.load(folder, device="cpu", engine=request.param)


def ways(translator, **options):
    found = translator.translate(TEXTS, **options)
    return [way for one in found for way in (one, *one.alternatives)]


def test_the_product_over_the_words_is_the_probability_of_the_translation(translator):
    for options in ({}, {"nbest": 3}, {"max_length": 3}, {"sample": True, "seed": 1}, {"mbr": 4, "seed": 1}):
        for way in ways(translator, **options):
            product = math.prod(word.probability for word in way.words)
            assert product == pytest.approx(math.exp(way.log_prob), rel=1e-6)
            log_probs = sum(
                math.log(word.mean) * (stop - start)
                for word, (start, stop) in zip(way.words, spans(way), strict=True)
            )
            assert log_probs == pytest.approx(way.log_prob, rel=1e-6, abs=1e-9)


def spans(way: Translation):
    return word_spans((*way.tokens, *[END] * (len(way.token_scores) - len(way.tokens))))


def test_estimates_by_hand():
    scores = [math.log(0.5), math.log(0.5), math.log(0.9), math.log(0.8), math.log(0.2)]
    made = Translation("Autos. da", 0.0, ("▁Auto", "s.", "▁da", END), tuple(scores), sum(scores), True)
    assert [(word.text, round(word.probability, 9)) for word in made.words] == [
        ("Autos.", 0.25),
        ("da", 0.9),
        (END, 0.8),
        (END, 0.2),
    ]
    assert made.words[0].mean == pytest.approx(0.5)
    assert made.confidence is not None
    assert made.confidence.mean_log_prob == pytest.approx(sum(scores) / 5)
    assert made.confidence.probability == pytest.approx((0.25 * 0.9 * 0.8 * 0.2) ** 0.2)
    assert made.confidence.mean_word == pytest.approx(1.15 / 2)
    assert made.confidence.lowest_word == pytest.approx(0.25)
    assert made.confidence.entropy is None


def test_entropies_come_with_words_and_estimates_where_asked_for(translator):
    plain, asked = ways(translator, nbest=2), ways(translator, nbest=2, entropy=True)
    assert all(way.entropies == () for way in plain)
    for one, other in zip(plain, asked, strict=True):
        assert (one.text, one.token_scores) == (other.text, other.token_scores)
        assert len(other.entropies) == len(other.token_scores)
        if other.entropies:
            assert other.confidence.entropy == pytest.approx(sum(other.entropies) / len(other.entropies))
            assert all(
                word.entropy == pytest.approx(sum(other.entropies[start:stop]) / (stop - start))
                for word, (start, stop) in zip(other.words, spans(other), strict=True)
            )
    best = translator.translate(TEXTS[1], mbr=3, seed=2, entropy=True)
    assert len(best.entropies) == len(best.token_scores)


def test_what_was_copied_has_no_words(translator):
    copied = translator.translate("12")
    assert (copied.words, copied.confidence) == ((), None)
    assert split_words(copied.text, copied.words) == [("12", None)]


def test_json(translator):
    made = translator.translate(TEXTS[0], nbest=2)
    assert "words" not in made.to_dict()
    found = json.loads(json.dumps(made.to_dict(confidence=True), allow_nan=False))
    assert [word["text"] for word in found["words"]] == [word.text for word in made.words]
    assert found["confidence"]["lowest_word"] == pytest.approx(made.confidence.lowest_word, abs=1e-6)
    assert found["alternatives"][0]["words"]
    assert translator.translate("12").to_dict(confidence=True)["confidence"] is None
    impossible = Translation("a", -math.inf, ("▁a",), (-math.inf, 0.0), -math.inf)
    json.dumps(impossible.to_dict(confidence=True), allow_nan=False)


@given(PIECES)
def test_words_cover_the_pieces_in_order(pieces):
    found = word_spans(pieces)
    assert [at for start, stop in found for at in range(start, stop)] == list(range(len(pieces)))
    assert all(start < stop for start, stop in found)
    assert all(stop - start == 1 for start, stop in found if pieces[start] == END)


@given(PIECES, st.text(max_size=20))
def test_a_text_is_cut_without_loss(pieces, text):
    words = words_from_tokens(text, pieces, [-0.1] * len(pieces))
    assert "".join(part for part, _ in split_words(text, words)) == text


def test_a_given_target_has_words_too(translator):
    [score] = translator.score([("I want to buy a car.", "Ich möchte ein Auto kaufen.")])
    assert [word.text for word in score.words] == ["Ich", "möchte", "ein", "Auto", "kaufen.", END]
    assert math.prod(word.probability for word in score.words) == pytest.approx(math.exp(score.log_prob))
