"""Mapping of other libraries' weights to uwaga's names and shapes, by a table. Nothing here needs torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uwaga.checkpoints.storage.tensors import QuantisedTensor, StoredTensor
from uwaga.errors import ModelError
from uwaga.results.attention import Floats

SHOWN = 3
CLOSE = 2e-3
"""By how much a stored position table may differ from the formula: the rounding of 16 bits."""


@dataclass(frozen=True)
class View:
    """A stored tensor, or a part of it, in the layout of one of uwaga's weights.

    Attributes:
        name: name of the stored tensor.
        turned: True if it is stored (inputs, outputs).
        first, last, of: parts ``first`` to ``last - 1`` of ``of`` equal parts along its outputs.
        interleaved: heads whose rows are stored in the order 0, d/2, 1, d/2 + 1 and so on, for a head of
            width d; 0 if the rows are in order.
    """

    name: str
    turned: bool = False
    first: int = 0
    last: int = 1
    of: int = 1
    interleaved: int = 0


@dataclass(frozen=True)
class Longer:
    """A weight of which only the first ``rows`` rows are stored; the others are filled with ``value``."""

    rows: int
    value: float = 0.0


@dataclass(frozen=True)
class Table:
    """The stored tensors that each weight is made of.

    Attributes:
        weights: for each of uwaga's weights the stored tensors, concatenated by rows. It may list
            weights that the model lacks, because they are tied.
        same: names that may be stored besides or instead of another, for the same tensor (tied weights).
        constant: stored tensors that must equal computed ones, with their shapes.
        unused: stored names that are no part of the model.
        zero: weights that are zero if they are not stored.
        longer: weights that have more rows than are stored.
        asked: the origin of the expected shapes, for messages.
    """

    weights: Mapping[str, tuple[View, ...]]
    same: Mapping[str, str] = field(default_factory=dict)
    constant: Mapping[str, tuple[tuple[int, ...], Callable[[], Floats]]] = field(default_factory=dict)
    unused: Collection[str] = ()
    zero: Collection[str] = ()
    longer: Mapping[str, Longer] = field(default_factory=dict)
    asked: str = "config.json"


@dataclass(frozen=True)
class Weights:
    """Weights read on demand from files, by uwaga's names.

    Attributes:
        shapes: shape of every weight, a tied one once.
        table: the stored tensors that they are made of.
        stored: every tensor of the files, by the names that the table uses.
    """

    shapes: Mapping[str, tuple[int, ...]]
    table: Table
    stored: Mapping[str, StoredTensor]

    def names(self) -> Sequence[str]:
        """The names of the weights in uwaga, a tied one once."""
        return tuple(self.shapes)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a weight, in uwaga's order of axes."""
        return self.shapes[name]

    def format(self, name: str) -> str:
        """Return the stored number format of a weight by its safetensors name."""
        tensor = self.stored.get(self.table.weights[name][0].name)
        return "F32" if tensor is None else tensor.format

    def origin(self, name: str) -> str:
        """Return the file and the stored name, for messages."""
        tensor = self.stored.get(self.table.weights[name][0].name)
        return repr(name) if tensor is None else f"{tensor.path}: {tensor.name!r}"

    @property
    def parameters(self) -> int:
        """Number of stored parameters, tied weights counted once."""
        used = {view.name for name in self.shapes for view in self.table.weights[name]}
        distinct = {id(self.stored[name].content): self.stored[name] for name in used & set(self.stored)}
        return sum(math.prod(tensor.shape) for tensor in distinct.values())

    def moved(self, path: Path) -> Weights:
        """Return the same weights, attributed to another file in messages."""
        return replace(self, stored={name: replace(one, path=path) for name, one in self.stored.items()})

    def read(self, name: str) -> Floats:
        """Return a weight in float32."""
        shape, views, longer = self.shapes[name], self.table.weights[name], self.table.longer.get(name)
        if views[0].name not in self.stored:
            whole = np.zeros((longer.rows, *shape[1:]) if longer else shape, dtype=np.float32)
        else:
            parts = [_seen(view, self.stored[view.name].floats()) for view in views]
            whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
        if longer is None:
            return whole.reshape(shape)
        made = np.full(shape, longer.value, dtype=np.float32)
        made[: longer.rows] = whole.reshape(longer.rows, *shape[1:])
        return made

    def rows(self, name: str, first: int, last: int) -> Floats | None:
        """Return rows ``first`` to ``last`` - 1 of a weight; None if it must be read whole."""
        view, *others = self.table.weights[name]
        tensor = self.stored.get(view.name)
        whole = others or name in self.table.longer or view != View(view.name)
        if (
            whole
            or tensor is None
            or isinstance(tensor, QuantisedTensor)
            or tensor.shape != self.shapes[name]
        ):
            return None
        return tensor.rows(first, last).floats()

    def integers(self, name: str) -> tuple[NDArray[np.int8], NDArray[np.float32]] | None:
        """Return the stored int8 matrix (outputs, inputs) and the scale of each output, None if not in int8.

        Zero rows at the end that are not stored are left out.
        """
        views, longer = self.table.weights[name], self.table.longer.get(name)
        tensors = [self.stored.get(view.name) for view in views]
        found = [one for one in tensors if isinstance(one, QuantisedTensor) and one.format == "I8"]
        shape = self.shapes[name]
        if len(found) < len(views) or len(shape) != 2:
            return None
        parts = [_seen(view, one.values) for view, one in zip(views, found, strict=True)]
        # A matrix with a factor of each row is stored whole, see join_scales().
        scales = [
            np.broadcast_to(np.asarray(one.scale, np.float32), len(part))
            for part, one in zip(parts, found, strict=True)
        ]
        whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
        scale = np.concatenate(scales)
        return None if longer is not None and longer.value else (whole, scale)


def map_weights(
    shapes: Mapping[str, tuple[int, ...]], table: Table, stored: Mapping[str, StoredTensor], where: str
) -> Weights:
    """Match stored tensors with the weights of a model; only copies and constants are read.

    Args:
        shapes: shape of every weight of the model, a tied one once.
        table: the stored tensors that they are made of.
        stored: the tensors, by the names that the table uses.
        where: the folder or file, for messages.
    """
    absent = set(shapes) - set(table.weights)
    if absent:
        raise AssertionError(f"no table for {sorted(absent)}")
    tensors = _resolved(table, stored)
    needed = {view.name for name in shapes for view in table.weights[name]}
    spare = {view.name for name in table.zero if name in table.weights for view in table.weights[name]}
    for names, what in (
        (sorted(needed - set(tensors) - spare), f"missing, which {table.asked} asks for"),
        (sorted(set(tensors) - needed), "unknown to this family, or of a feature that is not supported"),
    ):
        if names:
            rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            raise ModelError(f"{where}: weights {', '.join(map(repr, names[:SHOWN]))}{rest}: {what}")
    for name, shape in shapes.items():
        _check_shapes(name, shape, table, tensors)
    return Weights(shapes, table, {**stored, **tensors})


def _resolved(table: Table, stored: Mapping[str, StoredTensor]) -> dict[str, StoredTensor]:
    """Return the tensors that the table uses, after checking and dropping constants and copies."""
    tensors = {name: tensor for name, tensor in stored.items() if name not in table.unused}
    for name, (shape, made) in table.constant.items():
        found = tensors.pop(name, None)
        if found is None:
            continue
        if found.shape != shape:
            raise ModelError(
                f"{found.path}: {name!r} has shape {found.shape}, {table.asked} asks for {shape}"
            )
        if not is_constant(found, made()):
            raise ModelError(f"{found.path}: {name!r} is not the sinusoids that the family uses")
    for alias, name in table.same.items():
        copy = tensors.pop(alias, None)
        if copy is None:
            continue
        first = tensors.setdefault(name, copy)
        if first is not copy and not first.equals(copy):
            raise ModelError(f"{copy.path}: {alias!r} and {name!r} differ, but {table.asked} ties them")
    return tensors


def is_constant(found: StoredTensor, wanted: Floats) -> bool:
    """Return True if a stored table equals the computed one up to rounding."""
    return found.shape == wanted.shape and np.allclose(found.floats(), wanted, atol=CLOSE)


def _check_shapes(
    name: str, shape: tuple[int, ...], table: Table, tensors: Mapping[str, StoredTensor]
) -> None:
    views, longer = table.weights[name], table.longer.get(name)
    rows = longer.rows if longer else shape[0]
    wanted = (rows // len(views), *shape[1:])
    for view in views:
        tensor = tensors.get(view.name)
        if tensor is None:
            continue  # a weight that is zero if it is not stored
        if not tensor.floating:
            raise ModelError(
                f"{tensor.path}: {view.name!r} is stored as {tensor.format}, which is not a weight format"
            )
        found = tensor.shape[::-1] if view.turned and len(tensor.shape) == 2 else tensor.shape
        if view.of > 1:
            if not found or found[0] % view.of:
                raise ModelError(
                    f"{tensor.path}: {view.name!r} has shape {tensor.shape}, which is not that of {view.of} "
                    "projections"
                )
            found = (found[0] // view.of * (view.last - view.first), *found[1:])
        if found == wanted or (
            len(wanted) == 1 and wanted[0] == max(found, default=0) == math.prod(tensor.shape)
        ):
            continue
        if longer and (found[1:] == wanted[1:] or len(wanted) == 1):
            stored = math.prod(tensor.shape) if len(wanted) == 1 else found[0]
            raise ModelError(
                f"{tensor.path}: {view.name!r} is for {stored} tokens, but the vocabulary has "
                f"{longer.rows}; the files belong to different models"
            )
        raise ModelError(
            f"{tensor.path}: {view.name!r} has shape {found}, {table.asked} asks for {wanted}; "
            "the files belong to different models"
        )


def _seen(view: View, values: NDArray[Any]) -> NDArray[Any]:
    """Return the part of a stored tensor that a view selects; only reordered rows are copied."""
    turned = values.T if view.turned else values
    if view.interleaved:
        pairs = turned.reshape(view.interleaved, -1, 2, *turned.shape[1:])  # (heads, d/2, 2, ...)
        turned = np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(turned.shape)
    if view.of == 1:
        return turned
    rows = turned.shape[0] // view.of
    return turned[view.first * rows : view.last * rows]


def plain(names: Mapping[str, str]) -> dict[str, tuple[View, ...]]:
    """Return the table of weights that are stored unchanged under uwaga's names."""
    return {ours: (View(theirs),) for ours, theirs in names.items()}
