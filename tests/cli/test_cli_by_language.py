"""Selection of models by language: `uwaga translate --from --to`, `--via`, and `--model en-pt`."""

import json
from functools import partial

import pytest
import tiny_models as tiny
from command_line import run_uwaga

import uwaga
from uwaga.checkpoints.formats.uwaga.names import BUNDLED

JOINT = tiny.tokeniser()
SHAPE = tiny.TINY.model_copy(update={"tie": "none"})
LINES = ["I want to buy a car.", "", "The dog sees the cat. Hi!"]
CHAIN_NOTE = "note: qaa → qab → qac by "
NO_SPLITTING = ["--split", "never"]  # random models may end a sentence anywhere


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return the folder of installed models: qaa to qab, qab to qac, and qab to qaa."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("UWAGA_HOME", str(tmp_path / "uwaga"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    folder = tmp_path / "argos-translate" / "packages"
    folder.mkdir(parents=True)
    for seed, pair in enumerate([("qaa", "qab"), ("qab", "qac"), ("qab", "qaa")]):
        model = tiny.transformer(SHAPE, JOINT, JOINT, seed=seed)
        tiny.save(folder / "-to-".join(pair), model, JOINT, languages=pair)
    return folder


run = partial(run_uwaga, "translate")


def texts(path, sources, **options):
    return [translation.text for translation in uwaga.load(path).translate(sources, split="never", **options)]


def test_language_options_select_the_model(machine):
    expected = texts(machine / "qaa-to-qab", LINES)
    for arguments in (["--from", "qaa", "--to", "qab"], ["--model", "qaa-qab"]):
        result = run(*NO_SPLITTING, *arguments, stdin="\n".join(LINES))
        assert result.stdout.split("\n")[:-1] == expected
        assert "note:" not in result.stderr


def test_note_about_a_model_chain_is_printed_once(machine):
    pivot_texts = texts(machine / "qaa-to-qab", LINES)
    expected = texts(machine / "qab-to-qac", pivot_texts, placeholders=False)
    result = run(*NO_SPLITTING, "--from", "qaa", "--to", "qac", stdin="\n".join(LINES))
    assert result.stdout.split("\n")[:2] == expected[:2]  # the third has control characters
    paths = f"{machine / 'qaa-to-qab'}, {machine / 'qab-to-qac'}"
    assert [line for line in result.stderr.splitlines() if line.startswith("note:")] == [
        f"{CHAIN_NOTE}{paths}, one after the other"
    ]


def test_model_chain_accepts_translation_options(machine, tmp_path):
    pivot = uwaga.load("qaa-qac")
    document = json.loads(run("--model", "qaa-qac", "--json", "--beam", 4, "--nbest", 2, LINES[0]).stdout)
    assert document == pivot.translate(LINES[0], beam=4, nbest=2).to_dict()
    assert [step["text"] for step in document["steps"]] == [
        step.text for step in pivot.translate(LINES[0], beam=4).steps
    ]
    result = run("--from", "qaa", "--to", "qac", "--stream", *LINES)
    assert result.stdout.split("\n")[:-1] == [
        translation.text for translation in pivot.translate(LINES, beam=1)
    ]
    (tmp_path / "in").write_text("\n".join([*LINES, "one " * 60]) + "\n")
    result = run(
        "--model", "qaa-qac", "-i", tmp_path / "in", "--split", "never", "--on-error", "copy", code=1
    )
    assert result.stdout.split("\n")[3] == "one " * 60 and "error: line 4: " in result.stderr


def test_via_option_selects_the_pivot(machine):
    pivot_texts = texts(machine / "qaa-to-qab", LINES)
    result = run(*NO_SPLITTING, "--from", "qaa", "--to", "qaa", "--via", "qab", stdin="\n".join(LINES))
    expected = texts(machine / "qab-to-qaa", pivot_texts, placeholders=False)
    assert result.stdout.split("\n")[:2] == expected[:2]
    assert "note: qaa → qab → qaa by " in result.stderr


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
def test_error_messages_fit_on_one_line(machine, arguments, message):
    result = run(*arguments, "Hi", code=1)
    assert result.stdout == "" and message in result.stderr and result.stderr.count("\n") == 1


@pytest.mark.skipif(not BUNDLED.exists(), reason="this source tree holds no bundled model")
def test_language_options_select_the_bundled_model(machine):
    expected = run("I want to buy a car.").stdout
    result = run("--from", "en", "--to", "de", "I want to buy a car.")
    assert result.stdout == expected and result.stderr == ""
    result = run("--to", "fr", "Hi", code=1)
    assert ", not to 'fr'" in result.stderr and "or give both languages" in result.stderr
    warned = run("--from", "eng", "--to", "deu", "Жить хорошо")
    assert "note: the bundled model is a small demonstration" in warned.stderr
