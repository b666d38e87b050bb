"""The Transformer encoder-decoder (M16; Vaswani 2017) and its variants.

Unusual: training and search are two paths through the same blocks, :meth:`Transformer.features` over
complete targets and :meth:`Transformer.step` over one token of each row, and a test checks that they agree;
the state between steps is a value that the search passes back. This file does not depend on beams beyond
their number, on how tokens are chosen, or on a loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from uwaga.decoder import Choice, Ids, Memory, Step, Symbols
from uwaga.errors import SettingsError
from uwaga.models.base import OutputLayer, Seq2Seq, pad
from uwaga.models.blocks import DecoderBlock, EncoderBlock, LayerState, Recording, make_norm
from uwaga.models.layers.attention import causal_mask, mask_or_none
from uwaga.models.layers.choose import choose, requested_features
from uwaga.models.layers.dropout import Dropout
from uwaga.models.layers.multihead import AttendedSource, KeysValues
from uwaga.models.layers.positions import make_positions, position_bias, position_vectors
from uwaga.models.layers.quantised import fake_quantise
from uwaga.results.attention import Attentions
from uwaga.settings import TransformerSettings


@dataclass(frozen=True)
class TransformerMemory:
    """Encoded sources, with the projected keys and values of each decoder layer (M21).

    ``encodings`` is (sentences, source, width); ``mask`` (sentences, 1, 1, source) is False on padding.
    ``layers`` are the keys and values, each (sentences, heads, source, head width).
    """

    encodings: Tensor
    mask: Tensor
    layers: tuple[KeysValues, ...]

    @property
    def sentences(self) -> int:
        return self.encodings.shape[0]

    @property
    def lengths(self) -> Ids:
        return self.mask[:, 0, 0].sum(-1).cpu().numpy().astype(np.int64)

    def select(self, sentences: Tensor) -> TransformerMemory:
        """Return the memory of the given sentences, cropped to the longest of their sources."""
        mask = self.mask[sentences]
        longest = int(mask.sum(-1).max())
        layers = tuple(
            KeysValues(layer.keys[sentences, :, :longest], layer.values[sentences, :, :longest])
            for layer in self.layers
        )
        return TransformerMemory(self.encodings[sentences, :longest], mask[..., :longest], layers)


@dataclass(frozen=True)
class TransformerState:
    """The state of a Transformer decoder.

    For each layer, ``layers`` contains keys and values of self-attention, each (rows, heads, position, head
    width), or a :class:`~uwaga.models.layers.ssru.SsruState` (M26) or
    :class:`~uwaga.models.layers.average.AverageState` (M35). ``position`` is the number of earlier positions.
    """

    memory: TransformerMemory
    beams: int
    position: int
    layers: tuple[LayerState, ...] | None

    def reorder(self, rows: Ids) -> TransformerState:
        """See :meth:`uwaga.decoder.State.reorder`."""
        return self._rows(torch.from_numpy(rows).to(self.memory.mask.device), self.memory)

    def select(self, sentences: Ids) -> TransformerState:
        """See :meth:`uwaga.decoder.State.select`."""
        rows = (sentences[:, None] * self.beams + np.arange(self.beams)).reshape(-1)
        device = self.memory.mask.device
        memory = self.memory.select(torch.from_numpy(sentences).to(device))
        return self._rows(torch.from_numpy(rows).to(device), memory)

    def _rows(self, rows: Tensor, memory: TransformerMemory) -> TransformerState:
        if self.layers is None:
            return replace(self, memory=memory)
        layers = tuple(
            type(layer)(*(tensor.index_select(0, rows) for tensor in layer)) for layer in self.layers
        )
        return replace(self, memory=memory, layers=layers)


class Transformer(Seq2Seq):
    """The Transformer encoder-decoder (M16).

    If attention is requested, that of the last decoder layer is returned, averaged over heads. If
    ``simulates_int8`` is True, weights and inputs of all layers are quantised as in int8 (M36).
    """

    simulates_int8 = False
    guided_head: tuple[int, int] | None = None
    """Decoder layer and head, from 0, whose cross-attention is trained to align (Garg 2019 §4)."""

    def __init__(
        self, settings: TransformerSettings, symbols: Symbols, source_vocabulary: int, target_vocabulary: int
    ) -> None:
        super().__init__()
        self.settings, self.symbols, self.vocabulary = settings, symbols, target_vocabulary
        # Relative positions have no maximum.
        self.max_source = self.max_target = None if settings.positions == "relative" else settings.max_length
        self.scale = settings.width**0.5 if settings.embedding_scale else 1.0
        self.source_embedding = nn.Embedding(source_vocabulary, settings.width)
        self.target_embedding = (
            self.source_embedding
            if settings.tie in ("all", "embeddings")
            else nn.Embedding(target_vocabulary, settings.width)
        )
        self.source_positions = make_positions(settings, settings.heads, True)
        self.target_positions = make_positions(settings, settings.decoder_heads or settings.heads, False)
        self.encoder = nn.ModuleList(EncoderBlock(settings) for _ in range(settings.encoder_layers))
        self.decoder = nn.ModuleList(DecoderBlock(settings) for _ in range(settings.decoder_layers))
        pre = settings.norm == "pre"
        self.encoder_norm = make_norm(settings) if pre else nn.Identity()
        self.decoder_norm = make_norm(settings) if pre else nn.Identity()
        self.source_norm = make_norm(settings) if settings.embedding_norm else None
        self.target_norm = make_norm(settings) if settings.embedding_norm else None
        self.output_weight = (
            nn.Parameter(torch.empty(target_vocabulary, settings.width))
            if settings.tie in ("none", "embeddings")
            else self.target_embedding.weight
        )
        self.output_bias = nn.Parameter(torch.zeros(target_vocabulary)) if settings.output_bias else None
        self.dropout = Dropout(settings.dropout)
        for table in dict.fromkeys(
            (self.source_embedding.weight, self.target_embedding.weight, self.output_weight)
        ):
            nn.init.normal_(table, std=settings.width**-0.5)

    @property
    def output(self) -> OutputLayer:
        weight: Tensor = fake_quantise(self.output_weight) if self.simulates_int8 else self.output_weight
        return OutputLayer(weight, self.output_bias)

    def encode_ids(self, source: Tensor, recording: Recording | None = None) -> tuple[Tensor, Tensor]:
        """Return the encodings (sentences, source, width) of padded ids (sentences, source), and the mask."""
        mask = (source != self.symbols.pad)[:, None, None, :]  # (sentences, 1, 1, source)
        positions = position_vectors(self.source_positions, 0, source.shape[1])
        x = self._embed(self.source_embedding(source), positions, self.source_norm)
        bias = position_bias(self.source_positions, 0, source.shape[1])
        for block in self.encoder:
            x = block(x, mask_or_none(mask), bias, None if recording is None else recording.encoder)
        return self.encoder_norm(x), mask

    def features(self, source: Tensor, target_in: Tensor) -> Tensor:
        return self._run(source, target_in, None)[0]

    @torch.inference_mode()
    def record(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Attentions]:
        recording, filler = Recording(), self.symbols.pad
        self._run(pad(sources, filler, self.device), pad(targets, filler, self.device), recording)
        return recording.sentences(list(map(len, sources)), list(map(len, targets)))

    def _run(
        self, source: Tensor, target_in: Tensor, recording: Recording | None, layer: int | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Return the features of complete targets, and the cross-attention of decoder layer ``layer``.

        The cross-attention is (sentences, heads, target, source), or None without ``layer``. The attention of
        all layers is appended to ``recording``.
        """
        encodings, mask = self.encode_ids(source, recording)
        causal = causal_mask(target_in.shape[1], target_in.shape[1], target_in.device)
        x = self._embed_target(target_in, position_vectors(self.target_positions, 0, target_in.shape[1]))
        bias = position_bias(self.target_positions, 0, target_in.shape[1])
        requested_weights = None
        for index, block in enumerate(self._decoder_blocks()):
            # Padding follows the target, so causal attention of real tokens does not reach it.
            attended_source = AttendedSource(block.cross_attention.project(encodings), mask_or_none(mask))
            x, _, weights = block(x, None, causal, attended_source, index == layer, bias, recording)
            requested_weights = weights if index == layer else requested_weights
        return self._output_features(x), requested_weights

    def guided_features(self, source: Tensor, target_in: Tensor) -> tuple[Tensor, Tensor]:
        if self.guided_head is None:
            raise SettingsError("no attention head of the model is trained to align; set guided_head")
        layer, head = self.guided_head
        features, weights = self._run(source, target_in, None, layer)
        assert weights is not None
        return features, weights[:, head]

    @torch.inference_mode()
    def encode(self, sources: Sequence[Sequence[int]]) -> TransformerMemory:
        encodings, mask = self.encode_ids(pad(sources, self.symbols.pad, self.device))
        layers = tuple(block.cross_attention.project(encodings) for block in self._decoder_blocks())
        return TransformerMemory(encodings, mask, layers)

    def start(self, memory: Memory, beams: int) -> TransformerState:
        assert isinstance(memory, TransformerMemory)
        return TransformerState(memory, beams, 0, None)

    @torch.inference_mode()
    def step(self, tokens: Ids, state: TransformerState, choice: Choice) -> Step:  # type: ignore[override]
        ids = torch.from_numpy(tokens).to(self.device)[:, None]  # (rows, 1)
        x = self._embed_target(ids, position_vectors(self.target_positions, state.position, 1))
        bias = position_bias(self.target_positions, state.position, 1)
        x, layers, weights = self._decode(x, state, None, bias, choice.attention)
        candidates, log_probs = choose(self.logits(x[:, 0]), choice)
        attention = None if weights is None else weights[:, 0].float().cpu().numpy()  # (rows, source)
        next_state = replace(state, position=state.position + 1, layers=layers)
        return Step(candidates, log_probs, next_state, attention, requested_features(x[:, 0], choice))

    def _decode(
        self, x: Tensor, state: TransformerState, causal: Tensor | None, bias: Tensor | None, attention: bool
    ) -> tuple[Tensor, tuple[LayerState, ...], Tensor | None]:
        """Return the features (rows, new, width), the new state of each layer, and the attention or None.

        The attention, (rows, new, source), is that of the last layer, averaged over heads.
        """
        mask = mask_or_none(state.memory.mask)
        caches = []
        weights = None
        for index, block in enumerate(self._decoder_blocks()):
            past = state.layers[index] if state.layers else None
            is_last = index == len(self.decoder) - 1
            attended_source = AttendedSource(state.memory.layers[index], mask)
            x, cache, weights = block(x, past, causal, attended_source, attention and is_last, bias)
            caches.append(cache)
        if weights is not None:
            weights = weights.mean(dim=1).reshape(*x.shape[:2], -1)
        return self._output_features(x), tuple(caches), weights

    def _decoder_blocks(self) -> list[DecoderBlock]:
        return cast(list[DecoderBlock], list(self.decoder))

    def _output_features(self, x: Tensor) -> Tensor:
        """Return the input of the output layer (rows, target, width), given the output of the last block."""
        out: Tensor = self.decoder_norm(x)
        out = out * self.settings.width**-0.5 if self.settings.output_scale else out
        return fake_quantise(out) if self.simulates_int8 else out

    def _embed_target(self, ids: Tensor, positions: Tensor | None) -> Tensor:
        return self._embed(self.target_embedding(ids), positions, self.target_norm)

    def _embed(self, x: Tensor, positions: Tensor | None, embedding_norm: nn.Module | None) -> Tensor:
        """Return scaled embeddings ``x`` (rows, position, width) plus the vectors of their positions."""
        if self.settings.embedding_scale:
            x = x * self.scale
        if positions is not None:
            x = x + positions
        return self.dropout(x if embedding_norm is None else embedding_norm(x))  # type: ignore[no-any-return]
