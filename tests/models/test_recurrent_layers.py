"""GRU and LSTM layers: steps, padding, and agreement with torch's layers."""

import pytest
import torch

from uwaga.models.layers.dropout import SequenceDropout
from uwaga.models.layers.recurrent import (
    Gru,
    GruSteps,
    Lstm,
    LstmStack,
    LstmState,
    LstmSteps,
    last_states,
    reverse_padded,
)

pytestmark = pytest.mark.numerical

INPUTS = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0))
LENGTHS = torch.tensor([5, 2, 3])


@pytest.mark.parametrize("form", ["paper", "fused"])
def test_gru_steps_match_a_pass_over_the_full_sequence(form: str) -> None:
    torch.manual_seed(1)
    layer = Gru(4, 6, form)
    torch.nn.init.normal_(layer.weights.recurrent_bias)
    hidden = torch.randn(3, 6)
    states = layer.run(INPUTS, hidden)
    inputs = layer.input_product(layer.project(INPUTS[..., :3]), 3)  # the last input comes step by step
    steps = GruSteps(layer, 3, 5)
    for time in range(5):
        hidden = steps(inputs(INPUTS[:, time, 3:]), hidden)
        torch.testing.assert_close(states[:, time], hidden)


def test_gru_variants_differ_unless_the_reset_gate_is_open() -> None:
    torch.manual_seed(2)
    paper, fused = Gru(4, 6, "paper"), Gru(4, 6, "fused")
    fused.load_state_dict(paper.state_dict())
    assert float((paper.run(INPUTS) - fused.run(INPUTS)).detach().abs().max()) > 1e-3
    for layer in (paper, fused):  # a reset gate that is always open
        with torch.no_grad():
            layer.weights.input_bias[:6] = 50.0
    torch.testing.assert_close(paper.run(INPUTS), fused.run(INPUTS))


def test_lstm_steps_match_a_pass_over_the_full_sequence() -> None:
    torch.manual_seed(3)
    layer = Lstm(4, 6)
    state = LstmState(torch.randn(3, 6), torch.randn(3, 6))
    states, end = layer.run(INPUTS, state)
    steps = LstmSteps(layer, layer.project(INPUTS[..., :3]), 3)  # the last input comes step by step
    for time in range(5):
        state = steps(INPUTS[:, time, 3:], state)
        torch.testing.assert_close(states[:, time], state.hidden)
    torch.testing.assert_close(end, state)


def test_lstm_stack_matches_torch() -> None:
    torch.manual_seed(4)
    stack, peer = LstmStack(4, 6, 3, SequenceDropout(0.0, False)), torch.nn.LSTM(4, 6, 3, batch_first=True)
    for number, layer in enumerate(stack.layers):
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            getattr(layer.layer, f"{name}_l0").data.copy_(getattr(peer, f"{name}_l{number}").data)
    states, ends = stack.run(INPUTS)
    expected, (hidden, cell) = peer(INPUTS)
    torch.testing.assert_close(states, expected)
    torch.testing.assert_close(torch.stack([end.hidden for end in ends]), hidden)
    torch.testing.assert_close(torch.stack([end.cell for end in ends]), cell)


def test_M15_residual_connections_add_the_input_of_a_layer() -> None:
    torch.manual_seed(5)
    stack = LstmStack(6, 6, 2, SequenceDropout(0.0, False), residual_from=1, extra=2)
    x, extra = torch.randn(3, 5, 6), torch.randn(3, 5, 2)
    first, second = stack.layers
    hidden, _ = first.run(torch.cat([x, extra], dim=-1))
    output, _ = second.run(torch.cat([hidden, extra], dim=-1))
    torch.testing.assert_close(stack.run(x, extra=extra)[0], hidden + output)


@pytest.mark.parametrize("layer_class", [Gru, Lstm])
def test_padding_does_not_change_last_states(layer_class: type) -> None:
    torch.manual_seed(6)
    layer = layer_class(4, 6)
    if layer_class is Gru:
        actual = last_states(layer.run(INPUTS), LENGTHS)
        expected = [
            layer.run(INPUTS[row : row + 1, :length])[0, -1] for row, length in enumerate(LENGTHS.tolist())
        ]
    else:
        _, state = layer.run(INPUTS, lengths=LENGTHS)
        actual = torch.cat(state, dim=-1)
        expected = [
            torch.cat(layer.run(INPUTS[row : row + 1, :length])[1], dim=-1)[0]
            for row, length in enumerate(LENGTHS.tolist())
        ]
    torch.testing.assert_close(actual, torch.stack(expected))


def test_M12_reversing_a_sequence_twice_restores_it() -> None:
    ids = torch.tensor([[11, 12, 13, 3], [14, 15, 3, 0], [3, 0, 0, 0]])
    lengths = torch.tensor([4, 3, 1])
    reversed_ids = reverse_padded(ids, lengths, keep_last=True)
    assert reversed_ids.tolist() == [[13, 12, 11, 3], [15, 14, 3, 0], [3, 0, 0, 0]]
    assert reverse_padded(ids, lengths).tolist() == [[3, 13, 12, 11], [3, 15, 14, 0], [3, 0, 0, 0]]
    for keep_last in (False, True):
        assert reverse_padded(reverse_padded(ids, lengths, keep_last), lengths, keep_last).equal(ids)


def test_variational_dropout_shares_the_mask_across_positions() -> None:
    torch.manual_seed(7)
    ones = torch.ones(4, 6, 50)
    shared = SequenceDropout(0.4, True)(ones)
    assert (shared == shared[:, :1]).all() and not (shared[0] == shared[1]).all()
    separate = SequenceDropout(0.4, False)(ones)
    assert not (separate == separate[:, :1]).all()
    for values in (shared, separate):
        assert values.unique().tolist() == pytest.approx([0.0, 1 / 0.6], abs=1e-4)
        assert abs(float((values == 0).float().mean()) - 0.4) < 0.12
    assert SequenceDropout(0.4, True).eval()(ones) is ones
