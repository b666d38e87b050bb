"""Corpus metrics: hand arithmetic, laws, and sacreBLEU's own command as a peer."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from uwaga.errors import DataError, MissingExtraError, SettingsError
from uwaga.evaluation import compare, evaluate

WORDS = st.sampled_from(["der", "die", "das", "Haus", "Auto", "kauft", "rot", "und"])
SENTENCE = st.lists(WORDS, min_size=1, max_size=9).map(" ".join)
CORPUS = st.lists(st.tuples(SENTENCE, st.lists(SENTENCE, min_size=1, max_size=3)), min_size=1, max_size=6)

SYSTEM = [
    "Ich will ein Auto kaufen.",
    "Das Haus ist rot.",
    "Wo ist der Bahnhof?",
    "Er schläft heute lange.",
] * 5
OTHER = ["Ich will Auto.", "Haus rot ist das.", "Wo ist ein Bahnhof denn?", "Er schläft."] * 5
REFERENCES = [
    ["Ich will ein Auto kaufen.", "Ich möchte ein Auto kaufen."],
    ["Das Haus ist rot."],
    ["Wo ist hier der Bahnhof?", "Wo ist der Bahnhof?", "Wo befindet sich der Bahnhof?"],
    ["Er schläft heute lang."],
] * 5


def test_scores_of_one_sentence_by_hand():
    report = evaluate(["a b c d e"], [["a b c d f"]], ["bleu", "chrf", "ter"], tokenize="none")
    assert report["bleu"].value == pytest.approx(100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** (1 / 4))
    assert report["chrf"].value == pytest.approx(100 * (4 / 5 + 3 / 4 + 2 / 3 + 1 / 2 + 0 / 1) / 5)
    assert report["ter"].value == pytest.approx(100 * 1 / 5)


@settings(max_examples=40, deadline=None)
@given(CORPUS)
def test_a_copy_of_a_reference_is_perfect(corpus):
    references = [[*others, hypothesis] for hypothesis, others in corpus]
    report = evaluate([hypothesis for hypothesis, _ in corpus], references, ["chrf", "ter"])
    assert report["chrf"].value == pytest.approx(100)
    assert report["ter"].value == 0


@settings(max_examples=40, deadline=None)
@example([("der", ["der"]), ("der", ["Haus", "kauft"])])
@given(CORPUS)
def test_order_of_references_does_not_matter(corpus):
    """But for chrF where two references are as near: the corpus then counts the first of them."""
    hypotheses = [hypothesis for hypothesis, _ in corpus]
    forward = evaluate(hypotheses, [references for _, references in corpus], ["bleu", "chrf"])
    backward = evaluate(hypotheses, [references[::-1] for _, references in corpus], ["bleu", "chrf"])
    assert forward["bleu"].value == pytest.approx(backward["bleu"].value)
    if not any(_as_near(hypothesis, references) for hypothesis, references in corpus):
        assert forward["chrf"].value == pytest.approx(backward["chrf"].value)


def _as_near(hypothesis, references):
    """Whether two different references have the same chrF."""
    scores = [evaluate([hypothesis], [[one]], ["chrf"])["chrf"].value for one in set(references)]
    return len({round(score, 6) for score in scores}) < len(scores)


@settings(max_examples=40, deadline=None)
@given(CORPUS)
def test_a_repeated_reference_changes_nothing(corpus):
    hypotheses = [hypothesis for hypothesis, _ in corpus]
    ragged = evaluate(hypotheses, [references for _, references in corpus], ["bleu", "chrf"])
    most = max(len(references) for _, references in corpus)
    padded = [references + [references[0]] * (most - len(references)) for _, references in corpus]
    full = evaluate(hypotheses, padded, ["bleu", "chrf"])
    for metric in ("bleu", "chrf"):
        assert ragged[metric].value == pytest.approx(full[metric].value)


def test_signature_tells_how_many_references_and_which_tokeniser():
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


def test_equals_the_sacrebleu_command(tmp_path):
    first = write(tmp_path / "first", [line[0] for line in REFERENCES])
    last = write(tmp_path / "last", [line[-1] for line in REFERENCES])
    output = write(tmp_path / "output", OTHER)
    command = ["-i", output, "-m", "bleu", "chrf", "ter", "-f", "json", "-w", "9"]
    theirs = json.loads(sacrebleu(first, last, *command))
    ours = evaluate(OTHER, [[line[0], line[-1]] for line in REFERENCES])
    for mine, peer in zip(ours.scores, theirs, strict=True):
        assert mine.value == pytest.approx(peer["score"], abs=1e-8)
        assert mine.signature == peer["signature"]


def test_bootstrap_equals_the_sacrebleu_command(tmp_path, monkeypatch):
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    gold = write(tmp_path / "gold", [line[0] for line in REFERENCES])
    old = write(tmp_path / "old", OTHER)
    new = write(tmp_path / "new", SYSTEM)
    command = ["-i", old, new, "-m", "bleu", "chrf", "--paired-bs", "--paired-bs-n", "200", "-w", "6"]
    table = sacrebleu(gold, *command, "-f", "text")  # its JSON breaks on numpy's float32
    figures = re.findall(r"([\d.]+) \(([\d.]+) ± ([\d.]+)\)", table)
    p_values = [float(found) for found in re.findall(r"\(p = ([\d.]+)\)", table)]
    ours = compare(SYSTEM, OTHER, [line[:1] for line in REFERENCES], ["bleu", "chrf"], samples=200)
    assert len(figures) == 4
    assert len(p_values) == 2
    for mine, baseline, system, p_value in zip(ours, figures[:2], figures[2:], p_values, strict=True):
        mine_baseline = (mine.baseline, mine.baseline_mean, mine.baseline_interval)
        assert mine_baseline == pytest.approx([float(figure) for figure in baseline], abs=1e-5)
        assert (mine.value, mine.mean, mine.interval) == pytest.approx(
            [float(figure) for figure in system], abs=1e-5
        )
        assert mine.p_value == pytest.approx(p_value, abs=1e-4)
        assert "bs:200|seed:12345" in mine.signature


def test_bootstrap_tells_better_from_worse_both_ways():
    better = compare(SYSTEM, OTHER, REFERENCES, ["bleu", "chrf", "chrf++", "ter"], samples=200)
    worse = compare(OTHER, SYSTEM, REFERENCES, ["bleu", "chrf", "chrf++", "ter"], samples=200)
    assert [row.metric for row in better] == ["bleu", "chrf", "chrf++", "ter"]
    for one, other in zip(better, worse, strict=True):
        assert one.p_value < 0.05
        assert one.difference == pytest.approx(-other.difference)
        assert (one.difference > 0) == (one.metric != "ter")


def test_a_system_is_not_better_than_itself():
    for row in compare(OTHER, OTHER, REFERENCES, samples=50):
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
def test_bad_lines_are_named(hypotheses, references, message):
    with pytest.raises(DataError, match=message):
        evaluate(hypotheses, references)


def test_unknown_names_list_the_known_ones():
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


def test_missing_sacrebleu_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics.bleu", None)
    with pytest.raises(MissingExtraError, match=r"uwaga\[evaluate\]"):
        evaluate(["a"], [["a"]])


def test_missing_tokeniser_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "MeCab", None)
    monkeypatch.delitem(sys.modules, "sacrebleu.tokenizers.tokenizer_ja_mecab", raising=False)
    with pytest.raises(MissingExtraError, match="'ja-mecab' cannot be used"):
        evaluate(["a"], [["a"]], tokenize="ja-mecab")
