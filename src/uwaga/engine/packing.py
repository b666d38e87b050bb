"""Packing of weights for the kernels: panels of 32 outputs in int8, int4, bfloat16 or float32."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uwaga.engine import _core
from uwaga.engine.layout import EngineSettings, Precision, Product, products, vectors
from uwaga.errors import ModelError, SettingsError
from uwaga.results.attention import Floats
from uwaga.settings import DecoderOnlySettings

HUGE_PAGE = 1 << 21
ALIGNMENT = 64
"""Alignment of arrays in bytes, as in torch, whose kernels sum in another order for other alignments."""

Bytes = NDArray[np.uint8]


def allocate_huge_pages(size: int) -> Bytes:
    """Return a new array of ``size`` zero bytes, aligned to a huge page (2 MB) if it is at least that large.

    A step reads all weights of the decoder once, and huge pages need fewer page-table entries. Systems
    without huge pages use ordinary pages.
    """
    if not hasattr(mmap, "MAP_PRIVATE"):
        buffer = np.zeros(size + ALIGNMENT, dtype=np.uint8)
        offset = -buffer.ctypes.data % ALIGNMENT
        return buffer[offset : offset + size]
    capacity = round_up(size, HUGE_PAGE) + HUGE_PAGE if size >= HUGE_PAGE else max(size, 1)
    memory = mmap.mmap(-1, capacity, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    buffer = np.frombuffer(memory, dtype=np.uint8)
    offset = -buffer.ctypes.data % HUGE_PAGE if size >= HUGE_PAGE else 0
    if size >= HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # the kernel has no huge pages
            memory.madvise(mmap.MADV_HUGEPAGE)
    return buffer[offset : offset + size]


VALUES_PER_CHECK = 1 << 20
"""Number of values checked at a time."""


def all_finite(values: NDArray[Any]) -> bool:
    """Return whether all values are finite; large arrays are checked in parts, to save memory."""
    flat_values = values.ravel(order="K")
    return all(
        np.isfinite(flat_values[start : start + VALUES_PER_CHECK]).all()
        for start in range(0, flat_values.size, VALUES_PER_CHECK)
    )


MAX_LEVELS = 127
"""Default maximum integer of an int8 matrix, which all processors support."""
MIN_QUANTISED = 1e-30
"""Rows whose largest magnitude is below this are rounded to zeros (native/kernels/packing.cpp)."""
KEPT_FORMATS: dict[Precision, Precision] = {"int8": "bfloat16", "int4": "int8"}
"""The number format of matrices that are kept at a higher precision, by the precision of the model."""

ReadTensor = Callable[[str], Floats]
"""A function that returns a stored tensor by name; it is called for one matrix at a time, so that the model
is in memory only once."""
ReadRows = Callable[[str, int, int], Floats | None]
"""A function that returns the rows of a stored tensor from a first to a last (exclusive), or None if it can
only read the whole tensor."""
PANEL = 32
"""Number of outputs in a panel."""
BLOCK_ROWS = 128 * PANEL
"""Number of rows of a matrix packed at a time."""

IntegerWeight = tuple[NDArray[np.int8], NDArray[np.float32]]
"""A weight (outputs, inputs) as integers up to 127, and the scale of each output.

In a matrix of a single stored tensor, trailing zero outputs may be missing."""


class Matrix(NamedTuple):
    """A packed matrix.

    Attributes:
        outputs: number of outputs.
        inputs: number of inputs.
        format: number format.
        levels: the maximum integer of an int8 matrix.
        arrays: its panels and, for integers, scales and sums.
        spread: whether the inputs of an int8 matrix are first spread by an orthogonal matrix
            (native/kernels/kernels.h).
    """

    outputs: int
    inputs: int
    format: Precision
    levels: int
    arrays: tuple[NDArray[Any], ...]
    spread: bool = False

    def core(self) -> _core.Matrix:
        """Return a matrix of the core, which checks all sizes."""
        if self.format == "int8":
            return _core.Matrix.int8(self.outputs, self.inputs, self.levels, *self.arrays, spread=self.spread)
        if self.format == "int4":
            return _core.Matrix.int4(self.outputs, self.inputs, *self.arrays)
        constructor = _core.Matrix.bfloat16 if self.format == "bfloat16" else _core.Matrix.float32
        return constructor(self.outputs, self.inputs, *self.arrays)


class PackedWeights(NamedTuple):
    """The packed weights of a model.

    Attributes:
        matrices: the packed matrices by name.
        vectors: biases, norms and positions by name.
        precision: number format of the matrices.
        check: function that raises ModelError if the file from which the arrays are mapped has changed; None
            for other arrays.
    """

    matrices: dict[str, Matrix]
    vectors: dict[str, Floats]
    precision: Precision
    check: Callable[[], None] | None = None


class StoredForms(NamedTuple):
    """Optional readers for stored tensors: one returns a tensor's integers, the other a range of its rows.

    Attributes:
        integers: function that returns a tensor stored as integers, or None for other tensors. The integers
            are used unchanged if all tensors of an int8 matrix with 127 levels are stored as integers.
        rows: function that returns rows of a stored tensor, so that a large tensor need not be in memory.
    """

    integers: Callable[[str], IntegerWeight | None] = lambda name: None
    rows: ReadRows = lambda name, first, last: None


FLOAT_FORMS = StoredForms()
"""The readers for tensors that are stored as floats and are read as a whole."""


def pack(
    settings: EngineSettings,
    vocabulary: tuple[int, int],
    read: ReadTensor,
    precision: Precision = "float32",
    keep: Sequence[str] = (),
    levels: int = MAX_LEVELS,
    stored_forms: StoredForms = FLOAT_FORMS,
) -> PackedWeights:
    """Return the packed weights of a model.

    In decoder-only models, int8 matrices have ``spread`` set; see :class:`Matrix`.

    Args:
        settings: the settings of the model.
        vocabulary: number of source tokens and of target tokens; equal in a decoder-only model.
        read: function that returns a stored tensor by name.
        precision: number format of the matrices; vectors stay float32.
        keep: patterns of the names of matrices (``decoder.0.*``) that stay bfloat16 in an int8 model, or int8
            in an int4 model.
        levels: maximum integer of int8 matrices.
        stored_forms: optional functions that read tensors as integers, or only some of their rows.
    """
    matrices: dict[str, Matrix] = {}
    packed_vectors: dict[str, Floats] = {}
    # Largest first, since a tensor being read adds to the memory of those already packed.
    sorted_products = sorted(products(settings, *vocabulary), key=_weight_count, reverse=True)
    # A small model gains nothing from huge pages.
    arena = _core.WeightArena() if sum(map(_weight_count, sorted_products)) >= HUGE_PAGE else None
    largest = _weight_count(sorted_products[0])
    kept_names = _matching_names(keep, [product.name for product in sorted_products])
    spread = isinstance(settings, DecoderOnlySettings)
    for product in sorted_products:
        if _weight_count(product) < largest:
            largest = _weight_count(product)
            _core.trim_heap()  # return the memory used to read larger tensors to the system
        number_format = KEPT_FORMATS.get(precision, "bfloat16") if product.name in kept_names else precision
        stores_integers = (number_format, levels, product.shape, spread) == ("int8", MAX_LEVELS, None, False)
        stored_integers = (
            [stored_forms.integers(weight) for weight in product.weights] if stores_integers else []
        )
        integer_parts = [part_integers for part_integers in stored_integers if part_integers is not None]
        if len(integer_parts) == len(product.weights):
            matrices[product.name] = _pack_integers(product, integer_parts, arena)
        else:
            blocks = _blocks(product, read, stored_forms.rows)
            matrices[product.name] = _matrix(product, blocks, number_format, levels, arena, spread)
        if product.biases:
            biases = _concatenate([read(bias) for bias in product.biases])
            packed_vectors[f"{product.name}.bias"] = np.array(
                biases if product.shape is None else biases[product.rows]
            )
    for name in vectors(settings, vocabulary[1]):
        packed_vectors["output.bias" if name == "output_bias" else name] = np.array(
            read(name), dtype=np.float32
        )
    for name, vector in packed_vectors.items():
        _check_finite(vector, name)
    return PackedWeights(matrices, packed_vectors, precision)


def _weight_count(product: Product) -> int:
    return sum(product.outputs) * product.inputs


def _pack_integers(
    product: Product, parts: Sequence[IntegerWeight], arena: _core.WeightArena | None
) -> Matrix:
    numbers = parts[0][0] if len(parts) == 1 else np.concatenate([part[0] for part in parts])
    scales = parts[0][1] if len(parts) == 1 else np.concatenate([part[1] for part in parts])
    _check_finite(scales, product.name)
    outputs = sum(product.outputs)
    contiguous_arrays = np.ascontiguousarray(numbers), np.ascontiguousarray(scales)
    arrays = _core.pack_int8_numbers(*contiguous_arrays, outputs, arena)
    return Matrix(outputs, product.inputs, "int8", MAX_LEVELS, arrays)


def _blocks(product: Product, read: ReadTensor, rows: ReadRows) -> Iterator[Floats]:
    """Yield a matrix in blocks, of :data:`BLOCK_ROWS` rows if ``rows`` supports it."""
    outputs = sum(product.outputs)
    if len(product.weights) == 1 and product.shape is None and outputs > BLOCK_ROWS:
        for first_row in range(0, outputs, BLOCK_ROWS):
            block = rows(product.weights[0], first_row, min(first_row + BLOCK_ROWS, outputs))
            if block is None:  # the tensor can only be read whole
                break
            yield _concatenate([block])
        else:
            return
    weight = _concatenate([read(weight) for weight in product.weights])
    yield weight if product.shape is None else np.ascontiguousarray(weight[product.rows, product.columns])


def _matrix(
    product: Product,
    blocks: Iterable[Floats],
    number_format: Precision,
    levels: int,
    arena: _core.WeightArena | None,
    spread: bool,
) -> Matrix:
    # Published weights are often on a 4-bit grid, which spreading would destroy.
    spread = spread and number_format == "int8"
    outputs = sum(product.outputs)
    arrays: tuple[NDArray[Any], ...] = ()
    for block_index, block in enumerate(blocks):
        _check_finite(block, product.name)
        is_complete = len(block) == outputs
        try:
            parts = _pack_block(block, number_format, levels, arena if is_complete else None, spread)
        except ValueError as error:
            raise ModelError(
                f"weight {product.name!r} cannot be stored in {number_format}: {error}; keep it in bfloat16"
            ) from None
        if is_complete:
            arrays = parts
        else:
            arrays = arrays or tuple(_allocate(part, outputs, arena) for part in parts)
            first, last = block_index * BLOCK_ROWS, block_index * BLOCK_ROWS + round_up(len(block), PANEL)
            for array, part in zip(arrays, parts, strict=True):
                array.reshape(round_up(outputs, PANEL), -1)[first:last] = part.reshape(last - first, -1)
    return Matrix(outputs, product.inputs, number_format, levels, arrays, spread)


def _pack_block(
    block: Floats, number_format: Precision, levels: int, arena: _core.WeightArena | None, spread: bool
) -> tuple[NDArray[Any], ...]:
    if number_format == "int4":
        return _core.pack_int4(block, arena)
    if number_format == "int8":
        return _core.pack_int8(block, levels, arena, spread)
    return ((_core.pack_bfloat16 if number_format == "bfloat16" else _core.pack_float)(block, arena),)


def _allocate(part: NDArray[Any], outputs: int, arena: _core.WeightArena | None) -> NDArray[Any]:
    """Return a new array for a packed matrix, given the packed array of its first :data:`BLOCK_ROWS` rows."""
    size = part.nbytes // BLOCK_ROWS * round_up(outputs, PANEL)
    return (allocate_huge_pages(size) if arena is None else arena.take(size)).view(part.dtype)


def round_up(count: int, unit: int) -> int:
    """Return ``count`` rounded up to a multiple of ``unit``."""
    return -(-count // unit) * unit


def _matching_names(patterns: Sequence[str], names: Sequence[str]) -> set[str]:
    matches: set[str] = set()
    for pattern in patterns:
        matching_names = {name for name in names if fnmatchcase(name, pattern)}
        if not matching_names:
            raise SettingsError(
                f"keep: {pattern!r} matches no matrix; choose from {', '.join(names[:4])} ... {names[-1]}"
            )
        matches |= matching_names
    return matches


def _concatenate(parts: Sequence[Floats]) -> Floats:
    weight = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return np.ascontiguousarray(weight, dtype=np.float32)


def _check_finite(values: Floats, name: str) -> None:
    if not all_finite(values):
        raise ModelError(f"weight {name!r} contains values that are not finite; the file is damaged")
