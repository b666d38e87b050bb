"""A disk that is full in training: it ends, says why, and goes on when there is room."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from toy import toy_values, write_reversal_corpus

from uwaga.errors import CheckpointError
from uwaga.settings import Settings, load_settings, parse
from uwaga.training import checkpoint, report
from uwaga.training.checkpoint import checkpoint_steps, newest_checkpoint, read_checkpoint
from uwaga.training.train import train

TRAIN = [sys.executable, "-m", "uwaga", "train", "settings.yaml"]


def run(folder: Path, limit: int) -> subprocess.CompletedProcess[str]:
    """Train with files of at most ``limit`` bytes."""
    return subprocess.run(
        TRAIN,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        check=False,
    )


@pytest.mark.parametrize("limit", [1000, pytest.param(60_000, marks=pytest.mark.slow)])
def test_I11_14_it_ends_with_one_line_and_goes_on_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    write_reversal_corpus(tmp_path, pairs=60)
    values = toy_values(tmp_path, steps=6, save_every=2, validate_every=3)
    (tmp_path / "settings.yaml").write_text(yaml.safe_dump(values))
    done = run(tmp_path, limit)
    assert done.returncode == 1, done.stderr
    assert "error:" in done.stderr and "cannot be written" in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr
    left = [path for path in (tmp_path / "run").rglob("*") if ".part" in path.name or path.name == "lock"]
    assert not left
    monkeypatch.chdir(tmp_path)
    assert train(load_settings(tmp_path / "settings.yaml")) is not None


@pytest.mark.parametrize("full", ["metrics.jsonl", "events"])
def test_I11_14_a_log_that_cannot_be_written_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    write_reversal_corpus(tmp_path, pairs=60)
    settings = parse(Settings, toy_values(tmp_path, steps=12, save_every=2, validate_every=5), "toy")

    def append(path: Path, content: bytes) -> None:
        if full in path.name:
            raise OSError(28, "No space left on device", str(path))
        checkpoint.append(path, content)

    monkeypatch.setattr(report, "append", append)
    with pytest.raises(CheckpointError, match=rf"{full}.*No space left on device; free some space"):
        train(settings)
    assert checkpoint_steps(settings.run / "checkpoints") == [2, 4]
    newest = newest_checkpoint(settings.run / "checkpoints")
    assert newest is not None
    read_checkpoint(newest)
    monkeypatch.undo()
    assert train(settings) is not None
