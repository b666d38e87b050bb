"""Products over steps and hand-written cells: the plain formulas, and autograd on them."""

from __future__ import annotations

import pytest
import torch
from recurrent_variants import VARIANTS, make
from torch import Tensor, nn

from uwaga.models import recurrent
from uwaga.models.layers.kernels import StepProduct, energies, gru_cell, lstm_cell, tanh_in_place
from uwaga.models.layers.scores import SCORES, make_score

pytestmark = pytest.mark.numerical

ROWS, TIME, WIDTH = 3, 4, 5


def numbers(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_()


@pytest.mark.parametrize("own", [False, True], ids=["one matrix", "one per row"])
def test_a_step_product_is_the_product_at_every_step(own: bool) -> None:
    base = numbers(ROWS, TIME, WIDTH, seed=1)
    matrix = numbers(ROWS, WIDTH, WIDTH, seed=2) if own else numbers(WIDTH, WIDTH, seed=2)
    first = numbers(ROWS, WIDTH, seed=3)

    def together() -> Tensor:
        product, x, found = StepProduct(base, matrix), first, []
        for _ in range(TIME):
            x = torch.tanh(product(x))
            found.append(x)
        return torch.stack(found)

    def plainly() -> Tensor:
        x, found = first, []
        for at in range(TIME):
            x = torch.tanh(base[:, at] + (matrix @ x[..., None])[..., 0])
            found.append(x)
        return torch.stack(found)

    torch.testing.assert_close(together(), plainly())
    weights = numbers(TIME, ROWS, WIDTH, seed=4).detach()
    ours = torch.autograd.grad((together() * weights).sum(), [base, matrix, first])
    theirs = torch.autograd.grad((plainly() * weights).sum(), [base, matrix, first])
    torch.testing.assert_close(ours, theirs)


def test_a_step_product_may_be_asked_twice_and_in_part() -> None:
    """Gradients of the first steps alone, and again of all: nothing of a backward pass is kept."""
    base, matrix, x = (
        numbers(ROWS, TIME, WIDTH, seed=1),
        numbers(WIDTH, WIDTH, seed=2),
        numbers(ROWS, WIDTH, seed=3),
    )
    product = StepProduct(base, matrix)
    found = [product(x) for _ in range(TIME)]
    (one,) = torch.autograd.grad(found[0].sum(), matrix, retain_graph=True)
    (every,) = torch.autograd.grad(sum(each.sum() for each in found), matrix, retain_graph=True)
    (again,) = torch.autograd.grad(sum(each.sum() for each in found), matrix)
    torch.testing.assert_close(one * TIME, every)
    torch.testing.assert_close(every, again)


def test_gru_cell_against_its_formula_and_finite_differences() -> None:
    a, b, h = numbers(ROWS, 3 * WIDTH, seed=1), numbers(ROWS, 3 * WIDTH, seed=2), numbers(ROWS, WIDTH, seed=3)
    peer = nn.GRUCell(3 * WIDTH, WIDTH).double()
    with torch.no_grad():
        for parameter in peer.parameters():
            parameter.zero_()
        peer.weight_ih.copy_(torch.eye(3 * WIDTH))
        peer.bias_hh.copy_(b[0])
    torch.testing.assert_close(gru_cell(a, b[:1].expand(ROWS, -1), h), peer(a, h))
    assert torch.autograd.gradcheck(gru_cell, (a, b, h))


def test_lstm_cell_against_torch_and_finite_differences() -> None:
    gates, c = numbers(ROWS, 4 * WIDTH, seed=1), numbers(ROWS, WIDTH, seed=2)
    peer = nn.LSTMCell(4 * WIDTH, WIDTH).double()
    with torch.no_grad():
        for parameter in peer.parameters():
            parameter.zero_()
        peer.weight_ih.copy_(torch.eye(4 * WIDTH))
    torch.testing.assert_close(lstm_cell(gates, c), peer(gates, (torch.zeros_like(c), c)))
    assert torch.autograd.gradcheck(lstm_cell, (gates, c))


@pytest.mark.parametrize("name", sorted(SCORES))
def test_scores_step_by_step_are_the_scores_of_all_queries(name: str) -> None:
    torch.manual_seed(0)
    score = make_score(name, WIDTH, WIDTH).double()
    keys, queries = numbers(ROWS, 6, WIDTH, seed=1), numbers(ROWS, TIME, WIDTH, seed=2)
    inputs = [keys, queries, *score.parameters()]
    prepared = score.prepare(keys)
    whole = score(queries, prepared)  # (rows, time, source)
    steps = score.steps(score.prepare(keys), TIME)
    stepped = torch.stack([steps(queries[:, at]) for at in range(TIME)], dim=1)
    torch.testing.assert_close(stepped, whole)
    upon = numbers(ROWS, TIME, 6, seed=3).detach()
    ours = torch.autograd.grad((stepped * upon).sum(), inputs, allow_unused=True)
    theirs = torch.autograd.grad((whole * upon).sum(), inputs, allow_unused=True)
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", sorted(VARIANTS))
def test_training_gradients_are_those_of_plain_autograd(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole model, with every product over steps done one step at a time instead."""
    model = make(VARIANTS[name], sharp=1.0).double()
    source = torch.tensor([[5, 6, 7, 8, 2], [9, 4, 2, 0, 0]])
    target = torch.tensor([[1, 11, 12, 13], [1, 14, 15, 0]])
    weights = list(model.parameters())

    def gradients() -> tuple[Tensor | None, ...]:
        return torch.autograd.grad(model(source, target)[..., 3:7].sum(), weights, allow_unused=True)

    ours = gradients()
    with monkeypatch.context() as patched:
        for module in (
            "uwaga.models.layers.recurrent",
            "uwaga.models.layers.scores",
            "uwaga.models.recurrent",
            "uwaga.models.luong",
        ):
            patched.setattr(f"{module}.StepProduct", Plain)
        theirs = gradients()
    torch.testing.assert_close(ours, theirs)


class Plain:
    """What a step product says it is, left to autograd."""

    def __init__(self, base: Tensor, matrix: Tensor) -> None:
        self.base, self.matrix, self.at = base, matrix, 0

    def __call__(self, x: Tensor) -> Tensor:
        self.at += 1
        return self.base[:, self.at - 1] + (self.matrix @ x[..., None])[..., 0]


def test_beams_attend_as_single_rows_do() -> None:
    model = make(VARIANTS["bahdanau"])
    memory = model.encode([[5, 6, 7, 2], [8, 2]])
    query = torch.randn(2, 8, generator=torch.Generator().manual_seed(0))
    alone = recurrent.StepAttention(model.score, memory, 2, 1)
    beams = recurrent.StepAttention(model.score, memory, 6, 1)
    with torch.inference_mode():
        one, several = alone(query), beams(query.repeat_interleave(3, dim=0))
    torch.testing.assert_close(one.repeat_interleave(3, dim=0), several)
    torch.testing.assert_close(alone.weights[0].repeat_interleave(3, dim=0), beams.weights[0])


def test_energies_are_their_formula_and_finite_differences_agree() -> None:
    query, keys, vector = numbers(2, 3, 5, seed=1), numbers(2, 4, 5, seed=2), numbers(5, seed=3)
    expected = torch.tanh(query[:, :, None] + keys[:, None]) @ vector
    torch.testing.assert_close(energies(query, keys, vector), expected)
    assert torch.autograd.gradcheck(energies, (query, keys, vector))
    assert torch.autograd.gradcheck(energies, (query[:1], keys, vector))  # broadcast


def test_tanh_is_exact_to_a_few_roundings_of_1() -> None:
    x = torch.linspace(-30, 30, 10_001)
    assert float((tanh_in_place(x.clone()) - torch.tanh(x)).abs().max()) < 4 * torch.finfo(x.dtype).eps
    assert tanh_in_place(torch.tensor([-200.0, 0.0, 200.0])).tolist() == [-1.0, 0.0, 1.0]
