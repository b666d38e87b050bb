"""The Transformer encoder-decoder (M16; Vaswani 2017) and its variants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from uwaga.decoder import Choice, Ids, Memory, State, Step, Symbols, Verify
from uwaga.errors import TextTooLongError
from uwaga.models.base import OutputLayer, Seq2Seq, pad
from uwaga.models.blocks import DecoderBlock, EncoderBlock, LayerState, Recording, norm, watched_weights
from uwaga.models.layers.attention import causal_mask, mask_unless_full
from uwaga.models.layers.choose import choose
from uwaga.models.layers.dropout import Dropout
from uwaga.models.layers.multihead import KeysValues, pack_caches
from uwaga.models.layers.positions import LearnedPositions, RelativePositions, SinusoidalPositions
from uwaga.models.layers.quantised import fake_quantise
from uwaga.results.attention import Attentions
from uwaga.settings import TransformerSettings

Positions = SinusoidalPositions | LearnedPositions | RelativePositions


@dataclass(frozen=True)
class TransformerMemory:
    """Encoded sources: the projected keys and values of each decoder layer, computed once (M21).

    ``encodings`` (sentences, source, width); ``mask`` (sentences, 1, 1, source) bool, True on tokens.
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
        """Return the memory of these sentences, without source columns that none of them uses."""
        mask = self.mask[sentences]
        used = int(mask.sum(-1).max())
        layers = tuple(
            KeysValues(layer.keys[sentences, :, :used], layer.values[sentences, :, :used])
            for layer in self.layers
        )
        return TransformerMemory(self.encodings[sentences, :used], mask[..., :used], layers)


@dataclass(frozen=True)
class TransformerState:
    """The state of each decoder layer: caches (rows, heads, position, head width) of self-attention.

    For M26 and M35, it is :class:`~uwaga.models.layers.ssru.SsruState` or
    :class:`~uwaga.models.layers.average.AverageState`.

    ``position`` is the number of cached positions. Rows that use fewer, after a draft (M42), have a ``mask``
    (rows, past) bool, True where they use one. After a draft is read, rows share caches and memory until some
    are selected: ``row_sentences`` (rows,) is the sentence of each row, None if rows share nothing.
    """

    memory: TransformerMemory
    beams: int
    position: int
    layers: tuple[LayerState, ...] | None
    mask: Tensor | None = None
    row_sentences: Tensor | None = None

    def reorder(self, rows: Ids) -> TransformerState:
        """See :meth:`uwaga.decoder.State.reorder`."""
        state = self.unshared()
        return state._rows(torch.from_numpy(rows).to(self.memory.mask.device), self.memory)

    def select(self, sentences: Ids) -> TransformerState:
        """See :meth:`uwaga.decoder.State.select`."""
        rows = (sentences[:, None] * self.beams + np.arange(self.beams)).reshape(-1)
        device = self.memory.mask.device
        indices = torch.from_numpy(sentences).to(device)
        memory = self.memory.select(indices if self.row_sentences is None else self.row_sentences[indices])
        return self._rows(torch.from_numpy(rows).to(device), memory)

    def unshared(self) -> TransformerState:
        """Return the state with separate caches and memory for each row."""
        return self if self.row_sentences is None else self.select(np.arange(len(self.row_sentences)))

    def _rows(self, rows: Tensor, memory: TransformerMemory) -> TransformerState:
        if self.layers is None:
            return replace(self, memory=memory)
        cached = rows if self.row_sentences is None else self.row_sentences[rows]
        layers = tuple(
            type(layer)(*(tensor.index_select(0, cached) for tensor in layer)) for layer in self.layers
        )
        if self.mask is None:
            return replace(self, memory=memory, layers=layers)
        caches, mask = pack_caches(cast(tuple[KeysValues, ...], layers), self.mask[rows])
        unmasked = bool(mask.all())
        return replace(
            self,
            memory=memory,
            position=mask.shape[1],
            layers=caches,
            mask=None if unmasked else mask,
            row_sentences=None,
        )


class Transformer(Seq2Seq):
    """Embeddings, followed by stacks of encoder and decoder blocks (M16).

    The attention returned on request is that of the last decoder layer, averaged over heads. ``rounded``: the
    output layer, like the others, is computed as in int8 (M36).
    """

    rounded = False

    def __init__(
        self,
        settings: TransformerSettings,
        symbols: Symbols,
        source_vocabulary: int,
        target_vocabulary: int,
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
        self.source_positions = _positions(settings, settings.heads, True)
        self.target_positions = _positions(settings, settings.decoder_heads or settings.heads, False)
        self.encoder = nn.ModuleList(EncoderBlock(settings) for _ in range(settings.encoder_layers))
        self.decoder = nn.ModuleList(DecoderBlock(settings) for _ in range(settings.decoder_layers))
        pre = settings.norm == "pre"
        self.encoder_norm = norm(settings) if pre else nn.Identity()
        self.decoder_norm = norm(settings) if pre else nn.Identity()
        self.source_norm = norm(settings) if settings.embedding_norm else None
        self.target_norm = norm(settings) if settings.embedding_norm else None
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
        weight: Tensor = fake_quantise(self.output_weight) if self.rounded else self.output_weight
        return OutputLayer(weight, self.output_bias)

    def encode_ids(self, source: Tensor, recording: Recording | None = None) -> tuple[Tensor, Tensor]:
        """Return encodings (sentences, source, width) of padded ids (sentences, source) and their mask."""
        mask = (source != self.symbols.pad)[:, None, None, :]  # (sentences, 1, 1, source)
        x = self._embed(self.source_embedding, self.source_positions, self.source_norm, source, 0)
        bias = _bias(self.source_positions, 0, source.shape[1])
        for block in self.encoder:
            x = block(x, mask_unless_full(mask), bias, None if recording is None else recording.encoder)
        return self.encoder_norm(x), mask

    def features(self, source: Tensor, target_in: Tensor) -> Tensor:
        return self._run(source, target_in, None)

    @torch.inference_mode()
    def record(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Attentions]:
        recording, filler = Recording(), self.symbols.pad
        self._run(pad(sources, filler, self.device), pad(targets, filler, self.device), recording)
        return recording.sentences(list(map(len, sources)), list(map(len, targets)))

    def _run(self, source: Tensor, target_in: Tensor, recording: Recording | None) -> Tensor:
        """Return the features of complete targets; append the attention of all layers to ``recording``."""
        encodings, mask = self.encode_ids(source, recording)
        causal = causal_mask(target_in.shape[1], target_in.shape[1], target_in.device)
        x = self._embed(self.target_embedding, self.target_positions, self.target_norm, target_in, 0)
        bias = _bias(self.target_positions, 0, target_in.shape[1])
        for block in self._decoder_blocks():
            # Padding follows the target, so causal attention of real tokens does not reach it.
            memory = block.cross_attention.project(encodings)
            x, _, _ = block(x, None, causal, memory, mask_unless_full(mask), bias=bias, recording=recording)
        return self._output_features(x)

    def guided_features(self, source: Tensor, target_in: Tensor) -> tuple[Tensor, Tensor]:
        features = self.features(source, target_in)
        return features, watched_weights(self.decoder)

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
        state = state.unshared()
        if state.mask is not None:
            return self._step_ragged(ids, torch.ones_like(ids, dtype=torch.bool), state, choice)
        x = self._embed(self.target_embedding, self.target_positions, self.target_norm, ids, state.position)
        bias = _bias(self.target_positions, state.position, 1)
        x, layers, weights = self._decode(x, state, None, bias, choice.attention)
        candidates, log_probs = choose(self.logits(x[:, 0]), choice)
        attention = None if weights is None else weights[:, 0].float().cpu().numpy()  # (rows, source)
        return Step(
            candidates, log_probs, replace(state, position=state.position + 1, layers=layers), attention
        )

    @property
    def verify(self) -> Verify | None:
        """See :attr:`uwaga.decoder.Decoder.verify`; equal to steps up to rounding. None for M26 and M35."""
        return self._verify if self.settings.self_attention == "attention" else None

    @torch.inference_mode()
    def _verify(self, tokens: Sequence[Sequence[int]], state: State, choice: Choice) -> Step:
        assert isinstance(state, TransformerState)
        ids = pad(tokens, self.symbols.pad, self.device)  # (sentences, new)
        counts = torch.tensor([[len(sentence)] for sentence in tokens], device=self.device)
        token_mask = torch.arange(ids.shape[1], device=self.device) < counts  # (sentences, new)
        return self._step_ragged(ids, token_mask, state.unshared(), choice)

    def _step_ragged(self, ids: Tensor, token_mask: Tensor, state: TransformerState, choice: Choice) -> Step:
        """Feed the ids (rows, new) where ``token_mask`` is True to rows at different positions (M42)."""
        past = state.mask
        if past is None:
            past = torch.ones(len(ids), state.position, dtype=torch.bool, device=self.device)
        mask = torch.cat([past, token_mask], dim=1)  # (rows, past + new)
        keys = mask.cumsum(dim=1) - 1  # positions; padding is masked
        queries = keys[:, state.position :]
        if self.max_target is not None and int(keys.max()) >= self.max_target:
            raise TextTooLongError(f"the target takes {int(keys.max()) + 1} of {self.max_target} positions")
        visible = mask[:, None, :] & (keys[:, None, :] <= queries[:, :, None])  # (rows, new, past + new)
        positions = self.target_positions
        bias = positions.pairwise_bias(queries, keys) if isinstance(positions, RelativePositions) else None
        x = self._embed(self.target_embedding, positions, self.target_norm, ids, queries)
        x, layers, weights = self._decode(x, state, visible[:, None], bias, choice.attention)
        sentence_indices, columns = token_mask.nonzero(as_tuple=True)  # (tokens,)
        candidates, log_probs = choose(self.logits(x[sentence_indices, columns]), choice)
        attention = None if weights is None else weights[sentence_indices, columns].float().cpu().numpy()
        row_mask = torch.cat(
            [past[sentence_indices], torch.arange(ids.shape[1], device=self.device) <= columns[:, None]],
            dim=1,
        )
        position = state.position + ids.shape[1]
        following = replace(
            state, position=position, layers=layers, mask=row_mask, row_sentences=sentence_indices
        )
        return Step(candidates, log_probs, following, attention)

    def _decode(
        self, x: Tensor, state: TransformerState, causal: Tensor | None, bias: Tensor | None, attention: bool
    ) -> tuple[Tensor, tuple[LayerState, ...], Tensor | None]:
        """Return features (rows, new, width), the longer caches and, on request, the last layer's attention
        (rows, new, source).
        """
        mask = mask_unless_full(state.memory.mask)
        caches = []
        weights = None
        for index, block in enumerate(self._decoder_blocks()):
            past = state.layers[index] if state.layers else None
            last = index == len(self.decoder) - 1
            x, cache, weights = block(
                x, past, causal, state.memory.layers[index], mask, attention and last, bias
            )
            caches.append(cache)
        return self._output_features(x), tuple(caches), weights

    def _decoder_blocks(self) -> list[DecoderBlock]:
        return cast(list[DecoderBlock], list(self.decoder))

    def _output_features(self, x: Tensor) -> Tensor:
        """Return the input of the output layer (rows, target, width) from the last block's output."""
        out: Tensor = self.decoder_norm(x)
        out = out * self.settings.width**-0.5 if self.settings.output_scale else out
        return fake_quantise(out) if self.rounded else out

    def _embed(
        self,
        embedding: nn.Embedding,
        positions: Positions,
        embedding_norm: nn.Module | None,
        ids: Tensor,
        start: int | Tensor,
    ) -> Tensor:
        """Return (rows, position, width) of ids (rows, position), which start at ``start`` or are at it."""
        x = embedding(ids)  # (rows, position, width)
        if self.settings.embedding_scale:
            x = x * self.scale
        if not isinstance(positions, RelativePositions):
            x = x + (positions.lookup(start) if isinstance(start, Tensor) else positions(start, ids.shape[1]))
        return self.dropout(x if embedding_norm is None else embedding_norm(x))  # type: ignore[no-any-return]


def _positions(settings: TransformerSettings, heads: int, bidirectional: bool) -> Positions:
    length, width, offset = settings.max_length, settings.width, settings.position_offset
    if settings.positions == "relative":
        return RelativePositions(heads, settings.relative_buckets, settings.relative_distance, bidirectional)
    if settings.positions == "learned":
        return LearnedPositions(length, width, offset)
    return SinusoidalPositions(length, width, settings.sinusoids, offset)


def _bias(positions: Positions, start: int, length: int) -> Tensor | None:
    """Return the bias (heads, target, source) of scores for ``length`` new positions after ``start``."""
    if isinstance(positions, RelativePositions):
        bias: Tensor = positions(start, length, start + length)
        return bias
    return None
