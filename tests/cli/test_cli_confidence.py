"""``uwaga translate --confidence``: colours on a terminal, marks in files, words in JSON."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

import uwaga
from uwaga.cli.main import app
from uwaga.cli.translate import DOUBTFUL, UNSURE, confident_text, shows_colours
from uwaga.results.translation import Translation

TEXT = "A bewildered plumber juggles seventeen lobsters. Yes!"


def run(*arguments):
    return CliRunner().invoke(app, ["translate", *arguments])


@pytest.fixture(scope="module")
def made():
    return uwaga.load(engine="native").translate(TEXT)


def test_doubtful_words_have_their_probability_behind_them(made):
    result = run("--confidence", TEXT)
    assert result.exit_code == 0, result.output
    words = [word for word in made.words if word.text != "</s>"]
    assert any(word.mean < DOUBTFUL for word in words)
    assert any(word.mean >= UNSURE for word in words)
    wanted = [f"{one.text}[{one.mean:.2f}]" if one.mean < UNSURE else one.text for one in words]
    assert result.stdout.rstrip("\n").split(" ") == wanted


def test_colours_leave_the_text_as_it_is(made):
    coloured = confident_text(made, colours=True)
    assert re.sub(r"\x1b\[\d*m", "", coloured) == made.text
    assert coloured.count("\x1b[31m") == sum(word.mean < DOUBTFUL for word in made.words)
    assert coloured.count("\x1b[4m") == coloured.count("\x1b[31m")
    assert coloured.count("\x1b[33m") == sum(DOUBTFUL <= word.mean < UNSURE for word in made.words)


def test_what_was_copied_is_shown_plainly():
    assert confident_text(Translation("12", 0.0, (), ()), colours=True) == "12"


def test_colours_are_for_terminals_that_want_them(monkeypatch, tmp_path):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert shows_colours(None)
    assert not shows_colours(tmp_path / "out")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not shows_colours(None)


def test_json_has_the_words_and_entropies(made):
    [plain] = run("--json", TEXT).stdout.splitlines()
    assert "words" not in json.loads(plain)
    [line] = run("--json", "--confidence", TEXT).stdout.splitlines()
    found = json.loads(line)
    assert [word["text"] for word in found["words"]] == [word.text for word in made.words]
    assert found["confidence"]["entropy"] == pytest.approx(
        sum(found["entropies"]) / len(found["entropies"]), abs=1e-5
    )
    assert all(entropy >= 0 for entropy in found["entropies"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--confidence", "--stream"), "omit --stream"),
        (("--confidence", "--nbest-format", "moses"), "omit --stream and --nbest-format moses"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments, message):
    result = run(*arguments, "Hi.")
    assert result.exit_code != 0
    assert message in " ".join(str(result.output).split()) or message in str(result.exception)
