"""Resumption of runs with changed settings: permitted changes, and updated files."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file
from toy import toy_settings, toy_values, write_reversal_corpus

from uwaga.errors import CheckpointError, SettingsError
from uwaga.settings import Settings, load_settings, parse
from uwaga.training.checkpoint import (
    checkpoint_path,
    checkpoint_steps,
    read_checkpoint,
    read_progress,
    write_checkpoint,
)
from uwaga.training.corpus import prepare_corpora
from uwaga.training.final_model import average_run
from uwaga.training.page import METRICS_FILE
from uwaga.training.report import Reporter
from uwaga.training.run import Run
from uwaga.training.train import train
from uwaga.training.validation import Validation


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_reversal_corpus(tmp_path)
    return tmp_path


def test_error_for_forbidden_settings_changes_shows_old_and_new_values(folder: Path) -> None:
    train(toy_settings(folder, steps=4))
    before = {path: path.read_bytes() for path in (folder / "run").rglob("*") if path.is_file()}
    values = toy_values(folder, steps=4, label_smoothing=0.3)
    values["model"]["width"] = 16
    values["data"]["max_tokens"] = 99
    with pytest.raises(CheckpointError) as error:
        train(parse(Settings, values, "toy"))
    message = str(error.value)
    assert "training.label_smoothing was 0.1 and is now 0.3" in message
    assert (
        "model.width was 32 and is now 16" in message and "data.max_tokens was 256 and is now 99" in message
    )
    assert "model.heads" not in message
    assert "Settings that may change: training.steps, decoding, data.dev" in message
    assert before == {path: path.read_bytes() for path in (folder / "run").rglob("*") if path.is_file()}


def test_number_of_steps_cannot_change_if_the_schedule_depends_on_it(folder: Path) -> None:
    cosine = {"kind": "cosine", "peak": 0.01, "warmup": 2}
    train(toy_settings(folder, steps=4, schedule=cosine))
    with pytest.raises(CheckpointError, match=r"steps was 4 and is now 6 \(the learning rate of sched"):
        train(toy_settings(folder, steps=6, schedule=cosine))


def test_permitted_settings_changes_are_logged_and_saved_on_resume(folder, capsys) -> None:
    train(toy_settings(folder, steps=10, save_every=10))
    (folder / "moved.tsv").write_bytes((folder / "train.tsv").read_bytes())
    values = toy_values(folder, steps=15, save_every=10, validate_every=3, patience=50)
    values["data"]["train"] = [str(folder / "moved.tsv")]
    values["decoding"]["beam"] = 3
    capsys.readouterr()
    train(parse(Settings, values, "toy"))
    log = capsys.readouterr().err
    assert "changed: training.steps: 10 → 15" in log and "changed: decoding.beam: 2 → 3" in log
    assert "data.train has changed" not in log
    written = load_settings(folder / "run" / "settings.yaml")
    assert written == parse(Settings, values, "toy")
    assert average_run(folder / "run", folder / "newest", 1) == [15]


def test_newest_checkpoint_is_the_one_with_the_highest_step(folder: Path) -> None:
    settings = toy_settings(folder, steps=10)
    train(settings)
    path = checkpoint_path(settings.run / "checkpoints", 10)
    progress, tensors = read_checkpoint(path)
    write_checkpoint(settings.run / "checkpoints", replace(progress, step=12, interrupted=True), tensors)
    assert average_run(settings.run, folder / "newest", 1) == [12]
    assert average_run(settings.run, folder / "three", 3) == [5, 10, 12]


def test_resuming_from_step_0_writes_settings(folder: Path) -> None:
    settings = toy_settings(folder, steps=4)
    torch.manual_seed(0)
    corpora = prepare_corpora(settings, lambda text: None)
    from uwaga.models.build import build_model

    model = build_model(settings.model, corpora.target.symbols, corpora.source.size, corpora.target.size)
    Run(settings, model, corpora, Reporter(settings.run, 4)).save()
    assert checkpoint_steps(settings.run / "checkpoints") == [0]
    train(settings)
    assert load_settings(settings.run / "settings.yaml") == settings
    assert average_run(settings.run, folder / "mean", 1) == [4]


def test_finished_run_is_continued_only_after_a_settings_change(folder, capsys) -> None:
    def contents() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in settings.run.rglob("*") if path.is_file()}

    settings = toy_settings(folder, steps=4)
    model, before = train(settings), contents()
    capsys.readouterr()
    assert train(settings) == model and before == contents()
    assert "finished already" in capsys.readouterr().err
    values = toy_values(folder, steps=4)
    values["decoding"]["beam"] = 1
    train(parse(Settings, values, "toy"))
    assert "final model" in capsys.readouterr().err
    shutil.rmtree(settings.run / "model")
    assert train(settings) == model and model.is_dir()


def test_changed_corpus_and_metric_are_reported_on_resume(folder, capsys) -> None:
    settings = toy_settings(folder, steps=4, validate_every=2)
    train(settings)
    best = read_progress(checkpoint_path(settings.run / "checkpoints", 4)).best
    assert best and all(score < 0 for score in best.values())  # negated losses
    with (folder / "train.tsv").open("a") as file:
        file.write("abc\tcba\n")
    capsys.readouterr()
    train(toy_settings(folder, steps=6, validate_every=2, early_stopping_metric="chrf"))
    log = capsys.readouterr().err.replace("\n", " ")
    assert "data.train has changed: 600 pairs of" in log and "601 pairs of" in log
    assert "earlier scores are not used to choose" in log
    best = read_progress(checkpoint_path(settings.run / "checkpoints", 6)).best
    assert list(best) == [6] and all(score >= 0 for score in best.values())


def test_subword_models_trained_with_other_settings_are_rejected(folder: Path) -> None:
    settings = toy_settings(folder, steps=4)
    prepare_corpora(settings, lambda text: None)
    (settings.run / "settings.yaml").write_text(yaml.safe_dump(settings.model_dump(mode="json")))
    values = toy_values(folder, steps=4)
    values["text"]["size"] = 18
    with pytest.raises(SettingsError, match=r"text\.size was 17 and is now 18; delete"):
        train(parse(Settings, values, "toy"))


def test_best_checkpoint_becomes_the_model_if_the_average_is_worse(folder, capsys) -> None:
    settings = toy_settings(folder, steps=40, save_every=5, validate_every=5, average=8, keep_last=8)
    model = train(settings)
    assert model is not None
    lines = [json.loads(line) for line in (settings.run / METRICS_FILE).read_text().splitlines()]
    losses = {m["step"]: m["loss"] for m in lines if m["part"] == "dev"}
    assert len(losses) == len([m for m in lines if m["part"] == "dev"])  # no duplicate steps
    [mean] = [m for m in lines if m["part"] == "mean"]
    [final] = [m for m in lines if m["part"] == "final"]
    best = min(losses, key=lambda step: losses[step])
    assert mean["steps"] == list(range(5, 41, 5)) and mean["loss"] > losses[best]
    assert final["steps"] == [best] and final["loss"] == pytest.approx(losses[best], rel=1e-6)
    _, tensors = read_checkpoint(checkpoint_path(settings.run / "checkpoints", best))
    for name, weight in load_file(model / "model.safetensors").items():
        assert any(torch.equal(weight, tensor) for tensor in tensors.values()), name
    message = (
        f"checkpoint of step {best}, better on the dev set than the mean of the checkpoints of steps 5, 10"
    )
    assert message in capsys.readouterr().err.replace("\n", " ")
    assert message in (model / "card.md").read_text()


def test_average_becomes_the_model_if_it_is_not_worse(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Validation, "score", lambda *_: 0.0)
    settings = toy_settings(folder, steps=10, save_every=5, validate_every=5, average=2)
    model = train(settings)
    assert model is not None
    lines = [json.loads(line) for line in (settings.run / METRICS_FILE).read_text().splitlines()]
    assert [m["steps"] for m in lines if m["part"] in ("mean", "final")] == [[5, 10], [5, 10]]
    assert (
        "mean of the checkpoints of steps 5, 10, not worse on the dev set than step"
        in (model / "card.md").read_text()
    )
