"""ProphetNet: a decoder that predicts several future tokens at each position (M29; Qi 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn

from uwaga.decoder import Choice, Ids, Memory, Step, Symbols
from uwaga.errors import SettingsError
from uwaga.models.base import OutputLayer, Seq2Seq, pad
from uwaga.models.blocks import EncoderBlock, Recording, ResidualBlock, make_norm
from uwaga.models.layers.attention import mask_or_none
from uwaga.models.layers.choose import choose, requested_features
from uwaga.models.layers.dropout import Dropout
from uwaga.models.layers.feedforward import FeedForward
from uwaga.models.layers.multihead import AttendedSource, KeysValues, MultiHeadAttention
from uwaga.models.layers.positions import LearnedPositions
from uwaga.models.layers.streams import StreamAttention
from uwaga.models.transformer import TransformerMemory, TransformerState
from uwaga.results.attention import Attentions
from uwaga.settings import ProphetNetSettings


class StreamBlock(ResidualBlock):
    """Self-attention of all streams, cross-attention and feed-forward, each with a residual connection."""

    def __init__(self, settings: ProphetNetSettings) -> None:
        super().__init__(settings)
        width, heads = settings.width, settings.decoder_heads or settings.heads
        self.self_attention = StreamAttention(
            width, heads, settings.relative_buckets, settings.relative_distance, settings.attention_dropout
        )
        self.self_attention_norm = make_norm(settings)
        self.cross_attention = MultiHeadAttention(width, heads, settings.attention_dropout)
        self.cross_attention_norm = make_norm(settings)
        self.feed_forward = FeedForward(
            width,
            settings.decoder_feed_forward or settings.feed_forward,
            settings.activation,
            settings.gated,
            settings.activation_dropout,
        )
        self.feed_forward_norm = make_norm(settings)

    def forward(
        self,
        x: Tensor,
        past: KeysValues | None,
        source: AttendedSource,
        need_weights: bool = False,
        recording: Recording | None = None,
    ) -> tuple[Tensor, KeysValues, Tensor | None]:
        """Return the outputs at all target positions, or at new positions after those of ``past``.

        Args:
            x: (sentences * beams, streams, target, width).
            past: cached keys and values of stream 0, (sentences * beams, heads, past, head width).
            source: keys and values (sentences, heads, source, head width), mask (sentences, 1, 1, source).
            need_weights: whether to return the cross-attention weights.
            recording: recording to which the weights of all heads are appended: self-attention of stream 0
                and cross-attention of stream 1.

        Returns:
            outputs of the same shape as ``x``; the extended cache; and the cross-attention weights of stream
            1, which predicts the next token, (sentences * beams, target, source), averaged over heads, or
            None.
        """
        branch, cache = self.self_attention(x, past, None if recording is None else recording.decoder)
        x = self.sublayer_output(x, branch, self.self_attention_norm)
        rows, streams, target, width = x.shape
        sentences = source.memory.keys.shape[0]
        queries = x.reshape(sentences, rows // sentences * streams * target, width)
        return_weights = need_weights or recording is not None
        context, weights = self.cross_attention(queries, *source, return_weights)
        if recording is not None and weights is not None:
            recording.cross.append(weights.unflatten(2, (streams, target))[:, :, 1])
        x = self.sublayer_output(x, context.reshape(x.shape), self.cross_attention_norm)
        x = self.sublayer_output(x, self.feed_forward(x), self.feed_forward_norm)
        if weights is not None:
            weights = weights.mean(dim=1).reshape(rows, streams, target, -1)[:, 1]
        return x, cache, weights


class ProphetNet(Seq2Seq):
    """A Transformer with a decoder of ``1 + ngram`` streams.

    Stream 0 reads the target prefix. Stream s > 0 has a learned vector instead of a token at each position,
    and predicts the next token without reading the last ``s - 1`` tokens before it. Search uses only stream
    1; the later streams serve to train the model to plan ahead.

    Raises:
        SettingsError: the sizes of the vocabularies differ, but source, target and output share one table.
    """

    def __init__(
        self, settings: ProphetNetSettings, symbols: Symbols, source_vocabulary: int, target_vocabulary: int
    ) -> None:
        super().__init__()
        if source_vocabulary != target_vocabulary:
            raise SettingsError(
                f"model.family: prophetnet has one embedding table, but the vocabularies differ "
                f"({source_vocabulary} and {target_vocabulary} tokens); set text.joint: true"
            )
        width, rows = settings.width, settings.max_length + 1  # a predicting stream is one position further
        self.settings, self.symbols, self.vocabulary = settings, symbols, target_vocabulary
        self.max_source = self.max_target = settings.max_length
        self.embedding = nn.Embedding(target_vocabulary, width)
        self.streams = nn.Embedding(settings.ngram, width)
        self.source_positions = LearnedPositions(rows, width, settings.position_offset)
        self.target_positions = LearnedPositions(rows, width, settings.position_offset)
        self.source_norm, self.target_norm = make_norm(settings), make_norm(settings)
        self.encoder = nn.ModuleList(EncoderBlock(settings) for _ in range(settings.encoder_layers))
        self.decoder = nn.ModuleList(StreamBlock(settings) for _ in range(settings.decoder_layers))
        self.dropout = Dropout(settings.dropout)
        for table in (self.embedding.weight, self.streams.weight):
            nn.init.normal_(table, std=width**-0.5)

    @property
    def output(self) -> OutputLayer:
        return OutputLayer(self.embedding.weight, None)

    def encode_ids(self, source: Tensor, recording: Recording | None = None) -> tuple[Tensor, Tensor]:
        """Return the encodings (sentences, source, width) of padded ids (sentences, source), and the mask.

        The mask (sentences, 1, 1, source) is False on padding.
        """
        mask = (source != self.symbols.pad)[:, None, None, :]  # (sentences, 1, 1, source)
        x = self.embedding(source) + self.source_positions(0, source.shape[1])
        x = self.dropout(self.source_norm(x))
        for block in self.encoder:
            x = block(
                x, mask_or_none(mask), recorded_weights=None if recording is None else recording.encoder
            )
        return x, mask

    def features(self, source: Tensor, target_in: Tensor) -> Tensor:
        return self.future_features(source, target_in, 1)[:, 0]

    def future_features(
        self, source: Tensor, target_in: Tensor, ngram: int, recording: Recording | None = None
    ) -> Tensor:
        """Return the outputs (sentences, ngram, target, width) of the predicting streams.

        Output j, counted from 0, at position t depends on the target up to position t - j; all outputs at t
        predict the same token.
        """
        encodings, mask = self.encode_ids(source, recording)
        x = self._embed(target_in, 0, ngram)
        for block in self._blocks():
            # Padding follows the target, so no real token attends to it.
            attended_source = AttendedSource(block.cross_attention.project(encodings), mask_or_none(mask))
            x, _, _ = block(x, None, attended_source, recording=recording)
        return x[:, 1:]

    @torch.inference_mode()
    def record(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Attentions]:
        recording, filler = Recording(), self.symbols.pad
        self.future_features(
            pad(sources, filler, self.device), pad(targets, filler, self.device), 1, recording
        )
        return recording.sentences(list(map(len, sources)), list(map(len, targets)))

    def training_features(self, source: Tensor, target_in: Tensor) -> Sequence[tuple[Tensor, float]]:
        if not self.training:
            return super().training_features(source, target_in)
        streams = self.future_features(source, target_in, self.settings.ngram)
        return tuple(zip(streams.unbind(1), self.settings.loss_shares, strict=True))

    @torch.inference_mode()
    def encode(self, sources: Sequence[Sequence[int]]) -> TransformerMemory:
        encodings, mask = self.encode_ids(pad(sources, self.symbols.pad, self.device))
        layers = tuple(block.cross_attention.project(encodings) for block in self._blocks())
        return TransformerMemory(encodings, mask, layers)

    def start(self, memory: Memory, beams: int) -> TransformerState:
        assert isinstance(memory, TransformerMemory)
        return TransformerState(memory, beams, 0, None)

    @torch.inference_mode()
    def step(self, tokens: Ids, state: TransformerState, choice: Choice) -> Step:  # type: ignore[override]
        ids = torch.from_numpy(tokens).to(self.device)[:, None]  # (rows, 1)
        x, mask = self._embed(ids, state.position, 1), mask_or_none(state.memory.mask)
        caches: list[KeysValues] = []
        weights = None
        for index, block in enumerate(self._blocks()):
            past = cast(KeysValues, state.layers[index]) if state.layers else None
            need_weights = choice.attention and index == len(self.decoder) - 1
            x, cache, weights = block(x, past, AttendedSource(state.memory.layers[index], mask), need_weights)
            caches.append(cache)
        candidates, log_probs = choose(self.logits(x[:, 1, 0]), choice)
        attention = None if weights is None else weights[:, 0].float().cpu().numpy()  # (rows, source)
        next_state = replace(state, position=state.position + 1, layers=tuple(caches))
        return Step(candidates, log_probs, next_state, attention, requested_features(x[:, 1, 0], choice))

    def _blocks(self) -> list[StreamBlock]:
        return cast(list[StreamBlock], list(self.decoder))

    def _embed(self, ids: Tensor, start: int, ngram: int) -> Tensor:
        """Return the inputs of all streams, (rows, 1 + ngram, target, width), for ids (rows, target).

        The first id is at position ``start``.
        """
        rows, target = ids.shape
        reading = self.embedding(ids) + self.target_positions(start, target)  # (rows, target, width)
        next_positions = self.target_positions(start + 1, target)  # (target, width)
        predicting = self.streams.weight[:ngram, None] + next_positions  # (ngram, target, width)
        x = torch.cat([reading[:, None], predicting.expand(rows, -1, -1, -1)], dim=1)
        return self.dropout(self.target_norm(x))  # type: ignore[no-any-return]
