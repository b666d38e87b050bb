"""Closed or full standard output: all commands print a one-line error and exit with status 1."""

import os
import shutil
import subprocess
import sys

import pytest
import tiny_models as tiny

LINES = "".join(f"I want to buy {number} cars.\n" for number in range(40))
VERBS = {
    "translate": ["translate", "Hi."], "stream": ["translate", "--stream", "Hi."],
    "score": ["score", "pairs.tsv"], "evaluate": ["evaluate", "hyp", "-r", "ref"],
    "attend": ["attend", "Hi."],
    "lengths": ["lengths", "-s", "hyp", "-r", "ref", "--system", "hyp", "--samples", "0", "--buckets", "1"],
    "info": ["info", "bundled"], "info-json": ["info", "bundled", "--json"],
    "convert": ["convert", "--int8", "model", "int8"],
    "export": ["convert", "--to", "marian", "model", "marian"],
    "shortlist": ["shortlist", "model", "hyp", "ref", "-o", "list"], "version": ["--version"],
    "help": ["--help"], "verb-help": ["translate", "--help"],
}  # fmt: skip


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("output")
    tokeniser = tiny.tokeniser()
    model = tiny.transformer(tiny.TINY, tokeniser, tokeniser)
    tiny.save(folder / "model", model, tokeniser)
    (folder / "hyp").write_text(LINES)
    (folder / "ref").write_text(LINES)
    (folder / "pairs.tsv").write_text("Hi.\tHallo.\n")
    return folder


def call(folder, arguments, redirection):
    command = ["sh", "-c", f'"$0" -m uwaga "$@" {redirection}', sys.executable, *arguments]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=300)


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize("verb", sorted(VERBS))
@pytest.mark.parametrize("redirection", [">&-", "> /dev/full"])
def test_unwritable_output_gives_a_one_line_error(workspace, verb, redirection):
    for name in ("int8", "marian"):
        shutil.rmtree(workspace / name, ignore_errors=True)
    result = call(workspace, VERBS[verb], redirection)
    errors = result.stderr.decode()
    assert "Traceback" not in errors
    assert "Exception ignored" not in errors
    assert result.returncode == 1, errors
    error_lines = [line for line in errors.splitlines() if "error" in line]
    assert len(error_lines) == 1, errors
    assert "standard output cannot be written" in error_lines[0]


@pytest.mark.parametrize("redirection", [">&-", pytest.param("> /dev/full", marks=pytest.mark.slow)])
def test_unwritable_standard_output_is_ignored_if_unused(workspace, redirection):
    result = call(workspace, ["translate", "Hi.", "-o", "out"], redirection)
    assert (result.returncode, result.stderr) == (0, b"")
    assert (workspace / "out").read_text().strip()
