"""Hyperparameter search: sampled values, pruned runs, and a killed sweep that resumes."""

import csv
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import run_uwaga
from toy import toy_values, write_reversal_corpus
from waiting import eventually

pytest.importorskip("optuna", reason="optuna is not installed")

from uwaga.errors import RunInUseError, SettingsError
from uwaga.files.lock import RunLock
from uwaga.settings import SweepSettings, parse
from uwaga.training.page import read_records
from uwaga.training.sweep import (
    distributions,
    finished_trials,
    is_exhausted,
    open_study,
    requeue_unfinished,
    sweep,
    trial_folder,
)

RATE = "training.schedule.peak"


def sweep_settings(**values: Any) -> SweepSettings:
    return parse(SweepSettings, {"parameters": {RATE: {"values": [0.01]}}, **values}, "sweep.yaml")


def write_sweep(folder: Path, **values: Any) -> tuple[Path, Path]:
    """Write a corpus, settings and sweep settings to a folder; return the paths of both settings files."""
    write_reversal_corpus(folder, pairs=120)
    files = folder / "s.yaml", folder / "sweep.yaml"
    files[0].write_text(yaml.safe_dump(toy_values(folder, steps=6, validate_every=2, save_every=1)))
    files[1].write_text(yaml.safe_dump(values))
    return files


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "trials.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, dialect="excel-tab"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "parameters"),
        ({"parameters": {}}, "at least 1"),
        ({"parameters": {"a": {}}}, "give values, or low and high"),
        ({"parameters": {"a": {"low": 2, "high": 1}}}, "low 2 is not below high 1"),
        ({"parameters": {"a": {"low": 0.0, "high": 1.0, "log": True}}},
         "requires that low is greater than 0"),
        ({"parameters": {"a": {"low": 0, "high": 4, "step": 0.5}}}, "must be a whole number"),
        ({"parameters": {"a": {"values": [1], "low": 0}}}, "values cannot be combined with low"),
        ({"parameters": {"a": {"values": [1, 1]}}}, "contains a duplicate"),
        ({"parameters": {"a": {"low": 0.0, "high": 1.0}}, "sampler": "grid"}, "needs values, a step"),
        ({"parameters": {"a": {"values": [1]}}, "trails": 3}, "did you mean 'trials'"),
    ],
)  # fmt: skip
def test_invalid_sweep_settings_are_rejected(values: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        parse(SweepSettings, values, "sweep.yaml")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"training.schedule.peek": {"values": [1]}}, "did you mean 'peak'"),
        ({"model.heads": {"values": [2, 3]}}, "model.heads=3"),
        ({"training.steps": {"low": -5, "high": 5}}, "training.steps=-5"),
        ({"run": {"values": ["here"]}}, "its own folder"),
    ],
)
def test_no_run_starts_with_invalid_settings(tmp_path, parameters, message) -> None:
    files = write_sweep(tmp_path, parameters=parameters)
    assert message in run_uwaga("train", files[0], "--sweep", files[1], code=1).stderr
    assert not (tmp_path / "run").exists()


def test_sampled_values_are_in_range_and_grid_points_are_unique(tmp_path: Path) -> None:
    parameters = {
        "a": {"low": 1, "high": 7, "step": 2},
        "b": {"low": 1e-4, "high": 1e-1, "log": True},
        "c": {"values": ["x", True, 3]},
    }
    settings = sweep_settings(parameters=parameters)
    study = open_study(tmp_path, settings, "loss", {})
    for _ in range(12):
        params = study.ask(distributions(settings.parameters)).params
        assert params["a"] in (1, 3, 5, 7)
        assert 1e-4 <= params["b"] <= 1e-1
        assert params["c"] in ("x", True, 3)
    (tmp_path / "grid").mkdir()
    grid = sweep_settings(
        parameters={"a": {"low": 1, "high": 3, "step": 2}, "c": parameters["c"]}, sampler="grid"
    )
    study = open_study(tmp_path / "grid", grid, "loss", {})
    folders = []
    while not is_exhausted(study, grid):
        trial = study.ask(distributions(grid.parameters))
        folders.append(trial_folder(trial.params))
        study.tell(trial, 1.0)
        study = open_study(tmp_path / "grid", grid, "loss", {})
    assert len(folders) == len(set(folders)) == 6


def test_unfinished_trials_are_repeated_first(tmp_path: Path) -> None:
    settings = sweep_settings(parameters={"a": {"low": 0.0, "high": 1.0}})
    unfinished = open_study(tmp_path, settings, "loss", {}).ask(distributions(settings.parameters)).params
    study = open_study(tmp_path, settings, "loss", {})
    requeue_unfinished(study)
    assert study.ask(distributions(settings.parameters)).params == unfinished
    assert finished_trials(study) == []
    for other in (sweep_settings(), settings):
        with pytest.raises(SettingsError, match="different parameters or settings"):
            open_study(tmp_path, other, "bleu", {})


def test_concurrent_second_sweep_is_rejected(tmp_path: Path) -> None:
    files = write_sweep(tmp_path, parameters={RATE: {"values": [0.01]}})
    (tmp_path / "run").mkdir()
    with RunLock(tmp_path / "run"), pytest.raises(RunInUseError):
        sweep(sweep_settings(), files[0], yaml.safe_load(files[0].read_text()), print)


@pytest.mark.slow
def test_best_trial_is_reported_and_bad_trial_is_pruned(tmp_path, monkeypatch) -> None:
    # Otherwise a run may end, on a busy machine, before its validation is read.
    monkeypatch.setattr("uwaga.training.sweep.POLL_SECONDS", 0.05)
    files = write_sweep(
        tmp_path,
        parameters={RATE: {"values": [0.01, 1e-9]}, "training.precision": {"values": ["float32"]}},
        sampler="grid", seed=1, warm_trials=1, warm_validations=0, metric="loss",
    )  # fmt: skip
    output = run_uwaga("train", files[0], "--sweep", files[1]).stdout
    rows = {float(row[RATE]): row for row in table(tmp_path / "run")}
    assert set(rows) == {0.01, 1e-9} and rows[0.01]["state"] == "complete"
    best = tmp_path / "run" / rows[0.01]["folder"]
    final = [
        values["loss"] for _, values in read_records(best / "metrics.jsonl") if values["part"] == "final"
    ]
    assert float(rows[0.01]["score"]) == pytest.approx(-final[-1], rel=1e-5)
    assert (best / "model" / "config.json").is_file()
    assert str(best) in output.splitlines()[-1]
    settings = yaml.safe_load((tmp_path / "run" / "best.yaml").read_text())
    assert settings["training"]["schedule"]["peak"] == 0.01 and settings["run"] == str(best)
    if int(rows[0.01]["trial"]) < int(rows[1e-9]["trial"]):
        assert rows[1e-9]["state"] == "pruned"


@pytest.mark.release
def test_killed_sweep_resumes_its_runs(tmp_path: Path) -> None:
    files = write_sweep(
        tmp_path, parameters={RATE: {"values": [0.01, 0.003]}}, sampler="grid", pruner="none", jobs=2
    )
    command = [sys.executable, "-m", "uwaga", "train", str(files[0]), "--sweep", str(files[1])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = tmp_path / "run"
    for number, status in ((signal.SIGKILL, -9), (signal.SIGINT, 130)):
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(2):
                assert process.stdout.readline().startswith("trial ")
            eventually(lambda: len(list(run.glob("trial-*/settings.yaml"))) == 2)
            process.send_signal(number)
            process.communicate()
        assert process.returncode == status
        eventually(lambda: not list(run.glob("trial-*/lock")))  # the runs end with the sweep
    first = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    rows = table(run)
    assert {float(row[RATE]) for row in rows} == {0.01, 0.003}
    assert [row["state"] for row in rows] == ["complete", "complete"]
    assert len(list(run.glob("trial-*"))) == 2
    second = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert second.stdout.splitlines() == first.stdout.splitlines()[-1:]
    records = read_records(run / rows[0]["folder"] / "metrics.jsonl")
    assert [values["part"] for _, values in records][-1] == "final"
