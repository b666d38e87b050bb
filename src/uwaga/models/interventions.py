"""Interventions in a Transformer in torch: :mod:`uwaga.engine.interventions` says what they change."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from uwaga.decoder import Choice, Ids, Step
from uwaga.engine.interventions import Heads, Intervention
from uwaga.errors import SettingsError
from uwaga.models.blocks import DecoderBlock, EncoderBlock
from uwaga.models.layers.multihead import EditedAttention, MultiHeadAttention
from uwaga.models.layers.positions import RelativePositions
from uwaga.models.transformer import Transformer, TransformerState


class Intervened(Transformer):
    """A Transformer with edited attention, made by :func:`with_interventions`."""

    first: int | None

    def features(self, source: Tensor, target_in: Tensor) -> Tensor:
        self.first = None
        return super().features(source, target_in)

    def step(self, tokens: Ids, state: TransformerState, choice: Choice) -> Step:  # type: ignore[override]
        self.first = state.position
        try:
            return super().step(tokens, state, choice)
        finally:
            self.first = None

    def rows(self, count: int) -> Tensor:
        """Return (count,) the target positions of the queries: a single one in a step of search."""
        if self.first is None:
            return torch.arange(count)
        return torch.full((count,), self.first)


def with_interventions(model: Transformer, interventions: Sequence[Intervention]) -> Transformer:
    """Return a copy of a model with interventions, which shares the weights; the model is not changed.

    The edits follow each other in their order. Several threads must not use it at the same time.

    Raises:
        SettingsError: a layer, a head or a kind of attention is not there, or positions are relative.
    """
    shared = {id(each): each for each in chain(model.parameters(), model.buffers())}
    copied = copy.deepcopy(model, shared)
    for name in [name for name in vars(copied) if callable(getattr(type(copied), name, None))]:
        delattr(copied, name)  # wrapped methods would call the given model
    copied.__class__ = Intervened
    assert isinstance(copied, Intervened)
    copied.first = None
    for each in interventions:
        if isinstance(each, Heads):
            for attention in _chosen(copied, each):
                attention.edits.append(_Edit(each, copied))
                if each.scale is not None:
                    attention.scales.append((_slice(each), each.scale))
        else:
            name = f"{each.side}_positions"
            table = getattr(copied, name)
            each.check(isinstance(table, RelativePositions), model.settings.max_length)
            setattr(copied, name, _Replaced(table, each.places))
    return copied.eval()


class _Replaced(nn.Module):
    """A table of positions with replaced indices."""

    def __init__(self, table: nn.Module, places: tuple[int, ...]) -> None:
        super().__init__()
        self.table, self.places = table, places

    def forward(self, start: int, length: int) -> Tensor:
        wanted = [self.places[at] if at < len(self.places) else at for at in range(start, start + length)]
        rows = [self.table(at, 1) for at in wanted]
        return torch.cat(rows, dim=-2)


class _Edit:
    """One intervention on one layer's attention."""

    def __init__(self, heads: Heads, model: Intervened) -> None:
        self.heads = heads
        self._rows = model.rows  # not the model: an edit belongs to a layer of it

    def __call__(self, weights: Tensor, mask: Tensor | None) -> Tensor:
        chosen = _slice(self.heads)
        edited = weights.clone()  # (batch, heads, target, source)
        alone = isinstance(self.heads.weights, str) and self.heads.weights == "alone"
        if alone:
            others = [head for head in range(weights.shape[1]) if head != chosen.start]
            edited[:, others] = 0.0
        part = edited[:, chosen]
        allowed = torch.ones_like(weights, dtype=torch.bool) if mask is None else mask.expand_as(weights)
        allowed = allowed[:, chosen]
        rows = self._rows(weights.shape[2])
        if self.heads.kind == "encoder":
            rows = torch.arange(weights.shape[2])
        if self.heads.weights is not None and not alone:
            part = self._replaced(part, allowed, rows)
        if self.heads.mask is not None:
            part = part * self._of_sentence(self.heads.mask, part, rows).to(part)
            part = part / part.sum(-1, keepdim=True).clamp_min(torch.finfo(part.dtype).tiny)
        edited[:, chosen] = part
        return edited

    def _replaced(self, part: Tensor, allowed: Tensor, rows: Tensor) -> Tensor:
        given = self.heads.weights
        if isinstance(given, np.ndarray):
            return self._of_sentence(given, part, rows).to(part).expand_as(part)
        if given == "silent":
            return torch.zeros_like(part)
        if given == "uniform":
            return allowed / allowed.sum(-1, keepdim=True).clamp_min(1).to(part)
        last = allowed.sum(-1, keepdim=True) - 1  # (batch, heads, target, 1), of the last that may be seen
        places = torch.minimum(rows.to(last.device)[:, None].expand_as(last), last).clamp_min(0)
        return torch.zeros_like(part).scatter_(-1, places, 1.0)

    def _of_sentence(self, table: NDArray[Any], part: Tensor, rows: Tensor) -> Tensor:
        """Return the requested rows (..., target, source) of a table of one sentence."""
        width = part.shape[-1]
        growing = self.heads.kind == "decoder"
        if table.shape[-2] <= int(rows.max()) or (
            table.shape[-1] < width if growing else table.shape[-1] != width
        ):
            raise SettingsError(
                f"a table of shape {table.shape} for {self.heads.kind} attention does not fit "
                f"{int(rows.max()) + 1} rows and {width} columns; it is of one sentence with its end"
            )
        return torch.from_numpy(np.ascontiguousarray(table[..., rows.numpy(), :width])).to(part.device)


def _slice(heads: Heads) -> slice:
    return slice(None) if heads.head is None else slice(heads.head - 1, heads.head)


def _chosen(model: Transformer, heads: Heads) -> Iterator[EditedAttention]:
    """Return the attention layers of an intervention, prepared for edits."""
    settings, encoder = model.settings, heads.kind == "encoder"
    blocks = list(model.encoder if encoder else model.decoder)
    heads.check(len(blocks), settings.heads if encoder else settings.decoder_heads or settings.heads)
    name = {"encoder": "attention", "decoder": "self_attention", "cross": "cross_attention"}[heads.kind]
    for block in blocks if heads.layer is None else [blocks[heads.layer - 1]]:
        assert isinstance(block, EncoderBlock | DecoderBlock)
        attention = getattr(block, name)
        if not isinstance(attention, MultiHeadAttention):
            raise SettingsError("the model's decoder has no self-attention, but another layer in its place")
        if not isinstance(attention, EditedAttention):
            attention = EditedAttention(attention)
            setattr(block, name, attention)
        yield attention


class GivenVectors(nn.Module):
    """An embedding layer that returns given ``vectors`` (sentences, source, width)."""

    def __init__(self, vectors: Tensor) -> None:
        super().__init__()
        self.vectors = vectors

    def forward(self, ids: Tensor) -> Tensor:
        """Return the vectors, regardless of the ids (sentences, source)."""
        return self.vectors


def with_source_vectors(model: Transformer, vectors: Tensor) -> Transformer:
    """Return a copy of a model that reads ``vectors`` (sentences, source, width) instead of embeddings."""
    copied = with_interventions(model, [])
    copied.source_embedding = GivenVectors(vectors)  # type: ignore[assignment]  # of the same face
    return copied
