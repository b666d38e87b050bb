"""Interventions in the attention and positions of torch models; see :mod:`uwaga.engine.interventions`."""

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
from uwaga.models.decoder_only import PADDING_POSITION, DecoderOnly
from uwaga.models.layers.multihead import KeysValues, MultiHeadAttention
from uwaga.models.layers.positions import LearnedPositions, RelativePositions
from uwaga.models.layers.rotary import RotaryPositions, Rotation
from uwaga.models.layers.scores import AttentionScore
from uwaga.models.transformer import Transformer, TransformerState


class TransformerWithInterventions(Transformer):
    """A Transformer whose attention is edited; :func:`with_interventions` creates it.

    ``step_position`` is the position of the search step in progress, None in other calls.
    """

    step_position: int | None

    def features(self, source: Tensor, target_in: Tensor) -> Tensor:
        self.step_position = None
        return super().features(source, target_in)

    def step(self, tokens: Ids, state: TransformerState, choice: Choice) -> Step:  # type: ignore[override]
        self.step_position = state.position
        try:
            return super().step(tokens, state, choice)
        finally:
            self.step_position = None

    def query_and_key_positions(self, kind: str, target: int, source: int) -> tuple[Tensor, Tensor]:
        """Return the positions of queries, (1, target), and of keys, (1, source), in an attention layer.

        In a search step, all queries of the decoder have the same position.
        """
        rows = torch.arange(target)
        if self.step_position is not None and kind != "encoder":
            rows = torch.full((target,), self.step_position)
        return rows[None], torch.arange(source)[None]


class DecoderOnlyWithInterventions(DecoderOnly):
    """A decoder-only model whose attention is edited; :func:`with_interventions` creates it."""

    call_positions: tuple[Tensor, Tensor]
    verify = None

    def _run(
        self,
        tokens: Tensor,
        positions: Tensor,
        past: tuple[KeysValues, ...] | None,
        keys: Tensor,
        recorded_weights: list[Tensor] | None = None,
    ) -> tuple[Tensor, tuple[KeysValues, ...]]:
        self.call_positions = positions, keys
        return super()._run(tokens, positions, past, keys, recorded_weights)

    def query_and_key_positions(self, kind: str, target: int, source: int) -> tuple[Tensor, Tensor]:
        """Return the positions of queries, (rows or 1, target), and of keys, (rows or 1, source)."""
        return self.call_positions


Model = TypeVar("Model", Transformer, DecoderOnly)


def with_interventions(model: Model, interventions: Sequence[Intervention]) -> Model:
    """Return a copy of a model with interventions; the copy shares the weights of the model.

    The interventions are applied in order. The model is not changed. The copy is not thread-safe.
    """
    shared_tensors = {id(tensor): tensor for tensor in chain(model.parameters(), model.buffers())}
    model_copy = copy.deepcopy(model, shared_tensors)
    for name in [name for name in vars(model_copy) if callable(getattr(type(model_copy), name, None))]:
        delattr(model_copy, name)  # wrapped methods would call the original model
    if isinstance(model_copy, Transformer):
        model_copy.__class__ = TransformerWithInterventions
        cast(TransformerWithInterventions, model_copy).step_position = None
    else:
        model_copy.__class__ = DecoderOnlyWithInterventions
    for intervention in interventions:
        if isinstance(intervention, Heads):
            for attention in _attention_layers(model_copy, intervention):
                attention.edits.append(
                    _AttentionEdit(
                        intervention,
                        cast(TransformerWithInterventions | DecoderOnlyWithInterventions, model_copy),
                    )
                )
                if intervention.scale is not None:
                    scale_scores(attention, _head_slice(intervention), intervention.scale)
        elif isinstance(model_copy, DecoderOnly):
            _replace_positions(model_copy, intervention)
        else:
            name = f"{intervention.side}_positions"
            table = getattr(model_copy, name)
            intervention.check(isinstance(table, RelativePositions), model.settings.max_length)
            setattr(model_copy, name, _RemappedTable(table, intervention.places))
    return model_copy.eval()


def _replace_positions(model: DecoderOnly, replacement: Positions) -> None:
    """Replace positions in a decoder-only model in place, both in its position table and in its rotations."""
    replacement.check(False, model.settings.max_length)
    if replacement.side == "source":
        raise SettingsError("side source: a decoder-only model has only target positions; set side to target")
    if model.positions is not None:
        model.positions = cast(
            LearnedPositions, _RemappedPositions(model.positions.lookup, replacement.places)
        )
    model.rotary = {
        kind: cast(RotaryPositions, _RemappedPositions(rotary, replacement.places))
        for kind, rotary in model.rotary.items()
    }


class _RemappedPositions(nn.Module):
    """A wrapper that calls a function of positions with each position p replaced by ``replacements[p]``."""

    def __init__(self, function: Any, replacements: tuple[int, ...]) -> None:
        super().__init__()
        self.function, self.replacements = function, replacements

    def forward(self, positions: Tensor, *args: Any) -> Rotation | Tensor:
        replacements = torch.tensor(self.replacements, dtype=positions.dtype, device=positions.device)
        in_range = positions < len(self.replacements)
        remapped = torch.where(
            in_range, replacements[positions.clamp_max(len(self.replacements) - 1)], positions
        )
        result: Rotation | Tensor = self.function(remapped if self.replacements else positions, *args)
        return result

    def lookup(self, positions: Tensor) -> Tensor:
        """Return the vectors (..., width) of ``positions`` (...), after replacement."""
        return cast(Tensor, self(positions))


class _RemappedTable(nn.Module):
    """A wrapper that reads a position table with each index p replaced by ``replacements[p]``."""

    def __init__(self, table: nn.Module, replacements: tuple[int, ...]) -> None:
        super().__init__()
        self.table, self.replacements = table, replacements

    def forward(self, start: int, length: int) -> Tensor:
        indices = [
            self.replacements[index] if index < len(self.replacements) else index
            for index in range(start, start + length)
        ]
        rows = [self.table(index, 1) for index in indices]
        return torch.cat(rows, dim=-2)


class _AttentionEdit:
    """A function that applies an intervention to the attention weights of a layer."""

    def __init__(
        self, heads: Heads, model: TransformerWithInterventions | DecoderOnlyWithInterventions
    ) -> None:
        self.heads = heads
        # not the model, which contains the edit: no reference cycle
        self._query_and_key_positions = model.query_and_key_positions

    def __call__(self, weights: Tensor, mask: Tensor | None) -> Tensor:
        head_slice = _head_slice(self.heads)
        edited_weights = weights.clone()  # (batch, heads, target, source)
        only_head = isinstance(self.heads.weights, str) and self.heads.weights == "alone"
        if only_head:
            other_heads = [head for head in range(weights.shape[1]) if head != head_slice.start]
            edited_weights[:, other_heads] = 0.0
        part = edited_weights[:, head_slice]
        allowed_mask = torch.ones_like(weights, dtype=torch.bool) if mask is None else mask.expand_as(weights)
        allowed_mask = allowed_mask[:, head_slice]
        rows, keys = self._query_and_key_positions(self.heads.kind, weights.shape[2], weights.shape[3])
        if self.heads.weights is not None and not only_head:
            part = self._replacement_weights(part, allowed_mask, rows, keys)
        if self.heads.mask is not None:
            part = part * self._table_rows(self.heads.mask, part, rows, keys).to(part)
            part = part / part.sum(-1, keepdim=True).clamp_min(torch.finfo(part.dtype).tiny)
        edited_weights[:, head_slice] = part
        return edited_weights

    def _replacement_weights(self, part: Tensor, allowed_mask: Tensor, rows: Tensor, keys: Tensor) -> Tensor:
        replacement = self.heads.weights
        if isinstance(replacement, np.ndarray):
            return self._table_rows(replacement, part, rows, keys).to(part).expand_as(part)
        if replacement == "silent":
            return torch.zeros_like(part)
        if replacement == "uniform":
            return allowed_mask / allowed_mask.sum(-1, keepdim=True).clamp_min(1).to(part)
        columns = keys.to(part.device)[:, None, None, :]  # (batch or 1, 1, 1, source)
        last_keys = torch.where(allowed_mask, columns, -1).amax(-1, keepdim=True)  # the last visible key
        diagonal = torch.minimum(rows.to(last_keys.device)[:, None, :, None], last_keys).clamp_min(0)
        return (columns == diagonal).to(part)

    def _table_rows(self, table: NDArray[Any], part: Tensor, rows: Tensor, keys: Tensor) -> Tensor:
        """Return a table's entries (batch or 1, heads or 1, target, source) at the given rows and keys."""
        is_token = keys < PADDING_POSITION
        needed_rows, width = int(rows.max()) + 1, int(keys[is_token].max()) + 1
        grows_with_target = self.heads.kind == "decoder"
        if table.shape[-2] < needed_rows or (
            table.shape[-1] < width if grows_with_target else table.shape[-1] != width
        ):
            raise SettingsError(
                f"a table of shape {table.shape} for {self.heads.kind} attention does not fit "
                f"{needed_rows} rows and {width} columns; give a table for one sentence with its end symbol"
            )
        columns = torch.where(is_token, keys, 0)[:, None, :]  # (batch or 1, 1, source)
        stored_table = torch.from_numpy(np.ascontiguousarray(table))
        weights = stored_table[
            ..., rows.cpu()[:, :, None], columns.cpu()
        ]  # (heads, batch or 1, target, source)
        weights = weights[:, None] if table.ndim == 2 else weights.transpose(0, 1)
        return (weights * is_token.cpu()[:, None, None, :].to(weights)).to(part.device)


class HeadScaledScore(AttentionScore):
    """An attention score that is multiplied by a separate factor for each head."""

    def __init__(self, score: AttentionScore, heads: int) -> None:
        nn.Module.__init__(self)
        self.score, self.factors = score, [1.0] * heads

    def prepare(self, keys: Tensor) -> Tensor:
        return self.score.prepare(keys)

    def forward(self, query: Tensor, prepared_keys: Tensor) -> Tensor:
        factors = query.new_tensor(self.factors)[:, None, None]  # (heads, 1, 1)
        scores: Tensor = self.score(query * factors, prepared_keys)
        return scores


def scale_scores(attention: MultiHeadAttention, heads: slice, scale: float) -> None:
    """Replace the scale of the scores in some heads of an attention layer, in place."""
    if not isinstance(attention.score, HeadScaledScore):
        attention.score = HeadScaledScore(attention.score, attention.heads)
    for head in range(attention.heads)[heads]:
        attention.score.factors[head] = scale / attention.scale


def _head_slice(heads: Heads) -> slice:
    return slice(None) if heads.head is None else slice(heads.head - 1, heads.head)


def _attention_layers(model: Transformer | DecoderOnly, heads: Heads) -> Iterator[MultiHeadAttention]:
    """Yield the attention layers to which an intervention applies."""
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
            raise SettingsError(
                "the decoder has no self-attention: the model has another kind of layer in its place"
            )
        yield attention


class FixedEmbedding(nn.Module):
    """An embedding layer that returns fixed ``vectors`` (sentences, source, width)."""

    def __init__(self, vectors: Tensor) -> None:
        super().__init__()
        self.vectors = vectors

    def forward(self, ids: Tensor) -> Tensor:
        """Return the vectors, regardless of the ids (sentences, source)."""
        return self.vectors


def with_source_vectors(model: Transformer, vectors: Tensor) -> Transformer:
    """Return a copy of a model that reads ``vectors`` (sentences, source, width) instead of embeddings."""
    model_copy = with_interventions(model, [])
    model_copy.source_embedding = FixedEmbedding(vectors)  # type: ignore[assignment]  # same interface
    return model_copy
