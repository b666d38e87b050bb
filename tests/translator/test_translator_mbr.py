"""The option ``mbr``, which selects the sample with the highest expected utility."""

import pytest
import tiny_models as tiny

import uwaga
from uwaga.errors import SettingsError
from uwaga.search import SearchOptions
from uwaga.search.mbr import rank_by_utility

TEXTS = ["I want to buy a car.", "The dog sees the cat.", "Where is the station?", "", "12"]


@pytest.fixture(scope="module", params=["native", "torch"])
def translator(request, tmp_path_factory):
    joint = tiny.tokeniser()
    folder = tmp_path_factory.mktemp("mbr") / "model"
    model = tiny.transformer(tiny.TINY, joint, joint)
    tiny.save(folder, model, joint)
    return uwaga.load(folder, device="cpu", engine=request.param)


@pytest.mark.parametrize("utility", ["chrf", "bleu"])
def test_mbr_result_is_the_sample_with_the_highest_expected_utility(translator, utility):
    translations = translator.translate(TEXTS, mbr=8, utility=utility, seed=3, nbest=2)
    sampled = translator.translate(TEXTS, sample=True, nbest=8, seed=3)
    for translation, samples in zip(translations[:3], sampled, strict=False):
        hypotheses = (samples, *samples.alternatives)
        ranked = rank_by_utility([hypothesis.text for hypothesis in hypotheses], utility=utility)
        # Samples are sorted by score, so any of several with equal utility may come first.
        assert translation.score == pytest.approx(ranked[0][1])
        assert translation.text in {
            hypotheses[index].text
            for index, expected in ranked
            if expected == pytest.approx(translation.score)
        }
        assert [alternative.score for alternative in translation.alternatives] == pytest.approx(
            [expected for _, expected in ranked[1:2]]
        )
    assert [translation.text for translation in translations[3:]] == ["", "12"]


def test_mbr_result_does_not_depend_on_the_batch(translator):
    batch = translator.translate(TEXTS, mbr=6, seed=1)
    assert [translation.text for translation in batch] == [
        translator.translate(text, mbr=6, seed=1).text for text in TEXTS
    ]
    small = translator.translate(TEXTS, mbr=6, seed=1, batch_tokens=20)
    assert [translation.text for translation in small] == [translation.text for translation in batch]


def test_mbr_with_one_sample_returns_that_sample(translator):
    assert (
        translator.translate(TEXTS[0], mbr=1, seed=5).text
        == translator.translate(TEXTS[0], sample=True, seed=5).text
    )


def test_incompatible_or_invalid_mbr_options_are_rejected(translator):
    for options, message in (
        ({"mbr": 4, "nbest": 5}, "nbest 5 is more than the 4 samples of mbr"),
        ({"mbr": 4, "sample": False}, "mbr chooses among samples"),
        ({"mbr": -1}, "mbr must be a whole number"),
        ({"utility": "ter"}, "utility must be one of chrf, bleu"),
    ):
        with pytest.raises(SettingsError, match=message):
            translator.translate(TEXTS[0], **options)
    with pytest.raises(SettingsError, match="mbr compares several whole samples"):
        translator.stream(TEXTS[0], mbr=4)


def test_mbr_option_enables_sampling_with_a_random_seed():
    assert SearchOptions().changed({"mbr": 4}).sample
    assert SearchOptions().changed({"mbr": 4}).seed is not None
    assert not SearchOptions().changed({"utility": "bleu"}).sample
