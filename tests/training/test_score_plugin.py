"""An attention score defined in a plugin file: training, storage by name, and loading."""

import json
from functools import partial
from pathlib import Path

import pytest
import yaml
from command_line import run_uwaga
from plugin_samples import forget_plugins, plugin_file
from toy import toy_values, write_reversal_corpus

from uwaga.models.layers.scores import SCORES

MODEL = {"family": "luong", "score": "negative_distance", "layers": 1, "hidden": 8, "embedding": 8}


uwaga = partial(run_uwaga, code=None)


def test_model_with_a_plugin_attention_score_is_trained_stored_and_loaded(tmp_path, monkeypatch) -> None:
    forget_plugins(monkeypatch, SCORES)
    write_reversal_corpus(tmp_path, pairs=50)
    plugin = plugin_file("Add an attention score", tmp_path)
    values = toy_values(tmp_path, steps=4, save_every=2, validate_every=4, validation_sentences=0)
    settings = tmp_path / "settings.yaml"
    settings.write_text(yaml.safe_dump({**values, "model": MODEL, "plugins": [str(plugin)]}), "utf-8")

    assert uwaga("train", settings).exit_code == 0
    model = tmp_path / "run" / "model"
    assert json.loads((model / "config.json").read_text("utf-8"))["model"]["score"] == "negative_distance"
    assert uwaga("translate", "--model", model, "abc").exit_code == 0

    forget_plugins(monkeypatch, SCORES)  # as in a new process
    refused = uwaga("translate", "--model", model, "abc")
    assert refused.exit_code == 1
    assert "no attention score is named 'negative_distance'" in refused.stderr
    assert "uwaga --plugin FILE" in refused.stderr
    assert uwaga("--plugin", plugin, "translate", "--model", model, "abc").exit_code == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "no such file"), ("x = 1\ny = z\n", "line 2: NameError"), ("def\n", "SyntaxError")],
)
def test_faulty_plugin_is_reported_with_its_file_and_line(tmp_path, monkeypatch, content, message) -> None:
    forget_plugins(monkeypatch)
    plugin = tmp_path / "faulty.py"
    if content is not None:
        plugin.write_text(content, "utf-8")
    result = uwaga("--plugin", plugin, "translate", "Hi.")
    assert result.exit_code == 1
    assert f"plugin {plugin}" in result.stderr
    assert message in result.stderr


def test_plugins_setting_must_be_a_list_of_files(tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text("plugins: myscore.py\n", "utf-8")
    result = uwaga("train", tmp_path / "settings.yaml")
    assert result.exit_code == 1
    assert "plugins must be a list of Python files" in result.stderr
