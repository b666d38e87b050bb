"""Output formats for other programs: scores by sentence, n-best lists, JSON."""

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from command_line import run_uwaga

import uwaga
from uwaga.cli.translate import moses_lines
from uwaga.errors import DataError, ModelError
from uwaga.results.translation import Translation

NUMBERS = str(Path(__file__).parents[1] / "support/models/numbers-en-de")
LINES = ["The cat sits on the mat.", "A dog.", "Nothing alike here"]
REFERENCES = ["The cat sat on the mat.", "A dog.", "Quite another sentence"]


def run(*arguments: str, code: int = 0) -> str:
    return run_uwaga(*arguments, code=code).output


@pytest.fixture
def files(tmp_path):
    for name, lines in (("out", LINES), ("ref", REFERENCES), ("src", ["a", "b", "c"])):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return SimpleNamespace(out=str(tmp_path / "out"), ref=str(tmp_path / "ref"), src=str(tmp_path / "src"))


def test_sentence_scores_match_sacrebleu(files):
    sacrebleu = pytest.importorskip("sacrebleu")
    header, *rows = (
        line.split("\t") for line in run("evaluate", files.out, "-r", files.ref, "--sentences").splitlines()
    )
    assert header == ["line", "bleu", "chrf", "ter"]
    for number, (row, line, reference) in enumerate(zip(rows, LINES, REFERENCES, strict=True), start=1):
        expected = [
            sacrebleu.sentence_bleu(line, [reference]).score,
            sacrebleu.sentence_chrf(line, [reference]).score,
            sacrebleu.sentence_ter(line, [reference]).score,
        ]
        assert row == [str(number), *(f"{value:.2f}" for value in expected)]
    documents = [
        json.loads(line)
        for line in run("evaluate", files.out, "-r", files.ref, "--sentences", "--json").splitlines()
    ]
    assert [document["line"] for document in documents] == [1, 2, 3] and documents[1][
        "bleu"
    ] == pytest.approx(100.0)
    assert "omit --against" in run(
        "evaluate", files.out, "-r", files.ref, "--sentences", "--against", files.ref, code=1
    )


@pytest.fixture
def comet(monkeypatch):
    """Install a package with COMET's interface whose score is 1 for equal texts and 0 otherwise."""
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
    package.load_from_checkpoint = lambda path: SimpleNamespace(predict=predict)
    monkeypatch.setitem(sys.modules, "comet", package)


def test_evaluate_prints_comet_scores(files, comet):
    output = run("evaluate", files.out, "-r", files.ref, "-m", "comet", "--source", files.src)
    assert output.split() == ["COMET", "0.3333", "Unbabel/wmt22-comet-da"]
    rows = run("evaluate", files.out, "-r", files.ref, "-m", "chrf,comet", "-s", files.src, "--sentences")
    assert [line.split("\t")[-1] for line in rows.splitlines()] == ["comet", "0.0000", "1.0000", "0.0000"]
    assert "--source" in run("evaluate", files.out, "-r", files.ref, "-m", "comet", code=1)
    from uwaga.evaluation import comet as score

    with pytest.raises(ModelError, match=r"owner/none cannot be fetched or read: no such model$"):
        score(["a"], ["b"], [["c"]], "owner/none")
    with pytest.raises(DataError, match="2 sources, 1 hypotheses"):
        score(["a", "b"], ["b"], [["c"]])


def test_missing_comet_error_names_the_package(files, monkeypatch):
    monkeypatch.setitem(sys.modules, "comet", None)
    output = run("evaluate", files.out, "-r", files.ref, "-m", "comet", "-s", files.src, code=1)
    assert "pip install unbabel-comet" in output


def test_moses_format_lists_numbered_hypotheses(tmp_path):
    (tmp_path / "in").write_text("one\n\nforty-two\n", encoding="utf-8")
    out = run(
        *("translate", "-m", NUMBERS, "-i", str(tmp_path / "in"), "--beam", "4", "--nbest", "3"),
        *("--nbest-format", "moses", "--threads", "1"),
    )
    rows = [line.split(" ||| ") for line in out.splitlines()]
    assert all(len(row) == 4 for row in rows)
    assert [int(row[0]) for row in rows] == sorted(int(row[0]) for row in rows)
    assert {int(row[0]) for row in rows} == {0, 1, 2}
    translation = uwaga.load(NUMBERS, threads=1).translate("forty-two", beam=4, nbest=3)
    hypotheses = (translation, *translation.alternatives)
    line_rows = [row for row in rows if row[0] == "2"]
    assert [(text, score) for _, text, _, score in line_rows] == [
        (hypothesis.text, f"{hypothesis.score:.6f}") for hypothesis in hypotheses
    ]
    assert line_rows[0][2] == f"log_prob= {translation.log_prob:.6f} tokens= {len(translation.tokens)}"
    assert "with --json" in run(
        "translate", "-m", NUMBERS, "--nbest-format", "moses", "--json", "one", code=1
    )


def test_moses_format_escapes_vertical_bars():
    assert moses_lines(Translation("a ||| b\nc", -1.0, (), ()), 3).count(" ||| ") == 3


def test_attend_prints_weights_as_json():
    document = json.loads(run("attend", "-m", NUMBERS, "--json", "--threads", "1", "forty-two"))
    insight = uwaga.load(NUMBERS, threads=1).attend("forty-two")
    assert len(document["source"]) == len(document["weights"][0]) == len(insight.source_tokens) + 1
    assert len(document["target"]) == len(document["weights"])
    for row in document["weights"]:
        assert sum(row) == pytest.approx(1.0, abs=1e-4)
    assert "--json cannot be combined with --output" in run(
        "attend", "-m", NUMBERS, "--json", "-o", "x.png", "one", code=1
    )
