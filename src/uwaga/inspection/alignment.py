"""An alignment matrix with its labels (Bahdanau 2014 figure 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from uwaga.errors import SettingsError
from uwaga.results.attention import Floats
from uwaga.results.confidence import END, joined, word_spans
from uwaga.results.translation import JsonRecord, Translation, json_number


@dataclass(frozen=True)
class Alignment(JsonRecord):
    """Where each target token looked.

    ``weights`` (target, source) float32 belong to ``target`` and ``source``, the labels of rows and columns.
    Of self-attention both are tokens of one side: ``target`` those that look, ``source`` those looked at.

    ``kind`` is ``cross``, ``encoder`` or ``decoder``; of ``attribution`` the weights are nats, which may be
    below 0 and above 1 (:func:`uwaga.inspection.contributions`). ``layer`` is the layer's number, from 1,
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
