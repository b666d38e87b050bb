"""A bidirectional GRU encoder, and attention from the previous decoder state (M13; Bahdanau 2014 §A)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from uwaga.decoder import Symbols
from uwaga.models.layers.recurrent import Gru, GruSteps, reverse_padded
from uwaga.models.layers.scores import make_score
from uwaga.models.recurrent import (
    DecoderOutput,
    Maxout,
    Recurrent,
    RecurrentMemory,
    StepAttention,
    Tensors,
    make_attention_memory,
)
from uwaga.settings.recurrent import BahdanauSettings


class Bahdanau(Recurrent):
    """The model of Bahdanau 2014: a bidirectional encoder, and attention from the previous decoder state.

    Annotations are ``h_j = [→h_j; ←h_j]``, and the initial state is ``s_0 = tanh(W_s ←h_1)``. Each step is

    - ``paper``: ``c_i = attention(s_{i-1}, h)``, ``s_i = GRU(s_{i-1}, [E y_{i-1}; c_i])``;
    - ``is_conditional`` (Sennrich 2017, eq. 4 ff.): ``s' = GRU1(s_{i-1}, E y_{i-1})``,
      ``c_i = attention(s', h)``, ``s_i = GRU2(s', c_i)``.

    The read-out is ``maxout(U_o s_i + V_o E y_{i-1} + C_o c_i)``, with s_i as in eq. 4 of the paper (its
    appendix has s_{i-1}).
    """

    def __init__(
        self, settings: BahdanauSettings, symbols: Symbols, source_vocabulary: int, target_vocabulary: int
    ) -> None:
        super().__init__(settings, symbols, source_vocabulary, target_vocabulary)
        units, word_width = settings.hidden, settings.embedding
        self.forward_encoder = Gru(word_width, units, settings.gru)
        self.backward_encoder = Gru(word_width, units, settings.gru)
        self.bridge = nn.Linear(units, units)  # W_s
        self.score = make_score(settings.score, units, 2 * units, settings.max_length)
        is_conditional = settings.decoder == "conditional"
        self.inner = Gru(word_width, units, settings.gru) if is_conditional else None
        self.decoder = Gru(2 * units if is_conditional else word_width + 2 * units, units, settings.gru)
        self.read_out = Maxout(units + word_width + 2 * units, settings.read_out)
        nn.init.xavier_uniform_(self.bridge.weight)
        nn.init.zeros_(self.bridge.bias)

    def encode_ids(self, source: Tensor) -> RecurrentMemory:
        lengths = self._lengths(source)
        embedded_source = self._embed_source(source)
        forward_states = self.forward_encoder.run(embedded_source)  # (sentences, source, units)
        backward_states = reverse_padded(
            self.backward_encoder.run(reverse_padded(embedded_source, lengths)), lengths
        )
        values = self.dropout(torch.cat([forward_states, backward_states], dim=-1))
        initial_state = torch.tanh(self.bridge(backward_states[:, 0]))  # (sentences, units): s_0
        return make_attention_memory(self.score, values, lengths, (initial_state,))

    def unroll(
        self,
        embedded_target: Tensor,
        memory: RecurrentMemory,
        parts: Tensors,
        position: int = 0,
        need_weights: bool = False,
    ) -> DecoderOutput:
        (state,) = parts
        rows, time, word_width = embedded_target.shape
        projected_target = (self.inner or self.decoder).project(embedded_target)  # (rows, time, 3 units)
        attention = StepAttention(self.score, memory, rows, time)
        steps = GruSteps(self.decoder, rows, time)
        inner_steps = None if self.inner is None else GruSteps(self.inner, rows, time)
        add_context = (
            self.decoder.input_product(projected_target, word_width)
            if inner_steps is None
            else self.decoder.input_product(self.decoder.bias_only(rows, time), 0)
        )
        states, contexts = [], []
        for word in projected_target.unbind(1):
            if inner_steps is not None:
                state = inner_steps(word, state)
            context = attention(state)
            state = steps(add_context(context), state)
            states.append(state)
            contexts.append(context)
        concatenated = torch.cat(
            [torch.stack(states, dim=1), embedded_target, torch.stack(contexts, dim=1)], dim=-1
        )
        features = self.dropout(self.read_out(concatenated))
        return DecoderOutput(
            features, (state,), torch.stack(attention.weights, dim=1) if need_weights else None
        )
