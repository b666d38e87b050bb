"""Training by several processes of torchrun: agreement with a single process, and errors."""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch
import yaml
from full_disk import limited_file_size
from torchrun_processes import RANK_SCRIPT, launch, wait_for_exit, workers
from toy import toy_settings, toy_values, write_reversal_corpus
from waiting import eventually

from uwaga.settings import Settings, parse
from uwaga.training.checkpoint import checkpoint_path, checkpoint_steps, read_checkpoint
from uwaga.training.train import train

TRAIN = ("train", "settings.yaml")
EXACT_SETTINGS = {"precision": "float64", "accumulate": 4, "validation_sentences": 2}


def prepare(folder: Path, **training: object) -> Settings:
    """Write settings and corpus of a run; return the settings of the same run by a single process."""
    write_reversal_corpus(folder, pairs=120)
    values = toy_values(folder, **{"steps": 6, "save_every": 3, "validate_every": 6, **training})
    (folder / "settings.yaml").write_text(yaml.safe_dump({**values, "run": "run"}), encoding="utf-8")
    return parse(Settings, {**values, "run": str(folder / "alone")}, "toy")


def uwaga_errors(errors: str) -> str:
    """Return the error output of uwaga's processes, without that of torchrun."""
    return errors.split("Traceback (most recent call last)")[0]


def losses(run: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text().splitlines()]


def max_difference(expected_run: Path, actual_run: Path, step: int) -> float:
    """Return the maximum difference of weights and moments between the checkpoints of two runs."""
    expected_progress, expected = read_checkpoint(checkpoint_path(expected_run / "checkpoints", step))
    progress, actual = read_checkpoint(checkpoint_path(actual_run / "checkpoints", step))
    assert expected.keys() == actual.keys() and (expected_progress.epoch, expected_progress.batch) == (
        progress.epoch,
        progress.batch,
    )
    return max(float((expected[name] - actual[name]).abs().max()) for name in expected)


def run_to_end(folder: Path, processes: int, *changes: str) -> str:
    flags = [word for change in changes for word in ("--set", change)]
    code, errors = wait_for_exit(launch(folder, processes, *TRAIN, *flags))
    assert code == 0, errors
    return errors


def wait_for_step(process: subprocess.Popen[str], folder: Path, step: int) -> None:
    """Wait until the run has a checkpoint of this step or a later one."""
    eventually(lambda: process.poll() is not None or newest_step(folder) >= step)
    assert process.poll() is None, process.communicate()


def newest_step(folder: Path) -> int:
    """Return the step of the newest checkpoint."""
    return max(checkpoint_steps(folder / "run/checkpoints"), default=0)


@pytest.mark.slow
def test_two_processes_match_a_single_process(tmp_path: Path) -> None:
    settings = prepare(tmp_path, **EXACT_SETTINGS | {"accumulate": 2})
    train(settings)
    errors = run_to_end(tmp_path, 2)
    assert "2 processes (ddp, cpu): an update is 2 batches of 200 tokens, 1 for each process" in errors
    assert "% MFU" in errors and "TFLOP/s (measured with a matrix product)" in errors
    assert errors.count("starting a new run") == 1
    assert losses(tmp_path / "run") == pytest.approx(losses(tmp_path / "alone"), rel=0, abs=1e-6)
    assert max_difference(tmp_path / "run", tmp_path / "alone", 6) < 1e-6


@pytest.mark.release
def test_fsdp_and_changed_process_counts_match_a_single_process(tmp_path: Path) -> None:
    settings = prepare(tmp_path, **EXACT_SETTINGS | {"clip": 0.5, "steps": 12, "keep_last": 9})
    train(settings)
    run_to_end(tmp_path, 4, "run=four")
    run_to_end(tmp_path, 2, "run=shares", "training.distributed=fsdp")
    run_to_end(tmp_path, 4, "run=mixed", "training.steps=4")
    run_to_end(tmp_path, 2, "run=mixed", "training.steps=8", "training.distributed=fsdp")
    assert "resuming from step 8" in run_to_end(tmp_path, 2, "run=mixed", "training.steps=12")
    for name in ("four", "shares", "mixed"):
        assert max_difference(tmp_path / name, tmp_path / "alone", 12) < 1e-6, name
    for name in ("four", "shares"):
        assert losses(tmp_path / name) == pytest.approx(losses(tmp_path / "alone"), rel=0, abs=1e-6)


@pytest.mark.release
def test_fsdp_matches_ddp_in_float32(tmp_path: Path) -> None:
    prepare(tmp_path, accumulate=2, epsilon=1e-4)
    run_to_end(tmp_path, 2, "run=copies")
    run_to_end(tmp_path, 2, "run=shares", "training.distributed=fsdp")
    assert max_difference(tmp_path / "copies", tmp_path / "shares", 6) < 1e-5


@pytest.mark.parametrize(
    "kind", [pytest.param("ddp", marks=pytest.mark.slow), pytest.param("fsdp", marks=pytest.mark.release)]
)
def test_restarted_run_is_bit_identical_to_an_uninterrupted_one(tmp_path: Path, kind: str) -> None:
    prepare(tmp_path, accumulate=2, steps=40, validate_every=20, distributed=kind)
    run_to_end(tmp_path, 2, "run=whole")
    process = launch(tmp_path, 2, *TRAIN, restarts=2)
    for rank, step in ((1, 3), (0, 18)):
        wait_for_step(process, tmp_path, step)
        running = workers(process)
        os.kill(running[rank], signal.SIGKILL)
        eventually(lambda killed=running: not set(killed.values()) & set(workers(process).values()))
    code, errors = wait_for_exit(process)
    assert code == 0, errors
    assert errors.count("resuming from step") == 2
    assert max_difference(tmp_path / "run", tmp_path / "whole", 40) == 0.0
    weights = [(tmp_path / name / "model/model.safetensors").read_bytes() for name in ("run", "whole")]
    assert weights[0] == weights[1]


@pytest.mark.slow
def test_ctrl_c_writes_a_checkpoint_and_stops_all_processes(tmp_path: Path) -> None:
    prepare(tmp_path, accumulate=2, steps=4000)
    process = launch(tmp_path, 2, *TRAIN)
    wait_for_step(process, tmp_path, 3)
    process.send_signal(signal.SIGINT)
    code, errors = wait_for_exit(process)
    assert code != 0
    match = re.search(r"stopped at step (\d+); rerun the same command to resume", errors)
    assert match and int(match[1]) == newest_step(tmp_path)
    assert not (tmp_path / "run/lock").exists()


@pytest.mark.slow
def test_unresponsive_process_is_reported(tmp_path: Path) -> None:
    prepare(tmp_path, accumulate=2, steps=4000, timeout=3)
    process = launch(tmp_path, 2, *TRAIN)
    wait_for_step(process, tmp_path, 3)
    running = workers(process)
    os.kill(running[1], signal.SIGSTOP)
    eventually(lambda: running[0] not in workers(process).values())
    os.kill(running[1], signal.SIGCONT)  # torchrun would kill it after 30 s
    code, errors = wait_for_exit(process)
    assert code != 0
    message = r"error: rank 1 \(process \d+ on host .*\) has not answered for 3 s \(training.timeout\)"
    assert re.search(message, errors), errors


@pytest.mark.parametrize(
    ("processes", "change", "message"),
    [
        pytest.param(
            2, "training.seed=RANK", "setting training.seed: 1 instead of 0", marks=pytest.mark.slow
        ),
        # These errors are of functions that other tests call, and are reported in the same way.
        pytest.param(3, "training.accumulate=4", "cannot be divided evenly", marks=pytest.mark.release),
        pytest.param(2, "data.train=['none.tsv']", "none.tsv: no such file", marks=pytest.mark.release),
    ],
)
def test_errors_of_several_processes_are_reported_once_without_a_traceback(
    tmp_path: Path, processes: int, change: str, message: str
) -> None:
    prepare(tmp_path, accumulate=4)
    process = launch(tmp_path, processes, *TRAIN, "--set", change, script=RANK_SCRIPT)
    code, errors = wait_for_exit(process)
    assert code == 1 and uwaga_errors(errors).count("error:") == 1 and message in uwaga_errors(errors), errors
    assert "uwaga/" not in errors.split("Traceback (most recent call last)")[1], errors


@pytest.mark.release
def test_processes_of_different_versions_are_rejected(tmp_path: Path) -> None:
    prepare(tmp_path, accumulate=4)
    code, errors = wait_for_exit(launch(tmp_path, 2, *TRAIN, script=RANK_SCRIPT, UWAGA_TEST_VERSION="9.9"))
    assert code == 1 and re.search(
        r"rank 1 \(process .*\) differs from rank 0 .*: uwaga: 9\.9", uwaga_errors(errors)
    )


@pytest.mark.release
def test_full_disk_stops_all_processes(tmp_path: Path) -> None:
    prepare(tmp_path, accumulate=2)
    with limited_file_size(60_000):
        process = launch(tmp_path, 2, *TRAIN)
    start = time.monotonic()
    code, errors = wait_for_exit(process)
    assert code == 1 and time.monotonic() - start < 60
    assert uwaga_errors(errors).count("error:") == 1 and "cannot be written" in uwaga_errors(errors), errors
    run_to_end(tmp_path, 2)


def test_flop_counts_match_the_formula(tmp_path: Path) -> None:
    from uwaga.decoder import Symbols
    from uwaga.models.build import build_model
    from uwaga.training.ranks import SINGLE_PROCESS
    from uwaga.training.utilisation import count_flops, find_utilisation

    settings = toy_settings(tmp_path, peak_flops=1e9)
    torch.manual_seed(0)
    model = build_model(settings.model, Symbols(2, 3, 0, 1), 100, 100)
    flops = count_flops(model)
    assert flops is not None and model.training
    width, inner = 32, 64
    attention, feed_forward = 4 * width * width, 2 * width * inner
    memory = 2 * width * width  # keys and values of cross-attention, made of each source token
    source, target = attention + feed_forward + memory, 2 * attention - memory + feed_forward + 100 * width
    for counted, weights in ((flops.source, source), (flops.target, target)):
        assert 6 * weights <= counted < 1.2 * 6 * weights  # attention adds to the 6 operations per weight
    utilisation = find_utilisation(model, settings.training, SINGLE_PROCESS, torch.device("cpu"))
    assert utilisation is not None and utilisation.configured and utilisation.peak == 1e9
    assert utilisation.share(10, 20, 2.0) == pytest.approx((10 * flops.source + 20 * flops.target) / 2e9)
    unset = settings.training.model_copy(update={"peak_flops": 0.0})
    assert find_utilisation(model, unset, SINGLE_PROCESS, torch.device("cpu")) is None
