"""Statements about training frames in chapter 14 and its exercises agree with the recorded frames."""

import importlib
import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from uwaga_course import find_exercise

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "docs/learn/models"
TEXT = (ROOT / "docs/learn/14-attention-is-born.md").read_text(encoding="utf-8")


@cache
def import_recorded_frames():
    """Return the module that reads the recorded frames."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs/figures/learn"))
        return importlib.import_module("recorded")


@pytest.fixture
def recorded():
    return import_recorded_frames()


def largest_by_update(recorded, name, view, row):
    """Return the source word with the largest weight in a row of the first sentence, by update."""
    source, target = recorded.sentence(0)
    row_index = target.index(row)
    frames = recorded.matrices(recorded.run(name), view, 0)
    return {update: source[int(weights[row_index].argmax())] for update, weights in frames.items()}


def stable_since_update(words, word):
    """Return the first update from which the given word always has the largest weight."""
    updates = [update for update, largest in words.items() if largest != word]
    return min(update for update in words if update > max(updates))


WORD = r"\*([\w.]+)\*"
BECOMES_LARGEST = (
    rf"rom update (?P<since>[\d,]+) {WORD} (?:looks )?at {WORD}",
    rf"(?<=, from update )(?P<since>[\d,]+) {WORD} at {WORD}",
    rf"{WORD} looks at {WORD} from update (?P<since>[\d,]+)",
)
"""Patterns of statements about the update from which a row always has its largest weight on a given word."""
CEASES_TO_BE_LARGEST = re.compile(
    rf"The row {WORD} .*?from update ([\d,]+) to ([\d,]+) it gives {WORD} the most\. From ([\d,]+) on it "
    rf"prefers {WORD}, except in some frames, the last at update ([\d,]+)\."
)


def statements_that_contradict_frames(text):
    """Return statements of chapter 14 that contradict the recorded frames, and missing rows."""
    recorded = import_recorded_frames()
    text = " ".join(text.partition("## What the frames show")[2].partition("\n## ")[0].split())
    wrong, rows = [], set()
    for pattern in BECOMES_LARGEST:
        for match in re.finditer(pattern, text):
            row, word = [group for group in match.groups() if group != match["since"]]
            rows.add(row)
            if stable_since_update(largest_by_update(recorded, "transformer", "mean", row), word) != number(
                match["since"]
            ):
                wrong.append(match[0])
    wrong += [f"nothing on {row}" for row in ("möchte", "Auto", "kaufen") if row not in rows]
    match = CEASES_TO_BE_LARGEST.search(text)
    if match is None:
        return [*wrong, "nothing on ein"]
    row, first, last, word, since, later_word, exception = match.groups()
    largest = largest_by_update(recorded, "transformer", "mean", row)
    found = [update for update in largest if largest[update] == word]
    between = [update for update in largest if number(first) <= update <= number(last)]
    if not (
        set(between) <= set(found)
        and min(found) == number(first)
        and largest[number(since)] == later_word
        and min(update for update in largest if update > number(last)) == number(since)
        and max(update for update in largest if largest[update] != later_word) == number(exception)
    ):
        wrong.append(match[0])
    return wrong


def number(text):
    return int(text.replace(",", ""))


def test_chapter_statements_about_attention_match_recorded_frames(recorded):
    assert statements_that_contradict_frames(TEXT) == []
    kaufen = largest_by_update(recorded, "transformer", "mean", "kaufen")
    assert stable_since_update(kaufen, "buy") == find_exercise("14.3").answer
    assert (kaufen[0], kaufen[400]) == ("buy", ".")
    frames = recorded.matrices(recorded.run("transformer"), "mean", 0)
    assert frames[50].max() < 0.25 and frames[100][0].argmax() == 0 and frames[100][0].max() > 0.8
    rows = ("Ich", "möchte", "ein", "Auto", "kaufen", ".", "</s>")
    assert {largest_by_update(recorded, "bahdanau", "head", row)[200] for row in rows} == {"."}
    assert {largest_by_update(recorded, "luong", "head", row)[100] for row in rows} == {"I"}


def test_table_and_losses_of_the_chapter_match_recorded_frames(recorded):
    rows = re.findall(r"^\| (Cho|Luong|Bahdanau|Transformer) \| (.*) \|$", TEXT, re.MULTILINE)
    assert len(rows) == 4
    for name, cells in rows:
        run = recorded.run(name.lower())
        index = run["updates"].index(3000)
        view = run["views"].get("mean") or run["views"].get("head")
        expected = [run["loss"][index], *((view["seen"][index], 100 * view["linked"][index]) if view else ())]
        actual = [float(cell) for cell in re.sub(" ?%", "", cells).split(" | ") if cell != "–"]
        np.testing.assert_allclose(actual, expected, atol=0.51)
        assert abs(actual[0] - expected[0]) <= 0.006
    baseline = recorded.read_recording()["without"]
    assert round(baseline["alone"], 1) == 5.9 and round(baseline["after"], 1) == 4.6
    loss = dict(zip(recorded.run("transformer")["updates"], recorded.run("transformer")["loss"], strict=True))
    assert [round(loss[update], 1) for update in (0, 50, 150, 1000, 4000)] == [8.6, 6.1, 4.9, 2.4, 1.7]


def test_chapter_table_of_updates_matches_recorded_frames(recorded):
    source, target = recorded.sentence(0)
    transformer = recorded.run("transformer")
    row = target.index("ein")
    cells = dict(re.findall(r"^\| (update|loss|\*ein\* on \*\w+\*) \| (.*) \|$", TEXT, re.MULTILINE))
    updates = [int(cell.replace(",", "")) for cell in cells["update"].split(" | ")]
    losses = dict(zip(transformer["updates"], transformer["loss"], strict=True))
    assert cells["loss"] == " | ".join(f"{losses[update]:.1f}" for update in updates)
    frames = recorded.matrices(transformer, "mean", 0)
    for word in ("a", "car"):
        weights = [frames[update][row, source.index(word)] for update in updates]
        assert cells[f"*ein* on *{word}*"] == " | ".join(f"{weight:.2f}" for weight in weights)


def test_recorded_models_are_small_and_share_one_tokeniser():
    models = json.loads((MODELS / "models.json").read_text(encoding="utf-8"))
    assert [model["name"] for model in models] == ["cho", "bahdanau", "luong", "transformer"]
    assert len({(MODELS / model["name"] / "source.spm").read_bytes() for model in models}) == 1
    for entry in models:
        folder = MODELS / entry["name"]
        assert entry["weights"] <= 3_000_000
        assert entry["bytes"] == sum(path.stat().st_size for path in folder.iterdir()) <= 3_000_000
        assert "CC BY 2.0: sentences from Tatoeba" in (folder / "card.md").read_text(encoding="utf-8")
    assert (MODELS / "frames.json").stat().st_size <= 150_000
