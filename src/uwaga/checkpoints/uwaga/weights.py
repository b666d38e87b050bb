"""``model.safetensors``: every tensor once, every key and shape checked before memory is taken."""

from __future__ import annotations

from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open

from uwaga.checkpoints.files.safetensors_read import STORED, check_header, damaged
from uwaga.errors import ModelError

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
WHOLE = {torch.int64: "I64", torch.int32: "I32", torch.uint8: "U8", torch.int8: "I8", torch.bool: "BOOL"}


def distinct_tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The weights of ``model``, a tied one once and under the first of its names."""
    distinct: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            distinct[name] = tensor
    return distinct


def weight_bytes(model: torch.nn.Module, dtype: str) -> bytes:
    """The weights as the bytes of a safetensors file, floating-point ones in ``dtype``.

    Raises:
        ModelError: a weight is not finite, or not in ``dtype``.
    """
    stored: dict[str, torch.Tensor] = {}
    for name, tensor in distinct_tensors(model).items():
        value = tensor.detach().cpu()
        if value.is_floating_point():
            value = value.to(DTYPES[dtype])
            if not bool(torch.isfinite(value).all()):
                raise ModelError(f"weight {name!r} is not finite in {dtype}; the model is not saved")
        stored[name] = value.contiguous()
    return safetensors.torch.save(stored, metadata={"format": "pt"})


def check_weights(path: Path, skeleton: torch.nn.Module, dtype: str) -> None:
    """Compare the header of ``path`` with a model (which may live on the meta device).

    Raises:
        ModelError: a key is missing or unknown, or a shape or number format differs; names both sides.
    """
    expected = distinct_tensors(skeleton)
    shapes = {name: tuple(tensor.shape) for name, tensor in expected.items()}
    formats = {
        name: STORED[dtype] if tensor.is_floating_point() else WHOLE[tensor.dtype]
        for name, tensor in expected.items()
    }
    check_header(path, shapes, formats)


def read_weights(path: Path, model: torch.nn.Module) -> None:
    """Fill ``model`` from a file that :func:`check_weights` has passed.

    Raises:
        ModelError: the file is damaged or holds a number that is not finite.
    """
    with torch.no_grad():
        try:
            with safe_open(path, framework="pt") as file:
                for name, tensor in distinct_tensors(model).items():
                    value = file.get_tensor(name)
                    if value.is_floating_point() and not bool(torch.isfinite(value).all()):
                        raise ModelError(
                            f"{path}: {name!r} holds numbers that are not finite; the file is damaged"
                        )
                    tensor.copy_(value)
        except (SafetensorError, OSError) as error:
            raise damaged(path, error) from None
