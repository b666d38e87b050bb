"""A standard output that is closed or full: one clear line and an exit status, whatever the verb."""

import os
import shutil
import subprocess
import sys

import pytest
import tiny_models as tiny

from uwaga.checkpoints.formats.uwaga.folder import save_model

LINES = "".join(f"I want to buy {number} cars.\n" for number in range(40))
VERBS = {
    "translate": ["translate", "Hi."],
    "stream": ["translate", "--stream", "Hi."],
    "score": ["score", "pairs.tsv"],
    "evaluate": ["evaluate", "hyp", "-r", "ref"],
    "attend": ["attend", "Hi."],
    "lengths": ["lengths", "-s", "hyp", "-r", "ref", "--system", "hyp", "--samples", "0", "--buckets", "1"],
    "info": ["info", "bundled"],
    "info-json": ["info", "bundled", "--json"],
    "convert": ["convert", "--int8", "model", "int8"],
    "export": ["convert", "--to", "marian", "model", "marian"],
    "shortlist": ["shortlist", "model", "hyp", "ref", "-o", "list"],
    "version": ["--version"],
    "help": ["--help"],
    "verb-help": ["translate", "--help"],
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("output")
    tokeniser = tiny.tokeniser()
    model = tiny.transformer(tiny.TINY, tokeniser, tokeniser)
    save_model(
        place / "model", model, tiny.TINY, tiny.DECODING, tokeniser, tokeniser, ("en", "de"), "# Card\n"
    )
    (place / "hyp").write_text(LINES)
    (place / "ref").write_text(LINES)
    (place / "pairs.tsv").write_text("Hi.\tHallo.\n")
    return place


def call(place, arguments, redirection):
    command = ["sh", "-c", f'"$0" -m uwaga "$@" {redirection}', sys.executable, *arguments]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, timeout=300)


@pytest.mark.slow
@pytest.mark.parametrize("verb", sorted(VERBS))
@pytest.mark.parametrize("redirection", [">&-", "> /dev/full"])
def test_I11_14_a_closed_or_full_output_is_one_clear_line(place, verb, redirection):
    for made in ("int8", "marian"):
        shutil.rmtree(place / made, ignore_errors=True)
    done = call(place, VERBS[verb], redirection)
    errors = done.stderr.decode()
    assert "Traceback" not in errors
    assert "Exception ignored" not in errors
    assert done.returncode == 1, errors
    said = [line for line in errors.splitlines() if "error" in line]
    assert len(said) == 1, errors
    assert "standard output cannot be written" in said[0]


@pytest.mark.parametrize("redirection", [">&-", "> /dev/full"])
def test_I11_14_who_writes_nothing_there_does_not_mind(place, redirection):
    done = call(place, ["translate", "Hi.", "-o", "out"], redirection)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (place / "out").read_text().strip()
