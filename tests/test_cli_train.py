"""``uwaga train`` from the shell: the template, changed settings, mistakes without a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from toy import toy_values, write_reversal_corpus

from uwaga.cli.main import main


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return int(end.value.code or 0)


def test_init_writes_a_file_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "new.yaml"
    assert run("train", "--init", path) == 0
    before = path.read_text()
    assert "# d_model" in before
    assert run("train", "--init", path) == 1
    assert "is already there" in capsys.readouterr().err
    assert path.read_text() == before


def test_a_settings_file_becomes_a_model_that_translates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_reversal_corpus(tmp_path)
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump(toy_values(tmp_path, steps=2)))
    assert run("train", path, "--set", "training.steps=4", "--set", f"run={tmp_path / 'other'}") == 0
    told = capsys.readouterr().err
    assert "600 pairs kept" in told and "model written to" in told
    assert run("translate", "--model", tmp_path / "other" / "model", "abc") == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


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
def test_mistakes_end_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: str, message: str
) -> None:
    write_reversal_corpus(tmp_path)
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump(toy_values(tmp_path)))
    assert run("train", path, "--set", change) == 1
    told = capsys.readouterr().err
    assert message in told.replace("\n", "") and "Traceback" not in told
