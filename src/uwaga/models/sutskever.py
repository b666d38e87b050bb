"""Deep LSTMs without attention (M12; Sutskever 2014)."""

from __future__ import annotations

from torch import Tensor

from uwaga.decoder import Symbols
from uwaga.models.layers.recurrent import LstmStack, reverse_padded
from uwaga.models.recurrent import (
    DecoderOutput,
    Recurrent,
    RecurrentMemory,
    Tensors,
    flatten_states,
    unflatten_states,
)
from uwaga.settings.recurrent import SutskeverSettings


class Sutskever(Recurrent):
    """The model of Sutskever 2014: an LSTM encoder whose final states are the initial states of the decoder.

    By default, the source is reversed, except for its end symbol. Each layer processes a sentence in one
    fused call.
    """

    def __init__(
        self, settings: SutskeverSettings, symbols: Symbols, source_vocabulary: int, target_vocabulary: int
    ) -> None:
        super().__init__(settings, symbols, source_vocabulary, target_vocabulary)
        self.reverse = settings.reverse
        self.encoder = LstmStack(settings.embedding, settings.hidden, settings.layers, self.dropout)
        self.decoder = LstmStack(settings.embedding, settings.hidden, settings.layers, self.dropout)

    def encode_ids(self, source: Tensor) -> RecurrentMemory:
        lengths = self._lengths(source)
        ids = reverse_padded(source, lengths, keep_last=True) if self.reverse else source
        _, final_states = self.encoder.run(self._embed_source(ids), lengths=lengths)
        return RecurrentMemory(lengths, flatten_states(final_states))

    def unroll(
        self,
        embedded_target: Tensor,
        memory: RecurrentMemory,
        parts: Tensors,
        position: int = 0,
        need_weights: bool = False,
    ) -> DecoderOutput:
        states, final_states = self.decoder.run(embedded_target, unflatten_states(parts))
        return DecoderOutput(self.dropout(states), flatten_states(final_states), None)
