"""``model.safetensors`` from a model: every tensor once."""

from __future__ import annotations

import safetensors.torch
import torch

from uwaga.errors import ModelError

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


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
