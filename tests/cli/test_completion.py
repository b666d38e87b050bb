"""Shell completion of option values."""

from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from uwaga.cli.main import app
from uwaga.settings import PRESETS


def completions(line, folder, monkeypatch):
    """Return the completions that bash offers for the last word of a line."""
    words = line.split(" ")
    monkeypatch.chdir(folder)
    environment = {"_UWAGA_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    return CliRunner().invoke(app, [], env=environment, prog_name="uwaga").output.split()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "runs/first/model").mkdir(parents=True)
    (tmp_path / "runs/.hidden").mkdir()
    (tmp_path / "runs/text").write_text("")
    models = [
        SimpleNamespace(name="de-fr", languages=(("de",), ("fr",))),
        SimpleNamespace(name="en-de", languages=(("en",), ("de",))),
    ]
    monkeypatch.setattr("uwaga.library.installed.installed_models", lambda: models)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("uwaga translate --model ", ["bundled", "de-fr", "en-de", "runs"]),
        ("uwaga translate -m d", ["de-fr"]), ("uwaga translate --model runs/", ["runs/first"]),
        ("uwaga translate --model runs/.", ["runs/.hidden"]), ("uwaga translate --model missing/", []),
        ("uwaga generate --model bu", ["bundled"]), ("uwaga convert bu", ["bundled"]),
        ("uwaga translate --from ", ["de", "en", "fr"]), ("uwaga translate --from en --to f", ["fr"]),
        ("uwaga train --preset ", sorted(PRESETS)), ("uwaga translate --split a", ["auto"]),
    ],
)  # fmt: skip
def test_shell_completion_suggests_option_values(line, expected, folder, monkeypatch):
    assert completions(line, folder, monkeypatch) == expected
