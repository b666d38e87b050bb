"""The command ``uwaga models`` lists all models on the machine, intact or damaged, without a network."""

import json
import shutil
import socket
from pathlib import Path

import pytest
from command_line import run_uwaga

from uwaga.checkpoints.formats.uwaga.names import BUNDLED
from uwaga.errors import ModelError
from uwaga.library.installed import hub_cache, installed_models

NUMBERS = Path(__file__).parents[1] / "support/models/numbers-en-de"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Create a cache with an intact, a damaged and an incomplete model, and a data set."""
    cache = tmp_path / "hub"
    sound = cache / "models--owner--sound"
    for commit in ("aaa", "bbb"):
        shutil.copytree(NUMBERS, sound / "snapshots" / commit)
    (sound / "refs").mkdir()
    (sound / "refs/main").write_text("aaa")
    damaged = cache / "models--owner--damaged/snapshots/ccc"
    shutil.copytree(NUMBERS, damaged)
    (damaged / "config.json").write_text("{")
    (cache / "models--owner--begun/blobs").mkdir(parents=True)
    (cache / "datasets--owner--data/snapshots/ddd").mkdir(parents=True)
    (cache / "version.txt").write_text("1")
    monkeypatch.setenv("HF_HUB_CACHE", str(cache))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "none"))
    monkeypatch.setattr(socket, "socket", None)  # no network access
    return tmp_path


def run(*arguments: str) -> str:
    return run_uwaga("models", *arguments).output


def test_models_json_output_describes_models(machine):
    rows = {row["name"]: row for row in map(json.loads, run("--json").splitlines())}
    hub = {name for name, row in rows.items() if row["kind"] == "hub"}
    assert hub == {"owner/sound", "owner/damaged", "owner/begun"}
    assert set(rows) - hub == ({"bundled"} if BUNDLED.exists() else set())
    sound = rows["owner/sound"]
    assert sound["languages"] == {"source": ["en"], "target": ["de"]}
    assert sound["place"].endswith("snapshots/aaa")
    assert sound["bytes"] == sum(path.stat().st_size for path in NUMBERS.rglob("*") if path.is_file())
    assert sound["precision"] and sound["format"] == "uwaga" and sound["problems"] == []
    assert "config.json" in rows["owner/damaged"]["problems"][0]
    assert "no file of this model was downloaded completely" in rows["owner/begun"]["problems"][0]


def test_models_table_lists_models_and_problems(machine):
    table = run()
    assert "owner/sound" in table and "damaged" in table
    assert "owner/begun: no file of this model was downloaded" in table


def test_models_are_listed_from_additional_folders(machine):
    shutil.copytree(NUMBERS, machine / "runs/one/model")
    names = [model.name for model in installed_models([machine / "runs"]) if model.kind == "folder"]
    assert names == [str(machine / "runs/one/model")]
    with pytest.raises(ModelError, match="no such folder to look"):
        list(installed_models([machine / "nowhere"]))


def test_hub_cache_folder_is_read_from_environment_variables():
    assert hub_cache({"HF_HUB_CACHE": "/a", "HF_HOME": "/b"}) == Path("/a")
    assert hub_cache({"HF_HOME": "/b"}) == Path("/b/hub")
    assert hub_cache({"XDG_CACHE_HOME": "/c"}) == Path("/c/huggingface/hub")
    assert hub_cache({}) == Path("~/.cache/huggingface/hub").expanduser()
