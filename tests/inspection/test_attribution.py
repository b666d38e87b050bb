"""Laws of attribution: completeness, agreement with finite differences, silence of what is not heard."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import uwaga
from uwaga.errors import SettingsError
from uwaga.inspection.attribution import attribute
from uwaga.models.interventions import with_source_vectors

TEXT, TARGET = "A man rides a bicycle.", "Ein Mann fährt Fahrrad."


@pytest.fixture(scope="module")
def translator() -> uwaga.Translator:
    return uwaga.Translator.load(engine="torch", device="cpu", threads=1)


def test_integrated_gradients_are_complete(translator) -> None:
    found = attribute(translator, TEXT, TARGET, steps=128)
    assert found.translation.attention is not None
    assert found.values.shape == found.translation.attention.shape
    scale = np.abs(found.log_probs - found.baseline).max()
    assert found.gap < 0.05 * scale
    coarse = attribute(translator, TEXT, TARGET, steps=4)
    assert found.gap < coarse.gap
    (score,) = translator.score([(TEXT, TARGET)])
    np.testing.assert_allclose(found.log_probs, score.token_scores, atol=1e-3)


def test_gradient_times_input_is_the_slope_at_the_input(translator) -> None:
    found = attribute(translator, TEXT, TARGET, "gradient_input")
    [ids], [wanted] = translator.pair_ids([(TEXT, TARGET)])
    model = translator.decoder
    vectors = model.source_embedding.weight[list(ids)].detach().double()
    small = 1e-2
    with torch.no_grad():
        for token in (1, 3):
            ends = torch.stack([vectors, vectors])
            ends[0, token] *= 1 + small
            ends[1, token] *= 1 - small
            made = with_source_vectors(model, ends.float())
            fed = torch.tensor([[model.symbols.start, *wanted[:-1]]] * 2)
            scores = torch.log_softmax(made.logits(made.features(torch.tensor([ids] * 2), fed)), -1)
            scores = scores.gather(-1, torch.tensor([wanted] * 2)[..., None])[..., 0].double()
            slope = (scores[0] - scores[1]) / (2 * small)
            np.testing.assert_allclose(found.values[:, token], slope.numpy(), atol=0.02)


def test_its_own_embeddings_change_nothing(translator) -> None:
    [ids], [wanted] = translator.pair_ids([(TEXT, TARGET)])
    model = translator.decoder
    given = torch.tensor([ids]), torch.tensor([[model.symbols.start, *wanted[:-1]]])
    with torch.inference_mode():
        made = with_source_vectors(model, model.source_embedding(given[0]))
        assert torch.equal(made.features(*given), model.features(*given))


def test_without_a_target_the_translation_is_explained(translator) -> None:
    assert attribute(translator, TEXT, steps=2).translation.text == translator.translate(TEXT).text


def test_the_native_engine_has_no_gradients() -> None:
    with pytest.raises(SettingsError, match="load the model with engine='torch'"):
        attribute(uwaga.Translator.load(device="cpu"), TEXT)
