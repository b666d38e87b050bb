"""Low-rank adapters in a folder of their own (M34), and a model with one. Nothing here needs torch.

``adapter.json``, a closed schema, and ``adapter.safetensors``: ``NAME.lora_a`` (rank, inputs) and
``NAME.lora_b`` (outputs, rank) of each adapted layer. The model that they belong to lies elsewhere: the
folder has its name and the checksum of its weights.
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
from uwaga.checkpoints.storage.json_file import parse_stored, read_mapping
from uwaga.checkpoints.storage.safetensors_files import aligned_bytes, open_tensors
from uwaga.checkpoints.weight_map import Weights
from uwaga.errors import ModelError, SettingsError
from uwaga.files.atomic import write_folder
from uwaga.results.attention import Floats
from uwaga.settings import StrictModel

CONFIG, WEIGHTS = "adapter.json", "adapter.safetensors"
FORMAT, VERSION = "uwaga adapter", 1
FILES = frozenset({CONFIG, WEIGHTS, CARD})
Digest = Field(pattern=r"^[0-9a-f]{64}$")


class AdapterConfig(StrictModel):
    """All of ``adapter.json``: ``base`` and ``base_sha256`` say which model the adapter belongs to."""

    format: Literal["uwaga adapter"]
    version: int = Field(ge=1)
    base: str = Field(max_length=4096)
    base_sha256: str = Digest
    rank: int = Field(ge=1, le=1 << 16)
    alpha: float = Field(gt=0.0)
    sha256: str = Digest


@dataclass(frozen=True)
class Adapter:
    """The updates of a model's matrices.

    Attributes:
        place: the folder, for messages.
        base: what the model was called.
        base_sha256: checksum of its weights, as :func:`weights_checksum` has it.
        rank: of each update.
        alpha: an update is multiplied by ``alpha / rank``.
        sides: by name of a layer, A (rank, inputs) and B (outputs, rank).
    """

    place: Path
    base: str
    base_sha256: str
    rank: int
    alpha: float
    sides: Mapping[str, tuple[Floats, Floats]]

    def update(self, name: str) -> Floats:
        """``α/r · B A`` of a layer, (outputs, inputs)."""
        one, other = self.sides[name]
        made: Floats = np.float32(self.alpha / self.rank) * (other @ one)
        return made


@dataclass(frozen=True)
class AdaptedWeights(Weights):
    """Weights with the updates of an adapter added as they are read."""

    adapter: Adapter | None = None

    def read(self, name: str) -> Floats:
        """Return a weight in float32."""
        found = super().read(name)
        if self.adapter is None or not self._changes(name):
            return found
        changed: Floats = found + self.adapter.update(_layer(name))
        return changed

    def rows(self, name: str, first: int, last: int) -> Floats | None:
        """Return rows of a weight; None if it must be read whole, as those that the adapter changes."""
        return None if self._changes(name) else super().rows(name, first, last)

    def integers(self, name: str) -> tuple[NDArray[np.int8], NDArray[np.float32]] | None:
        """Return the integers that a matrix is stored as, None if the adapter changes it."""
        return None if self._changes(name) else super().integers(name)

    def _changes(self, name: str) -> bool:
        return self.adapter is not None and _layer(name) in self.adapter.sides


def write_adapter(folder: Path, adapter: Adapter, card: str) -> None:
    """Write an adapter atomically, replacing an older one."""
    present = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    foreign = [name for name in present if name not in FILES]
    if foreign or (folder.exists() and not folder.is_dir()):
        raise ModelError(
            f"{folder}: holds {(foreign or [folder.name])[0]!r}, which is not of an adapter, so it is not "
            "overwritten; give another folder"
        )
    tensors = {
        f"{name}.lora_{side}": np.ascontiguousarray(values, dtype=np.float32)
        for name, sides in adapter.sides.items()
        for side, values in zip("ab", sides, strict=True)
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
    write_folder(folder, {CONFIG: text.encode(), WEIGHTS: content, CARD: card.encode()})


def read_adapter(folder: str | Path) -> Adapter:
    """Read what :func:`write_adapter` has written."""
    folder = Path(folder)
    if not (folder / CONFIG).is_file():
        raise ModelError(
            f"{folder}: no adapter: there is no {CONFIG}; give the folder `adapter` of a run with adapt.lora"
        )
    values = read_mapping(folder / CONFIG)
    version = values.get("version")
    if isinstance(version, int) and version > VERSION:
        raise ModelError(f"{folder / CONFIG}: written in format {version}; install a newer uwaga")
    config = parse_stored(AdapterConfig, values, str(folder / CONFIG))
    path = folder / WEIGHTS
    stored = {name: tensor.floats() for name, tensor in open_tensors(path, config.sha256).items()}
    names = sorted({name.rpartition(".")[0] for name in stored})
    wanted = {f"{name}.lora_{side}" for name in names for side in "ab"}
    if not names or set(stored) != wanted:
        raise ModelError(f"{path}: not the two sides of every layer; copy the adapter again")
    sides = {}
    for name in names:
        one, other = stored[f"{name}.lora_a"], stored[f"{name}.lora_b"]
        if one.ndim != 2 or other.ndim != 2 or (len(one), other.shape[1]) != (config.rank, config.rank):
            raise ModelError(f"{path}: {name!r} is not of rank {config.rank}; copy the adapter again")
        if not (np.isfinite(one).all() and np.isfinite(other).all()):
            raise ModelError(f"{path}: {name!r} holds numbers that are not finite; copy the adapter again")
        sides[name] = (one, other)
    return Adapter(folder, config.base, config.base_sha256, config.rank, config.alpha, sides)


def adapted(checkpoint: Checkpoint, adapter: Adapter) -> Checkpoint:
    """Return a model with an adapter merged into its weights as they are read."""
    weights = checkpoint.weights
    if weights is None:
        raise SettingsError(
            f"{checkpoint.place}: a quantised model cannot take an adapter; merge the adapter into the model "
            "that this one was converted from (`uwaga merge`), then convert the result"
        )
    found = weights_checksum(weights)
    if found != adapter.base_sha256:
        raise ModelError(
            f"{adapter.place}: an adapter of {adapter.base!r} (weights {adapter.base_sha256[:12]}), and "
            f"{checkpoint.place} is another model (weights {found[:12]}); give that one with --model"
        )
    for name, (one, other) in adapter.sides.items():
        shape = weights.shapes.get(f"{name}.weight")
        if shape != (other.shape[0], one.shape[1]):
            raise ModelError(
                f"{adapter.place}: {name!r} is for a matrix {(other.shape[0], one.shape[1])}, the model has "
                f"{shape}; copy the adapter again"
            )
    changed = AdaptedWeights(weights.shapes, weights.table, weights.stored, adapter)
    return replace(checkpoint, weights=changed, score_stats=None)


def weights_checksum(weights: Weights) -> str:
    """Return the SHA-256 of all weights in float32, their names and shapes, independent of the format."""
    digest = hashlib.sha256()
    for name in sorted(weights.names()):
        digest.update(f"{name} {list(weights.shape(name))}\n".encode())
        digest.update(np.ascontiguousarray(weights.read(name), dtype="<f4").data)
    return digest.hexdigest()


def _layer(name: str) -> str:
    """Return the layer whose matrix a weight is, empty for other weights."""
    return name.removesuffix(".weight") if name.endswith(".weight") else ""
