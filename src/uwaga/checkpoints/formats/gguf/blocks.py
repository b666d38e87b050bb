"""Dequantisation to float32 of ggml's quantised blocks in GGUF files.

A row of weights is divided into blocks of 32 or 256 numbers, each block with separate scales. In blocks of
32 numbers, number i shares a byte with number i + 16. Blocks of 256 numbers (*k-quants*) consist of 8 or 16
groups with quantised scales. The layouts are defined in ggml's ``ggml-common.h``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uwaga.checkpoints.storage.tensors import StoredTensor
from uwaga.results.attention import Floats

Bytes = NDArray[np.uint8]
CHUNK_SIZE = 1 << 17
"""Number of weights dequantised at a time, so that intermediate arrays fit in the processor's cache."""


@dataclass(frozen=True)
class BlockKind:
    """A format of quantised blocks.

    Attributes:
        name: name of the format in ggml.
        size: number of weights in a block.
        layout: structured data type of a block's bytes.
        decode: function that returns the weights of blocks in float32, (blocks, size).
    """

    name: str
    size: int
    layout: np.dtype[Any]
    decode: Callable[[NDArray[Any]], Floats]

    def dequantise(self, rows: Bytes) -> Floats:
        """Convert stored rows (..., rows, bytes) to weights (..., rows, columns) in float32."""
        blocks = np.ascontiguousarray(rows).reshape(-1).view(self.layout)
        values = np.empty((len(blocks), self.size), dtype=np.float32)
        # Damaged scales may not be finite; the users of the weights check that.
        with np.errstate(invalid="ignore", over="ignore"):
            step = CHUNK_SIZE // self.size
            for start in range(0, len(blocks), step):
                values[start : start + step] = self.decode(blocks[start : start + step])
        return values.reshape(*rows.shape[:-1], -1)


@dataclass(frozen=True)
class BlockTensor(StoredTensor):
    """A tensor of quantised blocks; the last axis of its content contains the bytes of a row."""

    kind: BlockKind

    @property
    def shape(self) -> tuple[int, ...]:
        *rows, size = self.content.shape
        return (*rows, size // self.kind.layout.itemsize * self.kind.size)

    @property
    def is_floating(self) -> bool:
        return True

    def floats(self) -> Floats:
        """Return a copy of the weights in float32."""
        return self.kind.dequantise(self.values)

    def equals(self, other: StoredTensor) -> bool:
        """Return True if another tensor has the same weights."""
        return self.shape == other.shape and bool(np.array_equal(self.floats(), other.floats()))


def _to_float32(values: NDArray[Any]) -> Floats:
    """Convert one float16 number per block to float32, (blocks, 1)."""
    return values.astype(np.float32)[:, None]


def _nibbles(packed: Bytes) -> Bytes:
    """Return the low nibbles of n bytes, followed by their high nibbles, (..., 2 n)."""
    return np.concatenate([packed & 15, packed >> 4], axis=-1)


def _fifth_bits(packed: Bytes) -> Bytes:
    """Unpack 4 bytes per block into the fifth bits of the block's 32 numbers, as 0 or 16, (blocks, 32)."""
    return np.unpackbits(packed, axis=-1, bitorder="little") * np.uint8(16)


def _q4_0(blocks: NDArray[Any]) -> Floats:
    return _to_float32(blocks["scale"]) * (_nibbles(blocks["low"]).astype(np.float32) - 8)


def _q4_1(blocks: NDArray[Any]) -> Floats:
    return _to_float32(blocks["scale"]) * _nibbles(blocks["low"]).astype(np.float32) + _to_float32(
        blocks["minimum"]
    )


def _q5_0(blocks: NDArray[Any]) -> Floats:
    levels = _nibbles(blocks["low"]) | _fifth_bits(blocks["high"])
    return _to_float32(blocks["scale"]) * (levels.astype(np.float32) - 16)


def _q5_1(blocks: NDArray[Any]) -> Floats:
    levels = _nibbles(blocks["low"]) | _fifth_bits(blocks["high"])
    return _to_float32(blocks["scale"]) * levels.astype(np.float32) + _to_float32(blocks["minimum"])


def _q8_0(blocks: NDArray[Any]) -> Floats:
    return _to_float32(blocks["scale"]) * blocks["levels"].astype(np.float32)


def _group_scales(blocks: NDArray[Any]) -> tuple[Floats, Floats]:
    """Return the scale and the offset, each (blocks, 8, 1), of every group of Q4_K and Q5_K.

    Twelve bytes contain eight scales and eight offsets of 6 bits each. Bytes 0 to 3 contain the scales and
    bytes 4 to 7 the offsets of the first four groups. Bytes 8 to 11 contain the lower four bits of the scales
    and offsets of the last four groups; their upper two bits are the upper two bits of bytes 0 to 7.
    """
    low_scales, low_offsets, high_parts = np.moveaxis(blocks["scales"].reshape(-1, 3, 4), 1, 0)
    scales = np.concatenate([low_scales & 63, high_parts & 15 | low_scales >> 6 << 4], axis=-1)
    offsets = np.concatenate([low_offsets & 63, high_parts >> 4 | low_offsets >> 6 << 4], axis=-1)
    return (
        (_to_float32(blocks["scale"]) * scales.astype(np.float32))[..., None],
        (_to_float32(blocks["minimum"]) * offsets.astype(np.float32))[..., None],
    )


def _q4_k(blocks: NDArray[Any]) -> Floats:
    scales, offsets = _group_scales(blocks)
    levels = _nibbles(blocks["low"].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    return (scales * levels.astype(np.float32) - offsets).reshape(-1, 256)


def _q5_k(blocks: NDArray[Any]) -> Floats:
    scales, offsets = _group_scales(blocks)
    low_bits = _nibbles(blocks["low"].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    high_bits = blocks["high"][:, None] >> np.arange(8, dtype=np.uint8)[:, None] & 1  # bit g for group g
    return (scales * (low_bits | high_bits << 4).astype(np.float32) - offsets).reshape(-1, 256)


def _q6_k(blocks: NDArray[Any]) -> Floats:
    low_bits = _nibbles(blocks["low"].reshape(-1, 2, 64)).reshape(-1, 2, 4, 32)
    shifts = np.arange(0, 8, 2, dtype=np.uint8)[:, None]
    high_bits = blocks["high"].reshape(-1, 2, 1, 32) >> shifts & 3
    levels = (low_bits | high_bits << 4).reshape(-1, 16, 16).astype(np.float32) - 32
    scales = _to_float32(blocks["scale"]) * blocks["scales"].astype(np.float32)
    return (scales[..., None] * levels).reshape(-1, 256)


def _make_kind(name: str, size: int, layout: str, decode: Callable[[NDArray[Any]], Floats]) -> BlockKind:
    """Return a block format; ``layout`` lists its fields in byte order as ``field:dtype[*count]``."""
    fields: list[Any] = []
    for spec in layout.split():
        part, _, dtype = spec.partition(":")
        dtype, _, count = dtype.partition("*")
        fields.append((part, dtype, int(count)) if count else (part, dtype))
    return BlockKind(name, size, np.dtype(fields), decode)


BLOCK_KINDS: Mapping[int, BlockKind] = {
    2: _make_kind("Q4_0", 32, "scale:<f2 low:u1*16", _q4_0),
    3: _make_kind("Q4_1", 32, "scale:<f2 minimum:<f2 low:u1*16", _q4_1),
    6: _make_kind("Q5_0", 32, "scale:<f2 high:u1*4 low:u1*16", _q5_0),
    7: _make_kind("Q5_1", 32, "scale:<f2 minimum:<f2 high:u1*4 low:u1*16", _q5_1),
    8: _make_kind("Q8_0", 32, "scale:<f2 levels:i1*32", _q8_0),
    12: _make_kind("Q4_K", 256, "scale:<f2 minimum:<f2 scales:u1*12 low:u1*128", _q4_k),
    13: _make_kind("Q5_K", 256, "scale:<f2 minimum:<f2 scales:u1*12 high:u1*32 low:u1*128", _q5_k),
    14: _make_kind("Q6_K", 256, "low:u1*128 high:u1*64 scales:i1*16 scale:<f2", _q6_k),
}
"""Quantised formats by their codes in GGUF files."""
PLAIN_FORMATS: Mapping[int, str] = {0: "F32", 1: "F16", 30: "BF16"}
"""Unquantised formats by code."""
UNSUPPORTED_FORMATS: Mapping[int, str] = {
    **{9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS"},
    **{19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32"},
    **{27: "I64", 28: "F64", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4", 40: "NVFP4", 41: "Q1_0"},
}
"""Names of unsupported formats by code, for messages."""
