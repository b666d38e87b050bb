"""Exact resumption: a run killed at any moment gives the weights of an uninterrupted run, bit for bit."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml
from forked_server import ForkedServer
from toy import toy_values, write_reversal_corpus

from uwaga.training.checkpoint import checkpoint_path, checkpoint_steps, newest_checkpoint, read_checkpoint

STEPS = 60


def start_training(folder: Path, run: str) -> ForkedServer:
    """Start a run without importing torch anew; its output is appended to ``RUN.log``."""
    log = folder / f"{run}.log"
    log.touch()
    return ForkedServer(["train", str(folder / "settings.yaml"), "--set", f"run={folder / run}"], log)


def prepare(folder: Path) -> None:
    write_reversal_corpus(folder)
    values = toy_values(
        folder, steps=STEPS, save_every=4, validate_every=15, accumulate=2, average=3, keep_best=2, threads=2
    )
    values["data"]["subword_sampling"] = 0.1
    values["data"]["augment"] = {"upper": 0.2}
    (folder / "settings.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")


def wait_for_checkpoint(process: subprocess.Popen[bytes] | ForkedServer, run: Path, after: int) -> None:
    while process.poll() is None:
        steps = checkpoint_steps(run / "checkpoints")
        if steps and steps[-1] > after:
            return
        time.sleep(0.01)


@pytest.mark.slow
def test_run_killed_three_times_is_bit_identical_to_an_uninterrupted_one(tmp_path: Path) -> None:
    prepare(tmp_path)
    start_training(tmp_path, "whole").wait(120)

    rng = random.Random()
    run = tmp_path / "killed"
    kills = 0
    for part in range(3):
        process = start_training(tmp_path, "killed")
        newest = checkpoint_steps(run / "checkpoints")
        wait_for_checkpoint(process, run, max(newest[-1] if newest else 0, 15 * part))
        time.sleep(rng.uniform(0, 0.15))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.wait(60)
    assert kills == 3
    start_training(tmp_path, "killed").wait(120)
    output = (tmp_path / "killed.log").read_text(encoding="utf-8")
    assert output.count("resuming from step") == 3, output

    assert checkpoint_steps(run / "checkpoints") == checkpoint_steps(tmp_path / "whole" / "checkpoints")
    expected_progress, expected = read_checkpoint(checkpoint_path(tmp_path / "whole" / "checkpoints", STEPS))
    progress, actual = read_checkpoint(checkpoint_path(run / "checkpoints", STEPS))
    assert expected_progress == progress
    assert expected.keys() == actual.keys()
    for name, tensor in expected.items():
        assert torch.equal(tensor, actual[name]), name
    weights = [(tmp_path / name / "model" / "model.safetensors").read_bytes() for name in ("whole", "killed")]
    assert weights[0] == weights[1]


@pytest.mark.slow
def test_ctrl_c_writes_a_checkpoint_and_reports_it(tmp_path: Path) -> None:
    prepare(tmp_path)
    run = tmp_path / "stopped"
    command = [sys.executable, "-m", "uwaga", "train", "settings.yaml", "--set", "run=stopped"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE)
    wait_for_checkpoint(process, run, 0)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors.decode()
    assert b"rerun the same command" in errors and b"Traceback" not in errors
    newest = newest_checkpoint(run / "checkpoints")
    assert newest is not None
    progress, _ = read_checkpoint(newest)
    assert f"stopped at step {progress.step}".encode() in errors
