"""Properties on which the experiments rely: softmax gradient, look-ahead mask, retrieval by attention."""

from unittest.mock import patch

import pytest
import torch
from experiment_scripts import experiment

from uwaga.models.layers.attention import masked_softmax
from uwaga.models.layers.scores import make_score
from uwaga.models.transformer import Transformer
from uwaga.settings import TransformerSettings


@pytest.mark.numerical
def test_M7_gradient_of_scaled_scores_does_not_depend_on_the_width() -> None:
    measure = experiment("softmax_gradient").measure
    scaled = [measure("scaled_dot", width)[1] for width in (16, 256, 1024)]
    plain = [measure("dot", width)[1] for width in (16, 256, 1024)]
    assert max(scaled) < 1.1 * min(scaled)
    assert plain[0] > 10 * plain[1] > 100 * plain[2]


@pytest.mark.numerical
def test_M7_softmax_jacobian_matches_the_formula() -> None:
    """``∂w_i / ∂f_j = w_i ([i = j] - w_j)``, which is 0 where one weight is 1."""
    scores = torch.randn(5, dtype=torch.float64)
    weights = masked_softmax(scores, None)
    jacobian = torch.autograd.functional.jacobian(lambda x: masked_softmax(x, None), scores)
    torch.testing.assert_close(jacobian, torch.diag(weights) - torch.outer(weights, weights))


def test_M8_missing_look_ahead_mask_leaks_the_answer() -> None:
    script = experiment("no_look_ahead")
    torch.manual_seed(1)
    small = {"encoder_layers": 1, "decoder_layers": 1, "width": 16, "heads": 2, "feed_forward": 16}
    model = Transformer(TransformerSettings(**small), script.SYMBOLS, 24, 24).eval()
    source = torch.tensor([[5, 6, 7, 2]])
    target, changed_target = torch.tensor([[1, 11, 12, 13]]), torch.tensor([[1, 11, 12, 14]])

    def changed_positions() -> list[bool]:
        difference = (
            (model.features(source, target) - model.features(source, changed_target)).abs().amax(-1)[0]
        )
        return (difference > 0).tolist()

    assert changed_positions() == [False, False, False, True]
    with patch("uwaga.models.transformer.causal_mask", script.all_visible):
        assert changed_positions() == [
            True,
            True,
            True,
            True,
        ]  # position 2 reads the token that it should predict


@pytest.mark.numerical
def test_M30_document_weight_increases_with_similarity() -> None:
    """The weights are those of attention over all documents times ``exp(β f)``, normalised."""
    attend_evidence = experiment("marge").attend_evidence
    torch.manual_seed(2)
    query = torch.randn(2, 3, 8, dtype=torch.float64)
    keys = torch.randn(2, 4, 5, 8, dtype=torch.float64)
    similarity = torch.rand(2, 4, dtype=torch.float64)
    _, plain = attend_evidence(query, keys, keys, torch.zeros_like(similarity), 1.0)
    _, equal_similarity = attend_evidence(query, keys, keys, torch.full_like(similarity, 0.7), 5.0)
    torch.testing.assert_close(equal_similarity, plain)  # equal similarities have no effect
    _, weights = attend_evidence(query, keys, keys, similarity, 3.0)
    scaled = plain * torch.exp(3.0 * similarity)[:, None, :, None]
    torch.testing.assert_close(weights, scaled / scaled.sum(dim=(-1, -2), keepdim=True))


def test_M30_loss_gradient_raises_the_similarity_of_useful_documents() -> None:
    """The loss decreases when the similarity of the document that contains the answer increases."""
    attend_evidence = experiment("marge").attend_evidence
    answer = torch.tensor([[[1.0, 0.0]]])
    values = torch.tensor([[[[1.0, 0.0]], [[0.0, 1.0]], [[0.0, 1.0]]]])  # (targets, documents, source, width)
    similarity = torch.zeros(1, 3, requires_grad=True)
    context, _ = attend_evidence(torch.zeros(1, 1, 2), torch.zeros_like(values), values, similarity, 1.0)
    (gradient,) = torch.autograd.grad((context - answer).square().sum(), similarity)
    assert gradient[0, 0] < 0 < gradient[0, 1] == gradient[0, 2]


@pytest.mark.slow
def test_M30_retrieval_is_learned_from_the_generation_loss() -> None:
    _, before = experiment("marge").learn(0)
    loss, after = experiment("marge").learn(160)
    assert before < 0.4
    assert after > 0.9, loss


def test_dot_additive_and_reversal_experiments_return_valid_accuracies() -> None:
    (accuracy,) = experiment("dot_additive").learned("additive", 8, 1, (2,))
    assert 0.0 <= accuracy <= 1.0
    losses, (sentence_accuracy, token_accuracy) = experiment("reversal").run(True, 1, steps=2)
    assert len(losses) == 2
    assert 0.0 <= sentence_accuracy <= token_accuracy <= 1.0


def test_M3_longer_key_at_the_same_angle_gets_a_higher_score() -> None:
    """A dot product, unlike cosine similarity, depends on lengths."""
    query = torch.tensor([[2.0, 1.0]])
    keys = torch.tensor([[2.0, 1.0], [4.0, 2.0]])
    scores = make_score("dot", 2, 2)(query, keys)
    assert scores.tolist() == [[5.0, 10.0]]
    angles = torch.nn.functional.cosine_similarity(query, keys)
    torch.testing.assert_close(angles, torch.ones(2))
