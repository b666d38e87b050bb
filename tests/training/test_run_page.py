"""The HTML report of a training run: contents, and robustness against arbitrary logs."""

import json
import os
from pathlib import Path

import pytest
from command_line import run_uwaga
from html_page import HOSTILE_TEXTS, Page
from hypothesis import given
from hypothesis import strategies as st
from toy import toy_settings, write_reversal_corpus

from uwaga.data.corpus import Pair
from uwaga.errors import DataError
from uwaga.evaluation import evaluate
from uwaga.training.page import METRICS_FILE, REPORT_FILE, SAMPLES_FILE, format_run_report, read_records
from uwaga.training.train import train
from uwaga.training.validation import choose_samples, scores_by_length


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("toy")
    write_reversal_corpus(folder)
    with (folder / "train.tsv").open("a") as file:
        file.write("only one side\n")
    train(toy_settings(folder, steps=20, validate_every=10))
    return folder / "run"


def records(path: Path) -> list[dict[str, object]]:
    return [values for _, values in read_records(path)]


def test_training_report_contains_the_logged_values(run: Path) -> None:
    text = (run / REPORT_FILE).read_text(encoding="utf-8")
    assert text == format_run_report(run)
    page = Page(text)
    for sample in records(run / SAMPLES_FILE)[-1]["samples"]:
        assert all(page.shows(value) for value in sample.values())
    final = records(run / METRICS_FILE)[-1]
    assert final["part"] == "final"
    assert page.shows(f"{final['bleu']:.4g}") and page.shows(f"{final['loss']:.4g}")
    assert page.shows("missing column") and page.shows("batch_tokens: 200")
    names = [attributes["aria-label"] for attributes in page.attributes("svg")]
    assert names == ["Loss per target token", "Dev scores", "Learning rate", "Throughput", "Gradient norm"]


def test_all_validations_sample_the_same_sentences(run: Path) -> None:
    samples = records(run / SAMPLES_FILE)
    assert [record["step"] for record in samples if record["part"] == "dev"] == [10, 20]
    assert {tuple(sample["source"] for sample in row["samples"]) for row in samples} == {
        tuple(sample["source"] for sample in samples[0]["samples"])
    }
    for row in samples:
        assert sum(group["sentences"] for group in row["by_length"]) == 10


def test_samples_after_the_resumed_step_are_removed(tmp_path: Path) -> None:
    write_reversal_corpus(tmp_path)
    train(toy_settings(tmp_path, steps=10, validate_every=5))
    before = records(tmp_path / "run" / SAMPLES_FILE)
    with (tmp_path / "run" / SAMPLES_FILE).open("a") as file:
        file.write('{"step": 3, "part"')
    train(toy_settings(tmp_path, steps=10, validate_every=5))
    assert records(tmp_path / "run" / SAMPLES_FILE) == before


def test_bleu_is_reported_by_sentence_length() -> None:
    pairs = [Pair("a " * count, (f"w{count} x y z " * 3,), count) for count in (1, 5, 6, 41, 60)]
    texts = [pair.references[0] if pair.line != 6 else "none of it" for pair in pairs]
    scores = scores_by_length(pairs, texts, "13a")
    assert [(score.min_words, score.max_words, score.sentences) for score in scores] == [
        (1, 5, 2),
        (6, 10, 1),
        (41, None, 2),
    ]
    expected = evaluate([texts[2]], [pairs[2].references], ("bleu",))["bleu"].value
    assert [score.bleu for score in scores] == pytest.approx([100.0, expected, 100.0])
    assert [sample.source for sample in choose_samples(pairs[:2], texts[:2])] == ["a ", "a " * 5]


VALUE = st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.floats(width=32) | HOSTILE_TEXTS
ROW = st.dictionaries(st.sampled_from(["source", "translation", "reference", "least", "most", "bleu"]), VALUE)
RECORD = st.fixed_dictionaries(
    {"part": st.sampled_from(["train", "dev", "final"]) | HOSTILE_TEXTS, "step": st.integers(0, 10**9)},
    optional={
        "loss": st.floats(0, 100, width=32) | st.just(float("nan")), "bleu": VALUE, "learning_rate": VALUE,
        "samples": st.lists(ROW, max_size=3) | VALUE, "by_length": st.lists(ROW, max_size=3) | VALUE,
    },
)  # fmt: skip


@given(st.lists(RECORD, min_size=1, max_size=6), HOSTILE_TEXTS, HOSTILE_TEXTS)
def test_training_report_accepts_arbitrary_logs(tmp_path_factory, rows, fault, text):
    run = tmp_path_factory.mktemp("run")
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    for name in (METRICS_FILE, SAMPLES_FILE):
        (run / name).write_text(f"{lines}not json\n[1]\n", encoding="utf-8")
    (run / "data/train").mkdir(parents=True)
    report = {"read": 3, "kept": 2, "faults": {fault: 1}, "lines": {fault: [1]}}
    (run / "data/train/store.json").write_text(json.dumps({"report": report}), encoding="utf-8")
    (run / "settings.yaml").write_bytes(text.encode("utf-8", "replace"))
    page = Page(format_run_report(run))
    assert page.shows(fault) and page.shows(text.encode("utf-8", "replace").decode())


@pytest.mark.parametrize(
    "line",
    [
        '{"step": 1e400, "part": "train"}', '{"step": 1%s, "part": "train"}' % ("0" * 400), "[" * 100_000,
        '{"step": 1, "part": "dev", "loss": null}', '{"step": 1, "part": "dev", "loss": "x"}',
        '{"step": 1, "part": "dev", "loss": 1%s}' % ("0" * 400),
        '{"step": 1, "part": "train", "loss": 1e308}\n{"step": 2, "part": "train", "loss": -1e308}',
    ],
)  # fmt: skip
def test_training_report_accepts_malformed_records(tmp_path: Path, line: str) -> None:
    (tmp_path / METRICS_FILE).write_text(f'{line}\n{{"step": 3, "part": "train", "loss": 2.0}}\n')
    (tmp_path / SAMPLES_FILE).write_text(line)
    (tmp_path / "data/train").mkdir(parents=True)
    (tmp_path / "data/train/store.json").write_text(line)
    assert Page(format_run_report(tmp_path)).shows("3 updates.")


def test_pipes_in_a_run_folder_do_not_block_the_report(tmp_path: Path) -> None:
    (tmp_path / METRICS_FILE).write_text('{"step": 3, "part": "train", "loss": 2.0}\n')
    (tmp_path / "data/train").mkdir(parents=True)
    for name in (SAMPLES_FILE, "settings.yaml", "data/train/store.json"):
        os.mkfifo(tmp_path / name)
    assert "Loss per target token" in format_run_report(tmp_path)


def test_report_does_not_overwrite_files_of_a_run(tmp_path: Path) -> None:
    log = tmp_path / METRICS_FILE
    log.write_text('{"step": 3, "part": "train", "loss": 2.0}\n')
    result = run_uwaga("report", tmp_path, "-o", log, code=1)
    assert "is a file of the run" in result.output
    assert log.read_text().startswith('{"step": 3')


def test_folder_without_a_training_run_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder"):
        format_run_report(tmp_path / "none")
    (tmp_path / METRICS_FILE).write_text("cut sho")
    with pytest.raises(DataError, match=r"nothing is logged in metrics\.jsonl"):
        format_run_report(tmp_path)


def test_report_command_writes_the_report_page(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    result = run_uwaga("report", run, "-o", out)
    assert out.read_text() == format_run_report(run)
    result = run_uwaga("report", tmp_path / "none", code=1)
    assert "no such folder" in result.output
