"""The command ``uwaga evaluate``: its output, and errors of this and other commands."""

import contextlib
import gzip
import json
import lzma
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import typer
from command_line import run_uwaga

from uwaga.cli.errors import report_errors
from uwaga.errors import DataError
from uwaga.evaluation import evaluate
from uwaga.evaluation.files import read_references

HYPOTHESES = ["Ich will ein Auto kaufen.", "Das Haus ist rot."]
REFERENCES = ["Ich möchte ein Auto kaufen.", "Das Haus ist rot."]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write("output.de", HYPOTHESES)
    write("test.de", REFERENCES)
    return tmp_path


def write(name: str, lines: list[str]) -> None:
    Path(name).write_text("".join(line + "\n" for line in lines), encoding="utf-8")


run = partial(run_uwaga, code=None)


def scores(*arguments: str, stdin: bytes | None = None) -> dict[str, float]:
    result = run("evaluate", *arguments, "--json", stdin=stdin)
    assert result.exit_code == 0, result.stderr
    return {score["metric"]: score["value"] for score in json.loads(result.stdout)["scores"]}


def fails(message: str, *arguments: str, stdin: bytes | None = None) -> None:
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("error: ")
    assert message in result.stderr


def test_evaluate_prints_scores_with_signatures(folder):
    result = run("evaluate", "output.de", "--reference", "test.de")
    report = evaluate(HYPOTHESES, [(line,) for line in REFERENCES])
    assert result.exit_code == 0
    for label, metric in (("BLEU", "bleu"), ("chrF", "chrf"), ("TER", "ter")):
        score = report[metric]
        assert f"{label:<7}{score.value:6.2f}  {score.signature}\n" in result.stdout


def test_json_output_equals_python_report(folder):
    report = evaluate(HYPOTHESES, [(line,) for line in REFERENCES], ["chrf++", "bleu"], tokenize="char")
    values = scores("output.de", "-r", "test.de", "--metric", "chrf++,bleu", "--tokenize", "char")
    assert values == {score.metric: score.value for score in report.scores}


def test_references_are_read_from_files_or_columns(folder):
    write("other.de", ["Ich will ein Auto kaufen.", "Das ist ein rotes Haus."])
    expected = scores("output.de", "-r", "test.de", "-r", "other.de")
    sources = ["I want to buy a car.", "The house is red."]
    rows = zip(sources, REFERENCES, Path("other.de").read_text().splitlines(), strict=True)
    write("test.tsv", ["\t".join(row) for row in rows])
    assert scores("output.de", "-r", "test.tsv") == expected
    assert scores("output.de", "-r", "test.tsv", "--columns", "2,3") == expected
    assert scores("output.de", "-r", "test.tsv", "--columns", "2-2") == scores("output.de", "-r", "test.de")
    assert expected["bleu"] == pytest.approx(100)


def test_tsv_rows_may_have_different_reference_counts(folder):
    write("test.tsv", ["I\teins\t\tzwei", "you\tdrei", "they\tvier\tfünf\tsechs"])
    assert read_references([Path("test.tsv")]) == [("eins", "zwei"), ("drei",), ("vier", "fünf", "sechs")]
    assert read_references([Path("test.tsv")], "1,2") == [("I", "eins"), ("you", "drei"), ("they", "vier")]


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst"])
def test_compressed_files_are_read_and_truncated_ones_rejected(folder, suffix):
    import zstandard

    pack = {".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard.compress}[suffix]
    Path("test.de" + suffix).write_bytes(pack(Path("test.de").read_bytes()))
    assert scores("output.de", "-r", "test.de" + suffix) == scores("output.de", "-r", "test.de")
    Path("cut.de" + suffix).write_bytes(Path("test.de" + suffix).read_bytes()[:-9])
    fails(f"cut.de{suffix}: the compressed file is trunc", "evaluate", "output.de", "-r", "cut.de" + suffix)


def test_evaluate_reads_standard_input(folder):
    piped = Path("output.de").read_bytes()
    assert scores("-", "-r", "test.de", stdin=piped) == scores("output.de", "-r", "test.de")


def test_only_line_feeds_end_lines(folder):
    odd = ["eine\u2028Zeile\x0bmit\x85Zeichen", "zwei\r"]
    write("odd.de", odd)
    assert scores("odd.de", "-r", "odd.de")["chrf"] == pytest.approx(100)
    assert len(read_references([Path("odd.de")])) == 2


def test_against_option_compares_systems(folder):
    write("old.de", ["Ich Auto.", "Haus ist."])
    result = run("evaluate", "output.de", "-r", "test.de", "--against", "old.de", "--samples", "50")
    assert result.exit_code == 0
    assert "output.de against old.de, paired bootstrap" in result.stdout
    assert result.stdout.count(" p = ") == 3
    document = json.loads(
        run(
            "evaluate", "output.de", "-r", "test.de", "--against", "old.de", "--samples", "50", "--json"
        ).stdout
    )
    assert [row["metric"] for row in document["comparison"]] == ["bleu", "chrf", "ter"]
    assert [row["value"] for row in document["comparison"]] == [row["value"] for row in document["scores"]]


def test_errors_explain_unreadable_or_mismatched_files(folder):
    write("short.de", REFERENCES[:1])
    write("empty.de", [])
    Path("binary").write_bytes(bytes(range(256)))
    Path("latin1.de").write_bytes("gut\nMädchen\n".encode("latin-1"))
    write("gap.tsv", ["a\tb", "c\t"])
    fails("no.de: no such file", "evaluate", "no.de", "-r", "test.de")
    fails(".: cannot be read: Is a directory", "evaluate", ".", "-r", "test.de")
    fails("output.de has 2 lines but short.de has 1", "evaluate", "output.de", "-r", "short.de")
    fails(
        "short.de has 1 lines but test.de has 2", "evaluate", "output.de", "-r", "test.de", "-r", "short.de"
    )
    fails(
        "short.de has 1 lines but test.de has 2",
        "evaluate", "output.de", "-r", "test.de", "--against", "short.de",
    )  # fmt: skip
    fails("there are no hypotheses", "evaluate", "empty.de", "-r", "empty.de")
    fails("binary: this is a binary file", "evaluate", "binary", "-r", "test.de")
    fails("latin1.de: line 2 is not UTF-8 at byte 2", "evaluate", "latin1.de", "-r", "test.de")
    fails("standard input: line 1 is not UTF-8", "evaluate", "-", "-r", "test.de", stdin=b"\xff\n")
    fails("gap.tsv: line 2 has no reference in columns 2-", "evaluate", "output.de", "-r", "gap.tsv")


@pytest.mark.parametrize("columns", ["0", "x", "2-x", "2 3", "", "3-2"])
def test_invalid_columns_are_refused(folder, columns):
    fails(f"columns {columns!r}", "evaluate", "output.de", "-r", "test.de", "--columns", columns)


def test_unknown_metric_and_tokeniser_are_refused(folder):
    fails("unknown metric 'blue'", "evaluate", "output.de", "-r", "test.de", "-m", "blue")
    fails("unknown tokeniser 'moses'", "evaluate", "output.de", "-r", "test.de", "--tokenize", "moses")


@pytest.mark.parametrize(
    "arguments", [["evaluate"], ["evaluate", "x"], ["evalute"], ["evaluate", "x", "--refs"]]
)
def test_usage_errors_exit_with_2(arguments):
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr


def stop_with(error: BaseException):
    def verb() -> None:
        raise error

    return report_errors()(verb)


UNWRITABLE_OUTPUT = "standard output cannot be written"


@pytest.mark.parametrize(
    ("error", "status", "stderr"),
    [
        (DataError("a.txt: line 3 is wrong"), 1, "error: a.txt: line 3 is wrong\n"),
        (PermissionError(13, "Permission denied", "/root/x"), 1, "error: /root/x: Permission denied\n"),
        (OSError(28, "No space left on device"), 1, f"error: {UNWRITABLE_OUTPUT}: No space left on device\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_errors_print_a_message_and_set_the_exit_status(error, status, stderr, capsys):
    with pytest.raises(typer.Exit) as caught:
        stop_with(error)()
    assert caught.value.exit_code == status
    assert capsys.readouterr().err == stderr


def test_unexpected_errors_are_raised_with_their_traceback():
    with pytest.raises(ZeroDivisionError):
        stop_with(ZeroDivisionError())()
    with pytest.raises(OSError, match="strange"):
        stop_with(OSError(22, "strange"))()


def test_closed_pipe_causes_no_error_message(folder):
    read, closed = os.pipe()
    os.close(read)
    result = subprocess.run(
        [sys.executable, "-m", "uwaga", "evaluate", "output.de", "-r", "test.de"],
        stdout=closed, stderr=subprocess.PIPE, check=False,
    )  # fmt: skip
    os.close(closed)
    assert result.stderr == b""
    assert result.returncode == 128 + signal.SIGPIPE


def test_ctrl_c_exits_with_130(folder):
    os.mkfifo("pipe")
    process = subprocess.Popen(
        [sys.executable, "-m", "uwaga", "evaluate", "pipe", "-r", "test.de"], stderr=subprocess.PIPE
    )
    writer = -1
    while writer < 0 and process.poll() is None:
        with contextlib.suppress(OSError):  # no reader yet
            writer = os.open("pipe", os.O_WRONLY | os.O_NONBLOCK)
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    os.close(writer)
    assert stderr == b""
    assert process.returncode == 130
