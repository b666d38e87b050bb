"""``model.safetensors``: every tensor once, every key and shape checked before memory is taken."""

from __future__ import annotations

from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open

from uwaga.errors import ModelError

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
WHOLE = {torch.int64: "I64", torch.int32: "I32", torch.uint8: "U8", torch.int8: "I8", torch.bool: "BOOL"}
STORED = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
"""What safetensors calls them."""

SHOWN = 3
"""Names in one message."""


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


def count_tensors(path: Path) -> tuple[int, int]:
    """How many tensors and how many bytes the weight file holds, read from its header alone.

    Raises:
        ModelError: the file is missing, cut short or damaged.
    """
    if not path.is_file():
        raise ModelError(f"{path}: no such file, so {path.parent} is not a complete model folder")
    try:
        with safe_open(path, framework="pt") as file:
            return len(file.keys()), path.stat().st_size
    except (SafetensorError, OSError) as error:
        raise _damaged(path, error) from None


def check_weights(path: Path, skeleton: torch.nn.Module, dtype: str) -> None:
    """Compare the header of ``path`` with a model (which may live on the meta device).

    Raises:
        ModelError: a key is missing or unknown, or a shape or number format differs; names both sides.
    """
    expected = distinct_tensors(skeleton)
    try:
        with safe_open(path, framework="pt") as file:
            found = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            shapes = {name: tuple(part.get_shape()) for name, part in found.items()}
            formats = {name: part.get_dtype() for name, part in found.items()}
    except (SafetensorError, OSError) as error:
        raise _damaged(path, error) from None
    _check_names(path, set(expected), set(shapes))
    for name, tensor in expected.items():
        if shapes[name] != tuple(tensor.shape):
            raise ModelError(
                f"{path}: {name!r} has shape {shapes[name]}, config.json asks for {tuple(tensor.shape)}; "
                "the two files are of different models"
            )
        wanted = STORED[dtype] if tensor.is_floating_point() else WHOLE[tensor.dtype]
        if formats[name] != wanted:
            raise ModelError(
                f"{path}: {name!r} is stored as {formats[name]}, config.json asks for {wanted}; "
                "the two files are of different models"
            )


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
            raise _damaged(path, error) from None


def _check_names(path: Path, expected: set[str], found: set[str]) -> None:
    missing, unknown = sorted(expected - found), sorted(found - expected)
    if missing:
        raise ModelError(f"{path}: {_some(missing)} missing, which config.json asks for")
    if unknown:
        raise ModelError(f"{path}: {_some(unknown)} unknown to the model that config.json describes")


def _some(names: list[str]) -> str:
    rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(repr(name) for name in names[:SHOWN]) + rest + (" is" if len(names) == 1 else " are")


def _damaged(path: Path, error: Exception) -> ModelError:
    return ModelError(f"{path}: damaged or cut short ({error}); fetch or save the model again")
