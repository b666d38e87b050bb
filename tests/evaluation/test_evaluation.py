"""Corpus metrics: hand calculations, properties, and agreement with sacreBLEU's command."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from uwaga.errors import DataError, MissingExtraError, SettingsError
from uwaga.evaluation import compare, evaluate

WORDS = st.sampled_from(["der", "die", "das", "Haus", "Auto", "kauft", "rot", "und"])
SENTENCE = st.lists(WORDS, min_size=1, max_size=9).map(" ".join)
CORPUS = st.lists(st.tuples(SENTENCE, st.lists(SENTENCE, min_size=1, max_size=3)), min_size=1, max_size=6)

SYSTEM = [
    "Ich will ein Auto kaufen.", "Das Haus ist rot.", "Wo ist der Bahnhof?", "Er schläft heute lange.",
] * 5  # fmt: skip
BASELINE = ["Ich will Auto.", "Haus rot ist das.", "Wo ist ein Bahnhof denn?", "Er schläft."] * 5
REFERENCES = [
    ["Ich will ein Auto kaufen.", "Ich möchte ein Auto kaufen."],
    ["Das Haus ist rot."],
    ["Wo ist hier der Bahnhof?", "Wo ist der Bahnhof?", "Wo befindet sich der Bahnhof?"],
    ["Er schläft heute lang."],
] * 5


def test_sentence_scores_match_hand_calculation():
    report = evaluate(["a b c d e"], [["a b c d f"]], ["bleu", "chrf", "ter"], tokenize="none")
    assert report["bleu"].value == pytest.approx(100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** (1 / 4))
    assert report["chrf"].value == pytest.approx(100 * (4 / 5 + 3 / 4 + 2 / 3 + 1 / 2 + 0 / 1) / 5)
    assert report["ter"].value == pytest.approx(100 * 1 / 5)


@given(CORPUS)
def test_copy_of_the_reference_gets_a_perfect_score(corpus):
    references = [[*others, hypothesis] for hypothesis, others in corpus]
    report = evaluate([hypothesis for hypothesis, _ in corpus], references, ["chrf", "ter"])
    assert report["chrf"].value == pytest.approx(100)
    assert report["ter"].value == 0


@example([("der", ["der"]), ("der", ["Haus", "kauft"])])
@given(CORPUS)
def test_order_of_references_does_not_change_scores(corpus):
    """The exception is chrF: of two references with equal scores, it uses the first."""
    hypotheses = [hypothesis for hypothesis, _ in corpus]
    forward = evaluate(hypotheses, [references for _, references in corpus], ["bleu", "chrf"])
    backward = evaluate(hypotheses, [references[::-1] for _, references in corpus], ["bleu", "chrf"])
    assert forward["bleu"].value == pytest.approx(backward["bleu"].value)
    if not any(_has_chrf_tie(hypothesis, references) for hypothesis, references in corpus):
        assert forward["chrf"].value == pytest.approx(backward["chrf"].value)


def _has_chrf_tie(hypothesis, references):
    """Return True if two different references have equal chrF scores."""
    scores = [evaluate([hypothesis], [[reference]], ["chrf"])["chrf"].value for reference in set(references)]
    return len({round(score, 6) for score in scores}) < len(scores)


@given(CORPUS)
def test_repeated_reference_does_not_change_scores(corpus):
    hypotheses = [hypothesis for hypothesis, _ in corpus]
    ragged = evaluate(hypotheses, [references for _, references in corpus], ["bleu", "chrf"])
    max_references = max(len(references) for _, references in corpus)
    padded = [references + [references[0]] * (max_references - len(references)) for _, references in corpus]
    full = evaluate(hypotheses, padded, ["bleu", "chrf"])
    for metric in ("bleu", "chrf"):
        assert ragged[metric].value == pytest.approx(full[metric].value)


def test_signature_states_the_tokeniser_and_the_number_of_references():
    report = evaluate(SYSTEM, REFERENCES, ["bleu"], tokenize="intl", lowercase=True)
    assert "nrefs:var|case:lc" in report["bleu"].signature
    assert "tok:intl" in report["bleu"].signature
    single = evaluate(SYSTEM, [line[:1] for line in REFERENCES])
    assert [score.metric for score in single.scores] == ["bleu", "chrf", "ter"]
    assert all("nrefs:1|" in score.signature for score in single.scores)
    assert [score.higher_is_better for score in single.scores] == [True, True, False]


def write(path: Path, lines: list[str]) -> str:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return str(path)


def sacrebleu(*arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "SACREBLEU_SEED"}
    command = [sys.executable, "-m", "sacrebleu", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


def test_scores_match_the_sacrebleu_command(tmp_path):
    first = write(tmp_path / "first", [line[0] for line in REFERENCES])
    last = write(tmp_path / "last", [line[-1] for line in REFERENCES])
    output = write(tmp_path / "output", BASELINE)
    command = ["-i", output, "-m", "bleu", "chrf", "ter", "-f", "json", "-w", "9"]
    peer_scores = json.loads(sacrebleu(first, last, *command))
    report = evaluate(BASELINE, [[line[0], line[-1]] for line in REFERENCES])
    for score, peer_score in zip(report.scores, peer_scores, strict=True):
        assert score.value == pytest.approx(peer_score["score"], abs=1e-8)
        assert score.signature == peer_score["signature"]


def test_bootstrap_comparison_matches_the_sacrebleu_command(tmp_path, monkeypatch):
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    gold = write(tmp_path / "gold", [line[0] for line in REFERENCES])
    old = write(tmp_path / "old", BASELINE)
    new = write(tmp_path / "new", SYSTEM)
    command = ["-i", old, new, "-m", "bleu", "chrf", "--paired-bs", "--paired-bs-n", "200", "-w", "6"]
    table = sacrebleu(gold, *command, "-f", "text")  # its JSON breaks on numpy's float32
    figures = re.findall(r"([\d.]+) \(([\d.]+) ± ([\d.]+)\)", table)
    p_values = [float(p_value) for p_value in re.findall(r"\(p = ([\d.]+)\)", table)]
    comparisons = compare(SYSTEM, BASELINE, [line[:1] for line in REFERENCES], ["bleu", "chrf"], samples=200)
    assert len(figures) == 4
    assert len(p_values) == 2
    for comparison, baseline, system, p_value in zip(
        comparisons, figures[:2], figures[2:], p_values, strict=True
    ):
        baseline_figures = (comparison.baseline, comparison.baseline_mean, comparison.baseline_interval)
        assert baseline_figures == pytest.approx([float(figure) for figure in baseline], abs=1e-5)
        assert (comparison.value, comparison.mean, comparison.interval) == pytest.approx(
            [float(figure) for figure in system], abs=1e-5
        )
        assert comparison.p_value == pytest.approx(p_value, abs=1e-4)
        assert "bs:200|seed:12345" in comparison.signature


def test_bootstrap_comparison_is_antisymmetric():
    better = compare(SYSTEM, BASELINE, REFERENCES, ["bleu", "chrf", "chrf++", "ter"], samples=200)
    worse = compare(BASELINE, SYSTEM, REFERENCES, ["bleu", "chrf", "chrf++", "ter"], samples=200)
    assert [row.metric for row in better] == ["bleu", "chrf", "chrf++", "ter"]
    for improvement, regression in zip(better, worse, strict=True):
        assert improvement.p_value < 0.05
        assert improvement.difference == pytest.approx(-regression.difference)
        assert (improvement.difference > 0) == (improvement.metric != "ter")


def test_system_is_not_better_than_itself():
    for row in compare(BASELINE, BASELINE, REFERENCES, samples=50):
        assert row.difference == 0
        assert row.p_value == 1


@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        ([], [], "no hypotheses"),
        (["a"], [["a"], ["b"]], "1 hypotheses but 2 lines of references"),
        (["a", "b"], [["a"], []], "line 2 has no reference"),
        (["a"], ["a"], "line 1: expected a sequence of texts"),
    ],
)
def test_invalid_lines_are_rejected(hypotheses, references, message):
    with pytest.raises(DataError, match=message):
        evaluate(hypotheses, references)


def test_unknown_metrics_and_tokenisers_are_rejected():
    with pytest.raises(SettingsError, match="unknown metric 'blue'; known: bleu, chrf"):
        evaluate(["a"], [["a"]], ["blue"])
    with pytest.raises(SettingsError, match="unknown tokeniser '13b'; known: 13a, intl"):
        evaluate(["a"], [["a"]], tokenize="13b")
    with pytest.raises(SettingsError, match="no metric is given"):
        evaluate(["a"], [["a"]], [])
    with pytest.raises(SettingsError, match="1 sample or more, not 0"):
        compare(["a"], ["a"], [["a"]], samples=0)
    with pytest.raises(DataError, match="1 hypotheses but 2 lines of the baseline"):
        compare(["a"], ["a", "b"], [["a"]])


def test_missing_sacrebleu_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics.bleu", None)
    with pytest.raises(MissingExtraError, match=r"uwaga\[evaluate\]"):
        evaluate(["a"], [["a"]])


def test_missing_tokeniser_library_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "MeCab", None)
    monkeypatch.delitem(sys.modules, "sacrebleu.tokenizers.tokenizer_ja_mecab", raising=False)
    with pytest.raises(MissingExtraError, match="'ja-mecab' cannot be used"):
        evaluate(["a"], [["a"]], tokenize="ja-mecab")
