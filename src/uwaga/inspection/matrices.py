"""Attention matrices with labels (Bahdanau 2014 figure 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal

import numpy as np

from uwaga.errors import SettingsError
from uwaga.results.attention import Attentions, Floats
from uwaga.results.confidence import END, START, join_pieces, word_spans
from uwaga.results.translation import JsonRecord, Translation, json_number
from uwaga.settings.options import check_choice, check_integer
from uwaga.translator import AttendedText


@dataclass(frozen=True)
class Alignment(JsonRecord):
    """An attention matrix with labels for its rows and columns.

    ``weights`` (target, source) float32; ``target`` labels the rows and ``source`` the columns. In
    self-attention, both are tokens of the same side: queries in ``target``, keys in ``source``.

    ``kind`` is ``cross``, ``encoder``, ``decoder``, or ``attribution``, whose weights are in nats and may be
    below 0 and above 1 (:func:`uwaga.inspection.contributions`). ``layer`` and ``head`` are numbers from 1;
    ``layer`` is None if no layer was selected; ``head`` is None for the mean over the heads.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    weights: Floats
    title: str = ""
    kind: str = "cross"
    layer: int | None = None
    head: int | None = None

    def __post_init__(self) -> None:
        if self.weights.shape != (len(self.target), len(self.source)):
            raise SettingsError(
                f"weights of shape {self.weights.shape} do not fit {len(self.target)} target and "
                f"{len(self.source)} source labels"
            )

    @property
    def shades(self) -> Floats:
        """The weights for drawing, from -1 to 1; attributions are divided by the largest magnitude."""
        largest = float(np.abs(self.weights).max(initial=0.0))
        return self.weights / largest if self.kind == "attribution" and largest else self.weights

    def to_dict(self) -> dict[str, object]:
        """Return the matrix as JSON values, with weights rounded to six decimals.

        If a layer was selected, the keys ``kind``, ``layer`` and ``head`` (a number or ``mean``) are added.
        """
        selection: dict[str, object] = {"kind": self.kind, "layer": self.layer, "head": self.head or "mean"}
        return {
            "title": self.title,
            **(selection if self.layer is not None else {}),
            **({"kind": self.kind} if self.kind == "attribution" else {}),
            "source": list(self.source),
            "target": list(self.target),
            "weights": [[json_number(weight) for weight in row] for row in self.weights.tolist()],
        }


def align(translation: Translation, *, words: bool = False, title: str = "") -> Alignment:
    """Return the alignment of a translation made with ``attention=True`` or by ``Translator.attend``.

    The end symbols of both sides have labels. With ``words``, the pieces of words are merged: weights are
    summed over the pieces of a source word and averaged over those of a target word, so that rows still sum
    to 1.

    Raises:
        SettingsError: the translation has no attention.
    """
    if translation.attention is None:
        raise SettingsError(
            "the translation has no attention: translate with attention=True and a model that has attention"
        )
    rows, columns = translation.attention.shape
    source, target = pad_with_end(translation.source_tokens, columns), pad_with_end(translation.tokens, rows)
    return label(Alignment(source, target, translation.attention, title), words)


def pad_with_end(pieces: Sequence[str], length: int) -> tuple[str, ...]:
    """Return pieces padded with end symbols to ``length`` labels."""
    return (*pieces, *[END] * (length - len(pieces)))


def label(pieces: Alignment, words: bool = False) -> Alignment:
    """Return an alignment with readable labels; with ``words``, the pieces of each word are merged."""
    source, target, weights = pieces.source, pieces.target, pieces.weights
    if words:
        columns, rows = word_spans(source), word_spans(target)
        weights = weights @ _membership(columns)  # (pieces, source words)
        share = _membership(rows)  # (pieces, target words)
        weights = (share / share.sum(axis=0)).T @ weights  # (target words, source words)
        source = tuple(join_pieces(source[start:stop]) for start, stop in columns)
        target = tuple(join_pieces(target[start:stop]) for start, stop in rows)
    else:
        source, target = tuple(map(_piece_label, source)), tuple(map(_piece_label, target))
    return replace(pieces, source=source, target=target, weights=weights.astype(np.float32))


def _membership(words: Sequence[tuple[int, int]]) -> Floats:
    """Return a matrix (pieces, words) that is 1 where a piece belongs to a word, and 0 elsewhere."""
    table = np.zeros((words[-1][1], len(words)), dtype=np.float32)
    for index, (start, stop) in enumerate(words):
        table[start:stop, index] = 1.0
    return table


def _piece_label(piece: str) -> str:
    """Return a piece without its word-start marker, or ``␣`` for a marker alone, as a label."""
    text = piece.removeprefix("▁").removeprefix("Ġ")
    return text or "␣"


ATTENTION_KINDS = ("cross", "encoder", "decoder")
"""Kinds of attention: cross-attention, encoder self-attention, decoder self-attention."""


@dataclass(frozen=True)
class Selection:
    """A selection of a model's attention matrices.

    ``kinds`` are names of :data:`ATTENTION_KINDS`; if empty, the first that the model has is selected.
    ``layers`` and ``heads`` are numbers from 1, the lowest layer first, or ``all``; ``last`` is the last
    layer, ``mean`` the mean over the heads of a layer.

    Raises:
        SettingsError: a kind is unknown, or a number is invalid.
    """

    kinds: Sequence[str] = ()
    layers: Sequence[int] | Literal["last", "all"] = "last"
    heads: Sequence[int] | Literal["mean", "all"] = "mean"

    def __post_init__(self) -> None:
        for kind in self.kinds:
            check_choice("kind", kind, ATTENTION_KINDS)
        for name, selection, default in (("layer", self.layers, "last"), ("head", self.heads, "mean")):
            if isinstance(selection, str):
                check_choice(f"{name}s", selection, (default, "all"))
                continue
            for index in selection:
                check_integer(name, index, 1)


def matrices(
    attended: Translation | AttendedText,
    select: Selection | None = None,
    *,
    words: bool = False,
    title: str = "",
) -> list[Alignment]:
    """Return selected attention matrices of a translation, or of a text that a model has only read.

    In decoder self-attention, rows are the tokens that steps predict, and columns the tokens that steps read:
    the start symbol ``<s>``, then the previous tokens.

    Args:
        attended: translation made with ``attention="all"``, or result of ``attend``.
        select: kinds, layers and heads; None for the mean over the heads of the last layer.
        words: whether to merge the pieces of each word, as in :func:`uwaga.inspection.align`.
        title: prefix of the titles.

    Raises:
        SettingsError: no attention was recorded, or the model does not have a selected kind, layer or head;
            the message lists those that it has.
    """
    select, attentions = select or Selection(), attended.attentions
    if attentions is None or not attentions:
        raise SettingsError(
            "no attention was recorded: translate with attention='all' and a single model that has attention"
        )
    kinds = select.kinds or [kind for kind in ATTENTION_KINDS if getattr(attentions, kind) is not None][:1]
    selected_matrices = []
    for kind in kinds:
        table: Floats | None = getattr(attentions, kind)
        if table is None:
            raise SettingsError(f"the model has no {_kind_name(kind)}; it has {_inventory(attentions)}")
        rows, columns = _labels(attended, kind, table.shape[2], table.shape[3])
        for layer in _numbers(select.layers, "layer", kind, table):
            for head in _heads(select.heads, kind, table):
                weights = table[layer - 1].mean(axis=0) if head is None else table[layer - 1, head - 1]
                name = f"{kind}, layer {layer}, {'mean of heads' if head is None else f'head {head}'}"
                name = f"{title}: {name}" if title else name
                selected_matrices.append(
                    label(Alignment(columns, rows, weights, name, kind, layer, head), words)
                )
    return selected_matrices


def _labels(
    attended: Translation | AttendedText, kind: str, queries: int, keys: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the labels of the rows and of the columns of a kind of attention."""
    if isinstance(attended, AttendedText):
        return attended.tokens, attended.tokens
    source, target = attended.source_tokens, attended.tokens
    if kind == "encoder":
        return pad_with_end(source, queries), pad_with_end(source, keys)
    rows = pad_with_end(target, queries)
    if kind == "cross":
        return rows, pad_with_end(source, keys)
    previous_tokens = chain([END], rows)  # the end of a sentence is the start of the next
    return rows, tuple(
        START if piece == END else piece for piece, _ in zip(previous_tokens, rows, strict=False)
    )


def _heads(selection: Sequence[int] | str, kind: str, table: Floats) -> Sequence[int | None]:
    return [None] if selection == "mean" else _numbers(selection, "head", kind, table)


def _numbers(selection: Sequence[int] | str, axis_name: str, kind: str, table: Floats) -> list[int]:
    """Return the numbers of the selected layers or heads."""
    count = table.shape[0 if axis_name == "layer" else 1]
    if selection == "all":
        return list(range(1, count + 1))
    if isinstance(selection, str):
        return [count]  # the last
    for index in selection:
        if index > count:
            numbers = f"1 to {count}" if count > 1 else "1"
            words = "'last' or 'all'" if axis_name == "layer" else "'mean' or 'all'"
            raise SettingsError(
                f"{axis_name} {index}: the model has {_describe_size(kind, table)}; give {numbers}, {words}"
            )
    return list(selection)


def _describe_size(kind: str, table: Floats) -> str:
    """Describe the layers and heads of a kind of attention: ``4 encoder layers with 8 heads``."""
    layers, heads = table.shape[:2]
    nouns = {"cross": "layers with cross-attention", "encoder": "encoder layers", "decoder": "decoder layers"}
    noun = nouns[kind] if layers > 1 else nouns[kind].replace("layers", "layer")
    return f"{layers} {noun} with {heads} head{'s' if heads > 1 else ''}"


def _kind_name(kind: str) -> str:
    return "cross-attention" if kind == "cross" else f"{kind} self-attention"


def _inventory(attentions: Attentions) -> str:
    tables = {kind: getattr(attentions, kind) for kind in ATTENTION_KINDS}
    return ", ".join(
        f"{kind}: {_describe_size(kind, table)}" for kind, table in tables.items() if table is not None
    )
