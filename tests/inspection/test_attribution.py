"""Attribution of translations to source words: completeness, agreement with finite differences, errors."""

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
    attribution = attribute(translator, TEXT, TARGET, steps=64)
    assert attribution.translation.attention is not None
    assert attribution.values.shape == attribution.translation.attention.shape
    scale = np.abs(attribution.log_probs - attribution.baseline).max()
    assert attribution.gap < 0.05 * scale
    coarse = attribute(translator, TEXT, TARGET, steps=4)
    assert attribution.gap < coarse.gap
    (score,) = translator.score([(TEXT, TARGET)])
    np.testing.assert_allclose(attribution.log_probs, score.token_scores, atol=1e-3)


def test_gradient_times_input_matches_finite_differences(translator) -> None:
    attribution = attribute(translator, TEXT, TARGET, "gradient_input")
    [(ids, outputs)] = translator.pair_ids([(TEXT, TARGET)])
    model = translator.decoder
    vectors = model.source_embedding.weight[list(ids)].detach().double()
    small = 1e-2
    with torch.no_grad():
        for token in (1, 3):
            ends = torch.stack([vectors, vectors])
            ends[0, token] *= 1 + small
            ends[1, token] *= 1 - small
            perturbed = with_source_vectors(model, ends.float())
            target_in = torch.tensor([[model.symbols.start, *outputs[:-1]]] * 2)
            scores = torch.log_softmax(
                perturbed.logits(perturbed.features(torch.tensor([ids] * 2), target_in)), -1
            )
            scores = scores.gather(-1, torch.tensor([outputs] * 2)[..., None])[..., 0].double()
            slope = (scores[0] - scores[1]) / (2 * small)
            np.testing.assert_allclose(attribution.values[:, token], slope.numpy(), atol=0.02)


def test_passing_embeddings_as_source_vectors_gives_identical_features(translator) -> None:
    [(ids, outputs)] = translator.pair_ids([(TEXT, TARGET)])
    model = translator.decoder
    inputs = torch.tensor([ids]), torch.tensor([[model.symbols.start, *outputs[:-1]]])
    with torch.inference_mode():
        copied = with_source_vectors(model, model.source_embedding(inputs[0]))
        assert torch.equal(copied.features(*inputs), model.features(*inputs))


def test_attribution_target_defaults_to_the_translation(translator) -> None:
    assert attribute(translator, TEXT, steps=2).translation.text == translator.translate(TEXT).text


def test_attribution_on_the_native_engine_is_rejected() -> None:
    with pytest.raises(SettingsError, match="load the model with engine='torch'"):
        attribute(uwaga.Translator.load(device="cpu"), TEXT)
