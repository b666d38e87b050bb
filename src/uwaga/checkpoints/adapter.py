"""Low-rank adapters in separate folders (M34), and models with an adapter. Does not import torch.

An adapter's folder contains ``adapter.json``, whose schema permits no other keys, and
``adapter.safetensors``, with the matrices ``NAME.lora_a`` (rank, inputs) and ``NAME.lora_b`` (outputs, rank)
of each adapted layer. The base model is not in the folder; ``adapter.json`` gives the model's name and
the checksum of its weights.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from uwaga.checkpoints.card import CARD
from uwaga.checkpoints.checkpoint import Checkpoint
from uwaga.checkpoints.formats.uwaga.names import ADAPTER
from uwaga.checkpoints.storage.json_file import parse_stored, read_mapping
from uwaga.checkpoints.storage.safetensors_files import aligned_bytes, open_tensors
from uwaga.checkpoints.weight_map import Weights
from uwaga.errors import ModelError, SettingsError
from uwaga.files.atomic import write_folder
from uwaga.results.attention import Floats
from uwaga.settings import StrictModel

WEIGHTS = "adapter.safetensors"
FORMAT, VERSION = "uwaga adapter", 1
FILES = frozenset({ADAPTER, WEIGHTS, CARD})
SHA256_FIELD = Field(pattern=r"^[0-9a-f]{64}$")


class AdapterConfig(StrictModel):
    """The schema of ``adapter.json``; ``base`` and ``base_sha256`` identify the base model."""

    format: Literal["uwaga adapter"]
    version: int = Field(ge=1)
    base: str = Field(max_length=4096)
    base_sha256: str = SHA256_FIELD
    rank: int = Field(ge=1, le=1 << 16)
    alpha: float = Field(gt=0.0)
    sha256: str = SHA256_FIELD


@dataclass(frozen=True)
class Adapter:
    """Low-rank updates of a model's matrices.

    Attributes:
        path: the adapter's folder, for messages.
        base: name of the base model.
        base_sha256: checksum of the base model's weights; see :func:`weights_checksum`.
        rank: rank of the updates.
        alpha: the scale α; updates are multiplied by α / rank.
        factors: the matrices A (rank, inputs) and B (outputs, rank) by layer name.
    """

    path: Path
    base: str
    base_sha256: str
    rank: int
    alpha: float
    factors: Mapping[str, tuple[Floats, Floats]]

    def to_dict(self) -> dict[str, object]:
        """Return a description of the adapter as JSON values."""
        return {
            "place": str(self.path),
            "format": FORMAT,
            "base": self.base,
            "rank": self.rank,
            "alpha": self.alpha,
            "parameters": sum(a.size + b.size for a, b in self.factors.values()),
            "layers": sorted(self.factors),
        }

    def weight_update(self, name: str) -> Floats:
        """Return the update ``α/r · B A`` of a layer's matrix, (outputs, inputs)."""
        a, b = self.factors[name]
        update: Floats = np.float32(self.alpha / self.rank) * (b @ a)
        return update


@dataclass(frozen=True)
class AdaptedWeights(Weights):
    """Weights to which an adapter's updates are added whenever a weight is read."""

    adapter: Adapter | None = None

    def read(self, name: str) -> Floats:
        """Return a weight in float32, including the adapter's update if the adapter changes the weight."""
        weight = super().read(name)
        if self.adapter is None or not self._is_adapted(name):
            return weight
        updated_weight: Floats = weight + self.adapter.weight_update(_layer_name(name))
        return updated_weight

    def rows(self, name: str, first: int, last: int) -> Floats | None:
        """Return rows ``first`` to ``last`` - 1 of a weight.

        The result is None if the adapter changes the weight, or if only the full weight can be read.
        """
        return None if self._is_adapted(name) else super().rows(name, first, last)

    def integers(self, name: str) -> tuple[NDArray[np.int8], NDArray[np.float32]] | None:
        """Return a matrix's stored integers and scales, or None if the adapter changes the matrix."""
        return None if self._is_adapted(name) else super().integers(name)

    def _is_adapted(self, name: str) -> bool:
        return self.adapter is not None and _layer_name(name) in self.adapter.factors


def write_adapter(folder: Path, adapter: Adapter, card: str) -> None:
    """Write an adapter and its model card to a folder atomically, replacing any adapter in the folder."""
    existing_names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    unexpected_names = [name for name in existing_names if name not in FILES]
    if unexpected_names or (folder.exists() and not folder.is_dir()):
        raise ModelError(
            f"{folder}: contains {(unexpected_names or [folder.name])[0]!r}, which is not part of an "
            "adapter, so the folder is not overwritten; give another folder"
        )
    tensors = {
        f"{name}.lora_{letter}": np.ascontiguousarray(matrix, dtype=np.float32)
        for name, factors in adapter.factors.items()
        for letter, matrix in zip("ab", factors, strict=True)
    }
    content = aligned_bytes(tensors)
    config = {
        "format": FORMAT,
        "version": VERSION,
        "base": adapter.base,
        "base_sha256": adapter.base_sha256,
        "rank": adapter.rank,
        "alpha": adapter.alpha,
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    write_folder(folder, {ADAPTER: text.encode(), WEIGHTS: content, CARD: card.encode()})


def read_adapter(folder: str | Path) -> Adapter:
    """Read an adapter from a folder written by :func:`write_adapter`."""
    folder = Path(folder)
    if not (folder / ADAPTER).is_file():
        raise ModelError(
            f"{folder}: not an adapter, because it contains no {ADAPTER}; give the folder `adapter` of a "
            "training run with adapt.lora"
        )
    values = read_mapping(folder / ADAPTER)
    version = values.get("version")
    if isinstance(version, int) and version > VERSION:
        raise ModelError(
            f"{folder / ADAPTER}: written in format version {version}; install a newer version of uwaga"
        )
    config = parse_stored(AdapterConfig, values, str(folder / ADAPTER))
    path = folder / WEIGHTS
    stored_factors = {name: tensor.floats() for name, tensor in open_tensors(path, config.sha256).items()}
    names = sorted({name.rpartition(".")[0] for name in stored_factors})
    expected_names = {f"{name}.lora_{letter}" for name in names for letter in "ab"}
    if not names or set(stored_factors) != expected_names:
        raise ModelError(f"{path}: does not contain both matrices of every layer; copy the adapter again")
    factors = {}
    for name in names:
        a, b = stored_factors[f"{name}.lora_a"], stored_factors[f"{name}.lora_b"]
        if a.ndim != 2 or b.ndim != 2 or (len(a), b.shape[1]) != (config.rank, config.rank):
            raise ModelError(
                f"{path}: the matrices of {name!r} do not have rank {config.rank}; copy the adapter again"
            )
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            raise ModelError(f"{path}: {name!r} contains numbers that are not finite; copy the adapter again")
        factors[name] = (a, b)
    return Adapter(folder, config.base, config.base_sha256, config.rank, config.alpha, factors)


def apply_adapter(checkpoint: Checkpoint, adapter: Adapter) -> Checkpoint:
    """Return a copy of a model whose weights include the adapter's updates whenever they are read."""
    weights = checkpoint.weights
    if weights is None:
        raise SettingsError(
            f"{checkpoint.path}: an adapter cannot be applied to a quantised model; merge it into the "
            "original model (`uwaga merge`), and quantise the result"
        )
    checksum = weights_checksum(weights)
    if checksum != adapter.base_sha256:
        raise ModelError(
            f"{adapter.path}: this adapter belongs to {adapter.base!r} (weights {adapter.base_sha256[:12]}), "
            f"but {checkpoint.path} is another model (weights {checksum[:12]}); give the base model with "
            "--model"
        )
    for name, (a, b) in adapter.factors.items():
        shape = weights.shapes.get(f"{name}.weight")
        if shape != (b.shape[0], a.shape[1]):
            raise ModelError(
                f"{adapter.path}: {name!r} is for a matrix of shape {(b.shape[0], a.shape[1])}, but the "
                f"model has {shape}; copy the adapter again"
            )
    adapted_weights = AdaptedWeights(weights.shapes, weights.table, weights.tensors, adapter)
    return replace(checkpoint, weights=adapted_weights, score_stats=None)


def weights_checksum(weights: Weights) -> str:
    """Return the SHA-256 of the weights' names, shapes and float32 values, whatever the stored format."""
    digest = hashlib.sha256()
    for name in sorted(weights.names()):
        digest.update(f"{name} {list(weights.shape(name))}\n".encode())
        digest.update(np.ascontiguousarray(weights.read(name), dtype="<f4").data)
    return digest.hexdigest()


def _layer_name(name: str) -> str:
    """Return the name of the layer to which a matrix belongs, or an empty string for any other weight."""
    return name.removesuffix(".weight") if name.endswith(".weight") else ""
