"""Weights as the kernels read them: panels of 32 outputs in int8, bfloat16 or float32."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uwaga.engine import _core
from uwaga.engine.layout import EngineSettings, Product, products, vectors, weight_name
from uwaga.errors import ModelError, SettingsError
from uwaga.results.attention import Floats

HUGE_PAGE = 1 << 21
ALIGNMENT = 64
"""Bytes on whose multiples arrays begin. torch allots so too: its kernels sum in another order elsewhere."""

Bytes = NDArray[np.uint8]


def huge_bytes(size: int) -> Bytes:
    """So many bytes, from a huge page's beginning where they are as many as one has; zeros.

    Where the system has no such pages they lie on what it has.
    """
    if not hasattr(mmap, "MAP_PRIVATE"):
        owner = np.zeros(size + ALIGNMENT, dtype=np.uint8)
        first = -owner.ctypes.data % ALIGNMENT
        return owner[first : first + size]
    room = -(-size // HUGE_PAGE) * HUGE_PAGE + HUGE_PAGE if size >= HUGE_PAGE else max(size, 1)
    memory = mmap.mmap(-1, room, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    owner = np.frombuffer(memory, dtype=np.uint8)
    first = -owner.ctypes.data % HUGE_PAGE if size >= HUGE_PAGE else 0
    if size >= HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    return owner[first : first + size]


CHUNK = 1 << 20
"""Numbers that are looked at together."""


def all_finite(values: NDArray[Any]) -> bool:
    """Whether no number is infinite or NaN; takes no memory of the size of ``values``."""
    flat = values.ravel(order="K")
    return all(np.isfinite(flat[start : start + CHUNK]).all() for start in range(0, flat.size, CHUNK))


Precision = Literal["float32", "bfloat16", "int8"]
PARTS: dict[str, tuple[str, ...]] = {
    "int8": ("panels", "scales", "sums"),
    "bfloat16": ("panels",),
    "float32": ("panels",),
}
"""The arrays of a matrix in each format."""

Read = Callable[[str], Floats]
"""From a stored tensor's name to its numbers; called once for each, so that no two copies of all exist."""

Integers = tuple[NDArray[np.int8], NDArray[np.float32]]
"""A weight (outputs, inputs) as whole numbers up to 127, and of each output what they are multiplied by.

Of a matrix that is stored alone, outputs that are zero may be missing at the end."""


@dataclass(frozen=True)
class Matrix:
    """A packed matrix; ``arrays`` as :data:`PARTS` says, ``levels`` the largest quantised number."""

    outputs: int
    inputs: int
    format: Precision
    levels: int
    arrays: tuple[NDArray[Any], ...]

    def core(self) -> _core.Matrix:
        """The same for the core, which checks every size."""
        if self.format == "int8":
            return _core.Matrix.int8(self.outputs, self.inputs, self.levels, *self.arrays)
        make = _core.Matrix.bfloat16 if self.format == "bfloat16" else _core.Matrix.float32
        return make(self.outputs, self.inputs, *self.arrays)


@dataclass(frozen=True)
class Packed:
    """All weights of a model: ``vectors`` are biases, norms and what positions are made of.

    ``check`` raises ModelError where the arrays, which may lie in a file, are no longer what they were.
    """

    matrices: dict[str, Matrix]
    vectors: dict[str, Floats]
    precision: Precision
    check: Callable[[], None] | None = None


def pack(
    settings: EngineSettings,
    source: int,
    target: int,
    read: Read,
    precision: Precision = "float32",
    keep: Sequence[str] = (),
    levels: int = 127,
    integers: Callable[[str], Integers | None] = lambda name: None,
) -> Packed:
    """Pack a model's weights.

    Args:
        settings: of the model.
        source: source vocabulary; of a decoder-only model the one that there is.
        target: target vocabulary.
        read: gives a stored tensor.
        precision: number format of the matrices; all else stays float32.
        keep: of an int8 model, patterns of the names of matrices that stay bfloat16 (``decoder.0.*``).
        levels: largest quantised number.
        integers: gives a stored tensor as the whole numbers that it is stored as, None if it is not; they
            are taken as they are where all of a matrix is int8 of 127 levels.

    Raises:
        SettingsError: a pattern in ``keep`` fits no matrix.
        ModelError: a weight is not finite, or has more inputs than int8 takes.
    """
    matrices: dict[str, Matrix] = {}
    made: dict[str, Floats] = {}
    # The largest first: what is read of the file lies beside what is packed, and soon there is much of that.
    wanted = sorted(products(settings, source, target), key=lambda one: -sum(one.outputs) * one.inputs)
    # A small model has nothing to gain from huge pages, and would take a whole one.
    numbers = sum(sum(product.outputs) * product.inputs for product in wanted)
    arena = _core.WeightArena() if numbers >= HUGE_PAGE else None
    kept = _kept(keep, [product.name for product in wanted])
    for product in wanted:
        form: Precision = "bfloat16" if product.name in kept else precision
        exact = (
            [integers(weight_name(part)) for part in product.parts] if (form, levels) == ("int8", 127) else []
        )
        found = [one for one in exact if one is not None]
        if len(found) == len(product.parts):
            matrices[product.name] = _whole_numbers(product, found, arena)
        else:
            whole = _together([read(weight_name(part)) for part in product.parts])
            _check_finite(whole, product.name)
            matrices[product.name] = _matrix(product, whole, form, levels, arena)
            del whole
        if product.bias:
            made[f"{product.name}.bias"] = np.array(
                _together([read(f"{part}.bias") for part in product.parts])
            )
    for name in vectors(settings, target):
        made["output.bias" if name == "output_bias" else name] = np.array(read(name), dtype=np.float32)
    for name, vector in made.items():
        _check_finite(vector, name)
    return Packed(matrices, made, precision)


def _whole_numbers(product: Product, parts: Sequence[Integers], arena: _core.WeightArena | None) -> Matrix:
    numbers = parts[0][0] if len(parts) == 1 else np.concatenate([part[0] for part in parts])
    scales = parts[0][1] if len(parts) == 1 else np.concatenate([part[1] for part in parts])
    _check_finite(scales, product.name)
    outputs = sum(product.outputs)
    whole = np.ascontiguousarray(numbers), np.ascontiguousarray(scales)
    arrays = _core.pack_int8_numbers(*whole, outputs, arena)
    return Matrix(outputs, product.inputs, "int8", 127, arrays)


def _matrix(
    product: Product, whole: Floats, form: Precision, levels: int, arena: _core.WeightArena | None
) -> Matrix:
    arrays: tuple[NDArray[Any], ...]
    if form == "int8":
        try:
            arrays = _core.pack_int8(whole, levels, arena)
        except ValueError as error:
            raise ModelError(
                f"weight {product.name!r} cannot be int8: {error}; keep it in bfloat16"
            ) from None
    elif form == "bfloat16":
        arrays = (_core.pack_bfloat16(whole, arena),)
    else:
        arrays = (_core.pack_float(whole, arena),)
    return Matrix(sum(product.outputs), product.inputs, form, levels, arrays)


def _kept(patterns: Sequence[str], names: Sequence[str]) -> set[str]:
    kept: set[str] = set()
    for pattern in patterns:
        found = {name for name in names if fnmatchcase(name, pattern)}
        if not found:
            raise SettingsError(
                f"keep: {pattern!r} fits no matrix; there are {', '.join(names[:4])} ... {names[-1]}"
            )
        kept |= found
    return kept


def _together(parts: Sequence[Floats]) -> Floats:
    whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return np.ascontiguousarray(whole, dtype=np.float32)


def _check_finite(values: Floats, name: str) -> None:
    if not np.isfinite(values).all():
        raise ModelError(f"weight {name!r} holds numbers that are not finite; the file is damaged")
