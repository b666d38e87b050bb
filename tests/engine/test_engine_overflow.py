"""Overflowing logits: searches return a translation or raise an error about the model's weights."""

import marian_students
import numpy as np
import pytest
from overflowing_models import PRECISIONS, check_overflow

import uwaga
from uwaga.engine.cpu import available_isas
from uwaga.errors import ModelError


@pytest.mark.sampled(5)
@pytest.mark.numerical
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("isa", available_isas())
def test_steps_with_overflowing_logits_match_the_reference(precision, isa):
    rng = np.random.default_rng(PRECISIONS.index(precision))
    for _ in range(5):
        check_overflow(rng, isa, precision)


def test_overflowing_weights_of_shortlisted_tokens_are_reported(tmp_path, monkeypatch):
    """In a damaged Firefox model, the weights of shortlisted tokens 5 and 39 are finite but overflow."""
    random_weights = marian_students.random_weights

    def large_rows(*arguments):
        weights = random_weights(*arguments)
        weights["decoder_Wemb"][[5, 39]] = 3e38
        return weights

    monkeypatch.setattr(marian_students, "random_weights", large_rows)
    marian_students.write_student(tmp_path / "m", kind="float32", alphas=False, shared=False)
    model = uwaga.load(tmp_path / "m", threads=1, engine="native")
    assert model.decoder.shortlist is not None
    for options in ({}, {"beam": 1}, {"beam": 3, "nbest": 3}, {"beam": 12}, {"sample": True, "seed": 1}):
        with pytest.raises(ModelError, match="its weights are damaged, or overflow"):
            model.translate(["twenty one", "three hundred"], max_length=8, **options)
