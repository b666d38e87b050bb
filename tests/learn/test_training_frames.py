"""What chapter 13 and its exercises say of the frames is what the frames hold."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import numpy as np
import pytest

from uwaga.learn import find_exercise

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "docs/learn/models"
TEXT = (ROOT / "docs/learn/13-attention-is-born.md").read_text(encoding="utf-8")


@pytest.fixture
def film(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs/figures/learn"))
    return importlib.import_module("recorded")


def best(film, name, view, row):
    """The source word that a row looks at most, by update, of the first sentence."""
    source, target = film.sentence(0)
    at = target.index(row)
    frames = film.matrices(film.run(name), view, 0)
    return {update: source[int(weights[at].argmax())] for update, weights in frames.items()}


def since(found, word):
    """The update from which on the word stays the largest."""
    others = [update for update, one in found.items() if one != word]
    return min(update for update in found if update > max(others))


def test_rows_take_shape_in_the_order_that_the_chapter_tells(film):
    def row(name):
        return best(film, "transformer", "mean", name)

    kaufen = row("kaufen")
    assert since(kaufen, "buy") == find_exercise("13.3").answer == 450
    assert (kaufen[0], kaufen[400]) == ("buy", ".")
    assert since(row("möchte"), "want") == 150
    assert since(row("Auto"), "car") == 350
    frames = film.matrices(film.run("transformer"), "mean", 0)
    assert frames[50].max() < 0.25 and frames[100][0].argmax() == 0 and frames[100][0].max() > 0.8
    rows = ("Ich", "möchte", "ein", "Auto", "kaufen", ".", "</s>")
    assert {best(film, "bahdanau", "head", row)[200] for row in rows} == {"."}
    assert {best(film, "luong", "head", row)[100] for row in rows} == {"I"}


def test_the_table_and_the_losses_are_those_of_the_frames(film):
    rows = re.findall(r"^\| (Cho|Luong|Bahdanau|Transformer) \| (.*) \|$", TEXT, re.MULTILINE)
    assert len(rows) == 4
    for name, cells in rows:
        run = film.run(name.lower())
        at = run["updates"].index(3000)
        view = run["views"].get("mean") or run["views"].get("head")
        wanted = [run["loss"][at], *((view["seen"][at], 100 * view["linked"][at]) if view else ())]
        found = [float(cell) for cell in cells.replace(" %", "").split(" | ") if cell != "–"]
        np.testing.assert_allclose(found, wanted, atol=0.51)
        assert abs(found[0] - wanted[0]) <= 0.006
    without = film.whole()["without"]
    assert round(without["alone"], 1) == 5.9 and round(without["after"], 1) == 4.6
    loss = dict(zip(film.run("transformer")["updates"], film.run("transformer")["loss"], strict=True))
    assert [round(loss[update], 1) for update in (0, 50, 150, 1000, 4000)] == [8.6, 6.1, 4.9, 2.4, 1.7]


def test_models_are_small_share_a_tokeniser_and_name_their_licence():
    models = json.loads((MODELS / "models.json").read_text(encoding="utf-8"))
    assert [one["name"] for one in models] == ["cho", "bahdanau", "luong", "transformer"]
    assert len({(MODELS / one["name"] / "source.spm").read_bytes() for one in models}) == 1
    for one in models:
        folder = MODELS / one["name"]
        assert one["weights"] <= 3_000_000
        assert one["bytes"] == sum(path.stat().st_size for path in folder.iterdir()) <= 3_000_000
        assert "CC BY 2.0: sentences from Tatoeba" in (folder / "card.md").read_text(encoding="utf-8")
    assert (MODELS / "frames.json").stat().st_size <= 150_000
