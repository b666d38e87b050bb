"""Interventions in models in torch: :mod:`uwaga.engine.interventions` says what they change."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from uwaga.decoder import Choice, Ids, Step
from uwaga.engine.interventions import Heads, Intervention, Positions
from uwaga.errors import SettingsError
from uwaga.models.blocks import CausalBlock, DecoderBlock, EncoderBlock
from uwaga.models.decoder_only import NOWHERE, DecoderOnly
from uwaga.models.layers.multihead import EditedAttention, KeysValues, MultiHeadAttention
from uwaga.models.layers.positions import LearnedPositions, RelativePositions
from uwaga.models.layers.rotary import RotaryPositions, Rotation
from uwaga.models.transformer import Transformer, TransformerState


class Intervened(Transformer):
    """A Transformer with edited attention, made by :func:`with_interventions`."""

    first: int | None
    verify = None

    def features(self, source: Tensor, target_in: Tensor) -> Tensor:
        self.first = None
        return super().features(source, target_in)

    def step(self, tokens: Ids, state: TransformerState, choice: Choice) -> Step:  # type: ignore[override]
        self.first = state.position
        try:
            return super().step(tokens, state, choice)
        finally:
            self.first = None

    def axes(self, kind: str, target: int, source: int) -> tuple[Tensor, Tensor]:
        """Return the positions of the queries (1, target) and of the keys (1, source) of an attention.

        In a step of search, all queries of the decoder have one position.
        """
        rows = torch.arange(target)
        if self.first is not None and kind != "encoder":
            rows = torch.full((target,), self.first)
        return rows[None], torch.arange(source)[None]


class IntervenedDecoder(DecoderOnly):
    """A decoder-only model with edited attention, made by :func:`with_interventions`."""

    at: tuple[Tensor, Tensor]
    verify = None

    def _run(
        self,
        tokens: Tensor,
        positions: Tensor,
        past: tuple[KeysValues, ...] | None,
        keys: Tensor,
        seen: list[Tensor] | None = None,
    ) -> tuple[Tensor, tuple[KeysValues, ...]]:
        self.at = positions, keys
        return super()._run(tokens, positions, past, keys, seen)

    def axes(self, kind: str, target: int, source: int) -> tuple[Tensor, Tensor]:
        """Return the positions of the tokens of this call (rows or 1, target), and of all (rows or 1,
        source).
        """
        return self.at


Model = TypeVar("Model", Transformer, DecoderOnly)


def with_interventions(model: Model, interventions: Sequence[Intervention]) -> Model:
    """Return a copy of a model with interventions, which shares the weights; the model is not changed.

    The edits follow each other in their order. Several threads must not use it at the same time.
    """
    shared = {id(each): each for each in chain(model.parameters(), model.buffers())}
    copied = copy.deepcopy(model, shared)
    for name in [name for name in vars(copied) if callable(getattr(type(copied), name, None))]:
        delattr(copied, name)  # wrapped methods would call the given model
    if isinstance(copied, Transformer):
        copied.__class__ = Intervened
        cast(Intervened, copied).first = None
    else:
        copied.__class__ = IntervenedDecoder
    for each in interventions:
        if isinstance(each, Heads):
            for attention in _chosen(copied, each):
                attention.edits.append(_Edit(each, cast(Intervened | IntervenedDecoder, copied)))
                if each.scale is not None:
                    attention.scales.append((_slice(each), each.scale))
        elif isinstance(copied, DecoderOnly):
            _move(copied, each)
        else:
            name = f"{each.side}_positions"
            table = getattr(copied, name)
            each.check(isinstance(table, RelativePositions), model.settings.max_length)
            setattr(copied, name, _Replaced(table, each.places))
    return copied.eval()


def _move(model: DecoderOnly, moved: Positions) -> None:
    """Replace the positions of a decoder-only model in place, in its table and in its rotations."""
    moved.check(False, model.settings.max_length)
    if moved.side == "source":
        raise SettingsError("side source: a decoder-only model has the side target alone")
    if model.positions is not None:
        model.positions = cast(LearnedPositions, _Moved(model.positions.at, moved.places))
    model.rotary = {
        kind: cast(RotaryPositions, _Moved(rotary, moved.places)) for kind, rotary in model.rotary.items()
    }


class _Moved(nn.Module):
    """A function of positions with replaced positions."""

    def __init__(self, function: Any, places: tuple[int, ...]) -> None:
        super().__init__()
        self.function, self.places = function, places

    def forward(self, positions: Tensor, *more: Any) -> Rotation | Tensor:
        wanted = torch.tensor(self.places, dtype=positions.dtype, device=positions.device)
        inside = positions < len(self.places)
        moved = torch.where(inside, wanted[positions.clamp_max(len(self.places) - 1)], positions)
        found: Rotation | Tensor = self.function(moved if self.places else positions, *more)
        return found

    def at(self, positions: Tensor) -> Tensor:
        """Return the vectors of ``positions``, as a table of positions does."""
        return cast(Tensor, self(positions))


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

    def __init__(self, heads: Heads, model: Intervened | IntervenedDecoder) -> None:
        self.heads = heads
        self._axes = model.axes  # not the model: an edit belongs to a layer of it

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
        rows, keys = self._axes(self.heads.kind, weights.shape[2], weights.shape[3])
        if self.heads.weights is not None and not alone:
            part = self._replaced(part, allowed, rows, keys)
        if self.heads.mask is not None:
            part = part * self._of_sentence(self.heads.mask, part, rows, keys).to(part)
            part = part / part.sum(-1, keepdim=True).clamp_min(torch.finfo(part.dtype).tiny)
        edited[:, chosen] = part
        return edited

    def _replaced(self, part: Tensor, allowed: Tensor, rows: Tensor, keys: Tensor) -> Tensor:
        given = self.heads.weights
        if isinstance(given, np.ndarray):
            return self._of_sentence(given, part, rows, keys).to(part).expand_as(part)
        if given == "silent":
            return torch.zeros_like(part)
        if given == "uniform":
            return allowed / allowed.sum(-1, keepdim=True).clamp_min(1).to(part)
        columns = keys.to(part.device)[:, None, None, :]  # (batch or 1, 1, 1, source)
        last = torch.where(allowed, columns, -1).amax(-1, keepdim=True)  # the last that may be seen
        places = torch.minimum(rows.to(last.device)[:, None, :, None], last).clamp_min(0)
        return (columns == places).to(part)

    def _of_sentence(self, table: NDArray[Any], part: Tensor, rows: Tensor, keys: Tensor) -> Tensor:
        """Return the requested rows (batch or 1, heads or 1, target, source) of a table of one sentence."""
        real = keys < NOWHERE
        needed, width = int(rows.max()) + 1, int(keys[real].max()) + 1
        growing = self.heads.kind == "decoder"
        if table.shape[-2] < needed or (table.shape[-1] < width if growing else table.shape[-1] != width):
            raise SettingsError(
                f"a table of shape {table.shape} for {self.heads.kind} attention does not fit "
                f"{needed} rows and {width} columns; it is of one sentence with its end"
            )
        columns = torch.where(real, keys, 0)[:, None, :]  # (batch or 1, 1, source)
        stored = torch.from_numpy(np.ascontiguousarray(table))
        found = stored[..., rows.cpu()[:, :, None], columns.cpu()]  # (heads, batch or 1, target, source)
        found = found[:, None] if table.ndim == 2 else found.transpose(0, 1)
        return (found * real.cpu()[:, None, None, :].to(found)).to(part.device)


def _slice(heads: Heads) -> slice:
    return slice(None) if heads.head is None else slice(heads.head - 1, heads.head)


def _chosen(model: Transformer | DecoderOnly, heads: Heads) -> Iterator[EditedAttention]:
    """Return the attention layers of an intervention, prepared for edits."""
    if isinstance(model, DecoderOnly):
        blocks, name = list(model.decoder), "attention"
        heads.check(len(blocks), model.settings.heads)
        if heads.kind != "decoder":
            raise SettingsError(f"a decoder-only model has no {heads.kind} attention")
    else:
        settings, encoder = model.settings, heads.kind == "encoder"
        blocks = list(model.encoder if encoder else model.decoder)
        heads.check(len(blocks), settings.heads if encoder else settings.decoder_heads or settings.heads)
        name = {"encoder": "attention", "decoder": "self_attention", "cross": "cross_attention"}[heads.kind]
    for block in blocks if heads.layer is None else [blocks[heads.layer - 1]]:
        assert isinstance(block, EncoderBlock | DecoderBlock | CausalBlock)
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
