"""Writing a safetensors file whose tensors the engine can use where they are read to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

ALIGNMENT = 64
NAMES: Mapping[str, str] = {
    "int8": "I8",
    "uint16": "U16",
    "int32": "I32",
    "float16": "F16",
    "float32": "F32",
}
"""Number formats by numpy's names, as safetensors calls them."""


def aligned_bytes(tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str] | None = None) -> bytes:
    """A safetensors file of ``tensors`` in their order, the first of them on a multiple of 64 bytes.

    So are those behind others whose sizes are such multiples. The library's own writer orders tensors in
    its way and aligns them to eight bytes.

    Args:
        tensors: by name.
        metadata: what the header says of the file; ``transformers`` wants ``{"format": "pt"}``.
    """
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + tensor.nbytes
        header[name] = {
            "dtype": NAMES[tensor.dtype.name],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    parts = [len(text).to_bytes(8, "little"), text]
    parts += [np.ascontiguousarray(tensor).tobytes() for tensor in tensors.values()]
    return b"".join(parts)
