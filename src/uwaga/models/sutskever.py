"""Deep LSTMs without attention (M12; Sutskever 2014)."""

from __future__ import annotations

from torch import Tensor

from uwaga.decoder import Symbols
from uwaga.models.layers.recurrent import LstmStack, reverse_padded
from uwaga.models.recurrent import (
    Recurrent,
    RecurrentMemory,
    Tensors,
    Unrolled,
    flatten_states,
    unflatten_states,
)
from uwaga.settings.recurrent import SutskeverSettings


class Sutskever(Recurrent):
    """The encoder's final states initialise the decoder; the source is reversed except for its end symbol.

    Encoder and decoder run as fused calls, one per layer.
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
        _, ends = self.encoder.run(self._embed_source(ids), lengths=lengths)
        return RecurrentMemory(lengths, flatten_states(ends))

    def unroll(
        self,
        embedded: Tensor,
        memory: RecurrentMemory,
        parts: Tensors,
        position: int = 0,
        need_weights: bool = False,
    ) -> Unrolled:
        states, ends = self.decoder.run(embedded, unflatten_states(parts))
        return Unrolled(self.dropout(states), flatten_states(ends), None)
