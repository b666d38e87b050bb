"""The base class of decoders that wrap a model to change its distributions."""

from __future__ import annotations

from uwaga.decoder import Decoder, shared_positions


class StepwiseDecoder:
    """A decoder that wraps a model and that the search calls step by step; subclasses define the steps."""

    verify: None = None
    join: None = None
    beam_search: None = None

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self.symbols, self.vocabulary = decoder.symbols, decoder.vocabulary
        self.max_source, self.max_target = decoder.max_source, decoder.max_target
        self.shared_positions = shared_positions(decoder)
        self.attentions, self.recording = decoder.attentions, decoder.recording
        self.cross_attention, self.cross_attentions = decoder.cross_attention, decoder.cross_attentions
