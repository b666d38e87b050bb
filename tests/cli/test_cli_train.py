"""``uwaga train`` on the command line: the template, changed settings, errors without a traceback."""

from pathlib import Path

import pytest
import yaml
from toy import toy_values, write_reversal_corpus

from uwaga.cli.main import main
from uwaga.settings import load_settings
from uwaga.settings.models import transformer_small, transformer_tiny
from uwaga.training import estimate
from uwaga.training.validation import Validation


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return int(end.value.code or 0)


def test_init_does_not_overwrite_existing_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "new.yaml"
    assert run("train", "--init", path) == 0
    before = path.read_text()
    assert "# d_model" in before
    assert run("train", "--init", path) == 1
    assert "already exists" in capsys.readouterr().err
    assert path.read_text() == before


def test_model_trained_by_the_command_translates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_reversal_corpus(tmp_path)
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump(toy_values(tmp_path, steps=2)))
    assert run("train", path, "--set", "training.steps=4", "--set", f"run={tmp_path / 'other'}") == 0
    errors = capsys.readouterr().err
    assert "600 pairs kept" in errors and "model written to" in errors
    assert run("translate", "--model", tmp_path / "other" / "model", "abc") == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_average_command_reproduces_the_final_model_of_the_run(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(Validation, "score", lambda *_: 0.0)  # so that the mean is never worse
    write_reversal_corpus(tmp_path)
    path, run_folder = tmp_path / "s.yaml", tmp_path / "run"
    path.write_text(yaml.safe_dump(toy_values(tmp_path, steps=8, save_every=2, average=3)))
    assert run("train", path) == 0
    (tmp_path / "train.tsv").unlink()  # no corpus is needed
    files = {file: file.read_bytes() for file in run_folder.rglob("*") if file.is_file()}
    capsys.readouterr()
    assert run("average", run_folder, tmp_path / "made") == 0
    assert "of steps 4, 6, 8" in capsys.readouterr().out
    for name in ("config.json", "model.safetensors", "source.spm"):
        assert (tmp_path / "made" / name).read_bytes() == (run_folder / "model" / name).read_bytes()
    assert files == {file: file.read_bytes() for file in run_folder.rglob("*") if file.is_file()}

    assert run("average", run_folder, tmp_path / "newest", "--last", "1") == 0
    assert run("translate", "--model", tmp_path / "newest", "abc") == 0
    newest = (tmp_path / "newest" / "model.safetensors").read_bytes()
    assert newest != (run_folder / "model" / "model.safetensors").read_bytes()

    capsys.readouterr()
    assert run("average", run_folder, tmp_path / "other", "--last", "5") == 1
    assert "has 4 checkpoints, not 5" in capsys.readouterr().err.replace("\n", " ")
    assert run("average", tmp_path, tmp_path / "other") == 1
    assert "settings.yaml: no such" in capsys.readouterr().err.replace("\n", " ")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("steps", "expected KEY=VALUE"),
        ("training.stepz=4", "did you mean 'steps'?"),
        ("run.x=4", "run holds a value, not a group of settings"),
        ("training.steps=[", "is not a YAML value"),
        ("data.train=[nowhere.tsv]", "nowhere.tsv"),
    ],
)
def test_settings_error_messages_fit_on_one_line(tmp_path, capsys, change, message) -> None:
    write_reversal_corpus(tmp_path)
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump(toy_values(tmp_path)))
    assert run("train", path, "--set", change) == 1
    errors = capsys.readouterr().err
    assert message in errors.replace("\n", "") and "Traceback" not in errors


def test_init_writes_settings_with_the_given_corpora_and_preset(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, lines in (("a.en", 9), ("a.de.gz", 9), ("large.tsv", 1_000_000), ("b.tsv", 1)):
        Path(name).write_bytes(b"Some text of a size.\n" * lines)
    assert run("train", "--init", "--train", "a.en", "a.de.gz", "--dev", "b.tsv") == 0
    errors = capsys.readouterr().err.replace("\n", " ")
    assert "preset transformer-tiny" in errors and "train with: uwaga train train.yaml" in errors
    assert "updates" not in errors  # estimates only on request
    written = load_settings(Path("train.yaml"))
    assert (written.run, written.model) == (Path("runs/train"), transformer_tiny())
    assert written.data.model_dump(mode="json")["train"] == ["a.en", "a.de.gz"]
    assert written.data.model_dump(mode="json")["dev"] == ["b.tsv"]
    assert written.data.languages == ("en", "de")
    assert run("train", "large.yaml", "--init", "--train", "large.tsv") == 0
    assert load_settings(Path("large.yaml")).model == transformer_small()
    for arguments in (["--train", "no.en", "a.de.gz"], ["--train", "a.en", "a.de.gz", "b.tsv"]):
        assert run("train", "wrong.yaml", "--init", *arguments) == 1
        assert "--train" in capsys.readouterr().err
    assert not Path("wrong.yaml").exists()
    assert run("train", "train.yaml", "--dev", "b.tsv") == 1
    assert run("train") == 1
    assert "train --init" in capsys.readouterr().err
    assert run("train", tmp_path) == 1
    assert "is a folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("preset", "sizes"), [("tiny", ("width",)), ("luong-small", ("hidden", "embedding"))]
)
def test_init_estimates_the_training_time_of_a_preset(tmp_path, capsys, monkeypatch, preset, sizes) -> None:
    monkeypatch.setattr(estimate, "_MAX_ERROR", float("inf"))  # a busy machine would measure for a minute
    smaller = (
        *(f"model.{size}=32" for size in sizes),
        "text.size=200",
        "training.batch_tokens=100",
        "model.max_length=50",
        "training.steps=600",
        "training.device=cpu",
    )
    changes = [part for change in smaller for part in ("--set", change)]
    path = tmp_path / "new.yaml"
    assert run("train", "--init", path, "--preset", preset, "--estimate", *changes) == 0
    output = capsys.readouterr().out.replace("\n", " ")
    assert "600 updates: about " in output and "on this machine" in output
    assert "updates of random sentences of 25 tokens" in output
    assert f"values of the preset {'transformer-tiny' if preset == 'tiny' else preset}" in path.read_text()
    assert run("train", "--init", tmp_path / "other.yaml", "--preset", "luong-smal") == 1
    assert "--preset: no model preset is named 'luong-smal'; did you mean 'luong-small'?" in (
        capsys.readouterr().err.replace("\n", " ")
    )
    assert not (tmp_path / "other.yaml").exists()
    assert run("train", path, "--preset", preset) == 1
    assert "--preset needs --init" in capsys.readouterr().err


@pytest.mark.release
def test_estimate_writes_no_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_reversal_corpus(tmp_path)
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump(toy_values(tmp_path, steps=1000)))
    before = sorted(tmp_path.rglob("*"))
    assert run("train", path, "--estimate", "--set", "text.size=8000") == 0  # more than the corpus supports
    output = capsys.readouterr().out.replace("\n", " ")
    assert output.startswith("1,000 updates: about ") and "updates of your corpus" in output
    assert sorted(tmp_path.rglob("*")) == before


def test_set_option_changes_values_of_the_preset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_reversal_corpus(tmp_path)
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump(toy_values(tmp_path, steps=1) | {"model": "luong-small"}))
    sizes = ("model.score=dot", "model.hidden=16", "model.embedding=16", "model.max_length=40")
    assert run("train", path, *(part for size in sizes for part in ("--set", size))) == 0
    assert '"score": "dot"' in (tmp_path / "run" / "model" / "config.json").read_text()


@pytest.mark.parametrize("option", [["--init"], ["--estimate"], ["--sweep", "sweep.yaml"]])
def test_single_process_options_are_rejected_under_torchrun(tmp_path, option, monkeypatch, capsys) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert run("train", tmp_path / "s.yaml", *option) == 1
    assert f"{option[0]} runs in a single process" in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]
