"""Laws of edited attention: what is edited to itself is itself, what is silent is not heard."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import uwaga
from uwaga.engine.interventions import KINDS, Heads, Positions
from uwaga.errors import SettingsError
from uwaga.inspection.interventions import compare, head_importance, intervene
from uwaga.models.ensemble import Ensemble
from uwaga.models.interventions import with_interventions
from uwaga.models.transformer import Transformer

TEXT, TARGET = "A man rides a bicycle.", "Ein Mann fährt Fahrrad."
LAYERS = {"encoder": 4, "decoder": 2, "cross": 2}


@pytest.fixture(scope="module")
def translator() -> uwaga.Translator:
    return uwaga.Translator.load(engine="torch", device="cpu", threads=1)


@pytest.fixture(scope="module")
def given(translator) -> tuple[torch.Tensor, torch.Tensor]:
    [source], [target] = translator.pair_ids([(TEXT, TARGET)])
    start = translator.decoder.symbols.start
    return torch.tensor([source]), torch.tensor([[start, *target[:-1]]])


def features(model: Transformer, given) -> torch.Tensor:
    with torch.inference_mode():
        return model.features(*given)


def own_weights(translator, given, kind, layer: int) -> np.ndarray:
    """(heads, query, key) what the heads of a layer have in the untouched run."""
    kept: list[torch.Tensor] = []
    model = with_interventions(translator.decoder, [Heads(kind, layer)])
    blocks = model.encoder if kind == "encoder" else model.decoder
    name = {"encoder": "attention", "decoder": "self_attention", "cross": "cross_attention"}[kind]
    getattr(blocks[layer - 1], name).edits.append(lambda weights, _: kept.append(weights) or weights)
    features(model, given)
    return kept[0][0].numpy()


def test_no_intervention_changes_no_bit(translator, given) -> None:
    before = translator.translate(TEXT)
    assert intervene(translator).translate(TEXT) == before
    assert intervene(translator).score([(TEXT, TARGET)]) == translator.score([(TEXT, TARGET)])
    silent = intervene(translator, Heads("cross", weights="silent"))
    assert silent.translate(TEXT) != before
    assert translator.translate(TEXT) == before  # which is left as it was


@pytest.mark.parametrize("kind", KINDS)
def test_heads_fixed_to_their_own_weights_change_no_bit(translator, given, kind) -> None:
    for layer in range(1, LAYERS[kind] + 1):
        explicit = with_interventions(translator.decoder, [Heads(kind, layer)])
        weights = own_weights(translator, given, kind, layer)
        fixed = with_interventions(translator.decoder, [Heads(kind, layer, weights=weights)])
        assert torch.equal(features(fixed, given), features(explicit, given))
        torch.testing.assert_close(
            features(fixed, given), features(translator.decoder, given), atol=1e-4, rtol=1e-4
        )
        everywhere = np.ones(weights.shape[1:], dtype=bool)
        seen = with_interventions(translator.decoder, [Heads(kind, layer, mask=everywhere)])
        torch.testing.assert_close(features(seen, given), features(explicit, given), atol=1e-4, rtol=1e-4)


def test_without_cross_attention_the_source_is_not_heard(translator) -> None:
    silent = intervene(translator, Heads("cross", weights="silent"))
    one, other = silent.score([(TEXT, TARGET), ("Hello!", TARGET)])
    np.testing.assert_allclose(one.token_scores, other.token_scores, atol=1e-5)
    heard = translator.score([(TEXT, TARGET), ("Hello!", TARGET)])
    assert heard[0].log_prob > heard[1].log_prob + 1


@pytest.mark.parametrize("weights", ["silent", "uniform", "diagonal"])
@pytest.mark.parametrize("kind", KINDS)
def test_steps_of_search_and_the_parallel_path_agree(translator, kind, weights) -> None:
    changed = intervene(translator, Heads(kind, 2, 3, weights), Heads(kind, 1, None, weights))
    for alternative in changed.translate(TEXT, beam=3, nbest=3).alternatives:
        (scored,) = changed.score([(TEXT, alternative.text)])
        if scored.tokens == alternative.tokens:
            assert scored.log_prob == pytest.approx(alternative.log_prob, abs=2e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_weights_become(translator, given, kind) -> None:
    size = given[0].shape[1] if kind != "decoder" else given[1].shape[1]
    rows = given[0].shape[1] if kind == "encoder" else given[1].shape[1]
    for weights in ("silent", "uniform", "diagonal"):
        kept: list[torch.Tensor] = []
        model = with_interventions(translator.decoder, [Heads(kind, 1, 2, weights)])
        block = (model.encoder if kind == "encoder" else model.decoder)[0]
        name = {"encoder": "attention", "decoder": "self_attention", "cross": "cross_attention"}[kind]
        getattr(block, name).edits.append(lambda found, _, kept=kept: kept.append(found) or found)
        features(model, given)
        found = kept[0][0].numpy()
        assert found.shape == (4, rows, size)
        np.testing.assert_allclose(found[[0, 2, 3]].sum(-1), 1.0, atol=1e-5)
        seen = np.tril(np.ones((rows, size))) if kind == "decoder" else np.ones((rows, size))
        expected = {
            "silent": np.zeros((rows, size)),
            "uniform": seen / seen.sum(-1, keepdims=True),
            "diagonal": np.eye(size)[np.minimum(np.arange(rows), size - 1)],
        }[weights]
        np.testing.assert_allclose(found[1], expected, atol=1e-6)


def test_a_masked_word_is_not_looked_at(translator, given) -> None:
    mask = np.ones((given[1].shape[1], given[0].shape[1]), dtype=bool)
    mask[:, 2] = False
    kept: list[torch.Tensor] = []
    model = with_interventions(translator.decoder, [Heads("cross", 2, mask=mask)])
    model.decoder[1].cross_attention.edits.append(lambda found, _: kept.append(found) or found)
    features(model, given)
    assert (kept[0][..., 2] == 0).all()
    np.testing.assert_allclose(kept[0].sum(-1).numpy(), 1.0, atol=1e-5)


def test_positions(translator, given) -> None:
    size = given[0].shape[1]
    same = with_interventions(translator.decoder, [Positions("source", tuple(range(size)))])
    assert torch.equal(features(same, given), features(translator.decoder, given))
    one = [Positions("source", (0,) * size)]
    shuffled = torch.cat([given[0][:, :-1].flip(1), given[0][:, -1:]], dim=1)
    blind = with_interventions(translator.decoder, one)
    torch.testing.assert_close(  # all at one position: a bag of words
        features(blind, given), features(blind, (shuffled, given[1])), atol=1e-4, rtol=1e-4
    )
    assert intervene(translator, *one).translate(TEXT).text


def test_compared(translator) -> None:
    effect = compare(translator, TEXT, Heads("cross", 2, weights="uniform"))
    assert effect.before == translator.translate(TEXT)
    assert effect.log_prob_after < effect.log_prob_before
    nothing = compare(translator, TEXT, target=TARGET)
    assert nothing.log_prob_before == nothing.log_prob_after


def test_importance_is_what_silence_costs(translator) -> None:
    found = head_importance(translator, [(TEXT, TARGET)], "cross")
    assert found.shape == (2, 4)
    silent = intervene(translator, Heads("cross", 2, 1, "silent"))
    (before,), (after,) = translator.score([(TEXT, TARGET)]), silent.score([(TEXT, TARGET)])
    assert found[1, 0] == pytest.approx(
        (before.log_prob - after.log_prob) / len(before.token_scores), abs=1e-6
    )


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        (Heads("cross", 3), "layer 3: the model has 2"),
        (Heads("encoder", 1, 5), "head 5: the layer has 4"),
        (Heads("sideways"), "no attention is of the kind 'sideways'"),
        (Heads("cross", 1, weights=np.ones((2, 2))), r"shape \(2, 2\) for cross attention does not fit"),
        (Heads("cross", 1, weights=np.ones((3, 90, 90))), "does not fit"),
    ],
)
def test_what_is_not_there(translator, heads, message) -> None:
    with pytest.raises(SettingsError, match=message):
        intervene(translator, heads).score([(TEXT, TARGET)])


def test_an_ensemble_cannot_be_edited() -> None:
    both = uwaga.Translator.load(device="cpu", engine="torch")
    with pytest.raises(SettingsError, match="single Transformer"):
        intervene(both.with_decoder(Ensemble([both.decoder, both.decoder])), Heads())
