"""Multi-head attention (M10), with groups of heads that share keys and values (M38).

Unusual: keys and values are projected by :meth:`MultiHeadAttention.project`, before and apart from the
attention, so that those of a source are computed once, and those of a target are a cache that grows. This
file does not depend on what is attended to, in which block, or which positions are visible: masks, biases and
rotations are arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from uwaga.models.layers.attention import Adjustments, attend
from uwaga.models.layers.rotary import Rotation, rotate
from uwaga.models.layers.scores import AttentionScore, CappedScore, DotScore, ScaledDotScore


class KeysValues(NamedTuple):
    """Projected keys and values, each (batch, groups, source, head width), computed once (M21).

    There are as many groups as heads, except in grouped-query attention.
    """

    keys: Tensor
    values: Tensor


WeightEdit = Callable[[Tensor, Tensor | None], Tensor]
"""A function that maps attention weights (batch, heads, target, source) and the mask to new weights."""


class AttendedSource(NamedTuple):
    """Keys and values to attend to, and the mask of their positions.

    ``mask`` is broadcast to (batch, heads, target, source), and True where a query may attend; None if no
    position is masked.
    """

    memory: KeysValues
    mask: Tensor | None = None


@dataclass(frozen=True)
class HeadOptions:
    """Options in which the attention heads of later models differ from those of Vaswani 2017.

    Attributes:
        width: width of a head; by default the width of the inputs divided by the number of heads.
        groups: number of key and value heads, each for ``heads / groups`` successive query heads (M38;
            Ainslie 2023 §2.2); 1 is multi-query attention (Shazeer 2019). By default, as many as query heads.
        output_bias: whether the output projection has a bias; by default, if the other projections do.
        scaled: whether to divide the scores by the square root of the head width.
        scale: factor of the scores, which replaces the inverse of this square root.
        cap: scores become ``cap tanh(score / cap)`` (M41).
        norm: RMS norm of each head's queries and keys: none, or before or after their rotation (M41).
        epsilon: epsilon of this norm.
    """

    width: int | None = None
    groups: int | None = None
    output_bias: bool | None = None
    scaled: bool = True
    scale: float | None = None
    cap: float | None = None
    norm: Literal["none", "before", "after"] = "none"
    epsilon: float = 1e-5


VASWANI_OPTIONS = HeadOptions()


class MultiHeadAttention(nn.Module):
    """Multi-head attention (Vaswani 2017 §3.2.2).

    ``head_i = attention(Q W_i^Q, K W_i^K, V W_i^V)``; the concatenated heads are multiplied by ``W^O``.

    Args:
        width: width of the inputs and outputs.
        heads: number of query heads.
        dropout: dropout probability of the attention weights in training.
        bias: whether the projections have biases.
        options: options of the heads; by default, those of Vaswani 2017.

    Attributes:
        edits: functions that change the attention weights after the softmax, in order; none by default.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        options: HeadOptions = VASWANI_OPTIONS,
    ) -> None:
        super().__init__()
        head_width, groups = options.width or width // heads, options.groups or heads
        inner_width = heads * head_width
        self.heads, self.groups, self.dropout = heads, groups, dropout
        self.edits: list[WeightEdit] = []
        self.query = nn.Linear(width, inner_width, bias=bias)
        self.key_value = nn.Linear(width, 2 * groups * head_width, bias=bias)
        self.output = nn.Linear(
            inner_width, width, bias=bias if options.output_bias is None else options.output_bias
        )
        default_scale = head_width**-0.5 if options.scaled else 1.0
        self.scale = default_scale if options.scale is None else options.scale
        # Multiplied into the query, so that fused kernels of the scaled dot product apply the scale.
        self.factor = self.scale / default_scale
        score: AttentionScore = (ScaledDotScore if options.scaled else DotScore)(head_width, head_width)
        self.score = score if options.cap is None else CappedScore(score, options.cap)
        self.norm_position = options.norm
        has_norm = options.norm != "none"
        self.query_norm = nn.RMSNorm(head_width, eps=options.epsilon) if has_norm else None
        self.key_norm = nn.RMSNorm(head_width, eps=options.epsilon) if has_norm else None
        self.reset()

    def reset(self) -> None:
        """Initialise each projection with Xavier-uniform weights and zero biases."""
        with torch.no_grad():
            key, value = self.key_value.weight.chunk(2)
            for weight in (self.query.weight, key, value, self.output.weight):
                nn.init.xavier_uniform_(weight)
        for layer in (self.query, self.key_value, self.output):
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)

    def project(self, source: Tensor, rotation: Rotation | None = None) -> KeysValues:
        """Return the keys and values of vectors (batch, source, width); keys are rotated by ``rotation``."""
        batch, length, _ = source.shape
        keys_and_values = self.key_value(source).view(batch, length, 2, self.groups, -1)
        keys, values = keys_and_values.permute(2, 0, 3, 1, 4).unbind(0)  # (batch, groups, source, head width)
        return KeysValues(self._normalise_and_rotate(keys, self.key_norm, rotation), values)

    def queries(self, x: Tensor, rotation: Rotation | None = None) -> Tensor:
        """Return the queries (batch, heads, target, head width) of vectors (batch, target, width)."""
        batch, target, _ = x.shape
        query = self.query(x).view(batch, target, self.heads, -1).transpose(1, 2)
        query = self._normalise_and_rotate(query, self.query_norm, rotation)
        return query if self.factor == 1.0 else query * self.factor

    def expand_groups(self, memory: KeysValues) -> KeysValues:
        """Return keys and values of all heads, by repeating those of each group."""
        group_size = self.heads // self.groups
        if group_size == 1:
            return memory
        return KeysValues(*(part.repeat_interleave(group_size, dim=1) for part in memory))

    def _normalise_and_rotate(self, x: Tensor, norm: nn.Module | None, rotation: Rotation | None) -> Tensor:
        """Return queries or keys (batch, heads, positions, head width), normalised and rotated."""
        if norm is not None and self.norm_position == "before":
            x = norm(x)
        if rotation is not None:
            x = rotate(x, rotation)
        if norm is not None and self.norm_position == "after":
            x = norm(x)
        return x

    def forward(
        self,
        x: Tensor,
        memory: KeysValues,
        mask: Tensor | None = None,
        need_weights: bool = False,
        bias: Tensor | None = None,
        rotation: Rotation | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the outputs of attention from ``x`` to ``memory``, and the weights if requested.

        Args:
            x: (batch, target, width) vectors from which the queries are projected.
            memory: the result of :meth:`project`.
            mask: bool, broadcasts to (batch, heads, target, source); True where a query may attend.
            need_weights: whether to return the weights.
            bias: tensor added to the scores; it is broadcast to (batch, heads, target, source).
            rotation: rotation of the positions of ``x``.

        Returns:
            outputs (batch, target, width), and weights (batch, heads, target, source) or None.
        """
        batch, target, _ = x.shape
        keys, values = self.expand_groups(memory)
        context, weights = attend(
            self.queries(x, rotation),
            self.score.prepare(keys),
            values,
            self.score,
            mask,
            need_weights,
            Adjustments(
                bias,
                partial(_apply_edits, self.edits, mask) if self.edits else None,
                self.dropout if self.training else 0.0,
            ),
        )  # (batch, heads, target, head width)
        joined_heads = context.transpose(1, 2).reshape(batch, target, -1)
        out: Tensor = self.output(joined_heads)
        return out, weights if need_weights else None


def _apply_edits(edits: Sequence[WeightEdit], mask: Tensor | None, weights: Tensor) -> Tensor:
    for edit in edits:
        weights = edit(weights, mask)
    return weights


def extend(past: KeysValues | None, new_memory: KeysValues) -> KeysValues:
    """Return the keys and values of ``past`` with those of new positions appended."""
    if past is None:
        return new_memory
    return KeysValues(
        torch.cat([past.keys, new_memory.keys], dim=2), torch.cat([past.values, new_memory.values], dim=2)
    )
