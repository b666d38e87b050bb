"""A deep residual RNN with attention from its first decoder layer (M15; Wu 2016, GNMT)."""

from __future__ import annotations

import torch
from torch import Tensor

from uwaga.decoder import Symbols
from uwaga.models.layers.recurrent import Lstm, LstmStack, LstmState, LstmSteps, reverse_padded
from uwaga.models.layers.scores import make_score
from uwaga.models.recurrent import (
    DecoderOutput,
    Recurrent,
    RecurrentMemory,
    StepAttention,
    Tensors,
    flatten_states,
    make_attention_memory,
    unflatten_states,
)
from uwaga.settings.recurrent import GnmtSettings


class Gnmt(Recurrent):
    """The GNMT model: the first decoder layer queries the attention, and all decoder layers read the context.

    ``a_i = attention(h^1_{i-1}, x)`` (Wu 2016 eq. 4); layer 1 reads ``[E y_{i-1}; a_i]``, layer l
    ``[h^{l-1}_i; a_i]``. From the third layer on, the input of a layer is added to its output (§3.1);
    the encoder's first layer is bidirectional (§3.2). Only the first decoder layer runs step by step; each
    layer above it reads all contexts in one fused call.
    """

    def __init__(
        self, settings: GnmtSettings, symbols: Symbols, source_vocabulary: int, target_vocabulary: int
    ) -> None:
        super().__init__(settings, symbols, source_vocabulary, target_vocabulary)
        units, word_width = settings.hidden, settings.embedding
        # Names of stored weights: the forward and the backward encoder.
        self.ahead, self.back = Lstm(word_width, units), Lstm(word_width, units)
        self.encoder = LstmStack(2 * units, units, settings.encoder_layers - 1, self.dropout, residual_from=1)
        self.score = make_score(settings.score, units, units, settings.max_length)
        self.bottom = Lstm(word_width + units, units)
        self.upper = LstmStack(
            units, units, settings.decoder_layers - 1, self.dropout, residual_from=1, extra=units
        )
        self.states = settings.decoder_layers

    def encode_ids(self, source: Tensor) -> RecurrentMemory:
        lengths = self._lengths(source)
        embedded_source = self._embed_source(source)
        forward_states, _ = self.ahead.run(embedded_source)
        backward_states, _ = self.back.run(reverse_padded(embedded_source, lengths))
        # (sentences, source, 2 units)
        states = torch.cat([forward_states, reverse_padded(backward_states, lengths)], dim=-1)
        values, _ = self.encoder.run(self.dropout(states))
        zeros = values.new_zeros(values.shape[0], values.shape[2])
        return make_attention_memory(self.score, self.dropout(values), lengths, (zeros,) * (2 * self.states))

    def unroll(
        self,
        embedded_target: Tensor,
        memory: RecurrentMemory,
        parts: Tensors,
        position: int = 0,
        need_weights: bool = False,
    ) -> DecoderOutput:
        rows, time, word_width = embedded_target.shape
        steps = LstmSteps(self.bottom, self.bottom.project(embedded_target), word_width)
        attention = StepAttention(self.score, memory, rows, time)
        state = LstmState(parts[0], parts[1])
        states, contexts = [], []
        for _ in range(time):
            context = attention(state.hidden)
            state = steps(context, state)
            states.append(state.hidden)
            contexts.append(context)
        x = torch.stack(states, dim=1)  # (rows, time, units)
        final_states: tuple[LstmState, ...] = ()
        if len(self.upper.layers):
            x, final_states = self.upper.run(
                self.dropout(x), unflatten_states(parts[2:]), extra=torch.stack(contexts, dim=1)
            )
        weights = torch.stack(attention.weights, dim=1) if need_weights else None
        return DecoderOutput(self.dropout(x), (*state, *flatten_states(final_states)), weights)
