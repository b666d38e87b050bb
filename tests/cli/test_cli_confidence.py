"""``uwaga translate --confidence``: colours on a terminal, probabilities in files, words in JSON."""

import json
import re
from functools import partial

import pytest
from command_line import run_uwaga

import uwaga
from uwaga.cli.translate import DOUBTFUL_THRESHOLD, UNSURE_THRESHOLD, mark_uncertain_words, shows_colours
from uwaga.results.translation import Translation

TEXT = (
    "A bewildered plumber juggles seventeen lobsters. The bewildered zeitgeist juggles velvet thunder. Yes!"
)


run = partial(run_uwaga, "translate", code=None)


@pytest.fixture(scope="module")
def translation():
    return uwaga.load(engine="native").translate(TEXT)


def test_uncertain_words_are_printed_with_their_probabilities(translation):
    result = run("--confidence", TEXT)
    assert result.exit_code == 0, result.output
    words = [word for word in translation.words if word.text != "</s>"]
    assert any(word.mean < DOUBTFUL_THRESHOLD for word in words)
    assert any(DOUBTFUL_THRESHOLD <= word.mean < UNSURE_THRESHOLD for word in words)
    assert any(word.mean >= UNSURE_THRESHOLD for word in words)
    expected = [
        f"{word.text}[{word.mean:.2f}]" if word.mean < UNSURE_THRESHOLD else word.text for word in words
    ]
    assert result.stdout.rstrip("\n").split(" ") == expected


def test_coloured_output_preserves_the_text(translation):
    coloured = mark_uncertain_words(translation, colours=True)
    assert re.sub(r"\x1b\[\d*m", "", coloured) == translation.text
    assert coloured.count("\x1b[31m") == sum(word.mean < DOUBTFUL_THRESHOLD for word in translation.words)
    assert coloured.count("\x1b[4m") == coloured.count("\x1b[31m")
    assert coloured.count("\x1b[33m") == sum(
        DOUBTFUL_THRESHOLD <= word.mean < UNSURE_THRESHOLD for word in translation.words
    )


def test_copied_text_is_printed_without_colours():
    assert mark_uncertain_words(Translation("12", 0.0, (), ()), colours=True) == "12"


def test_colours_are_shown_on_a_terminal_unless_no_color_is_set(monkeypatch, tmp_path):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert shows_colours(None)
    assert not shows_colours(tmp_path / "out")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not shows_colours(None)


def test_json_output_contains_words_and_entropies(translation):
    [plain] = run("--json", TEXT).stdout.splitlines()
    assert "words" not in json.loads(plain)
    [line] = run("--json", "--confidence", TEXT).stdout.splitlines()
    document = json.loads(line)
    assert [word["text"] for word in document["words"]] == [word.text for word in translation.words]
    assert document["confidence"]["entropy"] == pytest.approx(
        sum(document["entropies"]) / len(document["entropies"]), abs=1e-5
    )
    assert all(entropy >= 0 for entropy in document["entropies"])


@pytest.mark.parametrize("arguments", [("--stream",), ("--nbest-format", "moses")])
def test_conflicting_options_are_refused(arguments):
    message = "--confidence cannot be combined with --stream or --nbest-format moses"
    result = run("--confidence", *arguments, "Hi.")
    assert result.exit_code != 0
    assert message in " ".join(str(result.output).split()) or message in str(result.exception)
