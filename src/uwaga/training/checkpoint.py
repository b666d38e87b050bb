"""Training checkpoints: everything a run needs to go on as if it had never stopped.

One safetensors file each, ``step-00001234.safetensors``: the weights and the optimiser's moments as
tensors, the place in the data and the scores so far as JSON in the header. What a run draws at random is
a function of its seed and its place, so there is no random state to keep. A checkpoint is written to
another name, synced and renamed, and carries a checksum that is verified on reading.
"""

from __future__ import annotations

import contextlib
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from uwaga.errors import CheckpointError, reason
from uwaga.files.atomic import replacing
from uwaga.settings import TrainingSettings
from uwaga.training.disk import explain

_PATTERN = "step-*.safetensors"


@dataclass(frozen=True)
class Progress:
    """Where a run stands.

    ``epoch`` and ``batch`` name the next batch to be read; ``best`` maps a step to its validation score
    (higher is better) for the best checkpoints; ``stale`` counts validations since the best one.
    ``settings`` holds what must not change between two parts of a run, ``scoring`` what makes the scores in
    ``best`` comparable (:mod:`uwaga.training.changes`), ``corpus`` how much there is to train on; ``base`` is
    the checksum of the model that the run began from, and ``before`` that one's score on each dev set.
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    best: dict[int, float] = field(default_factory=dict)
    stale: int = 0
    settings: dict[str, Any] | str = field(default_factory=dict)
    scoring: dict[str, Any] = field(default_factory=dict)
    corpus: str = ""
    base: str = ""
    before: dict[str, float] = field(default_factory=dict)
    interrupted: bool = False


def checkpoint_path(folder: Path, step: int) -> Path:
    """The file of a step's checkpoint."""
    return folder / f"step-{step:08d}.safetensors"


def checkpoint_steps(folder: Path) -> list[int]:
    """Steps that have a checkpoint, oldest first."""
    return sorted(int(path.stem.removeprefix("step-")) for path in folder.glob(_PATTERN))


def regular_steps(folder: Path, training: TrainingSettings) -> list[int]:
    """Steps with a checkpoint that a run which is never interrupted has too, oldest first."""
    return [step for step in checkpoint_steps(folder) if is_regular(step, training)]


def is_regular(step: int, training: TrainingSettings) -> bool:
    """Whether a checkpoint is due at this step, whatever its score."""
    return step % training.save_every == 0 or step == training.steps


def write_checkpoint(folder: Path, progress: Progress, tensors: Mapping[str, Tensor]) -> Path:
    """Write one checkpoint atomically.

    Raises:
        CheckpointError: the disk is full or refuses; older checkpoints are untouched.
    """
    path = checkpoint_path(folder, progress.step)
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    header = {"progress": json.dumps(asdict(progress)), "checksum": _checksum(plain)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            save_file(plain, file.name, metadata=header)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: cannot be written: {explain(error)}") from None
    return path


def read_progress(path: Path) -> Progress:
    """Where a checkpoint stands, from its header alone: its tensors are neither read nor verified.

    Raises:
        CheckpointError: as :func:`read_checkpoint`.
    """
    with _whole(path), safe_open(path, framework="pt") as file:
        return _progress(file.metadata() or {})


def read_checkpoint(path: Path) -> tuple[Progress, dict[str, Tensor]]:
    """Read a checkpoint and verify it.

    Raises:
        CheckpointError: it is missing, cut short, damaged or not a checkpoint.
    """
    with _whole(path), safe_open(path, framework="pt") as file:
        header = file.metadata() or {}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        progress = _progress(header)
    if header.get("checksum") != _checksum(tensors):
        raise CheckpointError(f"{path}: its checksum does not match its content; delete it to go on")
    return progress, tensors


@contextlib.contextmanager
def _whole(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such checkpoint") from None
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path}: not a whole uwaga checkpoint ({reason(error)}); delete it to go on"
        ) from None


def _progress(header: Mapping[str, str]) -> Progress:
    values = json.loads(header["progress"])
    values["best"] = {int(step): score for step, score in values["best"].items()}
    return Progress(**values)


def newest_checkpoint(folder: Path) -> Path | None:
    """The newest checkpoint of a run, or None."""
    steps = checkpoint_steps(folder)
    return checkpoint_path(folder, steps[-1]) if steps else None


def average_checkpoints(paths: list[Path], prefix: str = "model.") -> dict[str, Tensor]:
    """The mean of the weights of several checkpoints, names without their prefix.

    Raises:
        CheckpointError: there is none, one is damaged, or their weights differ in names.
    """
    if not paths:
        raise CheckpointError("there are no checkpoints to average")
    total: dict[str, Tensor] = {}
    for path in paths:
        _, tensors = read_checkpoint(path)
        weights = {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
        if total and weights.keys() != total.keys():
            raise CheckpointError(f"{path}: its weights have other names than those of {paths[0]}")
        for name, weight in weights.items():
            total[name] = total[name] + weight.double() if name in total else weight.double()
    return {name: (tensor / len(paths)).float() for name, tensor in total.items()}


def _checksum(tensors: Mapping[str, Tensor]) -> str:
    value = 0
    for name in sorted(tensors):
        value = zlib.crc32(name.encode(), value)
        value = zlib.crc32(tensors[name].reshape(-1).view(torch.uint8).numpy().data, value)
    return f"{value:08x}"
