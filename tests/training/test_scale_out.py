"""Real processes of torchrun on loopback: they end with what one process ends with, or say why not."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch
import yaml
from launched import EACH_ITS_OWN, ended, launch, workers
from toy import toy_settings, toy_values, write_reversal_corpus
from waiting import eventually

from uwaga.settings import Settings, parse
from uwaga.training.checkpoint import checkpoint_path, checkpoint_steps, read_checkpoint
from uwaga.training.train import train

TRAIN = ("train", "settings.yaml")
EXACT = {"precision": "float64", "accumulate": 4, "validation_sentences": 2}


def prepare(folder: Path, **training: object) -> Settings:
    """Settings and corpus of a run in ``folder``; the settings of the same run by a single process."""
    write_reversal_corpus(folder, pairs=120)
    values = toy_values(folder, **{"steps": 6, "save_every": 3, "validate_every": 6, **training})
    (folder / "settings.yaml").write_text(yaml.safe_dump({**values, "run": "run"}), encoding="utf-8")
    return parse(Settings, {**values, "run": str(folder / "alone")}, "toy")


def said(errors: str) -> str:
    """What our processes said, without torchrun's lines."""
    return errors.split("Traceback (most recent call last)")[0]


def losses(run: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (run / "metrics.jsonl").read_text().splitlines()]


def farthest(one: Path, other: Path, step: int) -> float:
    """The largest difference of any weight or moment between the checkpoints of two runs."""
    first, expected = read_checkpoint(checkpoint_path(one / "checkpoints", step))
    second, found = read_checkpoint(checkpoint_path(other / "checkpoints", step))
    assert expected.keys() == found.keys() and (first.epoch, first.batch) == (second.epoch, second.batch)
    return max(float((expected[name] - found[name]).abs().max()) for name in expected)


def finish(folder: Path, processes: int, *changes: str) -> str:
    words = [word for change in changes for word in ("--set", change)]
    code, errors = ended(launch(folder, processes, *TRAIN, *words))
    assert code == 0, errors
    return errors


def reach(process: subprocess.Popen[str], folder: Path, step: int) -> None:
    """Wait until the run has a checkpoint of this step or a later one."""
    eventually(lambda: process.poll() is not None or reached(folder) >= step)
    assert process.poll() is None, process.communicate()


def reached(folder: Path) -> int:
    """The step of the newest checkpoint."""
    return max(checkpoint_steps(folder / "run/checkpoints"), default=0)


@pytest.mark.slow
def test_two_processes_see_what_one_sees(tmp_path: Path) -> None:
    settings = prepare(tmp_path, **EXACT | {"accumulate": 2})
    train(settings)
    errors = finish(tmp_path, 2)
    assert "2 processes (ddp, cpu): an update is 2 batches of 200 tokens, 1 for each process" in errors
    assert "% MFU" in errors and "TFLOP/s (measured with a matrix product)" in errors
    assert errors.count("starting a new run") == 1
    assert losses(tmp_path / "run") == pytest.approx(losses(tmp_path / "alone"), rel=0, abs=1e-6)
    assert farthest(tmp_path / "run", tmp_path / "alone", 6) < 1e-6


@pytest.mark.slow
def test_the_law_holds_for_four_and_for_shares_and_on_the_way_from_one_to_the_other(tmp_path: Path) -> None:
    settings = prepare(tmp_path, **EXACT | {"clip": 0.5, "steps": 12, "keep_last": 9})
    train(settings)
    finish(tmp_path, 4, "run=four")
    finish(tmp_path, 2, "run=shares", "training.distributed=fsdp")
    finish(tmp_path, 4, "run=mixed", "training.steps=4")
    finish(tmp_path, 2, "run=mixed", "training.steps=8", "training.distributed=fsdp")
    assert "resuming from step 8" in finish(tmp_path, 2, "run=mixed", "training.steps=12")
    for name in ("four", "shares", "mixed"):
        assert farthest(tmp_path / name, tmp_path / "alone", 12) < 1e-6, name
    for name in ("four", "shares"):
        assert losses(tmp_path / name) == pytest.approx(losses(tmp_path / "alone"), rel=0, abs=1e-6)


@pytest.mark.slow
def test_shares_of_float32_equal_copies_to_1e_5(tmp_path: Path) -> None:
    prepare(tmp_path, accumulate=2, epsilon=1e-4)
    finish(tmp_path, 2, "run=copies")
    finish(tmp_path, 2, "run=shares", "training.distributed=fsdp")
    assert farthest(tmp_path / "copies", tmp_path / "shares", 6) < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_who_is_killed_is_begun_again_and_the_run_ends_with_the_same_bits(tmp_path: Path, kind: str) -> None:
    prepare(tmp_path, accumulate=2, steps=40, validate_every=20, distributed=kind)
    finish(tmp_path, 2, "run=whole")
    process = launch(tmp_path, 2, *TRAIN, restarts=2)
    for rank, step in ((1, 3), (0, 18)):
        reach(process, tmp_path, step)
        running = workers(process)
        os.kill(running[rank], signal.SIGKILL)
        eventually(lambda killed=running: not set(killed.values()) & set(workers(process).values()))
    code, errors = ended(process)
    assert code == 0, errors
    assert errors.count("resuming from step") == 2
    assert farthest(tmp_path / "run", tmp_path / "whole", 40) == 0.0
    weights = [(tmp_path / name / "model/model.safetensors").read_bytes() for name in ("run", "whole")]
    assert weights[0] == weights[1]


@pytest.mark.slow
def test_ctrl_c_writes_a_checkpoint_and_ends_all(tmp_path: Path) -> None:
    prepare(tmp_path, accumulate=2, steps=4000)
    process = launch(tmp_path, 2, *TRAIN)
    reach(process, tmp_path, 3)
    process.send_signal(signal.SIGINT)
    code, errors = ended(process)
    assert code != 0
    found = re.search(r"stopped at step (\d+); rerun the same command to resume", errors)
    assert found and int(found[1]) == reached(tmp_path)
    assert not (tmp_path / "run/lock").exists()


@pytest.mark.slow
def test_who_does_not_answer_is_named_and_the_run_ends(tmp_path: Path) -> None:
    prepare(tmp_path, accumulate=2, steps=4000, timeout=3)
    process = launch(tmp_path, 2, *TRAIN)
    reach(process, tmp_path, 3)
    os.kill(workers(process)[1], signal.SIGSTOP)
    code, errors = ended(process)
    assert code != 0
    told = r"error: rank 1 \(process \d+ on host .*\) has not answered for 3 s \(training.timeout\)"
    assert re.search(told, errors), errors


@pytest.mark.slow
def test_a_mistake_is_told_once_and_without_a_traceback_of_ours(tmp_path: Path) -> None:
    prepare(tmp_path, accumulate=4)
    for processes, changes, told in (
        (
            3,
            [],
            "training.accumulate: an update is 4 batches of 200 tokens, which cannot be divided evenly",
        ),
        (2, ["training.stepz=1"], "unknown setting 'training.stepz'"),
        (2, [f"data.train=['{tmp_path}/none.tsv']"], "none.tsv: no such file"),
        (2, ["training.seed=RANK"], "setting training.seed: 1 there, 0 here"),
    ):
        words = [word for change in changes for word in ("--set", change)]
        code, errors = ended(launch(tmp_path, processes, *TRAIN, *words, script=EACH_ITS_OWN))
        assert code == 1 and said(errors).count("error:") == 1 and told in said(errors), errors
        assert "uwaga/" not in errors.split("Traceback (most recent call last)")[1], errors
    code, errors = ended(launch(tmp_path, 2, *TRAIN, script=EACH_ITS_OWN, UWAGA_TEST_VERSION="9.9"))
    assert code == 1 and re.search(r"rank 1 \(process .*\) differs from rank 0 .*: uwaga: 9\.9", said(errors))


@pytest.mark.slow
def test_a_full_disk_ends_all(tmp_path: Path) -> None:
    prepare(tmp_path, accumulate=2)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, before[1]))
    try:
        process = launch(tmp_path, 2, *TRAIN)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    begun = time.monotonic()
    code, errors = ended(process)
    assert code == 1 and time.monotonic() - begun < 60
    assert said(errors).count("error:") == 1 and "cannot be written" in said(errors), errors
    finish(tmp_path, 2)


def test_what_training_takes_is_counted(tmp_path: Path) -> None:
    from uwaga.decoder import Symbols
    from uwaga.models.build import build_model
    from uwaga.training.ranks import ALONE
    from uwaga.training.utilisation import find_utilisation, model_flops

    settings = toy_settings(tmp_path, peak_flops=1e9)
    torch.manual_seed(0)
    model = build_model(settings.model, Symbols(2, 3, 0, 1), 100, 100)
    flops = model_flops(model)
    assert flops is not None and model.training
    width, inner = 32, 64
    attention, feed_forward = 4 * width * width, 2 * width * inner
    memory = 2 * width * width  # keys and values of cross-attention, made of each source token
    source, target = attention + feed_forward + memory, 2 * attention - memory + feed_forward + 100 * width
    for found, weights in ((flops.source, source), (flops.target, target)):
        assert 6 * weights <= found < 1.2 * 6 * weights  # scores and contexts beside the 6 of each weight
    used = find_utilisation(model, settings.training, ALONE, torch.device("cpu"))
    assert used is not None and used.stated and used.peak == 1e9
    assert used.share(10, 20, 2.0) == pytest.approx((10 * flops.source + 20 * flops.target) / 2e9)
    none = settings.training.model_copy(update={"peak_flops": 0.0})
    assert find_utilisation(model, none, ALONE, torch.device("cpu")) is None
