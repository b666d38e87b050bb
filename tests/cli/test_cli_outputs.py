"""Forms in which other programs take what the verbs find: tables by sentence, n-best lists, JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from typer.testing import CliRunner

import uwaga
from uwaga.cli.main import app
from uwaga.cli.translate import moses_lines
from uwaga.errors import DataError, ModelError
from uwaga.results.translation import Translation

NUMBERS = str(Path(__file__).parents[1] / "support/models/numbers-en-de")
LINES = ["The cat sits on the mat.", "A dog.", "Nothing alike here"]
REFERENCES = ["The cat sat on the mat.", "A dog.", "Quite another sentence"]


def run(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == code, done.output + str(done.exception)
    return done.output


@pytest.fixture
def files(tmp_path):
    for name, lines in (("out", LINES), ("ref", REFERENCES), ("src", ["a", "b", "c"])):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return SimpleNamespace(out=str(tmp_path / "out"), ref=str(tmp_path / "ref"), src=str(tmp_path / "src"))


def test_I11_23_sentences_are_scored_as_sacrebleu_scores_each(files):
    sacrebleu = pytest.importorskip("sacrebleu")
    head, *rows = (
        line.split("\t") for line in run("evaluate", files.out, "-r", files.ref, "--sentences").splitlines()
    )
    assert head == ["line", "bleu", "chrf", "ter"]
    for number, (row, line, reference) in enumerate(zip(rows, LINES, REFERENCES, strict=True), start=1):
        expected = [
            sacrebleu.sentence_bleu(line, [reference]).score,
            sacrebleu.sentence_chrf(line, [reference]).score,
            sacrebleu.sentence_ter(line, [reference]).score,
        ]
        assert row == [str(number), *(f"{value:.2f}" for value in expected)]
    found = [
        json.loads(line)
        for line in run("evaluate", files.out, "-r", files.ref, "--sentences", "--json").splitlines()
    ]
    assert [one["line"] for one in found] == [1, 2, 3] and found[1]["bleu"] == pytest.approx(100.0)
    assert "omit --against" in run(
        "evaluate", files.out, "-r", files.ref, "--sentences", "--against", files.ref, code=1
    )


@pytest.fixture
def comet(monkeypatch):
    """A package of the same face whose score is the share of equal words."""
    package = ModuleType("comet")

    def predict(rows, batch_size, gpus, progress_bar):
        assert not progress_bar and set(rows[0]) == {"src", "mt", "ref"}
        scores = [float(row["mt"] == row["ref"]) for row in rows]
        return SimpleNamespace(scores=scores, system_score=sum(scores) / len(scores))

    def download_model(name):
        if name == "owner/none":
            raise OSError("no such model\nand more")
        return f"/cache/{name}.ckpt"

    package.download_model = download_model
    package.load_from_checkpoint = lambda place: SimpleNamespace(predict=predict)
    monkeypatch.setitem(sys.modules, "comet", package)


def test_I11_23_comet_scores_where_its_package_is_installed(files, comet):
    found = run("evaluate", files.out, "-r", files.ref, "-m", "comet", "--source", files.src)
    assert found.split() == ["COMET", "0.3333", "Unbabel/wmt22-comet-da"]
    rows = run("evaluate", files.out, "-r", files.ref, "-m", "chrf,comet", "-s", files.src, "--sentences")
    assert [line.split("\t")[-1] for line in rows.splitlines()] == ["comet", "0.0000", "1.0000", "0.0000"]
    assert "--source" in run("evaluate", files.out, "-r", files.ref, "-m", "comet", code=1)
    from uwaga.evaluation import comet as score

    with pytest.raises(ModelError, match=r"owner/none cannot be fetched or read: no such model$"):
        score(["a"], ["b"], [["c"]], "owner/none")
    with pytest.raises(DataError, match="2 sources, 1 hypotheses"):
        score(["a", "b"], ["b"], [["c"]])


def test_I11_23_without_its_package_comet_says_what_to_install(files, monkeypatch):
    monkeypatch.setitem(sys.modules, "comet", None)
    found = run("evaluate", files.out, "-r", files.ref, "-m", "comet", "-s", files.src, code=1)
    assert "pip install unbabel-comet" in found


def test_I11_23_nbest_lists_as_moses_has_them(tmp_path):
    (tmp_path / "in").write_text("one\n\nforty-two\n", encoding="utf-8")
    out = run(
        *("translate", "-m", NUMBERS, "-i", str(tmp_path / "in"), "--beam", "4", "--nbest", "3"),
        *("--nbest-format", "moses", "--threads", "1"),
    )
    rows = [line.split(" ||| ") for line in out.splitlines()]
    assert all(len(row) == 4 for row in rows)
    assert [int(row[0]) for row in rows] == sorted(int(row[0]) for row in rows)
    assert {int(row[0]) for row in rows} == {0, 1, 2}
    wanted = uwaga.load(NUMBERS, threads=1).translate("forty-two", beam=4, nbest=3)
    ways = (wanted, *wanted.alternatives)
    ours = [row for row in rows if row[0] == "2"]
    assert [(text, score) for _, text, _, score in ours] == [(way.text, f"{way.score:.6f}") for way in ways]
    assert ours[0][2] == f"log_prob= {wanted.log_prob:.6f} tokens= {len(wanted.tokens)}"
    assert "with --json" in run(
        "translate", "-m", NUMBERS, "--nbest-format", "moses", "--json", "one", code=1
    )


def test_I11_23_a_text_cannot_end_its_field():
    assert moses_lines(Translation("a ||| b\nc", -1.0, (), ()), 3).count(" ||| ") == 3


def test_I11_23_attention_as_json():
    found = json.loads(run("attend", "-m", NUMBERS, "--json", "--threads", "1", "forty-two"))
    best = uwaga.load(NUMBERS, threads=1).attend("forty-two")
    assert len(found["source"]) == len(found["weights"][0]) == len(best.source_tokens) + 1
    assert len(found["target"]) == len(found["weights"])
    for row in found["weights"]:
        assert sum(row) == pytest.approx(1.0, abs=1e-4)
    assert "--json prints and --output draws" in run(
        "attend", "-m", NUMBERS, "--json", "-o", "x.png", "one", code=1
    )
