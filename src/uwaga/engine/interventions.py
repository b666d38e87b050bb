"""Interventions: changes of the attention of heads or of the positions of tokens in a Transformer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from uwaga.engine.layout import EngineSettings, Sizes
from uwaga.errors import SettingsError
from uwaga.results.attention import Floats
from uwaga.settings import DecoderOnlySettings
from uwaga.settings.recurrent import RecurrentSettings

Kind = Literal["encoder", "decoder", "cross"]
ATTENTION_KINDS: tuple[Kind, ...] = get_args(Kind)
Replacement = Literal["silent", "alone", "uniform", "diagonal"]
REPLACEMENTS: tuple[Replacement, ...] = get_args(Replacement)


@dataclass(frozen=True, eq=False)
class Heads:
    """An intervention that changes the attention weights of some heads.

    Attributes:
        kind: the kind of attention: ``encoder`` or ``decoder`` for self-attention, or ``cross``.
        layer: the layer, counted from 1; None for all layers.
        head: the head in the layer, counted from 1; None for all heads.
        weights: the weights that replace the attention weights. ``silent``: zeros, so that the head has no
            output (Michel 2019); ``alone``: zeros for all other heads of the layer; ``uniform``: equal
            weights for all visible positions; ``diagonal``: weight 1 for the same position or, if it does not
            exist, for the last position; or an array (target, source) of one sentence, or (heads,
            target, source).
        mask: bool (target, source) of one sentence, True for positions that may be attended to. The weights
            of these positions are rescaled to sum to 1, or are all zero if a row has no such position.
        scale: factor of the scores that replaces the model's factor, usually ``1/√d_k``; 1.0 disables scaling
            (Vaswani 2017 §3.2.1).
    """

    kind: Kind = "cross"
    layer: int | None = None
    head: int | None = None
    weights: Replacement | NDArray[Any] | None = None
    mask: NDArray[np.bool_] | None = None
    scale: float | None = None

    @property
    def affects_encoder(self) -> bool:
        """True if the intervention changes the output of the encoder."""
        return self.kind == "encoder"

    def check(self, layers: int, heads: int) -> None:
        """Check that a model has the layer and the head, and that the values are valid."""
        if self.kind not in ATTENTION_KINDS:
            raise SettingsError(f"unknown attention kind {self.kind!r}; known: {', '.join(ATTENTION_KINDS)}")
        if self.layer is not None and not 1 <= self.layer <= layers:
            raise SettingsError(
                f"layer {self.layer}: the model has {layers} layers of that kind, counted from 1"
            )
        if self.head is not None and not 1 <= self.head <= heads:
            raise SettingsError(f"head {self.head}: the layer has {heads} heads, counted from 1")
        if isinstance(self.weights, str) and self.weights not in REPLACEMENTS:
            raise SettingsError(
                f"weights {self.weights!r}: give an array, or one of {', '.join(REPLACEMENTS)}"
            )
        if isinstance(self.weights, str) and self.weights == "alone" and self.head is None:
            raise SettingsError("weights 'alone' need a head: set head to the one to keep")
        for name, table in (("weights", self.weights), ("mask", self.mask)):
            if isinstance(table, np.ndarray) and (table.ndim not in (2, 3) or not table.size):
                raise SettingsError(
                    f"{name}: the array has shape {table.shape}; give an array (target, source) of one "
                    "sentence"
                )
            expected_heads = heads if self.head is None else 1
            if isinstance(table, np.ndarray) and table.ndim == 3 and table.shape[0] != expected_heads:
                raise SettingsError(
                    f"{name}: the array has {table.shape[0]} heads, but the number of selected heads is "
                    f"{expected_heads}"
                )
        if self.scale is not None and not np.isfinite(self.scale):
            raise SettingsError(f"scale {self.scale}: give a finite number")


class Positions(NamedTuple):
    """An intervention that changes the positions of source or target tokens.

    Token i moves to the position ``places[i]``, counted from 0. Tokens beyond the length of ``places`` keep
    their positions.
    """

    side: Literal["source", "target"]
    places: tuple[int, ...]

    @property
    def affects_encoder(self) -> bool:
        """True if the intervention changes the output of the encoder."""
        return self.side == "source"

    def check(self, relative: bool, positions: int | None) -> None:
        """Check that a model has the positions.

        Args:
            relative: whether the model has relative positions.
            positions: number of positions of the model, None for no limit.
        """
        if self.side not in ("source", "target"):
            raise SettingsError(f"side {self.side!r}: give source or target")
        if relative:
            raise SettingsError("the model has relative positions, which cannot be replaced")
        for position in self.places:
            if position < 0 or (positions is not None and position >= positions):
                raise SettingsError(
                    f"position {position}: the model has {positions} positions, counted from 0"
                )


Intervention = Heads | Positions

CoreEdit = tuple[int, int, int, int, Floats | None, Floats | None, float | None]
"""The kind, layer, head, weights, table, mask and scale of an ``AttentionEdit`` in native/network/edits.h."""


def core_edits(
    settings: EngineSettings, interventions: Sequence[Intervention], relative: bool
) -> list[CoreEdit]:
    """Check all interventions against a model's settings, and return the edits of heads for the core."""
    if isinstance(settings, RecurrentSettings):
        raise SettingsError("the model is recurrent; only the attention of a Transformer can be edited")
    sizes, edits = Sizes.from_settings(settings), list[CoreEdit]()
    decoder_only = isinstance(settings, DecoderOnlySettings)
    for intervention in interventions:
        if isinstance(intervention, Positions):
            intervention.check(relative, settings.max_length)
            if decoder_only and intervention.side == "source":
                raise SettingsError(
                    "side source: a decoder-only model has only target positions; set side to target"
                )
            continue
        encoder = intervention.kind == "encoder"
        heads = settings.heads if encoder else sizes.decoder_heads
        intervention.check(sizes.encoder_layers if encoder else sizes.decoder_layers, heads)
        if decoder_only and intervention.kind != "decoder":
            raise SettingsError(f"a decoder-only model has no {intervention.kind} attention")
        if intervention.kind == "decoder" and getattr(settings, "self_attention", "attention") != "attention":
            raise SettingsError("the model's decoder has another layer instead of self-attention")
        edits.append(_core_edit(intervention, heads))
    return edits


def edited_positions(interventions: Sequence[Intervention], side: str) -> list[int]:
    """Return the positions set by the last intervention on a side; the list is empty if there is none."""
    positions = [
        list(intervention.places)
        for intervention in interventions
        if isinstance(intervention, Positions) and intervention.side == side
    ]
    return positions[-1] if positions else []


def _core_edit(heads: Heads, count: int) -> CoreEdit:
    code, weights = 0, heads.weights
    if isinstance(weights, str):
        code = 1 + REPLACEMENTS.index(weights)
    elif weights is not None:
        code = 1 + len(REPLACEMENTS)
    layer, head = (-1 if index is None else index - 1 for index in (heads.layer, heads.head))
    table = None if isinstance(weights, str) else _table(weights, head, count)
    return (
        ATTENTION_KINDS.index(heads.kind),
        layer,
        head,
        code,
        table,
        _table(heads.mask, head, count),
        heads.scale,
    )


def _table(table: NDArray[Any] | None, head: int, count: int) -> Floats | None:
    """Return a table in float32: (target, source) or, for several heads, (count, target, source)."""
    if table is None:
        return None
    if table.ndim == 3 and head >= 0:
        table = np.broadcast_to(table, (count, *table.shape[1:]))
    return np.ascontiguousarray(table, dtype=np.float32)
