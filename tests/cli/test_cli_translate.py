"""`uwaga translate` and `uwaga score`: each input line of texts, files and pipes gives one output line."""

import gzip
import io
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import tiny_models as tiny
from command_line import run_uwaga

import uwaga
from uwaga.cli import lines, meter, score
from uwaga.errors import DataError

JOINT = tiny.tokeniser()
SHAPE = tiny.TINY.model_copy(update={"tie": "none"})
LINES = ["I want to buy a car.", "", "The dog sees the cat.", "   ", "Ünïcödé 你好", "Where is the station?"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "model"
    model = tiny.transformer(SHAPE, JOINT, JOINT)
    decoding = tiny.DECODING.model_copy(update={"max_length": 8})
    tiny.save(folder, model, JOINT, decoding=decoding)
    return folder


@pytest.fixture(scope="module")
def translator(folder):
    return uwaga.load(folder, device="cpu")


@pytest.fixture
def run(folder):
    def run(verb, *arguments, stdin=None, code=0):
        if isinstance(stdin, str):
            stdin = stdin.encode()
        return run_uwaga(verb, "--model", folder, "--device", "cpu", *arguments, code=code, stdin=stdin)

    return run


def output_lines(result):
    """Return the lines of standard output, each of which ends in a line feed."""
    text = result.stdout_bytes.decode()
    assert text == "" or text.endswith("\n")
    return text.split("\n")[:-1]


def texts(translator, sources, **options):
    return [translation.text for translation in translator.translate(sources, **options)]


def test_texts_given_as_arguments_are_translated(run, translator):
    assert output_lines(run("translate", *LINES[::2])) == texts(translator, LINES[::2])
    assert output_lines(run("translate", "--beam", 1, "--max-length", 4, LINES[0])) == texts(
        translator, [LINES[0]], beam=1, max_length=4
    )


def test_draft_model_does_not_change_translations(run, folder):
    plain = run("translate", "--beam", 1, *LINES[::2])
    drafted = run("translate", "--draft", folder, *LINES[::2])
    assert drafted.stdout == plain.stdout
    assert "tokens accepted" in drafted.stderr
    assert "of the model's passes saved" in drafted.stderr
    document = json.loads(run("translate", "--draft", folder, "--json", LINES[0]).stdout)
    assert document["draft"]["accepted"] <= document["draft"]["proposed"]
    failed = run("translate", "--draft", folder, "--beam", 3, LINES[0], code=1)
    assert "a draft model needs greedy search" in failed.stderr


def test_piped_input_is_translated_line_by_line(run, translator):
    for end in ("\n", "\r\n"):
        for last in ("", end):
            result = run("translate", stdin=end.join(LINES) + last)
            assert output_lines(result) == texts(translator, LINES)
    assert output_lines(run("translate", stdin="")) == []
    assert output_lines(run("translate", stdin="\n\n")) == ["", ""]


def test_unusual_line_separators_do_not_start_new_lines(run):
    line = "a\x0bb\x0cc\x85d\u2028e\u2029f\rg\x1ch"
    assert len(output_lines(run("translate", stdin=f"{line}\n\ufeff{line}\n"))) == 2


def test_byte_order_mark_is_removed(run):
    assert output_lines(run("translate", stdin="\ufeffHi\n")) == output_lines(run("translate", stdin="Hi\n"))


def test_input_and_output_files_are_read_and_written(run, translator, tmp_path):
    (tmp_path / "in.en").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    with gzip.open(tmp_path / "in.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(LINES))
    for name in ("in.en", "in.gz"):
        result = run("translate", "--input", tmp_path / name, "--output", tmp_path / "out.de")
        assert result.stdout == ""
        expected = "".join(f"{line}\n" for line in texts(translator, LINES))
        assert (tmp_path / "out.de").read_bytes().decode() == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.en", "in.gz", "out.de"]


def test_output_may_replace_the_input(run, tmp_path, translator):
    (tmp_path / "text").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    run("translate", "-i", tmp_path / "text", "-o", tmp_path / "text")
    assert (tmp_path / "text").read_text("utf-8").split("\n")[:-1] == texts(translator, LINES)


def test_chunks_are_written_in_input_order(run, translator, tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "CHUNK_LINES", 4)
    sources = [LINES[number % len(LINES)] for number in range(11)]
    (tmp_path / "in").write_text("\n".join(sources), encoding="utf-8")
    assert output_lines(run("translate", "-i", tmp_path / "in")) == texts(translator, sources)
    assert output_lines(run("translate", stdin="\n".join(sources))) == texts(translator, sources)


def test_json_output_has_the_fields_of_the_translation(run, translator):
    result = run("translate", "--json", "--nbest", 2, "--attention", stdin="\n".join(LINES))
    documents = [json.loads(line) for line in output_lines(result)]
    for document, translation in zip(
        documents, translator.translate(LINES, nbest=2, attention=True), strict=True
    ):
        assert document["text"] == translation.text
        assert document["tokens"] == list(translation.tokens)
        assert document["source_tokens"] == list(translation.source_tokens)
        assert document["truncated"] == translation.truncated
        assert document["score"] == pytest.approx(translation.score, abs=2e-5)
        assert document["log_prob"] == pytest.approx(translation.log_prob, abs=1e-4)
        assert document["token_scores"] == pytest.approx(translation.token_scores, abs=5e-5)
        alternatives = [alternative["text"] for alternative in document.get("alternatives", [])]
        assert alternatives == [alternative.text for alternative in translation.alternatives]
        if translation.attention is not None:
            np.testing.assert_allclose(document["attention"], translation.attention, atol=5e-5)
        else:
            assert "attention" not in document


def test_nbest_list_is_printed_on_one_line(run, translator):
    result = run("translate", "--nbest", 3, stdin="\n".join(LINES))
    for line, translation in zip(output_lines(result), translator.translate(LINES, nbest=3), strict=True):
        expected = [translation.text, *(alternative.text for alternative in translation.alternatives)]
        assert line == "\t".join(text.replace("\t", " ") for text in expected)


def test_streamed_output_equals_the_translation(run, translator):
    assert output_lines(run("translate", "--stream", *LINES)) == texts(translator, LINES, beam=1)
    assert output_lines(run("translate", "--stream", stdin="\n".join(LINES))) == texts(
        translator, LINES, beam=1
    )
    sampled = output_lines(run("translate", "--stream", "--sample", "--seed", 3, LINES[0]))
    assert sampled == texts(translator, [LINES[0]], sample=True, seed=3)


def test_search_options_are_passed_to_the_translator(run, translator):
    result = run(
        "translate", "--sample", "--seed", 7, "--temperature", 1.3, "--top-k", 20, "--top-p", 0.9, *LINES
    )
    assert output_lines(result) == texts(
        translator, LINES, sample=True, seed=7, temperature=1.3, top_k=20, top_p=0.9
    )
    result = run("translate", "--prefix", "Der Hund", "--no-repeat-ngram", 1, "--min-length", 6, LINES[0])
    options = {"prefix": "Der Hund", "no_repeat_ngram": 1, "min_length": 6}
    assert output_lines(result) == texts(translator, [LINES[0]], **options)
    sentences = "Hi. Where is the station?"
    assert output_lines(run("translate", "--split", "sentences", sentences)) == texts(
        translator, [sentences], split="sentences"
    )
    options = {"length_penalty": 0.2, "batch_tokens": 9}
    result = run("translate", "--length-penalty", 0.2, "--batch-tokens", 9, *LINES)
    assert output_lines(result) == texts(translator, LINES, **options)


def test_truncated_translations_are_reported(run):
    result = run("translate", "--max-length", 1, stdin="a\n\nb\nc\nd\ne\n")
    assert "line 1 was cut" in result.stderr
    assert "line 2" not in result.stderr
    assert "2 more translations were cut" in result.stderr
    assert "text 1 was cut" in run("translate", "--stream", "--max-length", 1, "a").stderr


# --- errors


def test_text_that_names_a_file_is_refused(run, translator, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "talk.en").write_text("Hi\n")
    error = run("translate", "talk.en", code=1).stderr
    assert "did you mean --input talk.en?" in error
    assert "-- talk.en" in error
    assert output_lines(run("translate", "--", "talk.en")) == texts(translator, ["talk.en"])
    assert output_lines(run("translate", "talk.fr", " " * 5000)) == [*texts(translator, ["talk.fr"]), ""]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["a", "--input", "b"], "texts or --input, not both"), (["a", "--stream", "--json"], "--stream"),
        (["a", "--stream", "--beam", "4"], "--stream"),
        (["a", "--nbest", "9"], "nbest 9 is more than beam 3"), (["a", "--top-k", "9"], "sample"),
        (["a", "--attention"], "--json"), (["--input", "/no/such"], "/no/such: no such file"),
        (["a", "--output", "/no/such/file"], "/no/such/file: cannot be written"),
        (["a", "--device", "tpu"], "device must be"),
        (["--split", "never", "house " * 60], "text 1: the sentence"),
    ],
)  # fmt: skip
def test_error_messages_fit_on_one_line(run, arguments, words):
    result = run("translate", *arguments, code=1)
    assert "Traceback" not in result.output
    errors = [line for line in result.stderr.splitlines() if "error:" in line]
    assert len(errors) == 1
    assert words in errors[0]


def test_unknown_dtype_is_a_usage_error(run):
    assert "'int3' is not one of 'auto', 'float32'" in run("translate", "a", "--dtype", "int3", code=2).stderr


def test_lines_before_an_invalid_line_are_written(run, tmp_path, translator, monkeypatch):
    content = b"Hi\nThe dog.\nna\xefve\nnever reached\n"
    for arguments, stdin in (([], content), (["-i", tmp_path / "in"], None)):
        (tmp_path / "in").write_bytes(content)
        result = run("translate", *arguments, stdin=stdin, code=1)
        assert output_lines(result) == texts(translator, ["Hi", "The dog."])
        assert "line 3 is not UTF-8 at byte 3" in result.stderr
    result = run("translate", "-i", tmp_path / "in", "-o", tmp_path / "out", code=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.journal", "in"]
    (tmp_path / "out").write_text("old")
    run("translate", "-i", tmp_path / "in", "-o", tmp_path / "out", code=1)
    assert (tmp_path / "out").read_text() == "old"
    (tmp_path / "in").write_bytes(content.replace(b"\xef", b""))
    run("translate", "-i", tmp_path / "in", "-o", tmp_path / "out", "--resume")
    assert (tmp_path / "out").read_text().splitlines()[:2] == texts(translator, ["Hi", "The dog."])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


def test_overlong_line_is_reported_with_its_line_number(run):
    assert (
        "line 2: the sentence"
        in run("translate", "--split", "never", stdin="a\n" + "house " * 60, code=1).stderr
    )
    assert (
        "too long to be a sentence"
        in run("translate", stdin="x" * (lines.MAX_LINE_LENGTH + 9), code=1).stderr
    )


def test_binary_file_is_refused(run, tmp_path):
    (tmp_path / "b").write_bytes(bytes(range(256)) * 9)
    assert "binary" in run("translate", "-i", tmp_path / "b", code=1).stderr


def test_full_disk_leaves_no_partial_file(run, tmp_path, monkeypatch):
    def full_disk_writer(file):
        def write(text):
            with Path("/dev/full").open("wb", buffering=0) as disk:
                disk.write(text.encode())

        return write

    monkeypatch.setattr(lines, "_writer", full_disk_writer)
    result = run("translate", "-o", tmp_path / "out", "Hi", code=1)
    assert "No space left" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_devices_and_pipes_are_not_replaced(run, tmp_path):
    run("translate", "-o", "/dev/null", "Hi")
    assert not Path("/dev/null").is_file()
    os.mkfifo(tmp_path / "pipe")
    contents = []
    reader = threading.Thread(target=lambda: contents.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    run("translate", "-o", tmp_path / "pipe", "Hi")
    reader.join()
    assert contents[0].endswith(b"\n")


# --- pipes


def test_standard_input_is_read_in_chunks():
    """Lines that arrive slowly are separate chunks; available lines form chunks up to the maximum size."""
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as reading, os.fdopen(write_end, "wb", buffering=0) as writing:
        chunks = lines._decode_chunks(lines._read_ahead(lines._raw_lines(reading)), "pipe")
        for number in range(1, 4):
            writing.write(f"line {number}\n".encode())
            assert next(chunks) == lines.Chunk(number, [f"line {number}"])
        writing.write(b"x\n" * (lines.CHUNK_LINES + 500))
        time.sleep(0.3)
        writing.close()
        remaining = list(chunks)
        assert [chunk.first for chunk in remaining] == sorted(chunk.first for chunk in remaining)
        assert sum(len(chunk.lines) for chunk in remaining) == lines.CHUNK_LINES + 500
        assert max(len(chunk.lines) for chunk in remaining) > 100
        assert max(len(chunk.lines) for chunk in remaining) <= lines.CHUNK_LINES


def test_number_of_lines_read_ahead_is_bounded():
    produced = []

    def endless():
        while True:
            produced.append(1)
            yield b"x"

    chunks = lines._read_ahead(endless())
    next(chunks)
    time.sleep(0.2)
    assert len(produced) < 8 * lines.CHUNK_LINES


def test_lines_are_translated_while_the_pipe_is_open(folder):
    command = [sys.executable, "-m", "uwaga", "translate", "--model", str(folder), "--device", "cpu"]
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        for line in ("Hi\n", "\n", "Ünïcödé\n"):
            process.stdin.write(line.encode())
            process.stdin.flush()
            answer = process.stdout.readline()
            assert answer.endswith(b"\n")
            assert bool(answer.strip()) == bool(line.strip())
        process.stdin.write(b"\xff\n")
        process.stdin.flush()
        assert process.wait(timeout=60) == 1  # although the pipe is open and a thread is reading from it
        error = process.stderr.read().decode()
    assert "standard input: line 4 is not UTF-8" in error
    assert "Fatal" not in error
    assert "Traceback" not in error


def test_closed_standard_input_is_reported(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(DataError, match="standard input is closed"):
        lines.standard_input_chunks()


def test_progress_bar_is_shown_only_on_a_terminal(monkeypatch, tmp_path):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    (tmp_path / "in").write_text("ab\ncd\n")
    for screen, is_shown in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", screen)
        with meter.meter(tmp_path / "in", "translating") as advance:
            advance(lines.Chunk(1, ["ab", "cd"]))
        with meter.count_meter(7, "reading") as count:
            count(3)
        assert ("2 lines" in screen.getvalue()) == is_shown
        assert ("3 lines" in screen.getvalue()) == is_shown


# --- score


def test_score_command_prints_scores_of_pairs(run, translator, tmp_path):
    pairs = [("I want", "Ich will"), ("", ""), ("Hi", "Du"), ("Hi", "")]
    scores = translator.score(pairs)
    expected = [(pair_score.log_prob, pair_score.mean) for pair_score in scores]
    tsv = "".join(f"{source}\t{target}\tmore\n" for source, target in pairs)
    (tmp_path / "p.tsv").write_text(tsv)
    for side, name in enumerate(("s", "t")):
        (tmp_path / name).write_text("".join(f"{pair[side]}\n" for pair in pairs))
    for arguments, stdin in (
        ([], tsv),
        ([tmp_path / "p.tsv"], None),
        ([tmp_path / "s", tmp_path / "t"], None),
    ):
        rows = [
            tuple(map(float, line.split("\t")))
            for line in output_lines(run("score", *arguments, stdin=stdin))
        ]
        assert [
            row == pytest.approx(expected_row, abs=2e-4)
            for row, expected_row in zip(rows, expected, strict=True)
        ] == [True] * 4
    for line, pair_score in zip(output_lines(run("score", "--tokens", stdin=tsv)), scores, strict=True):
        cells = [cell.rpartition(":") for cell in line.split("\t")[2].split(" ")]
        assert [cell[0] for cell in cells] == [*pair_score.tokens, "</s>"]
        assert [float(cell[2]) for cell in cells] == pytest.approx(pair_score.token_scores, abs=2e-4)
    for line, pair_score in zip(output_lines(run("score", "--json", stdin=tsv)), scores, strict=True):
        document = json.loads(line)
        assert document["tokens"] == list(pair_score.tokens)
        assert document["token_scores"] == pytest.approx(pair_score.token_scores, abs=1e-4)
        assert document["perplexity"] == pytest.approx(pair_score.perplexity, rel=1e-3)
    run("score", tmp_path / "p.tsv", "--output", tmp_path / "out")
    assert len((tmp_path / "out").read_text().splitlines()) == 4


def test_score_command_reports_invalid_input(run, tmp_path):
    assert "line 2 has no tab" in run("score", stdin="a\tb\nc\n", code=1).stderr
    (tmp_path / "s").write_text("a\nb\nc\n")
    (tmp_path / "t").write_text("a\n")
    error = run("score", tmp_path / "s", tmp_path / "t", code=1).stderr
    assert "has 3 lines but" in error
    assert "has 1" in error
    assert "3 files" in run("score", "a", "b", "c", code=1).stderr
    assert "no such file" in run("score", tmp_path / "none.tsv", code=1).stderr
    assert "pair 2: the target" in run("score", stdin="a\tb\nc\t" + "Haus " * 60, code=1).stderr


def test_infinite_score_is_null_in_json():
    assert (
        json.loads(score._format_json(uwaga.Score(-float("inf"), (), (-float("inf"),), ())))["log_prob"]
        is None
    )


@pytest.mark.parametrize("verb", ["translate", "score"])
def test_help_of_translate_and_score_has_examples(verb):
    result = run_uwaga(verb, "--help")
    assert result.output.count(f"uwaga {verb}") >= 4


def test_mbr_options_are_applied_or_refused(run, translator):
    output = output_lines(run("translate", "--mbr", 6, "--seed", 2, "--utility", "bleu", *LINES[::2]))
    assert output == texts(translator, LINES[::2], mbr=6, seed=2, utility="bleu")
    result = run("translate", "--mbr", 4, "--stream", LINES[0], code=1)
    assert "mbr compares several whole samples" in " ".join(result.output.split())
    result = run("translate", "--mbr", 2, "--nbest", 3, LINES[0], code=1)
    assert "nbest 3 is more than the 2 samples of mbr" in result.output
