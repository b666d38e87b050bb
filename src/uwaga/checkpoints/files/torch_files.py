"""Weights of other libraries' folders, by name, memory-mapped; nothing in them is ever executed."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from uwaga.errors import ModelError

SAFE, SAFE_INDEX = "model.safetensors", "model.safetensors.index.json"
OLD, OLD_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"


FLOATS = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
BUFFER = 1 << 22
"""Bytes read at a time; a multiple of every number's size."""


@dataclass(frozen=True)
class Tensors:
    """All tensors of a folder; ``origin`` names the file of each, ``sums`` are known sums of some."""

    values: Mapping[str, Tensor]
    origin: Mapping[str, Path]
    sums: Mapping[str, float] = field(default_factory=dict)


def read_tensors(folder: Path) -> Tensors:
    """The weights in ``model.safetensors`` or, without it, ``pytorch_model.bin``, whole or in shards.

    Pages are read from disk when they are used.

    Raises:
        ModelError: no such file, or one that is missing, cut short, damaged or holds more than tensors.
    """
    for whole, index, read in ((SAFE, SAFE_INDEX, _read_safe), (OLD, OLD_INDEX, _read_old)):
        if (folder / whole).is_file():
            found = read(folder / whole)
            sums = _sums(folder / whole) if whole == SAFE else {}
            return Tensors(found, dict.fromkeys(found, folder / whole), sums)
        if (folder / index).is_file():
            values: dict[str, Tensor] = {}
            origin: dict[str, Path] = {}
            listed = _shards(folder / index)
            for path in sorted(set(listed.values())):
                found = read(path)
                values |= found
                origin |= dict.fromkeys(found, path)
            for name, path in listed.items():
                if origin.get(name) != path:
                    raise ModelError(f"{path}: {name!r} is missing, which {index} puts there")
            return Tensors(values, origin)
    raise ModelError(f"{folder}: holds neither {SAFE} nor {OLD}, so it is not a complete model folder")


def _shards(index: Path) -> dict[str, Path]:
    try:
        mapping = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        names = {str(name): str(file) for name, file in mapping.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ModelError(f"{index}: not an index of weight files; fetch it again") from None
    for file in set(names.values()):
        if Path(file).name != file or file in ("", ".", ".."):
            raise ModelError(f"{index}: names {file!r}, which is not a file of this folder")
    return {name: index.parent / file for name, file in names.items()}


def _read_safe(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{path}: damaged or cut short ({error}); fetch it again") from None


def _sums(path: Path) -> dict[str, float]:
    """The sum of every floating-point tensor, infinite or NaN where one of its numbers is.

    Read through a small buffer: looking at all numbers in the mapped file would make all of it resident
    before any is used. The header has been checked when the file was mapped.
    """
    buffer = bytearray(BUFFER)
    found: dict[str, float] = {}
    try:
        with path.open("rb", buffering=0) as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(size))
            header.pop("__metadata__", None)
            for name, entry in header.items():
                kind = FLOATS.get(entry["dtype"])
                if kind is None:
                    continue
                start, end = entry["data_offsets"]
                file.seek(8 + size + start)
                total, left = 0.0, end - start
                while left:
                    count = file.readinto(memoryview(buffer)[: min(left, BUFFER)])
                    if not count or count % kind.itemsize:
                        return {}  # a short read: the numbers are looked at where they are mapped
                    part = torch.frombuffer(buffer, dtype=kind, count=count // kind.itemsize)
                    total += float(part.sum(dtype=torch.float32))
                    left -= count
                found[name] = total
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{path}: damaged or cut short ({error}); fetch it again") from None
    return found


def _read_old(path: Path) -> dict[str, Tensor]:
    try:
        try:
            values = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        except (RuntimeError, ValueError):  # files older than torch 1.6 cannot be mapped
            values = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise ModelError(
            f"{path}: holds more than tensors, or is damaged; refused, nothing in it was executed; "
            f"fetch the model as {SAFE}"
        ) from None
    except (RuntimeError, ValueError, EOFError, OSError, KeyError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelError(f"{path}: damaged or cut short ({reason}); fetch it again") from None
    if not isinstance(values, dict) or not all(isinstance(value, Tensor) for value in values.values()):
        raise ModelError(f"{path}: not a mapping from names to tensors; refused")
    return dict(values)
