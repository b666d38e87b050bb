"""A full disk during training: training stops with an error, and resumes once there is space."""

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
    """Train in a process whose files may have at most ``limit`` bytes."""
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


@pytest.mark.slow
@pytest.mark.parametrize("limit", [1000, 60_000])
def test_full_disk_is_reported_and_training_resumes_afterwards(tmp_path, monkeypatch, limit) -> None:
    write_reversal_corpus(tmp_path, pairs=60)
    values = toy_values(tmp_path, steps=6, save_every=2, validate_every=3)
    (tmp_path / "settings.yaml").write_text(yaml.safe_dump(values))
    result = run(tmp_path, limit)
    assert result.returncode == 1, result.stderr
    assert "error:" in result.stderr and "cannot be written" in result.stderr.replace("\n", " ")
    assert "Traceback" not in result.stderr
    leftovers = [
        path for path in (tmp_path / "run").rglob("*") if ".part" in path.name or path.name == "lock"
    ]
    assert not leftovers
    monkeypatch.chdir(tmp_path)
    assert train(load_settings(tmp_path / "settings.yaml")) is not None


@pytest.mark.parametrize("log_name", ["metrics.jsonl", pytest.param("events", marks=pytest.mark.slow)])
def test_unwritable_log_stops_training(tmp_path, monkeypatch, log_name) -> None:
    write_reversal_corpus(tmp_path, pairs=60)
    settings = parse(Settings, toy_values(tmp_path, steps=12, save_every=2, validate_every=5), "toy")

    def append_to_file(path: Path, content: bytes) -> None:
        if log_name in path.name:
            raise OSError(28, "No space left on device", str(path))
        checkpoint.append_to_file(path, content)

    monkeypatch.setattr(report, "append_to_file", append_to_file)
    with pytest.raises(CheckpointError, match=rf"{log_name}.*No space left on device; free some space"):
        train(settings)
    assert checkpoint_steps(settings.run / "checkpoints") == [2, 4]
    newest = newest_checkpoint(settings.run / "checkpoints")
    assert newest is not None
    read_checkpoint(newest)
    monkeypatch.undo()
    assert train(settings) is not None
