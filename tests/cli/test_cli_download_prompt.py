"""On a terminal, `uwaga translate --from --to` offers to download missing models."""

import io
import shutil
import sys

import pytest
from command_line import run_uwaga
from marian_students import write_student
from model_server import serve_catalogue, serve_models

import uwaga
from uwaga.cli import loading
from uwaga.errors import NotInstalledError
from uwaga.library.installed import models_home
from uwaga.settings.load_options import LoadOptions

PAIRS = ["qaa-en", "en-qab"]


class TypedInput(io.StringIO):
    """Standard input that pretends to be a terminal."""

    def isatty(self):
        """Return True."""
        return True


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Yield a mirror with tiny models to and from English; no models are installed."""
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
    with serve_models() as mirror:
        monkeypatch.setenv("UWAGA_FIREFOX_URL", mirror.url)
        serve_catalogue(mirror, models)
        yield mirror


def type_on_terminal(monkeypatch, typed):
    monkeypatch.setattr(loading, "is_interactive", lambda: True)
    monkeypatch.setattr(sys, "stdin", TypedInput(typed))


def test_missing_models_are_downloaded_after_confirmation(server, monkeypatch, capsys):
    type_on_terminal(monkeypatch, "y\ny\ny\n")
    options = LoadOptions(source="qaa", target="qab")
    translator, bundled = loading.load_for_texts(None, options, None)
    assert len(translator.models) == 2 and not bundled
    assert translator.route == ("qaa", "en", "qab")
    captured = capsys.readouterr()
    assert "Look in the catalogue for qaa-en and en-qab now? [y/N]" in captured.err and captured.out == ""
    assert (
        "note: qaa → en → qab by firefox-qaa-en-tiny, firefox-en-qab-tiny, one after the other"
        in captured.err
    )
    # They are installed now: no prompt.
    monkeypatch.setattr(sys, "stdin", TypedInput(""))
    count = len(server.requests)
    first, second = (uwaga.load(pair) for pair in PAIRS)
    assert first.languages == ("qaa", "en")
    expected = second.translate(first.translate("Where is the dog?").text, placeholders=False)
    assert translator.translate("Where is the dog?").text == expected.text
    run_uwaga("translate", "--from", "en", "--to", "qab", "Hi")
    assert len(server.requests) == count


@pytest.mark.parametrize("typed", ["n\n", "\n", ""])
def test_error_after_a_declined_download_names_the_download_command(server, monkeypatch, typed):
    type_on_terminal(monkeypatch, typed)
    with pytest.raises(NotInstalledError, match="`uwaga models download qaa-en`") as error:
        loading.load_for_texts(["qaa-en"], LoadOptions(), None)
    assert error.value.pairs == ("qaa-en",)
    assert server.requests == [] and not models_home().exists()


def test_download_prompt_is_not_shown_without_a_terminal(server):
    result = run_uwaga("translate", "--from", "qaa", "--to", "en", "Hi", code=1, stdin="y\ny\n")
    assert "`uwaga models download qaa-en`" in result.stderr
    assert server.requests == [] and "[y/N]" not in result.stderr


def test_installed_model_named_like_a_language_pair_takes_precedence(server, tmp_path):
    write_student(models_home() / "qaa-en", seed=5)
    assert uwaga.load("qaa-en").languages == ("en", "de")  # as its files state
