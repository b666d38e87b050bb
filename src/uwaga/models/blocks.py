"""The blocks of every Transformer (Vaswani 2017 §3.1): sublayers, each with a residual and a norm."""

from __future__ import annotations

from torch import Tensor, nn

from uwaga.models.layers.average import AverageAttention, AverageState, running_mean
from uwaga.models.layers.dropout import Dropout
from uwaga.models.layers.feedforward import FeedForward
from uwaga.models.layers.multihead import KeysValues, MultiHeadAttention, extend
from uwaga.models.layers.ssru import Ssru, SsruState
from uwaga.models.recording import Recording
from uwaga.settings import BlockSettings, TransformerSettings

LayerState = KeysValues | SsruState | AverageState
"""What a decoder layer keeps of earlier positions; every tensor of it has the rows as its first axis."""


class ResidualBlock(nn.Module):
    """Where the norms of a block stand: ``x + f(norm(x))`` (pre) or ``norm(x + f(x))`` (post)."""

    def __init__(self, settings: BlockSettings) -> None:
        super().__init__()
        self.pre = settings.norm == "pre"
        self.dropout = Dropout(settings.dropout)

    def before(self, x: Tensor, norm: nn.Module) -> Tensor:
        """What a sublayer reads of the residual stream (rows, positions, width)."""
        out: Tensor = norm(x) if self.pre else x
        return out

    def after(self, x: Tensor, branch: Tensor, norm: nn.Module) -> Tensor:
        """The residual stream with a sublayer's output added, both (rows, positions, width)."""
        x = x + self.dropout(branch)
        out: Tensor = x if self.pre else norm(x)
        return out


class EncoderBlock(ResidualBlock):
    """Self-attention and feed-forward, each with a residual and a layer norm."""

    def __init__(self, settings: BlockSettings) -> None:
        super().__init__(settings)
        self.attention = _attention(settings, settings.heads)
        self.attention_norm = norm(settings)
        self.feed_forward = _feed_forward(settings, settings.feed_forward)
        self.feed_forward_norm = norm(settings)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None,
        bias: Tensor | None = None,
        seen: list[Tensor] | None = None,
    ) -> Tensor:
        """(sentences, source, width) to the same; ``mask`` (sentences, 1, 1, source), ``bias`` of scores.

        ``seen`` as in :meth:`extended`.
        """
        return self.extended(x, None, mask, bias, seen)[0]

    def extended(
        self,
        x: Tensor,
        past: KeysValues | None,
        mask: Tensor | None,
        bias: Tensor | None = None,
        seen: list[Tensor] | None = None,
    ) -> tuple[Tensor, KeysValues]:
        """The block over new positions behind cached ones, as a decoder-only model runs it (M18).

        Args:
            x: (rows, new, width).
            past: cached keys and values, (rows, heads, past, head width).
            mask: broadcasts to (rows, heads, new, past + new); True where a position may look.
            bias: of the scores, (heads, new, past + new), or None.
            seen: where the weights (rows, heads, new, past + new) are put behind those of lower layers.

        Returns:
            x of the same shape and the longer cache.
        """
        inner = self.before(x, self.attention_norm)
        cache = extend(past, self.attention.project(inner))
        context, weights = self.attention(inner, cache, mask, seen is not None, bias)
        if seen is not None:
            seen.append(weights)
        x = self.after(x, context, self.attention_norm)
        branch = self.feed_forward(self.before(x, self.feed_forward_norm))
        return self.after(x, branch, self.feed_forward_norm), cache


class DecoderBlock(ResidualBlock):
    """Causal self-attention, cross-attention and feed-forward, each with a residual and a layer norm.

    In place of self-attention there may be an :class:`Ssru` (M26) or :class:`AverageAttention` (M35).
    """

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__(settings)
        heads, kind = settings.decoder_heads or settings.heads, settings.self_attention
        self.self_attention = _attention(settings, heads) if kind == "attention" else None
        self.ssru = Ssru(settings.width) if kind == "ssru" else None
        self.aan = _average(settings) if kind == "aan" else None
        self.self_attention_norm = norm(settings)
        self.cross_attention = _attention(settings, heads)
        self.cross_attention_norm = norm(settings)
        self.feed_forward = _feed_forward(settings, settings.decoder_feed_forward or settings.feed_forward)
        self.feed_forward_norm = norm(settings)

    def forward(
        self,
        x: Tensor,
        past: LayerState | None,
        causal: Tensor | None,
        memory: KeysValues,
        memory_mask: Tensor | None,
        need_weights: bool = False,
        bias: Tensor | None = None,
        seen: Recording | None = None,
    ) -> tuple[Tensor, LayerState, Tensor | None]:
        """One block over all target positions, or over new ones behind earlier ones.

        Args:
            x: (sentences * beams, target, width).
            past: what it kept of the earlier positions; keys and values of self-attention are
                (sentences * beams, heads, past, head width).
            causal: (target, past + target) bool, or None where one new position sees all before it.
            memory: (sentences, heads, source, head width).
            memory_mask: (sentences, 1, 1, source) bool.
            need_weights: return the cross-attention weights.
            bias: of the self-attention's scores, (heads, target, past + target), or None.
            seen: where the weights of both attentions are put, each head's own.

        Returns:
            x of the same shape, what it keeps, and weights (sentences * beams, target, source),
            the mean over heads, or None.
        """
        branch, kept = self._earlier(x, past, causal, bias, seen)
        x = self.after(x, branch, self.self_attention_norm)

        inner = self.before(x, self.cross_attention_norm)
        rows, target, width = x.shape
        sentences = memory.keys.shape[0]
        # The beams of a sentence stand side by side as its queries, so its memory is never copied.
        side_by_side = inner.reshape(sentences, rows // sentences * target, width)
        looking = need_weights or seen is not None
        context, weights = self.cross_attention(side_by_side, memory, memory_mask, looking)
        if seen is not None:
            seen.cross.append(weights)
        x = self.after(x, context.reshape(rows, target, width), self.cross_attention_norm)

        branch = self.feed_forward(self.before(x, self.feed_forward_norm))
        x = self.after(x, branch, self.feed_forward_norm)
        if weights is not None:
            weights = weights.mean(dim=1).reshape(rows, target, -1)  # heads averaged
        return x, kept, weights

    def _earlier(
        self,
        x: Tensor,
        past: LayerState | None,
        causal: Tensor | None,
        bias: Tensor | None,
        seen: Recording | None,
    ) -> tuple[Tensor, LayerState]:
        """What a position sees of itself and the earlier ones (rows, target, width), and what is kept."""
        if self.aan is not None:
            assert past is None or isinstance(past, AverageState)
            mean, total = running_mean(x, past)
            return self.aan(x, self.before(mean, self.self_attention_norm)), total
        inner = self.before(x, self.self_attention_norm)
        if self.ssru is not None:
            assert past is None or isinstance(past, SsruState)
            return self.ssru(inner, past)  # type: ignore[no-any-return]
        assert self.self_attention is not None
        assert past is None or isinstance(past, KeysValues)
        cache = extend(past, self.self_attention.project(inner))
        context, weights = self.self_attention(inner, cache, causal, seen is not None, bias)
        if seen is not None:
            seen.decoder.append(weights)
        return context, cache


def norm(settings: BlockSettings) -> nn.Module:
    """The norm of these settings: layer norm (Ba 2016), or RMS norm (Zhang 2019), which has no bias."""
    kind = nn.LayerNorm if settings.norm_kind == "layer" else nn.RMSNorm
    return kind(settings.width, eps=settings.norm_epsilon)


def _attention(settings: BlockSettings, heads: int) -> MultiHeadAttention:
    return MultiHeadAttention(
        settings.width,
        heads,
        settings.attention_dropout,
        head_width=settings.head_width,
        bias=settings.attention_bias,
        scaled=settings.attention_scale,
    )


def _feed_forward(settings: BlockSettings, inner: int) -> FeedForward:
    return FeedForward(
        settings.width,
        inner,
        settings.activation,
        settings.gated,
        settings.activation_dropout,
        settings.feed_forward_bias,
    )


def _average(settings: TransformerSettings) -> AverageAttention:
    return AverageAttention(
        settings.width,
        settings.aan_sizes,
        settings.aan_layers - 1,
        settings.aan_activation,
        settings.aan_gate,
        settings.activation_dropout,
    )
