"""Training checkpoints, which contain everything that a run needs to resume exactly.

A checkpoint is a safetensors file, ``step-00001234.safetensors``. The model's weights and the optimiser's
moments are stored as tensors; the position in the data and the scores so far are stored as JSON in the
header. The random numbers of a run are a function of its seed and its position, so no random state is stored.
A checkpoint is written atomically, and its checksum is verified on reading.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from pydantic import ConfigDict, TypeAdapter
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from uwaga.errors import CheckpointError, reason
from uwaga.files.atomic import replace_file
from uwaga.files.handles import BINARY
from uwaga.settings import TrainingSettings

DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_ERROR_NUMBER = re.compile(r"os error (\d+)")  # in messages of safetensors, which is written in Rust


def explain_write_error(error: Exception) -> str:
    """Return a text that says why a file could not be written, and what to do."""
    error_number = error.errno if isinstance(error, OSError) else None
    if error_number is None and (match := _ERROR_NUMBER.search(str(error))):
        error_number = int(match[1])
    reason = os.strerror(error_number) if error_number else str(error)
    if error_number in DISK_FULL_ERRORS:
        return f"{reason}; free some space and rerun the same command to resume"
    if error_number == errno.ENOENT:
        return (
            f"{reason}: another program deleted the file while it was being written. Rerun the same command "
            "to resume from the newest existing checkpoint"
        )
    return f"{reason}; rerun the same command to resume from the newest checkpoint"


@contextlib.contextmanager
def wrap_write_errors(run: Path) -> Iterator[None]:
    """Convert an OSError within the block to a CheckpointError if it concerns a run file or a full disk."""
    try:
        yield
    except OSError as error:
        name = error.filename
        if name is None and error.errno not in DISK_FULL_ERRORS:
            raise
        if name is not None and run.resolve() not in Path(os.fsdecode(name)).resolve().parents:
            raise
        location = run if name is None else os.fsdecode(name)
        raise CheckpointError(f"{location}: cannot be written: {explain_write_error(error)}") from None


def append_to_file(path: Path, content: bytes) -> None:
    """Append ``content`` to a file; if this fails, the file is unchanged."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | BINARY, 0o644)
    try:
        size = os.fstat(handle).st_size
        try:
            remaining_content = memoryview(content)
            while remaining_content:
                remaining_content = remaining_content[os.write(handle, remaining_content) :]
        except OSError as error:
            os.ftruncate(handle, size)
            error.filename = str(path)
            raise
    finally:
        os.close(handle)


def remove_leftovers(run: Path) -> None:
    """Delete incomplete files left by a killed process; the caller must hold the lock of the run."""
    for pattern in ("checkpoints/.*.part", ".*.part", "text/.*.part"):
        for path in run.glob(pattern):
            path.unlink(missing_ok=True)


_CHECKPOINT_PATTERN = "step-*.safetensors"


@dataclass(frozen=True)
class Progress:
    """The progress of a run, as a checkpoint stores it.

    Attributes:
        step: number of updates so far.
        epoch: epoch of the next batch.
        batch: index of the next batch in its epoch.
        best: validation score of each of the best checkpoints, by step; higher is better.
        stale: number of validations since the one with the best score.
        settings: settings that must not change when the run is resumed (:mod:`uwaga.training.changes`).
        scoring: settings that must not change for the scores in ``best`` to be comparable.
        corpus: description of the size of the training data.
        base: checksum of the base model; empty if there is none.
        before: scores of the base model before training, by name of the dev set.
        interrupted: whether the checkpoint was written because of an interrupt.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    step: int = 0
    epoch: int = 0
    batch: int = 0
    best: dict[int, float] = field(default_factory=dict)
    stale: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    scoring: dict[str, Any] = field(default_factory=dict)
    corpus: str = ""
    base: str = ""
    before: dict[str, float] = field(default_factory=dict)
    interrupted: bool = False


def checkpoint_path(folder: Path, step: int) -> Path:
    """Return the path of the checkpoint of a step in a folder."""
    return folder / f"step-{step:08d}.safetensors"


def checkpoint_steps(folder: Path) -> list[int]:
    """Return the steps of the checkpoints in a folder, oldest first."""
    return sorted(int(path.stem.removeprefix("step-")) for path in folder.glob(_CHECKPOINT_PATTERN))


def regular_steps(folder: Path, training: TrainingSettings) -> list[int]:
    """Return the steps of the existing checkpoints for which :func:`is_regular` is True, oldest first."""
    return [step for step in checkpoint_steps(folder) if is_regular(step, training)]


def is_regular(step: int, training: TrainingSettings) -> bool:
    """Return True if every run writes a checkpoint at this step, whatever its score."""
    return step % training.save_every == 0 or step == training.steps


def write_checkpoint(folder: Path, progress: Progress, tensors: Mapping[str, Tensor]) -> Path:
    """Write a checkpoint atomically, and return its path."""
    path = checkpoint_path(folder, progress.step)
    cpu_tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    header = {"progress": json.dumps(asdict(progress)), "checksum": _compute_checksum(cpu_tensors)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replace_file(path) as file:
            save_file(cpu_tensors, file.name, metadata=header)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: cannot be written: {explain_write_error(error)}") from None
    return path


def read_progress(path: Path) -> Progress:
    """Return the progress in the header of a checkpoint, without reading or verifying its tensors."""
    with _wrap_read_errors(path), safe_open(path, framework="pt") as file:
        return _parse_progress(file.metadata() or {})


def read_checkpoint(path: Path) -> tuple[Progress, dict[str, Tensor]]:
    """Return the progress and the tensors of a checkpoint, after verifying its checksum."""
    with _wrap_read_errors(path), safe_open(path, framework="pt") as file:
        header = file.metadata() or {}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        progress = _parse_progress(header)
    if header.get("checksum") != _compute_checksum(tensors):
        raise CheckpointError(
            f"{path}: the checksum is wrong: the file is damaged; delete it to resume from the previous "
            "checkpoint"
        )
    return progress, tensors


@contextlib.contextmanager
def _wrap_read_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such checkpoint") from None
    except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path}: damaged or not a uwaga checkpoint ({reason(error)}); delete it to resume from the "
            "previous checkpoint"
        ) from None


def _parse_progress(header: Mapping[str, str]) -> Progress:
    return TypeAdapter(Progress).validate_json(header["progress"])


def newest_checkpoint(folder: Path) -> Path | None:
    """Return the path of the newest checkpoint of a run, or None if there is no checkpoint."""
    steps = checkpoint_steps(folder)
    return checkpoint_path(folder, steps[-1]) if steps else None


def average_checkpoints(paths: list[Path]) -> dict[str, Tensor]:
    """Return the mean of each weight over several checkpoints, by the weight's name in the model."""
    if not paths:
        raise CheckpointError("there are no checkpoints to average")
    total: dict[str, Tensor] = {}
    for path in paths:
        _, tensors = read_checkpoint(path)
        weights = {name.removeprefix("model."): t for name, t in tensors.items() if name.startswith("model.")}
        if total and weights.keys() != total.keys():
            raise CheckpointError(f"{path}: the names of the weights differ from those in {paths[0]}")
        for name, weight in weights.items():
            total[name] = total[name] + weight.double() if name in total else weight.double()
    return {name: (tensor / len(paths)).float() for name, tensor in total.items()}


def _compute_checksum(tensors: Mapping[str, Tensor]) -> str:
    value = 0
    for name in sorted(tensors):
        value = zlib.crc32(name.encode(), value)
        value = zlib.crc32(tensors[name].reshape(-1).view(torch.uint8).numpy().data, value)
    return f"{value:08x}"
