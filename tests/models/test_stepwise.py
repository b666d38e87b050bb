"""Matrix products over steps and hand-written recurrent cells agree with formulas and autograd."""

import pytest
import torch
from recurrent_variants import VARIANTS, make
from torch import Tensor, nn

from uwaga.models import recurrent
from uwaga.models.layers.kernels import StepProduct, energies, gru_cell, lstm_cell, tanh_in_place
from uwaga.models.layers.scores import SCORES, make_score

pytestmark = pytest.mark.numerical

ROWS, TIME, WIDTH = 3, 4, 5


def random_tensor(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_()


@pytest.mark.parametrize("per_row", [False, True], ids=["one matrix", "one per row"])
def test_step_product_matches_matrix_products(per_row: bool) -> None:
    base = random_tensor(ROWS, TIME, WIDTH, seed=1)
    matrix = random_tensor(ROWS, WIDTH, WIDTH, seed=2) if per_row else random_tensor(WIDTH, WIDTH, seed=2)
    first = random_tensor(ROWS, WIDTH, seed=3)

    def collected() -> Tensor:
        product, x, outputs = StepProduct(base, matrix), first, []
        for _ in range(TIME):
            x = torch.tanh(product(x))
            outputs.append(x)
        return torch.stack(outputs)

    def reference() -> Tensor:
        x, outputs = first, []
        for step in range(TIME):
            x = torch.tanh(base[:, step] + (matrix @ x[..., None])[..., 0])
            outputs.append(x)
        return torch.stack(outputs)

    torch.testing.assert_close(collected(), reference())
    weights = random_tensor(TIME, ROWS, WIDTH, seed=4).detach()
    actual = torch.autograd.grad((collected() * weights).sum(), [base, matrix, first])
    expected = torch.autograd.grad((reference() * weights).sum(), [base, matrix, first])
    torch.testing.assert_close(actual, expected)


def test_step_product_supports_repeated_and_partial_backward() -> None:
    """Backward passes over the first step and over all steps do not affect each other."""
    base = random_tensor(ROWS, TIME, WIDTH, seed=1)
    matrix = random_tensor(WIDTH, WIDTH, seed=2)
    x = random_tensor(ROWS, WIDTH, seed=3)
    product = StepProduct(base, matrix)
    outputs = [product(x) for _ in range(TIME)]
    (partial,) = torch.autograd.grad(outputs[0].sum(), matrix, retain_graph=True)
    (full,) = torch.autograd.grad(sum(output.sum() for output in outputs), matrix, retain_graph=True)
    (repeated,) = torch.autograd.grad(sum(output.sum() for output in outputs), matrix)
    torch.testing.assert_close(partial * TIME, full)
    torch.testing.assert_close(full, repeated)


def test_gru_cell_and_its_gradients_match_torch() -> None:
    a = random_tensor(ROWS, 3 * WIDTH, seed=1)
    b = random_tensor(ROWS, 3 * WIDTH, seed=2)
    h = random_tensor(ROWS, WIDTH, seed=3)
    peer = nn.GRUCell(3 * WIDTH, WIDTH).double()
    with torch.no_grad():
        for parameter in peer.parameters():
            parameter.zero_()
        peer.weight_ih.copy_(torch.eye(3 * WIDTH))
        peer.bias_hh.copy_(b[0])
    torch.testing.assert_close(gru_cell(a, b[:1].expand(ROWS, -1), h), peer(a, h))
    assert torch.autograd.gradcheck(gru_cell, (a, b, h))


def test_lstm_cell_and_its_gradients_match_torch() -> None:
    gates, c = random_tensor(ROWS, 4 * WIDTH, seed=1), random_tensor(ROWS, WIDTH, seed=2)
    peer = nn.LSTMCell(4 * WIDTH, WIDTH).double()
    with torch.no_grad():
        for parameter in peer.parameters():
            parameter.zero_()
        peer.weight_ih.copy_(torch.eye(4 * WIDTH))
    torch.testing.assert_close(lstm_cell(gates, c), peer(gates, (torch.zeros_like(c), c)))
    assert torch.autograd.gradcheck(lstm_cell, (gates, c))


@pytest.mark.parametrize("name", sorted(SCORES))
def test_stepwise_attention_scores_match_scores_of_all_queries(name: str) -> None:
    torch.manual_seed(0)
    score = make_score(name, WIDTH, WIDTH).double()
    keys, queries = random_tensor(ROWS, 6, WIDTH, seed=1), random_tensor(ROWS, TIME, WIDTH, seed=2)
    inputs = [keys, queries, *score.parameters()]
    prepared = score.prepare(keys)
    expected = score(queries, prepared)  # (rows, time, source)
    steps = score.steps(score.prepare(keys), TIME)
    stepped = torch.stack([steps(queries[:, step]) for step in range(TIME)], dim=1)
    torch.testing.assert_close(stepped, expected)
    weights = random_tensor(ROWS, TIME, 6, seed=3).detach()
    actual_gradients = torch.autograd.grad((stepped * weights).sum(), inputs, allow_unused=True)
    expected_gradients = torch.autograd.grad((expected * weights).sum(), inputs, allow_unused=True)
    torch.testing.assert_close(actual_gradients, expected_gradients)


@pytest.mark.parametrize("name", sorted(VARIANTS))
def test_training_gradients_match_autograd(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradients equal those of a model whose products are computed one step at a time."""
    model = make(VARIANTS[name], sharp=1.0).double()
    source = torch.tensor([[5, 6, 7, 8, 2], [9, 4, 2, 0, 0]])
    target = torch.tensor([[1, 11, 12, 13], [1, 14, 15, 0]])
    weights = list(model.parameters())

    def gradients() -> tuple[Tensor | None, ...]:
        return torch.autograd.grad(model(source, target)[..., 3:7].sum(), weights, allow_unused=True)

    actual = gradients()
    with monkeypatch.context() as patched:
        for module in (
            "uwaga.models.layers.recurrent",
            "uwaga.models.layers.scores",
            "uwaga.models.recurrent",
            "uwaga.models.luong",
        ):
            patched.setattr(f"{module}.StepProduct", ReferenceProduct)
        expected = gradients()
    torch.testing.assert_close(actual, expected)


class ReferenceProduct:
    """A step product whose gradients autograd computes."""

    def __init__(self, base: Tensor, matrix: Tensor) -> None:
        self.base, self.matrix, self.step = base, matrix, 0

    def __call__(self, x: Tensor) -> Tensor:
        self.step += 1
        return self.base[:, self.step - 1] + (self.matrix @ x[..., None])[..., 0]


def test_attention_of_a_beam_equals_attention_of_single_rows() -> None:
    model = make(VARIANTS["bahdanau"])
    memory = model.encode([[5, 6, 7, 2], [8, 2]])
    query = torch.randn(2, 8, generator=torch.Generator().manual_seed(0))
    single = recurrent.StepAttention(model.score, memory, 2, 1)
    beams = recurrent.StepAttention(model.score, memory, 6, 1)
    with torch.inference_mode():
        single_context, beam_contexts = single(query), beams(query.repeat_interleave(3, dim=0))
    torch.testing.assert_close(single_context.repeat_interleave(3, dim=0), beam_contexts)
    torch.testing.assert_close(single.weights[0].repeat_interleave(3, dim=0), beams.weights[0])


def test_attention_energies_and_their_gradients_match_the_formula() -> None:
    query = random_tensor(2, 3, 5, seed=1)
    keys = random_tensor(2, 4, 5, seed=2)
    vector = random_tensor(5, seed=3)
    expected = torch.tanh(query[:, :, None] + keys[:, None]) @ vector
    torch.testing.assert_close(energies(query, keys, vector), expected)
    assert torch.autograd.gradcheck(energies, (query, keys, vector))
    assert torch.autograd.gradcheck(energies, (query[:1], keys, vector))  # broadcast


def test_tanh_computed_in_place_is_accurate() -> None:
    x = torch.linspace(-30, 30, 10_001)
    assert float((tanh_in_place(x.clone()) - torch.tanh(x)).abs().max()) < 4 * torch.finfo(x.dtype).eps
    assert tanh_in_place(torch.tensor([-200.0, 0.0, 200.0])).tolist() == [-1.0, 0.0, 1.0]
