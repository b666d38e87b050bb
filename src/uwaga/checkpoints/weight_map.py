"""Tables that map other libraries' weights to uwaga's names and shapes. Does not import torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uwaga.checkpoints.storage.tensors import QuantisedTensor, StoredTensor
from uwaga.errors import ModelError
from uwaga.results.attention import Floats

MAX_NAMES = 3
TOLERANCE = 2e-3
"""Tolerance when a stored position table, which may be rounded to 16 bits, is compared with the formula."""


class View(NamedTuple):
    """A rule for obtaining a uwaga weight, or a part of one, from a stored tensor.

    Attributes:
        name: name of the stored tensor.
        transposed: True if the tensor is stored as (inputs, outputs).
        first, last, parts: the outputs are divided into ``parts`` equal parts, of which ``first`` to
            ``last - 1`` are selected.
        interleaved: number of heads if the rows of each head, of width d, are stored in the order 0, d/2, 1,
            d/2 + 1 and so on; 0 if the rows are in order.
    """

    name: str
    transposed: bool = False
    first: int = 0
    last: int = 1
    parts: int = 1
    interleaved: int = 0


class RowPadding(NamedTuple):
    """Padding of a weight: only the first ``rows`` rows are stored; all further rows contain ``value``."""

    rows: int
    value: float = 0.0


@dataclass(frozen=True)
class Table:
    """The mapping from weights to stored tensors.

    Attributes:
        weights: the stored tensors of each uwaga weight, which are concatenated by rows. Weights that the
            model lacks because they are tied may be included.
        aliases: for each name under which a copy of a tied tensor may be stored, the name of that tensor.
        constant: for each stored tensor with prescribed values, its shape and a function for the values.
        unused: names of stored tensors that are ignored.
        optional: names of weights that are zero if they are not stored.
        padding: padding of the weights that have more rows than are stored.
        origin: where the expected shapes are stated, for messages.
    """

    weights: Mapping[str, tuple[View, ...]]
    aliases: Mapping[str, str] = field(default_factory=dict)
    constant: Mapping[str, tuple[tuple[int, ...], Callable[[], Floats]]] = field(default_factory=dict)
    unused: Collection[str] = ()
    optional: Collection[str] = ()
    padding: Mapping[str, RowPadding] = field(default_factory=dict)
    origin: str = "config.json"


@dataclass(frozen=True)
class Weights:
    """Weights that are read on demand from files, by uwaga's names.

    Attributes:
        shapes: shape of each weight; tied weights are listed once.
        table: the mapping from weights to stored tensors.
        tensors: the tensors of the files, by the names used in the table.
    """

    shapes: Mapping[str, tuple[int, ...]]
    table: Table
    tensors: Mapping[str, StoredTensor]

    def names(self) -> Sequence[str]:
        """Return the names of the weights in uwaga; tied weights are listed once."""
        return tuple(self.shapes)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a weight in uwaga."""
        return self.shapes[name]

    def format(self, name: str) -> str:
        """Return the number format in which a weight is stored, by its safetensors name."""
        tensor = self.tensors.get(self.table.weights[name][0].name)
        return "F32" if tensor is None else tensor.format

    def origin(self, name: str) -> str:
        """Return the file and the stored name of a weight as a string, for messages."""
        tensor = self.tensors.get(self.table.weights[name][0].name)
        return repr(name) if tensor is None else f"{tensor.path}: {tensor.name!r}"

    @property
    def parameters(self) -> int:
        """Number of stored parameters; tied weights are counted once."""
        used_names = {view.name for name in self.shapes for view in self.table.weights[name]}
        distinct_views = {
            id(self.tensors[name].content): self.tensors[name] for name in used_names & set(self.tensors)
        }
        return sum(math.prod(tensor.shape) for tensor in distinct_views.values())

    def with_path(self, path: Path) -> Weights:
        """Return the same weights with another path to show in messages."""
        return replace(
            self, tensors={name: replace(tensor, path=path) for name, tensor in self.tensors.items()}
        )

    def read(self, name: str) -> Floats:
        """Return a weight in float32."""
        shape, views, padding = self.shapes[name], self.table.weights[name], self.table.padding.get(name)
        if views[0].name not in self.tensors:
            weight = np.zeros((padding.rows, *shape[1:]) if padding else shape, dtype=np.float32)
        else:
            parts = [_select(view, self.tensors[view.name].floats()) for view in views]
            weight = parts[0] if len(parts) == 1 else np.concatenate(parts)
        if padding is None:
            return weight.reshape(shape)
        padded = np.full(shape, padding.value, dtype=np.float32)
        padded[: padding.rows] = weight.reshape(padding.rows, *shape[1:])
        return padded

    def rows(self, name: str, first: int, last: int) -> Floats | None:
        """Return rows ``first`` to ``last`` - 1 of a weight; None if only the full weight can be read."""
        view, *other_views = self.table.weights[name]
        tensor = self.tensors.get(view.name)
        is_composed = other_views or name in self.table.padding or view != View(view.name)
        if (
            is_composed
            or tensor is None
            or isinstance(tensor, QuantisedTensor)
            or tensor.shape != self.shapes[name]
        ):
            return None
        return tensor.rows(first, last).floats()

    def integers(self, name: str) -> tuple[NDArray[np.int8], NDArray[np.float32]] | None:
        """Return the stored int8 matrix (outputs, inputs) and the scale of each output, (outputs,).

        The result is None if the matrix is stored in another format. Rows of zeros at the end are
        omitted if they are not stored.
        """
        views, padding = self.table.weights[name], self.table.padding.get(name)
        tensors = [self.tensors.get(view.name) for view in views]
        quantised = [
            tensor for tensor in tensors if isinstance(tensor, QuantisedTensor) and tensor.format == "I8"
        ]
        shape = self.shapes[name]
        if len(quantised) < len(views) or len(shape) != 2:
            return None
        parts = [_select(view, tensor.values) for view, tensor in zip(views, quantised, strict=True)]
        # A matrix with a factor for each row is one tensor; see join_scales().
        scales = [
            np.broadcast_to(np.asarray(tensor.scale, np.float32), len(part))
            for part, tensor in zip(parts, quantised, strict=True)
        ]
        matrix = parts[0] if len(parts) == 1 else np.concatenate(parts)
        scale = np.concatenate(scales)
        return None if padding is not None and padding.value else (matrix, scale)


def map_weights(
    shapes: Mapping[str, tuple[int, ...]],
    table: Table,
    stored_tensors: Mapping[str, StoredTensor],
    location: str,
) -> Weights:
    """Return the weights of a model, mapped to stored tensors, after checking names and shapes.

    Only the values of copies and constants are read, to check them.

    Args:
        shapes: shape of each weight of the model; tied weights are listed once.
        table: the mapping from weights to stored tensors.
        stored_tensors: the tensors, by the names used in the table.
        location: the folder or file, for messages.
    """
    unmapped_names = set(shapes) - set(table.weights)
    if unmapped_names:
        raise AssertionError(f"the table lacks the weights {sorted(unmapped_names)}")
    tensors = _remove_redundant(table, stored_tensors)
    required_names = {view.name for name in shapes for view in table.weights[name]}
    optional_names = {
        view.name for name in table.optional if name in table.weights for view in table.weights[name]
    }
    for names, problem in (
        (sorted(required_names - set(tensors) - optional_names), f"missing, but required by {table.origin}"),
        (
            sorted(set(tensors) - required_names),
            "unknown in this family, or part of a feature that is not supported",
        ),
    ):
        if names:
            suffix = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
            raise ModelError(
                f"{location}: weights {', '.join(map(repr, names[:MAX_NAMES]))}{suffix}: {problem}"
            )
    for name, shape in shapes.items():
        _check_shapes(name, shape, table, tensors)
    return Weights(shapes, table, {**stored_tensors, **tensors})


def _remove_redundant(table: Table, stored_tensors: Mapping[str, StoredTensor]) -> dict[str, StoredTensor]:
    """Check stored constants and copies, and return the other tensors, which contain the weights."""
    tensors = {name: tensor for name, tensor in stored_tensors.items() if name not in table.unused}
    for name, (shape, compute) in table.constant.items():
        stored_tensor = tensors.pop(name, None)
        if stored_tensor is None:
            continue
        if stored_tensor.shape != shape:
            raise ModelError(
                f"{stored_tensor.path}: {name!r} has shape {stored_tensor.shape}, but {table.origin} "
                f"requires {shape}"
            )
        if not is_constant(stored_tensor, compute()):
            raise ModelError(
                f"{stored_tensor.path}: {name!r} does not contain the sinusoids that the family uses"
            )
    for alias, name in table.aliases.items():
        copy = tensors.pop(alias, None)
        if copy is None:
            continue
        first_tensor = tensors.setdefault(name, copy)
        if first_tensor is not copy and not first_tensor.equals(copy):
            raise ModelError(f"{copy.path}: {alias!r} and {name!r} differ, but {table.origin} ties them")
    return tensors


def is_constant(stored_tensor: StoredTensor, expected_values: Floats) -> bool:
    """Return True if a stored table equals a computed table, apart from rounding."""
    return stored_tensor.shape == expected_values.shape and np.allclose(
        stored_tensor.floats(), expected_values, atol=TOLERANCE
    )


def _check_shapes(
    name: str, shape: tuple[int, ...], table: Table, tensors: Mapping[str, StoredTensor]
) -> None:
    views, padding = table.weights[name], table.padding.get(name)
    rows = padding.rows if padding else shape[0]
    expected_shape = (rows // len(views), *shape[1:])
    for view in views:
        tensor = tensors.get(view.name)
        if tensor is None:
            continue  # a weight that is zero if it is not stored
        if not tensor.is_floating:
            raise ModelError(
                f"{tensor.path}: {view.name!r} is stored as {tensor.format}, which is not a weight format"
            )
        actual = tensor.shape[::-1] if view.transposed and len(tensor.shape) == 2 else tensor.shape
        if view.parts > 1:
            if not actual or actual[0] % view.parts:
                raise ModelError(
                    f"{tensor.path}: {view.name!r} has shape {tensor.shape}, which cannot be divided "
                    f"into {view.parts} projections"
                )
            actual = (actual[0] // view.parts * (view.last - view.first), *actual[1:])
        if actual == expected_shape or (
            len(expected_shape) == 1
            and expected_shape[0] == max(actual, default=0) == math.prod(tensor.shape)
        ):
            continue
        if padding and (actual[1:] == expected_shape[1:] or len(expected_shape) == 1):
            stored_tokens = math.prod(tensor.shape) if len(expected_shape) == 1 else actual[0]
            raise ModelError(
                f"{tensor.path}: {view.name!r} is for {stored_tokens} tokens, but the vocabulary has "
                f"{padding.rows}; the files belong to different models"
            )
        raise ModelError(
            f"{tensor.path}: {view.name!r} has shape {actual}, but {table.origin} requires {expected_shape}; "
            "the files belong to different models"
        )


def _select(view: View, values: NDArray[Any]) -> NDArray[Any]:
    """Return the part of a stored tensor that a view selects; only reordered rows are copied."""
    selected = values.T if view.transposed else values
    if view.interleaved:
        pairs = selected.reshape(view.interleaved, -1, 2, *selected.shape[1:])  # (heads, d/2, 2, ...)
        selected = np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(selected.shape)
    if view.parts == 1:
        return selected
    rows = selected.shape[0] // view.parts
    return selected[view.first * rows : view.last * rows]


def identity_table(names: Mapping[str, str]) -> dict[str, tuple[View, ...]]:
    """Return :attr:`Table.weights` for weights that are stored unchanged.

    Args:
        names: stored names by name in uwaga.
    """
    return {name: (View(stored_name),) for name, stored_name in names.items()}
