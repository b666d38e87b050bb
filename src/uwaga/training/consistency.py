"""Checks that the processes of a run have equal versions, settings, base models and corpora."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from uwaga.data.sources import find_sources
from uwaga.errors import SettingsError
from uwaga.files.lock import LOCK_NAME
from uwaga.files.store import identify
from uwaga.settings import Settings
from uwaga.training.base_model import BaseCheckpoint
from uwaga.training.changes import flatten
from uwaga.training.final_model import uwaga_version
from uwaga.training.ranks import Ranks

_PACKAGE = Path(__file__).parents[1]
_VISIBILITY_SECONDS = 30.0  # seconds within which files of other machines must appear in a shared folder


def check_consistent(ranks: Ranks, settings: Settings, base: BaseCheckpoint | None) -> None:
    """Raise SettingsError in all processes if the inputs of any process differ from those of rank 0."""
    if ranks.world == 1:
        return
    inputs_by_rank = ranks.gather(ranks.run_on_all(lambda: collect_inputs(settings, base)))
    ranks.run_on_all(lambda: compare_inputs(inputs_by_rank, ranks))


def collect_inputs(settings: Settings, base: BaseCheckpoint | None) -> dict[str, Any]:
    """Return the inputs that must be equal in all processes, as JSON values by name."""
    data = settings.data
    files = []
    for corpora in (data.train, data.dev, *data.also.values()):
        for corpus in data.resolve(corpora):
            files += [*find_sources(corpus).files, *([corpus.alignment] if corpus.alignment else [])]
    return {
        "uwaga": f"{uwaga_version()} ({code_digest()})",
        "torch": torch.__version__,
        "init": "" if base is None else base.sha256,
        **{f"setting {name}": value for name, value in flatten(settings.model_dump(mode="json")).items()},
        **{f"corpus {file}": json.dumps(identify(file)) for file in files},
    }


def compare_inputs(inputs_by_rank: Sequence[Mapping[str, Any]], ranks: Ranks) -> None:
    """Raise SettingsError if the inputs of a process differ from those of rank 0."""
    first_inputs = inputs_by_rank[0]
    for rank, current_inputs in enumerate(inputs_by_rank):
        names = [
            name
            for name in {**first_inputs, **current_inputs}
            if first_inputs.get(name) != current_inputs.get(name)
        ]
        if names:
            differences = "; ".join(
                f"{name}: {current_inputs.get(name)} instead of {first_inputs.get(name)}"
                for name in names[:3]
            )
            raise SettingsError(
                f"{ranks.describe(rank)} differs from {ranks.describe(0)}: {differences}. All processes of a "
                "run need the same version of uwaga, the same settings and the same files"
            )


def check_shared_folder(ranks: Ranks, run: Path) -> None:
    """Check that every process sees the same run folder: it must contain the lock file of rank 0."""
    if ranks.world == 1:
        return
    owner = ranks.run_on_rank_0(lambda: (run / LOCK_NAME).read_text(encoding="utf-8"))

    def wait() -> None:
        deadline = time.monotonic() + _VISIBILITY_SECONDS
        while not (run / LOCK_NAME).is_file() or (run / LOCK_NAME).read_text(encoding="utf-8") != owner:
            if time.monotonic() > deadline:
                raise SettingsError(
                    f"run: {ranks.describe(ranks.rank)} does not see the folder {run} of rank 0; put it on "
                    "a file system that all machines share"
                )
            time.sleep(0.1)

    ranks.run_on_all(wait)


def code_digest() -> str:
    """Return a short hash of the package's source files, which distinguishes builds of the same version."""
    digest = hashlib.sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(str(path.relative_to(_PACKAGE)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
