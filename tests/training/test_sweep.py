"""A search for settings: drawn values, runs that are stopped early, a sweep that is killed and goes on."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from toy import toy_values, write_reversal_corpus
from waiting import eventually

pytest.importorskip("optuna", reason="optuna is not installed")

from uwaga.cli.main import main
from uwaga.errors import RunInUseError, SettingsError
from uwaga.files.lock import RunLock
from uwaga.settings import SweepSettings, parse
from uwaga.training.page import read_records
from uwaga.training.sweep import (
    counted,
    distributions,
    folder_of,
    is_exhausted,
    open_study,
    requeue_unfinished,
    sweep,
)

RATE = "training.schedule.peak"


def sweep_of(**values: Any) -> SweepSettings:
    return parse(SweepSettings, {"parameters": {RATE: {"values": [0.01]}}, **values}, "sweep.yaml")


def a_sweep(folder: Path, **values: Any) -> tuple[Path, Path]:
    """Files of settings and of a sweep in a folder with a corpus."""
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
        ({"parameters": {"a": {}}}, "needs values, or low and high"),
        ({"parameters": {"a": {"low": 2, "high": 1}}}, "low 2 is not below high 1"),
        ({"parameters": {"a": {"low": 0.0, "high": 1.0, "log": True}}}, "a low above 0"),
        ({"parameters": {"a": {"low": 0, "high": 4, "step": 0.5}}}, "not whole"),
        ({"parameters": {"a": {"values": [1], "low": 0}}}, "values cannot be combined with low"),
        ({"parameters": {"a": {"values": [1, 1]}}}, "contains a duplicate"),
        ({"parameters": {"a": {"low": 0.0, "high": 1.0}}, "sampler": "grid"}, "needs values, a step"),
        ({"parameters": {"a": {"values": [1]}}, "trails": 3}, "did you mean 'trials'"),
    ],
)
def test_a_wrong_sweep_is_refused_by_its_key(values: dict[str, Any], message: str) -> None:
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
def test_no_run_begins_with_settings_that_cannot_be_trained(
    tmp_path: Path, parameters: dict[str, Any], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files = a_sweep(tmp_path, parameters=parameters)
    with pytest.raises(SystemExit) as end:
        main(["train", str(files[0]), "--sweep", str(files[1])])
    assert end.value.code == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_what_is_drawn_lies_in_its_range_and_a_grid_has_each_once(tmp_path: Path) -> None:
    parameters = {
        "a": {"low": 1, "high": 7, "step": 2},
        "b": {"low": 1e-4, "high": 1e-1, "log": True},
        "c": {"values": ["x", True, 3]},
    }
    settings = sweep_of(parameters=parameters)
    study = open_study(tmp_path, settings, "loss", {})
    for _ in range(12):
        drawn = study.ask(distributions(settings.parameters)).params
        assert drawn["a"] in (1, 3, 5, 7)
        assert 1e-4 <= drawn["b"] <= 1e-1
        assert drawn["c"] in ("x", True, 3)
    (tmp_path / "grid").mkdir()
    whole = sweep_of(parameters={"a": {"low": 1, "high": 3, "step": 2}, "c": parameters["c"]}, sampler="grid")
    study = open_study(tmp_path / "grid", whole, "loss", {})
    seen = []
    while not is_exhausted(study, whole):
        trial = study.ask(distributions(whole.parameters))
        seen.append(folder_of(trial.params))
        study.tell(trial, 1.0)
        study = open_study(tmp_path / "grid", whole, "loss", {})
    assert len(seen) == len(set(seen)) == 6


def test_what_a_killed_sweep_has_left_comes_again_first(tmp_path: Path) -> None:
    settings = sweep_of(parameters={"a": {"low": 0.0, "high": 1.0}})
    left = open_study(tmp_path, settings, "loss", {}).ask(distributions(settings.parameters)).params
    study = open_study(tmp_path, settings, "loss", {})
    requeue_unfinished(study)
    assert study.ask(distributions(settings.parameters)).params == left
    assert counted(study) == []
    for other in (sweep_of(), settings):
        with pytest.raises(SettingsError, match="other parameters or other settings"):
            open_study(tmp_path, other, "bleu", {})


def test_one_sweep_at_a_time(tmp_path: Path) -> None:
    files = a_sweep(tmp_path, parameters={RATE: {"values": [0.01]}})
    (tmp_path / "run").mkdir()
    with RunLock(tmp_path / "run"), pytest.raises(RunInUseError):
        sweep(sweep_of(), files[0], yaml.safe_load(files[0].read_text()), print)


@pytest.mark.slow
def test_the_best_run_is_reported_and_a_bad_one_is_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Else a run may end, on a busy machine, before its validation is looked at.
    monkeypatch.setattr("uwaga.training.sweep.SECONDS", 0.05)
    files = a_sweep(
        tmp_path,
        parameters={RATE: {"values": [0.01, 1e-9]}, "training.precision": {"values": ["float32"]}},
        sampler="grid", seed=1, warm_trials=1, warm_validations=0, metric="loss",
    )  # fmt: skip
    with pytest.raises(SystemExit) as end:
        main(["train", str(files[0]), "--sweep", str(files[1])])
    assert not end.value.code
    rows = {float(row[RATE]): row for row in table(tmp_path / "run")}
    assert set(rows) == {0.01, 1e-9} and rows[0.01]["state"] == "complete"
    best = tmp_path / "run" / rows[0.01]["folder"]
    final = [one["loss"] for _, one in read_records(best / "metrics.jsonl") if one["part"] == "final"]
    assert float(rows[0.01]["score"]) == pytest.approx(-final[-1], rel=1e-5)
    assert (best / "model" / "config.json").is_file()
    told = capsys.readouterr().out
    assert str(best) in told.splitlines()[-1]
    settings = yaml.safe_load((tmp_path / "run" / "best.yaml").read_text())
    assert settings["training"]["schedule"]["peak"] == 0.01 and settings["run"] == str(best)
    if int(rows[0.01]["trial"]) < int(rows[1e-9]["trial"]):
        assert rows[1e-9]["state"] == "pruned"


@pytest.mark.slow
def test_a_sweep_that_is_killed_goes_on_where_its_runs_were(tmp_path: Path) -> None:
    files = a_sweep(
        tmp_path, parameters={RATE: {"values": [0.01, 0.003]}}, sampler="grid", pruner="none", jobs=2
    )
    command = [sys.executable, "-m", "uwaga", "train", str(files[0]), "--sweep", str(files[1])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = tmp_path / "run"
    for how, status in ((signal.SIGKILL, -9), (signal.SIGINT, 130)):
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(2):
                assert process.stdout.readline().startswith("trial ")
            eventually(lambda: len(list(run.glob("trial-*/settings.yaml"))) == 2)
            process.send_signal(how)
            process.communicate()
        assert process.returncode == status
        eventually(lambda: not list(run.glob("trial-*/lock")))  # the runs end with it
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    rows = table(run)
    assert {float(row[RATE]) for row in rows} == {0.01, 0.003}
    assert [row["state"] for row in rows] == ["complete", "complete"]
    assert len(list(run.glob("trial-*"))) == 2
    again = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert again.stdout.splitlines() == done.stdout.splitlines()[-1:]
    records = read_records(run / rows[0]["folder"] / "metrics.jsonl")
    assert [values["part"] for _, values in records][-1] == "final"
