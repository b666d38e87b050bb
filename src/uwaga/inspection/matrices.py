"""Attention matrices with their labels (Bahdanau 2014 figure 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal

import numpy as np

from uwaga.errors import SettingsError
from uwaga.results.attention import Attentions, Floats
from uwaga.results.confidence import END, START, joined, word_spans
from uwaga.results.translation import JsonRecord, Translation, json_number
from uwaga.settings.options import check_one_of, check_whole
from uwaga.translator import AttendedText


@dataclass(frozen=True)
class Alignment(JsonRecord):
    """Where each target token looked.

    ``weights`` (target, source) float32 belong to ``target`` and ``source``, the labels of rows and columns.
    Of self-attention both are tokens of one side: ``target`` those that look, ``source`` those looked at.

    ``kind`` is ``cross``, ``encoder`` or ``decoder``; of ``attribution`` the weights are nats, which may be
    below 0 and above 1 (:func:`uwaga.inspection.attribution`). ``layer`` is the layer's number, from 1,
    where one was chosen, and ``head`` the head's; None is the mean over the heads.
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
        """``weights`` between -1 and 1, as pictures shade them: nats over the largest of the matrix."""
        largest = float(np.abs(self.weights).max(initial=0.0))
        return self.weights / largest if self.kind == "attribution" and largest else self.weights

    def to_dict(self) -> dict[str, object]:
        """What JSON can hold of it, under the same names; weights to six decimals.

        Where a layer was chosen there are ``kind``, ``layer`` and ``head`` too, a number or ``mean``.
        """
        chosen: dict[str, object] = {"kind": self.kind, "layer": self.layer, "head": self.head or "mean"}
        return {
            "title": self.title,
            **(chosen if self.layer is not None else {}),
            **({"kind": self.kind} if self.kind == "attribution" else {}),
            "source": list(self.source),
            "target": list(self.target),
            "weights": [[json_number(weight) for weight in row] for row in self.weights.tolist()],
        }


def align(translation: Translation, *, words: bool = False, title: str = "") -> Alignment:
    """The alignment of a translation made with ``attention=True`` or by ``Translator.attend``.

    The end symbols of both sides have labels of their own. With ``words``, the pieces of a word are joined:
    what a target word gives a source word is the sum over the source word's pieces, averaged over the
    target word's, so that rows that sum to 1 still do.

    Raises:
        SettingsError: the translation has no attention.
    """
    if translation.attention is None:
        raise SettingsError(
            "this translation holds no attention: make it with attention=True and a model that has any"
        )
    rows, columns = translation.attention.shape
    source, target = ended(translation.source_tokens, columns), ended(translation.tokens, rows)
    return label(translation.attention, target, source, words=words, title=title)


def ended(pieces: Sequence[str], length: int) -> tuple[str, ...]:
    """The pieces of a side as labels, with the end symbols that belong to it behind."""
    return (*pieces, *[END] * (length - len(pieces)))


def label(
    weights: Floats,
    target: Sequence[str],
    source: Sequence[str],
    *,
    words: bool = False,
    title: str = "",
    kind: str = "cross",
    layer: int | None = None,
    head: int | None = None,
) -> Alignment:
    """Weights (target, source) of pieces with their labels; pieces of words joined as :func:`align` says."""
    if words:
        columns, rows = word_spans(source), word_spans(target)
        weights = weights @ _membership(columns)  # (pieces, source words)
        share = _membership(rows)  # (pieces, target words)
        weights = (share / share.sum(axis=0)).T @ weights  # (target words, source words)
        source = tuple(joined(source[start:stop]) for start, stop in columns)
        target = tuple(joined(target[start:stop]) for start, stop in rows)
    else:
        source, target = tuple(map(_shown, source)), tuple(map(_shown, target))
    return Alignment(source, target, weights.astype(np.float32), title, kind, layer, head)


def _membership(words: Sequence[tuple[int, int]]) -> Floats:
    """(pieces, words): 1 where a piece belongs to a word."""
    table = np.zeros((words[-1][1], len(words)), dtype=np.float32)
    for number, (start, stop) in enumerate(words):
        table[start:stop, number] = 1.0
    return table


def _shown(piece: str) -> str:
    """A piece as a label: a mark alone is a space, one in front is left out; what goes on has a hyphen."""
    bare = piece.removeprefix("▁").removeprefix("Ġ")
    return bare or "␣"


KINDS = ("cross", "encoder", "decoder")
"""Which rows look at which: target at source; source at source; target at itself."""


@dataclass(frozen=True)
class Selection:
    """Some of a model's attention matrices.

    ``kinds`` are of :data:`KINDS`; none is the first of them that the model has. ``layers`` and ``heads``
    count from 1, the lowest layer first; ``last`` is the last layer, ``mean`` the mean over the heads of a
    layer.

    Raises:
        SettingsError: there is no such kind, layer or head in any model.
    """

    kinds: Sequence[str] = ()
    layers: Sequence[int] | Literal["last", "all"] = "last"
    heads: Sequence[int] | Literal["mean", "all"] = "mean"

    def __post_init__(self) -> None:
        for kind in self.kinds:
            check_one_of("kind", kind, KINDS)
        for name, chosen, known in (("layer", self.layers, "last"), ("head", self.heads, "mean")):
            if isinstance(chosen, str):
                check_one_of(f"{name}s", chosen, (known, "all"))
                continue
            for number in chosen:
                check_whole(name, number, 1)


def matrices(
    seen: Translation | AttendedText, select: Selection | None = None, *, words: bool = False, title: str = ""
) -> list[Alignment]:
    """Chosen matrices of a translation made with ``attention="all"`` or by ``attend``, or a text's.

    A row of decoder self-attention is the token that a step predicts, a column what a step read: the start
    symbol ``<s>``, then the tokens before. With ``words`` pieces are joined as by
    :func:`uwaga.inspection.align`: added up where they are looked at, averaged where they look.

    Args:
        seen: what a model has recorded.
        select: kinds, layers and heads; the mean over the heads of the last layer if None.
        words: join the pieces of each word.
        title: what the titles begin with.

    Raises:
        SettingsError: nothing was recorded, or the model lacks a kind, layer or head; names those it has.
    """
    select, there = select or Selection(), seen.attentions
    if there is None or not there:
        raise SettingsError(
            "nothing was recorded here: translate with attention='all', and one model that has any attention"
        )
    kinds = select.kinds or [kind for kind in KINDS if getattr(there, kind) is not None][:1]
    found = []
    for kind in kinds:
        table: Floats | None = getattr(there, kind)
        if table is None:
            raise SettingsError(f"the model has no {_called(kind)}; it has {_inventory(there)}")
        rows, columns = _labels(seen, kind, table.shape[2], table.shape[3])
        for layer in _numbers(select.layers, "layer", kind, table):
            for head in _heads(select.heads, kind, table):
                weights = table[layer - 1].mean(axis=0) if head is None else table[layer - 1, head - 1]
                name = f"{kind}, layer {layer}, {'mean of heads' if head is None else f'head {head}'}"
                found.append(
                    label(
                        weights,
                        rows,
                        columns,
                        words=words,
                        title=f"{title}: {name}" if title else name,
                        kind=kind,
                        layer=layer,
                        head=head,
                    )
                )
    return found


def _labels(
    seen: Translation | AttendedText, kind: str, queries: int, keys: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The pieces of rows and columns."""
    if isinstance(seen, AttendedText):
        return seen.tokens, seen.tokens
    source, target = seen.source_tokens, seen.tokens
    if kind == "encoder":
        return ended(source, queries), ended(source, keys)
    rows = ended(target, queries)
    if kind == "cross":
        return rows, ended(source, keys)
    before = chain([END], rows)  # behind a sentence's end another one starts
    return rows, tuple(START if piece == END else piece for piece, _ in zip(before, rows, strict=False))


def _heads(chosen: Sequence[int] | str, kind: str, table: Floats) -> Sequence[int | None]:
    return [None] if chosen == "mean" else _numbers(chosen, "head", kind, table)


def _numbers(chosen: Sequence[int] | str, what: str, kind: str, table: Floats) -> list[int]:
    """The numbers of layers or heads that are meant."""
    there = table.shape[0 if what == "layer" else 1]
    if chosen == "all":
        return list(range(1, there + 1))
    if isinstance(chosen, str):
        return [there]  # the last
    for number in chosen:
        if number > there:
            most = f"1 to {there}" if there > 1 else "1"
            words = "'last' or 'all'" if what == "layer" else "'mean' or 'all'"
            raise SettingsError(f"{what} {number}: the model has {_size(kind, table)}; give {most}, {words}")
    return list(chosen)


def _size(kind: str, table: Floats) -> str:
    """Such as ``4 encoder layers of 8 heads``."""
    layers, heads = table.shape[:2]
    where = {"cross": "layers with cross-attention", "encoder": "encoder layers", "decoder": "decoder layers"}
    said = where[kind] if layers > 1 else where[kind].replace("layers", "layer")
    return f"{layers} {said} of {heads} head{'s' if heads > 1 else ''}"


def _called(kind: str) -> str:
    return "cross-attention" if kind == "cross" else f"{kind} self-attention"


def _inventory(there: Attentions) -> str:
    tables = {kind: getattr(there, kind) for kind in KINDS}
    return ", ".join(f"{kind}: {_size(kind, one)}" for kind, one in tables.items() if one is not None)
