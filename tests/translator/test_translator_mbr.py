"""``mbr``: of samples of a text, the one of the highest expected utility."""

from __future__ import annotations

import pytest
import tiny_models as tiny

import uwaga
from uwaga.checkpoints.formats.uwaga.folder import save_model
from uwaga.errors import SettingsError
from uwaga.search import SearchOptions
from uwaga.search.mbr import rank_by_utility

TEXTS = ["I want to buy a car.", "The dog sees the cat.", "Where is the station?", "", "12"]


@pytest.fixture(scope="module", params=["native", "torch"])
def translator(request, tmp_path_factory):
    joint = tiny.tokeniser()
    folder = tmp_path_factory.mktemp("mbr") / "model"
    model = tiny.transformer(tiny.TINY, joint, joint)
    save_model(folder, model, tiny.TINY, tiny.DECODING, joint, joint, ("en", "de"), "card")
    return uwaga.load(folder, device="cpu", engine=request.param)


@pytest.mark.parametrize("utility", ["chrf", "bleu"])
def test_it_is_the_best_of_the_same_samples(translator, utility):
    found = translator.translate(TEXTS, mbr=8, utility=utility, seed=3, nbest=2)
    drawn = translator.translate(TEXTS, sample=True, nbest=8, seed=3)
    for one, samples in zip(found[:3], drawn, strict=False):
        ways = (samples, *samples.alternatives)
        ranked = rank_by_utility([way.text for way in ways], utility=utility)
        # Samples are listed by their scores: the same set, so that of equal ones any may be first.
        assert one.score == pytest.approx(ranked[0][1])
        assert one.text in {ways[at].text for at, expected in ranked if expected == pytest.approx(one.score)}
        assert [other.score for other in one.alternatives] == pytest.approx(
            [expected for _, expected in ranked[1:2]]
        )
    assert [one.text for one in found[3:]] == ["", "12"]


def test_it_does_not_depend_on_the_batch(translator):
    together = translator.translate(TEXTS, mbr=6, seed=1)
    assert [one.text for one in together] == [
        translator.translate(text, mbr=6, seed=1).text for text in TEXTS
    ]
    small = translator.translate(TEXTS, mbr=6, seed=1, batch_tokens=20)
    assert [one.text for one in small] == [one.text for one in together]


def test_one_sample_is_the_sample(translator):
    assert (
        translator.translate(TEXTS[0], mbr=1, seed=5).text
        == translator.translate(TEXTS[0], sample=True, seed=5).text
    )


def test_what_does_not_go_with_it_is_refused(translator):
    for wrong, message in (
        ({"mbr": 4, "nbest": 5}, "nbest 5 is more than the 4 samples of mbr"),
        ({"mbr": 4, "sample": False}, "mbr chooses among samples"),
        ({"mbr": -1}, "mbr must be a whole number"),
        ({"utility": "ter"}, "utility must be one of chrf, bleu"),
    ):
        with pytest.raises(SettingsError, match=message):
            translator.translate(TEXTS[0], **wrong)
    with pytest.raises(SettingsError, match="mbr compares several whole samples"):
        translator.stream(TEXTS[0], mbr=4)


def test_it_draws_a_seed_where_none_is_named():
    assert SearchOptions().changed({"mbr": 4}).sample
    assert SearchOptions().changed({"mbr": 4}).seed is not None
    assert not SearchOptions().changed({"utility": "bleu"}).sample
