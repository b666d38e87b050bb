"""`uwaga translate --from --to` without a model, `--via`, and `--model en-pt`."""

from __future__ import annotations

import json

import pytest
import tiny_models as tiny
from typer.testing import CliRunner

import uwaga
from uwaga.checkpoints.formats.uwaga.folder import save_model
from uwaga.checkpoints.formats.uwaga.names import BUNDLED
from uwaga.cli.main import app

JOINT = tiny.tokeniser()
SHAPE = tiny.TINY.model_copy(update={"tie": "none"})
LINES = ["I want to buy a car.", "", "The dog sees the cat. Hi!"]
STATED = "note: qaa → qab → qac by "
WHOLE = ["--split", "never"]  # random models end sentences anywhere


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A computer with models from qaa to qab and from qab to qac, and to qaa."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("UWAGA_HOME", str(tmp_path / "uwaga"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    folder = tmp_path / "argos-translate" / "packages"
    folder.mkdir(parents=True)
    for seed, pair in enumerate([("qaa", "qab"), ("qab", "qac"), ("qab", "qaa")]):
        model = tiny.transformer(SHAPE, JOINT, JOINT, seed=seed)
        save_model(folder / "-to-".join(pair), model, SHAPE, tiny.DECODING, JOINT, JOINT, pair, "card")
    return folder


def run(*arguments, stdin=None, code=0):
    done = CliRunner().invoke(app, ["translate", *map(str, arguments)], input=stdin)
    assert done.exit_code == code, done.output + str(done.exception)
    return done


def texts(place, sources):
    return [one.text for one in uwaga.load(place).translate(sources, split="never")]


def test_two_languages_choose_the_model(machine):
    expected = texts(machine / "qaa-to-qab", LINES)
    for arguments in (["--from", "qaa", "--to", "qab"], ["--model", "qaa-qab"]):
        done = run(*WHOLE, *arguments, stdin="\n".join(LINES))
        assert done.stdout.split("\n")[:-1] == expected
        assert "note:" not in done.stderr


def test_a_chain_is_told_of_once(machine):
    expected = texts(machine / "qab-to-qac", texts(machine / "qaa-to-qab", LINES))
    done = run(*WHOLE, "--from", "qaa", "--to", "qac", stdin="\n".join(LINES))
    assert done.stdout.split("\n")[:-1] == expected
    places = f"{machine / 'qaa-to-qab'}, {machine / 'qab-to-qac'}"
    assert [line for line in done.stderr.splitlines() if line.startswith("note:")] == [
        f"{STATED}{places}, one after the other"
    ]


def test_a_chain_takes_the_options_of_the_verb(machine, tmp_path):
    pivot = uwaga.load("qaa-qac")
    found = json.loads(run("--model", "qaa-qac", "--json", "--beam", 4, "--nbest", 2, LINES[0]).stdout)
    assert found == pivot.translate(LINES[0], beam=4, nbest=2).to_dict()
    assert [one["text"] for one in found["steps"]] == [
        one.text for one in pivot.translate(LINES[0], beam=4).steps
    ]
    done = run("--from", "qaa", "--to", "qac", "--stream", *LINES)
    assert done.stdout.split("\n")[:-1] == [one.text for one in pivot.translate(LINES, beam=1)]
    (tmp_path / "in").write_text("\n".join([*LINES, "one " * 60]) + "\n")
    done = run("--model", "qaa-qac", "-i", tmp_path / "in", "--split", "never", "--on-error", "copy", code=1)
    assert done.stdout.split("\n")[3] == "one " * 60 and "error: line 4: " in done.stderr


def test_via_says_what_lies_between(machine):
    there = texts(machine / "qaa-to-qab", LINES)
    done = run(*WHOLE, "--from", "qaa", "--to", "qaa", "--via", "qab", stdin="\n".join(LINES))
    assert done.stdout.split("\n")[:-1] == texts(machine / "qab-to-qaa", there)
    assert "note: qaa → qab → qaa by " in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from", "qac", "--to", "qab"], "`uwaga models download qac-qab`"),
        (["--from", "qaa", "--to", "qab", "--via", "xx"], "via xx; download a model with"),
        (["--model", "bundled", "--via", "en"], "via chooses among installed models"),
        (["--from", "qaa", "--to", "qaa"], "are the same language"),
        (["--model", "qab-qaa", "--to", "qaa"], "already names both languages"),
    ],
    ids=str,
)
def test_what_cannot_be_is_one_clear_line(machine, arguments, message):
    done = run(*arguments, "Hi", code=1)
    assert done.stdout == "" and message in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.skipif(not BUNDLED.exists(), reason="this source tree holds no bundled model")
def test_the_bundled_model_is_found_by_its_languages(machine):
    expected = run("I want to buy a car.").stdout
    done = run("--from", "en", "--to", "de", "I want to buy a car.")
    assert done.stdout == expected and done.stderr == ""
    done = run("--to", "fr", "Hi", code=1)
    assert "only, to 'fr' it cannot" in done.stderr and "or give both languages" in done.stderr
    strange = run("--from", "eng", "--to", "deu", "Жить хорошо")
    assert "note: the bundled model is a small demonstration" in strange.stderr
