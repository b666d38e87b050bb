"""Word probabilities and estimates of translation quality."""

import json
import math

import pytest
import tiny_models as tiny
from hypothesis import given
from hypothesis import strategies as st

import uwaga
from uwaga.results.confidence import END, split_words, word_spans, words_from_tokens
from uwaga.results.translation import Translation

TEXTS = ["I want to buy a car.", "The dog sees the cat. Where is the station?", "", "12", "One\n\ntwo three"]
PIECES = st.lists(st.sampled_from(["▁Auto", "s", "▁", "##e", "Ġof", "a", ".", END]), max_size=12)


@pytest.fixture(scope="module", params=["native", "torch"])
def translator(request, tmp_path_factory):
    joint = tiny.tokeniser()
    folder = tmp_path_factory.mktemp("confidence") / "model"
    model = tiny.transformer(tiny.TINY, joint, joint)
    tiny.save(folder, model, joint)
    return uwaga.load(folder, device="cpu", engine=request.param)


def hypotheses(translator, **options):
    translations = translator.translate(TEXTS, **options)
    return [
        hypothesis for translation in translations for hypothesis in (translation, *translation.alternatives)
    ]


def test_word_probabilities_multiply_to_the_probability_of_the_translation(translator):
    for options in ({}, {"nbest": 3}, {"max_length": 3}, {"sample": True, "seed": 1}, {"mbr": 4, "seed": 1}):
        for hypothesis in hypotheses(translator, **options):
            product = math.prod(word.probability for word in hypothesis.words)
            assert product == pytest.approx(math.exp(hypothesis.log_prob), rel=1e-6)
            log_probs = sum(
                math.log(word.mean) * (stop - start)
                for word, (start, stop) in zip(hypothesis.words, spans(hypothesis), strict=True)
            )
            assert log_probs == pytest.approx(hypothesis.log_prob, rel=1e-6, abs=1e-9)


def spans(hypothesis: Translation):
    return word_spans((*hypothesis.tokens, *[END] * (len(hypothesis.token_scores) - len(hypothesis.tokens))))


def test_word_probabilities_and_confidence_match_hand_calculation():
    scores = [math.log(0.5), math.log(0.5), math.log(0.9), math.log(0.8), math.log(0.2)]
    translation = Translation("Autos. da", 0.0, ("▁Auto", "s.", "▁da", END), tuple(scores), sum(scores), True)
    assert [(word.text, round(word.probability, 9)) for word in translation.words] == [
        ("Autos.", 0.25), ("da", 0.9), (END, 0.8), (END, 0.2),
    ]  # fmt: skip
    assert translation.words[0].mean == pytest.approx(0.5)
    assert translation.confidence is not None
    assert translation.confidence.mean_log_prob == pytest.approx(sum(scores) / 5)
    assert translation.confidence.probability == pytest.approx((0.25 * 0.9 * 0.8 * 0.2) ** 0.2)
    assert translation.confidence.mean_word == pytest.approx(1.15 / 2)
    assert translation.confidence.lowest_word == pytest.approx(0.25)
    assert translation.confidence.entropy is None


def test_entropies_are_returned_on_request(translator):
    plain, with_entropy = hypotheses(translator, nbest=2), hypotheses(translator, nbest=2, entropy=True)
    assert all(hypothesis.entropies == () for hypothesis in plain)
    for expected, actual in zip(plain, with_entropy, strict=True):
        assert (expected.text, expected.token_scores) == (actual.text, actual.token_scores)
        assert len(actual.entropies) == len(actual.token_scores)
        if actual.entropies:
            assert actual.confidence.entropy == pytest.approx(sum(actual.entropies) / len(actual.entropies))
            assert all(
                word.entropy == pytest.approx(sum(actual.entropies[start:stop]) / (stop - start))
                for word, (start, stop) in zip(actual.words, spans(actual), strict=True)
            )
    best = translator.translate(TEXTS[1], mbr=3, seed=2, entropy=True)
    assert len(best.entropies) == len(best.token_scores)


def test_copied_text_has_no_word_probabilities_or_confidence(translator):
    copied = translator.translate("12")
    assert (copied.words, copied.confidence) == ((), None)
    assert split_words(copied.text, copied.words) == [("12", None)]


def test_confidence_is_serialised_to_json(translator):
    translation = translator.translate(TEXTS[0], nbest=2)
    assert "words" not in translation.to_dict()
    document = json.loads(json.dumps(translation.to_dict(confidence=True), allow_nan=False))
    assert [word["text"] for word in document["words"]] == [word.text for word in translation.words]
    assert document["confidence"]["lowest_word"] == pytest.approx(
        translation.confidence.lowest_word, abs=1e-6
    )
    assert document["alternatives"][0]["words"]
    assert translator.translate("12").to_dict(confidence=True)["confidence"] is None
    impossible = Translation("a", -math.inf, ("▁a",), (-math.inf, 0.0), -math.inf)
    json.dumps(impossible.to_dict(confidence=True), allow_nan=False)


@given(PIECES)
def test_word_spans_cover_all_pieces_in_order(pieces):
    ranges = word_spans(pieces)
    assert [index for start, stop in ranges for index in range(start, stop)] == list(range(len(pieces)))
    assert all(start < stop for start, stop in ranges)
    assert all(stop - start == 1 for start, stop in ranges if pieces[start] == END)


@given(PIECES, st.text(max_size=20))
def test_splitting_a_text_into_scored_words_preserves_it(pieces, text):
    words = words_from_tokens(text, pieces, [-0.1] * len(pieces))
    assert "".join(part for part, _ in split_words(text, words)) == text


def test_scored_target_has_word_probabilities(translator):
    [score] = translator.score([("I want to buy a car.", "Ich möchte ein Auto kaufen.")])
    assert [word.text for word in score.words] == ["Ich", "möchte", "ein", "Auto", "kaufen.", END]
    assert math.prod(word.probability for word in score.words) == pytest.approx(math.exp(score.log_prob))
