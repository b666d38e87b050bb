"""Memory on huge pages: alignment, and equality of arrays packed there and in ordinary memory."""

import gc

import numpy as np
import pytest

from uwaga.engine import _core, pack
from uwaga.engine.layout import stored_shapes
from uwaga.engine.packing import ALIGNMENT, BLOCK_ROWS, HUGE_PAGE, StoredForms, allocate_huge_pages
from uwaga.settings import DecoderOnlySettings, TransformerSettings

SHAPE = TransformerSettings(
    encoder_layers=2, decoder_layers=2, width=256, heads=4, feed_forward=2112, max_length=40, tie="all"
)
VOCABULARY = 3000


@pytest.mark.parametrize("size", [0, 1, 4097, HUGE_PAGE - 1, HUGE_PAGE, 3 * HUGE_PAGE + 5])
def test_huge_page_buffers_are_aligned_and_zeroed(size):
    array = allocate_huge_pages(size)
    assert array.shape == (size,)
    assert not array.any()
    assert array.ctypes.data % (HUGE_PAGE if size >= HUGE_PAGE else 64) == 0
    array[:] = 1
    assert array.sum() == size


@pytest.mark.parametrize(
    "pack_matrix", [lambda w, *a: _core.pack_int8(w, 127, *a), _core.pack_float, _core.pack_bfloat16]
)
def test_packing_into_huge_pages_does_not_change_packed_arrays(pack_matrix):
    rng = np.random.default_rng(0)
    arena = _core.WeightArena()
    for outputs, inputs in ((1, 1), (33, 65), (256, 300), (1500, 1400)):
        weight = rng.normal(size=(outputs, inputs)).astype(np.float32)
        for in_arena, separate in zip(
            arrays(pack_matrix(weight, arena)), arrays(pack_matrix(weight)), strict=True
        ):
            assert in_arena.ctypes.data % 64 == 0
            assert np.array_equal(in_arena, separate)


def arrays(packed):
    return packed if isinstance(packed, tuple) else (packed,)


def test_small_matrices_share_huge_pages():
    rng = np.random.default_rng(0)
    arena = _core.WeightArena()
    weights = [rng.normal(size=(40, 50)).astype(np.float32) for _ in range(100)]
    packed = [_core.pack_float(weight, arena) for weight in weights]
    del arena
    gc.collect()
    addresses = [array.ctypes.data for array in packed]
    assert addresses == sorted(addresses)
    assert addresses[-1] - addresses[0] < HUGE_PAGE
    for array, weight in zip(packed, weights, strict=True):
        assert np.array_equal(array, _core.pack_float(weight))


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8", "int4"])
@pytest.mark.parametrize("width", [64, 256])
def test_packing_row_by_row_equals_packing_the_whole_matrix(precision, width):
    settings = DecoderOnlySettings(layers=1, width=width, heads=4, feed_forward=96, max_length=40)
    vocabulary = 2 * BLOCK_ROWS + 33
    rng = np.random.default_rng(0)
    shapes = stored_shapes(settings, vocabulary, vocabulary)
    stored = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    blocks = []

    def rows(name, first, last):
        blocks.append((name, first, last))
        return stored[name][first:last]

    expected = pack(settings, (vocabulary, vocabulary), stored.__getitem__, precision)
    packed = pack(
        settings, (vocabulary, vocabulary), stored.__getitem__, precision, stored_forms=StoredForms(rows=rows)
    )
    assert [(first, last) for _, first, last in blocks] == [
        (0, BLOCK_ROWS),
        (BLOCK_ROWS, 2 * BLOCK_ROWS),
        (2 * BLOCK_ROWS, vocabulary),
    ]
    for name, matrix in expected.matrices.items():
        for array, expected_array in zip(packed.matrices[name].arrays, matrix.arrays, strict=True):
            assert array.ctypes.data % ALIGNMENT == 0 and array.dtype == expected_array.dtype
            assert np.array_equal(array, expected_array)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_packed_matrices_are_adjacent_in_memory(precision):
    shapes = stored_shapes(SHAPE, VOCABULARY, VOCABULARY)
    packed = pack(SHAPE, (VOCABULARY, VOCABULARY), lambda name: np.ones(shapes[name], np.float32), precision)
    all_arrays = [array for matrix in packed.matrices.values() for array in matrix.arrays]
    pages: set[int] = set()
    for array in all_arrays:
        address = array.ctypes.data
        pages.update(range(address // HUGE_PAGE, -(-(address + array.nbytes) // HUGE_PAGE)))
    assert len(pages) <= 1.2 * sum(array.nbytes for array in all_arrays) / HUGE_PAGE + 4
