"""Reading of ``pytorch_model.bin`` with PyTorch: checksums are verified, and no code is executed."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from uwaga.checkpoints.storage.safetensors_files import open_shards
from uwaga.checkpoints.storage.tensors import FORMAT_NAMES, StoredTensor
from uwaga.errors import MissingExtraError, ModelError, reason
from uwaga.files.zip import is_zip, open_archive

if TYPE_CHECKING:
    from torch import Tensor

DAMAGE_ERRORS = (
    *(RuntimeError, ValueError, EOFError, OSError, LookupError, TypeError, AttributeError),
    *(AssertionError, ArithmeticError, ImportError, struct.error),
)
"""Types of errors that PyTorch raises for damaged files."""
MIN_TORCH = (2, 10)
"""First PyTorch version in which files cannot execute code (CVE-2025-32434, CVE-2026-24747)."""


def open_torch_file(path: Path) -> dict[str, StoredTensor]:
    """Return the tensors of a file, read into memory."""
    return {name: _stored_tensor(path, name, value) for name, value in _load(path).items()}


def open_torch_shards(index: Path) -> dict[str, StoredTensor]:
    """Return the tensors of the files listed in an index."""
    return open_shards(index, open_torch_file)


def _load(path: Path) -> dict[str, Any]:
    try:
        import torch
    except ImportError:
        raise MissingExtraError(
            f"{path}: reading this file requires torch: `pip install 'uwaga[train]'`, or fetch the model as "
            "model.safetensors"
        ) from None
    if tuple(map(int, torch.__version__.split(".")[:2])) < MIN_TORCH:
        raise MissingExtraError(
            f"{path}: torch {torch.__version__} may execute code in this file, so it is not read; install "
            f"torch {MIN_TORCH[0]}.{MIN_TORCH[1]} or newer, or fetch the model as model.safetensors"
        )
    try:
        if is_zip(path):  # files before torch 1.6 are not
            with open_archive(path, "a model") as archive:
                archive.verify_checksums()
        values = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise ModelError(
            f"{path}: contains objects other than tensors, or is damaged; it is refused, and nothing in it "
            "was executed; fetch the model as model.safetensors"
        ) from None
    except DAMAGE_ERRORS as error:
        raise ModelError(f"{path}: damaged or cut short ({reason(error)}); fetch it again") from None
    if not isinstance(values, dict) or not all(isinstance(value, torch.Tensor) for value in values.values()):
        raise ModelError(f"{path}: not a mapping from names to tensors, so it is not read")
    return dict(values)


def _stored_tensor(path: Path, name: str, tensor: Tensor) -> StoredTensor:
    """Return a tensor without copying its values; bfloat16, which NumPy lacks, is represented by its bits."""
    import torch

    detached = tensor.detach()
    if detached.dtype == torch.bfloat16:
        return StoredTensor(name, path, "BF16", detached.view(torch.int16).numpy().view(np.uint16))
    try:
        values = detached.numpy()
        return StoredTensor(name, path, FORMAT_NAMES[values.dtype.name], values)
    except (TypeError, KeyError, RuntimeError):
        raise ModelError(f"{path}: {name!r} is stored as {detached.dtype}, which is not supported") from None
