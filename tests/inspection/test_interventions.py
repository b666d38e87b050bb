"""Attention interventions: identity edits, silenced heads, replaced weights and positions."""

import numpy as np
import pytest
import torch

import uwaga
from uwaga.engine.interventions import ATTENTION_KINDS, Heads, Positions
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
def inputs(translator) -> tuple[torch.Tensor, torch.Tensor]:
    [(source, target)] = translator.pair_ids([(TEXT, TARGET)])
    start = translator.decoder.symbols.start
    return torch.tensor([source]), torch.tensor([[start, *target[:-1]]])


def features(model: Transformer, inputs) -> torch.Tensor:
    with torch.inference_mode():
        return model.features(*inputs)


def original_weights(translator, inputs, kind, layer: int) -> np.ndarray:
    """Return the weights (heads, query, key) of a layer's heads without edits."""
    recorded: list[torch.Tensor] = []
    model = with_interventions(translator.decoder, [Heads(kind, layer)])
    blocks = model.encoder if kind == "encoder" else model.decoder
    name = {"encoder": "attention", "decoder": "self_attention", "cross": "cross_attention"}[kind]
    getattr(blocks[layer - 1], name).edits.append(lambda weights, _: recorded.append(weights) or weights)
    features(model, inputs)
    return recorded[0][0].numpy()


def test_empty_list_of_interventions_gives_bit_identical_results(translator, inputs) -> None:
    before = translator.translate(TEXT)
    assert intervene(translator).translate(TEXT) == before
    assert intervene(translator).score([(TEXT, TARGET)]) == translator.score([(TEXT, TARGET)])
    silent = intervene(translator, Heads("cross", weights="silent"))
    assert silent.translate(TEXT) != before
    assert translator.translate(TEXT) == before  # the original is unchanged


@pytest.mark.parametrize("kind", ATTENTION_KINDS)
def test_heads_fixed_to_their_own_weights_give_bit_identical_results(translator, inputs, kind) -> None:
    for layer in range(1, LAYERS[kind] + 1):
        explicit = with_interventions(translator.decoder, [Heads(kind, layer)])
        weights = original_weights(translator, inputs, kind, layer)
        fixed = with_interventions(translator.decoder, [Heads(kind, layer, weights=weights)])
        assert torch.equal(features(fixed, inputs), features(explicit, inputs))
        torch.testing.assert_close(
            features(fixed, inputs), features(translator.decoder, inputs), atol=1e-4, rtol=1e-4
        )
        full_mask = np.ones(weights.shape[1:], dtype=bool)
        masked = with_interventions(translator.decoder, [Heads(kind, layer, mask=full_mask)])
        torch.testing.assert_close(features(masked, inputs), features(explicit, inputs), atol=1e-4, rtol=1e-4)


def test_silenced_cross_attention_ignores_the_source(translator) -> None:
    silent = intervene(translator, Heads("cross", weights="silent"))
    score, other_source_score = silent.score([(TEXT, TARGET), ("Hello!", TARGET)])
    np.testing.assert_allclose(score.token_scores, other_source_score.token_scores, atol=1e-5)
    scores = translator.score([(TEXT, TARGET), ("Hello!", TARGET)])
    assert scores[0].log_prob > scores[1].log_prob + 1


@pytest.mark.parametrize("weights", ["silent", "uniform", "diagonal"])
@pytest.mark.parametrize("kind", ATTENTION_KINDS)
def test_interventions_apply_equally_to_search_and_parallel_scoring(translator, kind, weights) -> None:
    edited = intervene(translator, Heads(kind, 2, 3, weights), Heads(kind, 1, None, weights))
    for alternative in edited.translate(TEXT, beam=3, nbest=3).alternatives:
        (scored,) = edited.score([(TEXT, alternative.text)])
        if scored.tokens == alternative.tokens:
            assert scored.log_prob == pytest.approx(alternative.log_prob, abs=2e-4)


@pytest.mark.parametrize("kind", ATTENTION_KINDS)
def test_replacement_attention_weights_are_zero_uniform_or_diagonal(translator, inputs, kind) -> None:
    size = inputs[0].shape[1] if kind != "decoder" else inputs[1].shape[1]
    rows = inputs[0].shape[1] if kind == "encoder" else inputs[1].shape[1]
    for weights in ("silent", "uniform", "diagonal"):
        recorded: list[torch.Tensor] = []
        model = with_interventions(translator.decoder, [Heads(kind, 1, 2, weights)])
        block = (model.encoder if kind == "encoder" else model.decoder)[0]
        name = {"encoder": "attention", "decoder": "self_attention", "cross": "cross_attention"}[kind]
        getattr(block, name).edits.append(
            lambda attention, _, recorded=recorded: recorded.append(attention) or attention
        )
        features(model, inputs)
        actual = recorded[0][0].numpy()
        assert actual.shape == (4, rows, size)
        np.testing.assert_allclose(actual[[0, 2, 3]].sum(-1), 1.0, atol=1e-5)
        visible = np.tril(np.ones((rows, size))) if kind == "decoder" else np.ones((rows, size))
        expected = {
            "silent": np.zeros((rows, size)),
            "uniform": visible / visible.sum(-1, keepdims=True),
            "diagonal": np.eye(size)[np.minimum(np.arange(rows), size - 1)],
        }[weights]
        np.testing.assert_allclose(actual[1], expected, atol=1e-6)


def test_masked_word_gets_zero_attention_weight(translator, inputs) -> None:
    mask = np.ones((inputs[1].shape[1], inputs[0].shape[1]), dtype=bool)
    mask[:, 2] = False
    recorded: list[torch.Tensor] = []
    model = with_interventions(translator.decoder, [Heads("cross", 2, mask=mask)])
    model.decoder[1].cross_attention.edits.append(
        lambda attention, _: recorded.append(attention) or attention
    )
    features(model, inputs)
    assert (recorded[0][..., 2] == 0).all()
    np.testing.assert_allclose(recorded[0].sum(-1).numpy(), 1.0, atol=1e-5)


def test_equal_positions_make_results_independent_of_the_order_of_the_source(translator, inputs) -> None:
    size = inputs[0].shape[1]
    unchanged = with_interventions(translator.decoder, [Positions("source", tuple(range(size)))])
    assert torch.equal(features(unchanged, inputs), features(translator.decoder, inputs))
    single_position = [Positions("source", (0,) * size)]
    shuffled = torch.cat([inputs[0][:, :-1].flip(1), inputs[0][:, -1:]], dim=1)
    unordered = with_interventions(translator.decoder, single_position)
    torch.testing.assert_close(  # all at one position: a bag of words
        features(unordered, inputs), features(unordered, (shuffled, inputs[1])), atol=1e-4, rtol=1e-4
    )
    assert intervene(translator, *single_position).translate(TEXT).text


def test_compare_reports_log_probs_before_and_after(translator) -> None:
    effect = compare(translator, TEXT, Heads("cross", 2, weights="uniform"))
    assert effect.before == translator.translate(TEXT)
    assert effect.log_prob_after < effect.log_prob_before
    unedited = compare(translator, TEXT, target=TARGET)
    assert unedited.log_prob_before == unedited.log_prob_after


def test_importance_matches_scores_with_the_head_silenced(translator) -> None:
    importance = head_importance(translator, [(TEXT, TARGET)], "cross")
    assert importance.shape == (2, 4)
    silent = intervene(translator, Heads("cross", 2, 1, "silent"))
    (before,), (after,) = translator.score([(TEXT, TARGET)]), silent.score([(TEXT, TARGET)])
    assert importance[1, 0] == pytest.approx(
        (before.log_prob - after.log_prob) / len(before.token_scores), abs=1e-6
    )


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        (Heads("cross", 3), "layer 3: the model has 2"),
        (Heads("encoder", 1, 5), "head 5: the layer has 4"),
        (Heads("sideways"), "unknown attention kind 'sideways'"),
        (Heads("cross", 1, weights=np.ones((2, 2))), r"shape \(2, 2\) for cross attention does not fit"),
        (Heads("cross", 1, weights=np.ones((3, 90, 90))), "3 heads, but the number of selected heads is 4"),
    ],
)
def test_interventions_that_do_not_fit_the_model_are_rejected(translator, heads, message) -> None:
    with pytest.raises(SettingsError, match=message):
        intervene(translator, heads).score([(TEXT, TARGET)])


def test_interventions_on_ensembles_are_rejected() -> None:
    translator = uwaga.Translator.load(device="cpu", engine="torch")
    with pytest.raises(SettingsError, match="single Transformer"):
        intervene(translator.with_decoder(Ensemble([translator.decoder, translator.decoder])), Heads())
