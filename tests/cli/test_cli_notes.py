"""`uwaga translate` where lines fail, look strange or are interrupted: all lines stay aligned."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import tiny_models as tiny
from typer.testing import CliRunner

import uwaga
from uwaga.checkpoints.formats.uwaga.folder import save_model
from uwaga.cli import lines
from uwaga.cli.main import app
from uwaga.cli.translate import DEMONSTRATION
from uwaga.files.lines import open_bytes

JOINT = tiny.tokeniser()
LONG = "house " * 60
TEXTS = ["I want to buy a car.", LONG.strip(), "Where is the station?"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("notes") / "model"
    model = tiny.transformer(tiny.TINY, JOINT, JOINT)
    decoding = tiny.DECODING.model_copy(update={"max_length": 8})
    save_model(folder, model, tiny.TINY, decoding, JOINT, JOINT, ("en", "de"), "card")
    return folder


def run(*arguments, stdin=None, code=0):
    result = CliRunner().invoke(app, ["translate", *map(str, arguments)], input=stdin)
    assert result.exit_code == code, result.output
    return result


def texts(folder, sources):
    return [one.text for one in uwaga.load(folder, device="cpu").translate(sources)]


@pytest.mark.parametrize("stream", [[], ["--stream"]])
@pytest.mark.parametrize("how", ["skip", "copy"])
def test_I11_3_a_line_that_fails_is_skipped_or_copied_and_reported(folder, how, stream, tmp_path):
    beam = [] if stream else ["--beam", "1"]
    arguments = ["-m", folder, "--split", "never", "--on-error", how, *beam, *stream]
    result = run(*arguments, "-o", tmp_path / "out", stdin="\n".join(TEXTS * 2), code=1)
    found = (tmp_path / "out").read_text().split("\n")[:-1]
    good = [one.text for one in uwaga.load(folder, device="cpu").translate(TEXTS[::2], beam=1)]
    bad = "" if how == "skip" else TEXTS[1]
    assert found == [good[0], bad, good[1]] * 2
    errors = [line for line in result.stderr.splitlines() if line.startswith("error:")]
    assert [line[:13] for line in errors[:2]] == ["error: line 2", "error: line 5"]
    assert errors[2:] == ["error: 2 lines could not be translated"]


def test_I11_3_a_cut_sentence_is_named_and_no_error(folder):
    result = run("-m", folder, stdin="\n".join(TEXTS))
    assert "warning: line 2: the sentence 'house house" in result.stderr
    assert result.stdout.count("\n") == 3
    document = json.loads(run("-m", folder, "--json", LONG).stdout)
    assert "parts" in document["warnings"][0]


def test_I11_7_three_lines_are_named_and_the_others_counted(folder):
    result = run("-m", folder, stdin="Привет\n" * 7)
    assert result.stderr.count("letters of Cyrillic") == 3
    assert "warning: and 4 more such lines" in result.stderr
    assert DEMONSTRATION not in result.stderr
    assert "letters of Cyrillic" in run("-m", folder, "--stream", "Привет").stderr


@pytest.mark.parametrize("arguments", [[], ["--model", "bundled"], ["--stream"]])
def test_I11_24_the_bundled_model_says_what_it_is_of_strange_texts_only(arguments):
    strange = "Привет мир\n" * 5
    assert run(*arguments, stdin=strange).stderr.count(DEMONSTRATION) == 1
    assert run(*arguments, stdin="I want to buy a car.\nWhere is Tom?\n").stderr == ""


def test_I11_21_going_on_gives_the_whole(folder, tmp_path):
    sources = [f"I want {number} cars." for number in range(40)]
    wanted = "".join(line + "\n" for line in texts(folder, sources))
    (tmp_path / "in").write_text("\n".join(sources) + "\n")
    for name, written in (("out", wanted[: wanted.index("\n", 150) + 4]), ("none", None)):
        if written is not None:
            (tmp_path / f"{name}.part").write_text(written)  # its last line is not whole
        arguments = ["-m", folder, "-i", tmp_path / "in", "-o", tmp_path / name]
        run(*arguments, "--resume")
        assert (tmp_path / name).read_text() == wanted
        assert not (tmp_path / f"{name}.part").exists()
    (tmp_path / "out.part").write_text("x\n" * 41)
    result = run("-m", folder, "-i", tmp_path / "in", "-o", tmp_path / "out", "--resume", code=1)
    assert "another input" in result.stderr
    assert (tmp_path / "out.part").exists()
    assert "with --resume" in run("-m", folder, "-o", tmp_path / "out", "Hi.").stderr
    assert "needs the --output" in run("-m", folder, "--resume", "Hi.", code=1).stderr


@pytest.mark.parametrize("name", ["out.de", "out.de.gz"])
def test_I11_21_ctrl_c_keeps_the_lines_done(folder, tmp_path, name):
    command = [sys.executable, "-m", "uwaga", "translate", "-m", folder, "--device", "cpu", "-o", name]
    sources = [f"I want {number} cars." for number in range(6)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as process:
        process.stdin.write("".join(f"{line}\n" for line in sources[:3]).encode())
        process.stdin.flush()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not any(path.suffix == ".part" for path in tmp_path.iterdir()):
            time.sleep(0.05)
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        said = process.stderr.read().decode()
    assert f"{name}.part contains the finished lines; add --resume" in said
    assert os.listdir(tmp_path) == [f"{name}.part"]  # noqa: PTH208
    run("-m", folder, "-o", tmp_path / name, "--resume", stdin="\n".join(sources))
    with open_bytes(tmp_path / name) as file:
        assert file.read().decode().split("\n")[:-1] == texts(folder, sources)


def test_I11_21_chunks_take_about_a_second(tmp_path):
    (tmp_path / "in").write_text("x\n" * 5000)
    pace = lines.Pace()
    taken = []
    for chunk in lines.file_chunks(tmp_path / "in", pace):
        taken.append(len(chunk.lines))
        pace.took(len(chunk.lines) / 200)
    assert taken[0] == lines.FEWEST
    assert max(taken) <= lines.CHUNK
    assert sum(taken) == 5000
    steady = taken[5:-1]
    assert all(0.4 < count / 200 < 1.6 for count in steady)
