"""On a terminal `uwaga translate --from --to` offers to download what is missing."""

from __future__ import annotations

import io
import shutil
import sys

import pytest
from marian_students import write_student
from model_server import serving, storage
from typer.testing import CliRunner

import uwaga
from uwaga.cli import chosen
from uwaga.cli.main import app
from uwaga.errors import NotInstalledError
from uwaga.library.installed import models_home
from uwaga.settings.load_options import LoadOptions

PAIRS = ["qaa-en", "en-qab"]


class Answers(io.StringIO):
    """What somebody types."""

    def isatty(self):
        """They sit at a terminal."""
        return True


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A mirror with tiny models to and from English, and a machine without models."""
    monkeypatch.setenv("UWAGA_HOME", str(tmp_path / "uwaga"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.chdir(tmp_path)
    models = {}
    for seed, pair in enumerate(PAIRS):
        write_student(tmp_path / pair, seed=seed)
        joined = pair.replace("-", "")
        models[pair, "tiny"] = {
            path.name.replace("ende", joined): path.read_bytes() for path in (tmp_path / pair).iterdir()
        }
        shutil.rmtree(tmp_path / pair)
    with serving() as found:
        monkeypatch.setenv("UWAGA_FIREFOX_URL", found.url)
        storage(found, models)
        yield found


def at_a_terminal(monkeypatch, typed):
    monkeypatch.setattr(chosen, "is_interactive", lambda: True)
    monkeypatch.setattr(sys, "stdin", Answers(typed))


def test_what_is_missing_is_downloaded_if_somebody_agrees(server, monkeypatch, capsys):
    at_a_terminal(monkeypatch, "y\ny\ny\n")
    wanted = LoadOptions(source="qaa", target="qab")
    translator, bundled = chosen.load_for_texts(None, wanted, None)
    assert len(translator.models) == 2 and not bundled
    assert translator.route == ("qaa", "en", "qab")
    said = capsys.readouterr()
    assert "Look in the catalogue for qaa-en and en-qab now? [y/N]" in said.err and said.out == ""
    assert "note: qaa → en → qab by firefox-qaa-en-tiny, firefox-en-qab-tiny, one after the other" in said.err
    # Now they are there, and nobody is asked.
    monkeypatch.setattr(sys, "stdin", Answers(""))
    count = len(server.requests)
    first, second = (uwaga.load(pair) for pair in PAIRS)
    assert first.languages == ("qaa", "en")
    expected = second.translate(first.translate("Where is the dog?").text)
    assert translator.translate("Where is the dog?").text == expected.text
    done = CliRunner().invoke(app, ["translate", "--from", "en", "--to", "qab", "Hi"])
    assert done.exit_code == 0, done.output
    assert len(server.requests) == count


@pytest.mark.parametrize("typed", ["n\n", "\n", ""])
def test_who_does_not_agree_is_told_the_command(server, monkeypatch, typed):
    at_a_terminal(monkeypatch, typed)
    with pytest.raises(NotInstalledError, match="`uwaga models download qaa-en`") as error:
        chosen.load_for_texts(["qaa-en"], LoadOptions(), None)
    assert error.value.pairs == ("qaa-en",)
    assert server.requests == [] and not models_home().exists()


def test_where_nobody_is_to_be_asked_nothing_is(server):
    done = CliRunner().invoke(app, ["translate", "--from", "qaa", "--to", "en", "Hi"], input="y\ny\n")
    assert done.exit_code == 1 and "`uwaga models download qaa-en`" in done.stderr
    assert server.requests == [] and "[y/N]" not in done.stderr


def test_a_model_in_the_folder_of_models_comes_before_a_pair_of_its_name(server, tmp_path):
    write_student(models_home() / "qaa-en", seed=5)
    assert uwaga.load("qaa-en").languages == ("en", "de")  # as its own files say
