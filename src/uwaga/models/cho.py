"""The RNN encoder-decoder of Cho 2014 (M11), which encodes a sentence as one vector."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from uwaga.decoder import Symbols
from uwaga.models.layers.kernels import StepProduct, gru_cell
from uwaga.models.layers.recurrent import Gru, last_states, reverse_padded
from uwaga.models.recurrent import (
    DecoderOutput,
    Maxout,
    Recurrent,
    RecurrentMemory,
    Tensors,
    repeat_for_beams,
)
from uwaga.settings.recurrent import ChoSettings


class Cho(Recurrent):
    """The model of Cho 2014 §A.1, which encodes a source as one vector ``c = tanh(V h_N)``.

    ``c`` determines the decoder's initial state, ``h'_0 = tanh(V' c)``, and is an input of each step and of
    the read-out. In both gates of the decoder's GRU, ``c`` is part of the input, together with the word. With
    ``gru: paper``, the candidate state is ``n = tanh(W' e(y) + r (U' h' + C c))`` (§A.1.2; the encoder has
    ``U (r h)``). With ``gru: fused``, ``c`` is part of the input of the candidate, too, and a target is
    processed in one call.
    """

    def __init__(
        self, settings: ChoSettings, symbols: Symbols, source_vocabulary: int, target_vocabulary: int
    ) -> None:
        super().__init__(settings, symbols, source_vocabulary, target_vocabulary)
        units = settings.hidden
        self.reverse = settings.reverse
        self.encoder = Gru(settings.embedding, units, settings.gru)
        self.summary = nn.Linear(units, units)  # V
        self.bridge = nn.Linear(units, units)  # V'
        self.decoder = Gru(settings.embedding + units, units)
        self.is_paper_gru = settings.gru == "paper"
        self.read_out = Maxout(units + settings.embedding + units, settings.read_out)
        for layer in (self.summary, self.bridge):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def encode_ids(self, source: Tensor) -> RecurrentMemory:
        lengths = self._lengths(source)
        ids = reverse_padded(source, lengths, keep_last=True) if self.reverse else source
        last_encoder_states = last_states(self.encoder.run(self._embed_source(ids)), lengths)
        summary = torch.tanh(self.summary(last_encoder_states))  # (sentences, units): c
        return RecurrentMemory(lengths, (torch.tanh(self.bridge(summary)), summary))

    def unroll(
        self,
        embedded_target: Tensor,
        memory: RecurrentMemory,
        parts: Tensors,
        position: int = 0,
        need_weights: bool = False,
    ) -> DecoderOutput:
        rows, time, _ = embedded_target.shape
        hidden, _ = parts
        summary = repeat_for_beams(memory, memory.initial_state[1], rows)  # (rows, units)
        repeated_summary = summary[:, None].expand(rows, time, -1)
        if self.is_paper_gru:
            states = self._states(embedded_target, summary, hidden)
        else:
            states = self.decoder.run(torch.cat([embedded_target, repeated_summary], dim=-1), hidden)
        concatenated = torch.cat([states, embedded_target, repeated_summary], dim=-1)
        return DecoderOutput(self.dropout(self.read_out(concatenated)), (states[:, -1], summary), None)

    def _states(self, embedded_target: Tensor, summary: Tensor, hidden: Tensor) -> Tensor:
        """Return the decoder states (rows, time, units) with ``gru: paper``.

        The contributions of all words to the gates are computed in one product.
        """
        _, time, word_width = embedded_target.shape
        units = hidden.shape[1]
        word_gates = self.decoder.project(embedded_target)  # (rows, time, 3 units)
        summary_gates = self.decoder.project(summary, word_width)  # (rows, 3 units): C_r c, C_z c, C c
        in_gates = functional.pad(summary_gates[:, : 2 * units], (0, units))
        reset_terms = functional.pad(summary_gates[:, 2 * units :], (2 * units, 0))
        _, matrix, _, bias = self.decoder.weights
        recurrent = StepProduct((bias + reset_terms)[:, None].expand(-1, time, -1), matrix)
        states = []
        for word in (word_gates + in_gates[:, None]).unbind(1):
            hidden = gru_cell(word, recurrent(hidden), hidden)
            states.append(hidden)
        return torch.stack(states, dim=1)
