"""Memory on huge pages: where it begins, and that what is packed there is what is packed elsewhere."""

import gc

import numpy as np
import pytest

from uwaga.engine import _core, pack
from uwaga.engine.layout import stored_shapes
from uwaga.engine.packing import ALIGNMENT, HUGE_PAGE, ROWS, huge_bytes
from uwaga.settings import DecoderOnlySettings, TransformerSettings

SHAPE = TransformerSettings(
    encoder_layers=2, decoder_layers=2, width=256, heads=4, feed_forward=2112, max_length=40, tie="all"
)
VOCABULARY = 3000


@pytest.mark.parametrize("size", [0, 1, 4097, HUGE_PAGE - 1, HUGE_PAGE, 3 * HUGE_PAGE + 5])
def test_bytes_begin_on_a_page_and_are_zeros(size):
    made = huge_bytes(size)
    assert made.shape == (size,)
    assert not made.any()
    assert made.ctypes.data % (HUGE_PAGE if size >= HUGE_PAGE else 64) == 0
    made[:] = 1
    assert made.sum() == size


@pytest.mark.parametrize(
    "pack_one", [lambda w, *a: _core.pack_int8(w, 127, *a), _core.pack_float, _core.pack_bfloat16]
)
def test_an_arena_holds_what_memory_of_its_own_would(pack_one):
    rng = np.random.default_rng(0)
    arena = _core.WeightArena()
    for outputs, inputs in ((1, 1), (33, 65), (256, 300), (1500, 1400)):
        weight = rng.normal(size=(outputs, inputs)).astype(np.float32)
        for ours, alone in zip(arrays(pack_one(weight, arena)), arrays(pack_one(weight)), strict=True):
            assert ours.ctypes.data % 64 == 0
            assert np.array_equal(ours, alone)


def arrays(packed):
    return packed if isinstance(packed, tuple) else (packed,)


def test_small_matrices_share_pages_and_keep_them():
    rng = np.random.default_rng(0)
    arena = _core.WeightArena()
    weights = [rng.normal(size=(40, 50)).astype(np.float32) for _ in range(100)]
    packed = [_core.pack_float(weight, arena) for weight in weights]
    del arena
    gc.collect()
    places = [array.ctypes.data for array in packed]
    assert places == sorted(places)
    assert places[-1] - places[0] < HUGE_PAGE
    for array, weight in zip(packed, weights, strict=True):
        assert np.array_equal(array, _core.pack_float(weight))


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8", "int4"])
@pytest.mark.parametrize("width", [64, 256])
def test_a_matrix_that_is_read_by_rows_is_packed_as_the_whole(precision, width):
    settings = DecoderOnlySettings(layers=1, width=width, heads=4, feed_forward=96, max_length=40)
    vocabulary = 2 * ROWS + 33
    rng = np.random.default_rng(0)
    shapes = stored_shapes(settings, vocabulary, vocabulary)
    stored = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    blocks = []

    def rows(name, first, last):
        blocks.append((name, first, last))
        return stored[name][first:last]

    whole = pack(settings, vocabulary, vocabulary, stored.__getitem__, precision)
    found = pack(settings, vocabulary, vocabulary, stored.__getitem__, precision, rows=rows)
    assert [(first, last) for _, first, last in blocks] == [
        (0, ROWS),
        (ROWS, 2 * ROWS),
        (2 * ROWS, vocabulary),
    ]
    for name, matrix in whole.matrices.items():
        for one, other in zip(found.matrices[name].arrays, matrix.arrays, strict=True):
            assert one.ctypes.data % ALIGNMENT == 0 and one.dtype == other.dtype
            assert np.array_equal(one, other)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_a_models_matrices_are_side_by_side(precision):
    shapes = stored_shapes(SHAPE, VOCABULARY, VOCABULARY)
    packed = pack(SHAPE, VOCABULARY, VOCABULARY, lambda name: np.ones(shapes[name], np.float32), precision)
    all_arrays = [array for matrix in packed.matrices.values() for array in matrix.arrays]
    pages: set[int] = set()
    for array in all_arrays:
        place = array.ctypes.data
        pages.update(range(place // HUGE_PAGE, -(-(place + array.nbytes) // HUGE_PAGE)))
    assert len(pages) <= 1.2 * sum(array.nbytes for array in all_arrays) / HUGE_PAGE + 4
