"""Heads by what is lost without them, and attribution beside attention."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import uwaga
from uwaga.cli.main import app
from uwaga.engine.interventions import Heads
from uwaga.errors import SettingsError
from uwaga.inspection import contributions, draw_importance, measure_heads, save_figure
from uwaga.inspection.attribution import attribute
from uwaga.inspection.figures import heat_map
from uwaga.inspection.interventions import intervene

PAIRS = [("A man sleeps.", "Ein Mann schläft."), ("Two dogs run.", "Zwei Hunde rennen.")]


@pytest.fixture(scope="module")
def translator():
    return uwaga.load(engine="torch")


def test_what_is_lost_is_the_difference_of_scores(translator, tmp_path):
    done = []
    found = measure_heads(translator, PAIRS, ["cross"], done.append)
    assert found.lost["cross"].shape == (2, 4)
    assert done == list(range(1, 9))
    silent = intervene(translator, Heads("cross", 2, 3, "silent"))
    sums = [sum(one.log_prob for one in each.score(PAIRS)) for each in (translator, silent)]
    tokens = sum(len(one.token_scores) for one in translator.score(PAIRS))
    assert found.lost["cross"][1, 2] == pytest.approx((sums[0] - sums[1]) / tokens, abs=1e-5)
    save_figure(draw_importance(found), tmp_path / "heads.svg")
    assert (tmp_path / "heads.svg").read_text().count("<path") > 8
    assert json.loads(found.to_json())["pairs"] == 2
    with pytest.raises(SettingsError, match="no sentence pair"):
        measure_heads(translator, [], ["cross"])


def test_attribution_stands_beside_attention(translator):
    looks, speaks = contributions(translator, *PAIRS[0])
    assert (looks.source, looks.target) == (speaks.source, speaks.target)
    np.testing.assert_allclose(speaks.weights, attribute(translator, *PAIRS[0]).values, atol=1e-6)
    assert np.abs(speaks.shades).max() == pytest.approx(1.0)
    assert np.abs(looks.shades - looks.weights).max() == 0.0
    assert "nats" in heat_map(speaks, 80).plain
    assert speaks.to_dict()["kind"] == "attribution"
    with pytest.raises(SettingsError, match="attribution"):
        contributions(translator, *PAIRS[0], method="guess")


def test_words_add_up_contributions_to_a_word(translator):
    pieces = contributions(translator, *PAIRS[1])[1]
    words = contributions(translator, *PAIRS[1], words=True)[1]
    assert words.source[-1] == "</s>"
    assert words.weights.sum(axis=1)[-1] == pytest.approx(pieces.weights.sum(axis=1)[-1], abs=1e-4)


def test_the_commands(tmp_path):
    for side, name in ((0, "a.en"), (1, "a.de")):
        (tmp_path / name).write_text("".join(pair[side] + "\n" for pair in PAIRS), encoding="utf-8")
    files = ["-s", str(tmp_path / "a.en"), "-r", str(tmp_path / "a.de")]
    shown = CliRunner().invoke(app, ["heads", *files, "--kind", "decoder", "--limit", "1"])
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.startswith("loss in nats per target token")
    assert shown.stdout.count("layer ") == 2
    refused = CliRunner().invoke(app, ["heads", *files, "--kind", "other"])
    assert refused.exit_code == 1
    assert "--kind other" in refused.stderr
    made = CliRunner().invoke(app, ["attend", "--attribution", "integrated", "--json", PAIRS[0][0]])
    assert [json.loads(line)["title"] for line in made.stdout.splitlines()] == [
        "attention",
        "integrated gradients, nats",
    ]
    wrong = CliRunner().invoke(app, ["attend", "--attribution", "integrated", "--head", "1", PAIRS[0][0]])
    assert wrong.exit_code == 1
    assert "cannot be combined" in wrong.stderr
