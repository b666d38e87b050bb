"""Recurrent layers: GRU and LSTM, for sentences in one call or one step at a time (M11 to M15).

Axes: ``rows`` are sentences or hypotheses, ``time`` runs along the sentence. Padding follows a sentence and
never changes the sentence's states, so results do not depend on the other sentences of a batch.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from uwaga.models.layers.dropout import SequenceDropout
from uwaga.models.layers.kernels import StepProduct, gru_cell, lstm_cell

linear = nn.functional.linear


class LstmState(NamedTuple):
    """The state of an LSTM: ``hidden`` and ``cell``, each (rows, units)."""

    hidden: Tensor
    cell: Tensor


class _Weights(NamedTuple):
    """Matrices and biases, (gates * units, ...), for the input and for the previous state."""

    inputs: Tensor
    recurrent: Tensor
    input_bias: Tensor
    recurrent_bias: Tensor


class _GatedLayer(nn.Module):
    """Base class of GRU and LSTM layers, which use the weights of a torch layer, even for single steps."""

    layer: nn.RNNBase

    @property
    def weights(self) -> _Weights:
        names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
        return _Weights(*(cast(Tensor, getattr(self.layer, name)) for name in names))

    def project(self, x: Tensor, first_input: int = 0) -> Tensor:
        """Return the contribution of a slice of the inputs to the gates, (..., gates * units).

        Args:
            x: (..., slice) inputs; the bias is added if ``first_input`` is 0.
            first_input: index, among all inputs, of the first input in ``x``.
        """
        weights = self.weights
        matrix = weights.inputs[:, first_input : first_input + x.shape[-1]]
        return linear(x, matrix, weights.input_bias if first_input == 0 else None)

    def input_product(self, projected_inputs: Tensor, first_input: int) -> StepProduct:
        """Return the projection of all inputs, step by step, if some of the inputs are known in advance.

        Args:
            projected_inputs: (rows, time, gates * units) projection of the inputs before ``first_input``,
                with the bias.
            first_input: index of the first input that is passed to the product.
        """
        return StepProduct(projected_inputs, self.weights.inputs[:, first_input:])

    def bias_only(self, rows: int, time: int) -> Tensor:
        """Return the input bias, expanded to (rows, time, gates * units).

        The result is the ``projected`` argument of :meth:`input_product` if no inputs are known in advance.
        """
        return self.weights.input_bias.expand(rows, time, -1)

    def reset(self) -> None:
        """Initialise the weights.

        Input matrices are set to Glorot-uniform values per gate, recurrent matrices to variance-preserving
        normal values, and biases to zero.
        """
        weights, units = self.weights, self.layer.hidden_size
        bound = (6.0 / (self.layer.input_size + units)) ** 0.5
        nn.init.uniform_(weights.inputs, -bound, bound)
        nn.init.normal_(weights.recurrent, std=units**-0.5)
        nn.init.zeros_(weights.input_bias)
        nn.init.zeros_(weights.recurrent_bias)


class Gru(_GatedLayer):
    """A unidirectional GRU layer (Cho 2014 eq. 5 to 8).

    With ``r`` and ``z`` the reset and update gates, ``h' = z h + (1 - z) n`` and

    - ``paper``: ``n = tanh(W x + U (r h) + b)``;
    - ``fused``: ``n = tanh(W x + b + r (U h + b'))``, torch's form, which processes a sentence in one call.

    Bahdanau 2014 defines the update gate as ``1 - z``, which describes the same functions.
    """

    def __init__(self, inputs: int, units: int, form: Literal["paper", "fused"] = "fused") -> None:
        super().__init__()
        self.units, self.form = units, form
        self.layer = nn.GRU(inputs, units, batch_first=True)
        self.reset()

    def run(self, x: Tensor, start: Tensor | None = None) -> Tensor:
        """Return the states (rows, time, units) after each of the vectors (rows, time, inputs)."""
        if start is None:
            start = x.new_zeros(x.shape[0], self.units)
        if self.form == "fused":
            states: Tensor = self.layer(x, start[None].contiguous())[0]
            return states
        steps = GruSteps(self, x.shape[0], x.shape[1])
        hidden, states_by_step = start, []
        for projected_inputs in self.project(x).unbind(1):
            hidden = steps(projected_inputs, hidden)
            states_by_step.append(hidden)
        return torch.stack(states_by_step, dim=1)


class GruSteps:
    """A GRU over ``time`` steps, to which the inputs are passed step by step."""

    def __init__(self, layer: Gru, rows: int, time: int) -> None:
        _, matrix, _, bias = layer.weights
        self.units, self.form = layer.units, layer.form
        self.products = (
            [matrix_product(matrix, bias, rows, time)]
            if layer.form == "fused"
            else [
                matrix_product(matrix[: 2 * self.units], bias[: 2 * self.units], rows, time),
                matrix_product(matrix[2 * self.units :], bias[2 * self.units :], rows, time),
            ]
        )

    def __call__(self, projected_inputs: Tensor, hidden: Tensor) -> Tensor:
        """Return the next state (rows, units).

        Args:
            projected_inputs: (rows, 3 units) :meth:`Gru.project` of the input, for the gates r, z, n.
            hidden: (rows, units) previous state.
        """
        units = self.units
        if self.form == "fused":
            return gru_cell(projected_inputs, self.products[0](hidden), hidden)
        gates = torch.sigmoid(projected_inputs[:, : 2 * units] + self.products[0](hidden))  # (rows, 2 units)
        reset, update = gates.chunk(2, dim=1)
        candidate = torch.tanh(projected_inputs[:, 2 * units :] + self.products[1](reset * hidden))
        return candidate + update * (hidden - candidate)


class Lstm(_GatedLayer):
    """A unidirectional LSTM layer (Hochreiter 1997, with the forget gate of Gers 2000)."""

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__()
        self.units = units
        self.layer = nn.LSTM(inputs, units, batch_first=True)
        self.reset()
        with torch.no_grad():
            nn.init.ones_(self.weights.input_bias[units : 2 * units])  # start with open forget gates

    def run(
        self, x: Tensor, start: LstmState | None = None, lengths: Tensor | None = None
    ) -> tuple[Tensor, LstmState]:
        """Return the hidden states of complete sentences, and the final state.

        Args:
            x: (rows, time, inputs).
            start: initial state; zeros if None.
            lengths: (rows,) number of vectors of each sentence, without padding; None if there is no padding.

        Returns:
            hidden states (rows, time, units), which are undefined after the last vector of a row, and the
            state after the last vector of each row.
        """
        if start is None:
            zeros = x.new_zeros(x.shape[0], self.units)
            start = LstmState(zeros, zeros)
        initial_state = (start.hidden[None].contiguous(), start.cell[None].contiguous())
        if lengths is None or bool((lengths == x.shape[1]).all()):
            states, (hidden, cell) = self.layer(x, initial_state)
            return states, LstmState(hidden[0], cell[0])
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        packed, (hidden, cell) = self.layer(packed, initial_state)
        states, _ = pad_packed_sequence(packed, batch_first=True, total_length=x.shape[1])
        return states, LstmState(hidden[0], cell[0])


class LstmSteps:
    """An LSTM that is run one step at a time.

    Args:
        layer: LSTM layer.
        projected_inputs: (rows, time, 4 units), :meth:`Lstm.project` of the inputs known in advance, with the
            bias.
        first_input: index of the first input that is passed step by step.
    """

    def __init__(self, layer: Lstm, projected_inputs: Tensor, first_input: int) -> None:
        _, matrix, _, bias = layer.weights
        self.inputs = layer.input_product(projected_inputs, first_input)
        self.states = matrix_product(matrix, bias, projected_inputs.shape[0], projected_inputs.shape[1])

    def __call__(self, x: Tensor, state: LstmState) -> LstmState:
        """Return the next state; ``x`` (rows, inputs) are the inputs from index ``first``."""
        return LstmState(*lstm_cell(self.inputs(x) + self.states(state.hidden), state.cell))


def matrix_product(matrix: Tensor, bias: Tensor, rows: int, time: int) -> StepProduct:
    """Return the product ``W x_t + b`` for each of ``time`` steps."""
    return StepProduct(bias.expand(rows, time, -1), matrix)


class LstmStack(nn.Module):
    """A stack of LSTM layers, with dropout before each layer except the first, and optional residuals.

    ``residual_from`` is the first layer, counted from 0, whose input is added to its output (Wu 2016 §3.1);
    None for no residuals. ``extra`` is the width of a vector that every layer reads in addition to its input.
    """

    def __init__(
        self,
        inputs: int,
        units: int,
        layers: int,
        dropout: SequenceDropout,
        residual_from: int | None = None,
        extra: int = 0,
    ) -> None:
        super().__init__()
        widths = [inputs] + [units] * (layers - 1)
        self.layers = nn.ModuleList(Lstm(width + extra, units) for width in widths)
        self.dropout = dropout
        self.residual_from = layers if residual_from is None else residual_from

    def run(
        self,
        x: Tensor,
        start: tuple[LstmState, ...] | None = None,
        lengths: Tensor | None = None,
        extra: Tensor | None = None,
    ) -> tuple[Tensor, tuple[LstmState, ...]]:
        """Return the outputs (rows, time, units) of the top layer and each layer's final state.

        ``extra`` is (rows, time, extra); see :meth:`Lstm.run` for the other arguments.
        """
        final_states = []
        for index, layer in enumerate(self.layers):
            assert isinstance(layer, Lstm)
            layer_input = x if index == 0 else self.dropout(x)
            inputs = layer_input if extra is None else torch.cat([layer_input, extra], dim=-1)
            states, end = layer.run(inputs, start[index] if start else None, lengths)
            x = states + layer_input if index >= self.residual_from else states
            final_states.append(end)
        return x, tuple(final_states)


def reverse_padded(x: Tensor, lengths: Tensor, keep_last: bool = False) -> Tensor:
    """Return ``x`` (rows, time, ...) with each row reversed; the padding after its length stays in place.

    If ``keep_last`` is True, the last entry of a row, the end symbol, also stays in place. Applying the
    function twice gives ``x``.
    """
    positions = torch.arange(x.shape[1], device=x.device)  # (time,)
    reversed_positions = lengths[:, None] - (2 if keep_last else 1) - positions  # (rows, time)
    order = torch.where(reversed_positions >= 0, reversed_positions, positions)
    return x[torch.arange(x.shape[0], device=x.device)[:, None], order]


def last_states(states: Tensor, lengths: Tensor) -> Tensor:
    """Return the last state of each row, (rows, units), given states (rows, time, units) and lengths."""
    return states[torch.arange(states.shape[0], device=states.device), lengths - 1]
