"""Transformer blocks (Vaswani 2017 §3.1): sublayers, each with a residual connection and a norm.

Unusual: in cross-attention, the beams of a sentence are its queries, so that beams share the keys and values
of the source without copies; a block takes the state of earlier positions and returns the next one. This file
does not depend on embeddings, on the number of layers, or on whether a call reads a whole target or a single
token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from uwaga.models.layers.average import AverageAttention, AverageState, running_mean
from uwaga.models.layers.dropout import Dropout
from uwaga.models.layers.feedforward import FeedForward
from uwaga.models.layers.multihead import AttendedSource, HeadOptions, KeysValues, MultiHeadAttention, extend
from uwaga.models.layers.rotary import Rotation
from uwaga.models.layers.ssru import Ssru, SsruState
from uwaga.results.attention import Attentions, Floats
from uwaga.settings import BlockSettings, DecoderOnlySettings, TransformerSettings


@dataclass(frozen=True)
class Recording:
    """Lists to which a forward pass appends the attention weights of each layer, the lowest layer first.

    Each tensor of weights is (sentences, heads, query, key).
    """

    encoder: list[Tensor] = field(default_factory=list)
    decoder: list[Tensor] = field(default_factory=list)
    cross: list[Tensor] = field(default_factory=list)

    def sentences(self, source_lengths: Sequence[int], target_lengths: Sequence[int]) -> list[Attentions]:
        """Return the attention matrices of each sentence, without padding.

        Args:
            source_lengths: number of tokens of each source.
            target_lengths: number of decoder steps of each target.
        """
        encoder, decoder, cross = map(_stack_layers, (self.encoder, self.decoder, self.cross))
        return [
            Attentions(
                _crop(encoder, row, source, source),
                _crop(decoder, row, target, target),
                _crop(cross, row, target, source),
            )
            for row, (source, target) in enumerate(zip(source_lengths, target_lengths, strict=True))
        ]


def _stack_layers(layers: Sequence[Tensor]) -> Floats | None:
    """Return the weights in one array (layers, sentences, heads, query, key); None if there are none."""
    return torch.stack(list(layers)).float().cpu().numpy() if layers else None


def _crop(table: Floats | None, row: int, queries: int, keys: int) -> Floats | None:
    return None if table is None else np.ascontiguousarray(table[:, row, :, :queries, :keys])


LayerState = KeysValues | SsruState | AverageState
"""State of a decoder layer after the earlier positions; the first axis of each tensor is ``rows``."""


class ResidualBlock(nn.Module):
    """Base class of blocks with pre-norm, ``x + f(norm(x))``, or post-norm, ``norm(x + f(x))``."""

    def __init__(self, settings: BlockSettings) -> None:
        super().__init__()
        self.is_pre_norm = settings.norm != "post"
        self.dropout = Dropout(settings.dropout)

    def sublayer_input(self, x: Tensor, norm: nn.Module) -> Tensor:
        """Return the input of a sublayer, given the residual stream (rows, positions, width)."""
        out: Tensor = norm(x) if self.is_pre_norm else x
        return out

    def sublayer_output(self, x: Tensor, branch: Tensor, norm: nn.Module) -> Tensor:
        """Return the residual stream (rows, positions, width) after adding the output of a sublayer."""
        x = x + self.dropout(branch)
        out: Tensor = x if self.is_pre_norm else norm(x)
        return out


class EncoderBlock(ResidualBlock):
    """An encoder block: self-attention and feed-forward, each with a residual connection and a norm."""

    def __init__(self, settings: BlockSettings) -> None:
        super().__init__(settings)
        self.attention = _make_attention(settings, settings.heads)
        self.attention_norm = make_norm(settings)
        self.feed_forward = _make_feed_forward(settings, settings.feed_forward)
        self.feed_forward_norm = make_norm(settings)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None,
        bias: Tensor | None = None,
        recorded_weights: list[Tensor] | None = None,
    ) -> Tensor:
        """Return the outputs of the block, (sentences, source, width).

        Args:
            x: (sentences, source, width).
            mask: (sentences, 1, 1, source), False on padding; None without padding.
            bias: bias of the scores, (heads, source, source), or None.
            recorded_weights: list to which the weights (sentences, heads, source, source) are appended.
        """
        attention_input = self.sublayer_input(x, self.attention_norm)
        projected_input = self.attention.project(attention_input)
        context, weights = self.attention(
            attention_input, projected_input, mask, recorded_weights is not None, bias
        )
        if recorded_weights is not None:
            recorded_weights.append(weights)
        x = self.sublayer_output(x, context, self.attention_norm)
        branch = self.feed_forward(self.sublayer_input(x, self.feed_forward_norm))
        return self.sublayer_output(x, branch, self.feed_forward_norm)


class CausalBlock(ResidualBlock):
    """A block of a decoder-only model: self-attention and feed-forward (M18).

    ``norm: both`` normalises each sublayer's input and output: ``x + n2(f(n1(x)))`` (Gemma 2 report §2).
    """

    def __init__(self, settings: DecoderOnlySettings) -> None:
        super().__init__(settings)
        self.attention = MultiHeadAttention(
            settings.width,
            settings.heads,
            settings.attention_dropout,
            settings.attention_bias,
            HeadOptions(
                width=settings.head_width,
                groups=settings.key_value_heads,
                output_bias=settings.output_projection_bias,
                scaled=settings.attention_scale,
                scale=settings.score_scale,
                cap=settings.score_cap,
                norm=settings.query_key_norm,
                epsilon=settings.norm_epsilon,
            ),
        )
        self.attention_norm = make_norm(settings)
        self.feed_forward = _make_feed_forward(settings, settings.feed_forward)
        self.feed_forward_norm = make_norm(settings)
        norm_outputs = settings.norm == "both"
        self.attention_after_norm = make_norm(settings) if norm_outputs else nn.Identity()
        self.feed_forward_after_norm = make_norm(settings) if norm_outputs else nn.Identity()

    def forward(
        self,
        x: Tensor,
        past: KeysValues | None,
        mask: Tensor | None,
        rotation: Rotation | None = None,
        recorded_weights: list[Tensor] | None = None,
    ) -> tuple[Tensor, KeysValues]:
        """Return the outputs at new positions after cached positions, and the extended cache.

        Args:
            x: (rows, new, width).
            past: cached keys and values, (rows, groups, past, head width).
            mask: broadcasts to (rows, heads, new, past + new); True where a position may attend.
            rotation: rotation of the new positions.
            recorded_weights: list to which the weights (rows, heads, new, past + new) are appended.

        Returns:
            outputs of the same shape as ``x``, and the extended cache.
        """
        attention_input = self.sublayer_input(x, self.attention_norm)
        cache = extend(past, self.attention.project(attention_input, rotation))
        context, weights = self.attention(
            attention_input, cache, mask, recorded_weights is not None, rotation=rotation
        )
        if recorded_weights is not None:
            recorded_weights.append(weights)
        x = self.sublayer_output(x, self.attention_after_norm(context), self.attention_norm)
        branch = self.feed_forward(self.sublayer_input(x, self.feed_forward_norm))
        return self.sublayer_output(x, self.feed_forward_after_norm(branch), self.feed_forward_norm), cache


class DecoderBlock(ResidualBlock):
    """A decoder block: causal self-attention, cross-attention and feed-forward.

    Each sublayer has a residual connection and a norm. Self-attention may be replaced by an :class:`Ssru`
    (M26) or :class:`AverageAttention` (M35).
    """

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__(settings)
        heads, kind = settings.decoder_heads or settings.heads, settings.self_attention
        self.self_attention = _make_attention(settings, heads) if kind == "attention" else None
        self.ssru = Ssru(settings.width) if kind == "ssru" else None
        self.aan = _make_average_attention(settings) if kind == "aan" else None
        self.self_attention_norm = make_norm(settings)
        self.cross_attention = _make_attention(settings, heads)
        self.cross_attention_norm = make_norm(settings)
        self.feed_forward = _make_feed_forward(
            settings, settings.decoder_feed_forward or settings.feed_forward
        )
        self.feed_forward_norm = make_norm(settings)

    def forward(
        self,
        x: Tensor,
        past: LayerState | None,
        causal: Tensor | None,
        source: AttendedSource,
        need_weights: bool = False,
        bias: Tensor | None = None,
        recording: Recording | None = None,
    ) -> tuple[Tensor, LayerState, Tensor | None]:
        """Return the outputs at all target positions, or at new positions after those of ``past``.

        Args:
            x: (sentences * beams, target, width).
            past: state of the earlier positions; keys and values of self-attention are
                (sentences * beams, heads, past, head width).
            causal: bool, broadcasts to (sentences * beams, heads, target, past + target); True where a
                position may attend; None for one new position, which attends to itself and all earlier ones.
            source: keys and values (sentences, heads, source, head width), mask (sentences, 1, 1, source).
            need_weights: whether to return the cross-attention weights.
            bias: bias of the self-attention scores, which broadcasts like ``causal``, or None.
            recording: recording to which the weights of self-attention and cross-attention are appended.

        Returns:
            outputs of the same shape as ``x``; the new state; and cross-attention weights (sentences, heads,
            beams * target, source) or None.
        """
        branch, state = self._attend_to_target(x, past, causal, bias, recording)
        x = self.sublayer_output(x, branch, self.self_attention_norm)

        attention_input = self.sublayer_input(x, self.cross_attention_norm)
        rows, target, width = x.shape
        sentences = source.memory.keys.shape[0]
        # The beams of a sentence become its queries, so its memory is not copied.
        queries = attention_input.reshape(sentences, rows // sentences * target, width)
        return_weights = need_weights or recording is not None
        context, weights = self.cross_attention(queries, *source, return_weights)
        if recording is not None:
            recording.cross.append(weights)
        x = self.sublayer_output(x, context.reshape(rows, target, width), self.cross_attention_norm)

        branch = self.feed_forward(self.sublayer_input(x, self.feed_forward_norm))
        x = self.sublayer_output(x, branch, self.feed_forward_norm)
        return x, state, weights

    def _attend_to_target(
        self,
        x: Tensor,
        past: LayerState | None,
        causal: Tensor | None,
        bias: Tensor | None,
        recording: Recording | None,
    ) -> tuple[Tensor, LayerState]:
        """Return the output of self-attention or its replacement (rows, target, width) and the new state."""
        if self.aan is not None:
            assert past is None or isinstance(past, AverageState)
            mean, total = running_mean(x, past)
            return self.aan(x, self.sublayer_input(mean, self.self_attention_norm)), total
        attention_input = self.sublayer_input(x, self.self_attention_norm)
        if self.ssru is not None:
            assert past is None or isinstance(past, SsruState)
            return self.ssru(attention_input, past)  # type: ignore[no-any-return]
        assert self.self_attention is not None
        assert past is None or isinstance(past, KeysValues)
        cache = extend(past, self.self_attention.project(attention_input))
        context, weights = self.self_attention(attention_input, cache, causal, recording is not None, bias)
        if recording is not None:
            recording.decoder.append(weights)
        return context, cache


def make_norm(settings: BlockSettings) -> nn.Module:
    """Return a layer norm (Ba 2016) or an RMS norm without bias (Zhang 2019), as configured."""
    norm_class = nn.LayerNorm if settings.norm_kind == "layer" else nn.RMSNorm
    return norm_class(settings.width, eps=settings.norm_epsilon)


def _make_attention(settings: BlockSettings, heads: int) -> MultiHeadAttention:
    return MultiHeadAttention(
        settings.width,
        heads,
        settings.attention_dropout,
        settings.attention_bias,
        HeadOptions(settings.head_width, scaled=settings.attention_scale),
    )


def _make_feed_forward(settings: BlockSettings, inner_width: int) -> FeedForward:
    return FeedForward(
        settings.width,
        inner_width,
        settings.activation,
        settings.gated,
        settings.activation_dropout,
        settings.feed_forward_bias,
    )


def _make_average_attention(settings: TransformerSettings) -> AverageAttention:
    return AverageAttention(
        settings.width,
        settings.aan_sizes,
        settings.aan_layers - 1,
        settings.aan_activation,
        settings.aan_gate,
        settings.activation_dropout,
    )
