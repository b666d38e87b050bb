"""Importance of attention heads, and attribution together with attention."""

import json

import numpy as np
import pytest
from command_line import run_uwaga

import uwaga
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


def test_importance_of_a_head_is_the_log_probability_lost_without_it(translator, tmp_path):
    progress = []
    importance = measure_heads(translator, PAIRS, ["cross"], progress.append)
    assert importance.lost["cross"].shape == (2, 4)
    assert progress == list(range(1, 9))
    silent = intervene(translator, Heads("cross", 2, 3, "silent"))
    sums = [sum(score.log_prob for score in model.score(PAIRS)) for model in (translator, silent)]
    tokens = sum(len(score.token_scores) for score in translator.score(PAIRS))
    assert importance.lost["cross"][1, 2] == pytest.approx((sums[0] - sums[1]) / tokens, abs=1e-5)
    save_figure(draw_importance(importance), tmp_path / "heads.svg")
    assert (tmp_path / "heads.svg").read_text().count("<path") > 8
    assert json.loads(importance.to_json())["pairs"] == 2
    with pytest.raises(SettingsError, match="no sentence pair"):
        measure_heads(translator, [], ["cross"])


def test_contributions_return_attention_and_attribution(translator):
    attention, attribution = contributions(translator, *PAIRS[0])
    assert (attention.source, attention.target) == (attribution.source, attribution.target)
    np.testing.assert_allclose(attribution.weights, attribute(translator, *PAIRS[0]).values, atol=1e-6)
    assert np.abs(attribution.shades).max() == pytest.approx(1.0)
    assert np.abs(attention.shades - attention.weights).max() == 0.0
    assert "nats" in heat_map(attribution, 80).plain
    assert attribution.to_dict()["kind"] == "attribution"
    with pytest.raises(SettingsError, match="attribution"):
        contributions(translator, *PAIRS[0], method="guess")


def test_contributions_are_summed_over_words(translator):
    pieces = contributions(translator, *PAIRS[1])[1]
    words = contributions(translator, *PAIRS[1], words=True)[1]
    assert words.source[-1] == "</s>"
    assert words.weights.sum(axis=1)[-1] == pytest.approx(pieces.weights.sum(axis=1)[-1], abs=1e-4)


def test_heads_and_attend_commands_print_importance_and_attribution(tmp_path):
    for side, name in ((0, "a.en"), (1, "a.de")):
        (tmp_path / name).write_text("".join(pair[side] + "\n" for pair in PAIRS), encoding="utf-8")
    files = ["-s", str(tmp_path / "a.en"), "-r", str(tmp_path / "a.de")]
    heads = run_uwaga("heads", *files, "--kind", "decoder", "--limit", "1")
    assert heads.stdout.startswith("loss in nats per target token")
    assert heads.stdout.count("layer ") == 2
    rejected = run_uwaga("heads", *files, "--kind", "other", code=1)
    assert "--kind other" in rejected.stderr
    attended = run_uwaga("attend", "--attribution", "integrated", "--json", PAIRS[0][0])
    assert [json.loads(line)["title"] for line in attended.stdout.splitlines()] == [
        "attention",
        "integrated gradients, nats",
    ]
    combined = run_uwaga("attend", "--attribution", "integrated", "--head", "1", PAIRS[0][0], code=1)
    assert "cannot be combined" in combined.stderr
