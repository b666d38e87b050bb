"""Stacked LSTMs with attention from the current decoder state (M14; Luong 2015)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from uwaga.decoder import Symbols
from uwaga.models.layers.dropout import SequenceDropout
from uwaga.models.layers.kernels import StepProduct
from uwaga.models.layers.local import MonotonicWindow, PredictiveWindow
from uwaga.models.layers.recurrent import Lstm, LstmStack, LstmState, LstmSteps, reverse_padded
from uwaga.models.layers.scores import make_score
from uwaga.models.recurrent import (
    DecoderOutput,
    Recurrent,
    RecurrentMemory,
    StepAttention,
    Tensors,
    attend_memory,
    flatten_states,
    make_attention_memory,
    unflatten_states,
)
from uwaga.settings.recurrent import LuongSettings


class Luong(Recurrent):
    """The model of Luong 2015: stacked LSTMs with attention from the current decoder state.

    The output of a step is ``h̃_t = tanh(W_c [c_t; h_t])`` (eq. 5), where ``c_t`` is the context of the query
    ``h_t``. With input feeding, the first layer reads ``[E y_{t-1}; h̃_{t-1}]`` (§3.3), so steps are
    sequential; without input feeding, a target is processed in one fused call per layer and one call of
    attention. If the settings reverse the source, the annotations are still in its original order.
    """

    def __init__(
        self, settings: LuongSettings, symbols: Symbols, source_vocabulary: int, target_vocabulary: int
    ) -> None:
        super().__init__(settings, symbols, source_vocabulary, target_vocabulary)
        units = settings.hidden
        self.reverse, self.has_input_feeding = settings.reverse, settings.input_feeding
        bidirectional = settings.bidirectional
        self.encoder = (
            _BidirectionalStack(settings, self.dropout)
            if bidirectional
            else LstmStack(settings.embedding, units, settings.layers, self.dropout)
        )
        self.decoder = LstmStack(
            settings.embedding + (units if self.has_input_feeding else 0),
            units,
            settings.layers,
            self.dropout,
        )
        self.score = make_score(settings.score, units, units, settings.max_length)
        self.window: MonotonicWindow | PredictiveWindow | None = None
        if settings.window is not None:
            local_p = settings.attention == "local-p"
            self.window = (
                PredictiveWindow(units, settings.window) if local_p else MonotonicWindow(settings.window)
            )
        self.combine = nn.Linear(2 * units, units, bias=False)  # W_c
        nn.init.xavier_uniform_(self.combine.weight)

    def encode_ids(self, source: Tensor) -> RecurrentMemory:
        lengths = self._lengths(source)
        ids = reverse_padded(source, lengths, keep_last=True) if self.reverse else source
        values, final_states = self.encoder.run(self._embed_source(ids), lengths=lengths)
        if self.reverse:
            values = reverse_padded(values, lengths, keep_last=True)
        initial_parts = flatten_states(final_states)
        if self.has_input_feeding:
            initial_parts = (torch.zeros_like(initial_parts[0]), *initial_parts)  # h̃_0
        return make_attention_memory(self.score, self.dropout(values), lengths, initial_parts)

    def unroll(
        self,
        embedded_target: Tensor,
        memory: RecurrentMemory,
        parts: Tensors,
        position: int = 0,
        need_weights: bool = False,
    ) -> DecoderOutput:
        if self.has_input_feeding:
            return self._unroll_with_feeding(embedded_target, memory, parts, position, need_weights)
        states, final_states = self.decoder.run(embedded_target, unflatten_states(parts))
        features, weights = self._attentional_states(states, memory, position)
        return DecoderOutput(
            self.dropout(features), flatten_states(final_states), weights if need_weights else None
        )

    def _unroll_with_feeding(
        self,
        embedded_target: Tensor,
        memory: RecurrentMemory,
        parts: Tensors,
        position: int,
        need_weights: bool,
    ) -> DecoderOutput:
        rows, time, word_width = embedded_target.shape
        feed, states = parts[0], list(unflatten_states(parts[1:]))
        layers = [layer for layer in self.decoder.layers if isinstance(layer, Lstm)]
        steps = [LstmSteps(layers[0], layers[0].project(embedded_target), word_width)]
        steps += [LstmSteps(layer, layer.bias_only(rows, time), 0) for layer in layers[1:]]
        attention = StepAttention(self.score, memory, rows, time, position, self.window)
        combine = StepProduct(feed.new_zeros(()).expand(rows, time, feed.shape[1]), self.combine.weight)
        masks = [self._step_masks(rows, time, feed) for _ in layers]
        features_by_step = []
        for index in range(time):
            layer_input = feed
            for step_index, step in enumerate(steps):
                layer_input = (
                    layer_input if step_index == 0 else _apply_dropout(layer_input, masks[step_index], index)
                )
                states[step_index] = step(layer_input, states[step_index])
                layer_input = states[step_index].hidden
            features = torch.tanh(
                combine(torch.cat([attention(layer_input), layer_input], dim=-1))
            )  # h̃: (rows, units)
            feed = _apply_dropout(features, masks[0], index)
            features_by_step.append(feed)
        weights = torch.stack(attention.weights, dim=1) if need_weights else None
        return DecoderOutput(torch.stack(features_by_step, dim=1), (feed, *flatten_states(states)), weights)

    def _step_masks(self, rows: int, time: int, reference: Tensor) -> tuple[Tensor, ...] | None:
        mask = self.dropout.mask(rows, time, reference.shape[1], reference)
        return None if mask is None else mask.unbind(1)

    def _attentional_states(
        self, states: Tensor, memory: RecurrentMemory, position: int
    ) -> tuple[Tensor, Tensor]:
        """Return ``h̃`` (rows, time, units) and the attention weights, given decoder states."""
        context, weights = attend_memory(self.score, states, memory, position, self.window)
        return torch.tanh(self.combine(torch.cat([context, states], dim=-1))), weights


class _BidirectionalStack(nn.Module):
    """A stack of bidirectional LSTM layers; each direction has half of the units."""

    def __init__(self, settings: LuongSettings, dropout: SequenceDropout) -> None:
        super().__init__()
        units = settings.hidden
        widths = [settings.embedding] + [units] * (settings.layers - 1)
        # Names of stored weights: the forward and the backward encoder.
        self.ahead = nn.ModuleList(Lstm(width, units // 2) for width in widths)
        self.back = nn.ModuleList(Lstm(width, units // 2) for width in widths)
        self.dropout = dropout

    def run(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, tuple[LstmState, ...]]:
        """See :meth:`LstmStack.run`."""
        final_states = []
        for index, (forward_layer, backward_layer) in enumerate(zip(self.ahead, self.back, strict=True)):
            assert isinstance(forward_layer, Lstm)
            assert isinstance(backward_layer, Lstm)
            layer_input = x if index == 0 else self.dropout(x)
            forward_states, forward_end = forward_layer.run(layer_input, lengths=lengths)
            backward_states, backward_end = backward_layer.run(
                reverse_padded(layer_input, lengths), lengths=lengths
            )
            x = torch.cat(
                [forward_states, reverse_padded(backward_states, lengths)], dim=-1
            )  # (sentences, source, units)
            final_states.append(
                LstmState(
                    torch.cat([forward_end.hidden, backward_end.hidden], dim=-1),
                    torch.cat([forward_end.cell, backward_end.cell], dim=-1),
                )
            )
        return x, tuple(final_states)


def _apply_dropout(x: Tensor, masks: tuple[Tensor, ...] | None, step: int) -> Tensor:
    """Return ``x`` (rows, units) multiplied by the dropout mask of a step, or ``x`` without masks."""
    return x if masks is None else x * masks[step]
