"""`uwaga translate` with failing, unusual or interrupted lines: output lines stay aligned with the input."""

import json
import signal
import subprocess
import sys
import time
from functools import partial
from itertools import chain

import pytest
import tiny_models as tiny
from command_line import run_uwaga

import uwaga
from uwaga.cli import lines
from uwaga.cli.translate import DEMONSTRATION
from uwaga.files.lines import open_bytes

JOINT = tiny.tokeniser()
OVERLONG_SENTENCE = "house " * 60
TEXTS = ["I want to buy a car.", OVERLONG_SENTENCE.strip(), "Where is the station?"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("notes") / "model"
    model = tiny.transformer(tiny.TINY, JOINT, JOINT)
    decoding = tiny.DECODING.model_copy(update={"max_length": 8})
    tiny.save(folder, model, JOINT, decoding=decoding)
    return folder


run = partial(run_uwaga, "translate")


def texts(folder, sources):
    return [translation.text for translation in uwaga.load(folder, device="cpu").translate(sources)]


@pytest.mark.parametrize("stream", [[], ["--stream"]])
@pytest.mark.parametrize("on_error", ["skip", "copy"])
def test_untranslatable_lines_are_skipped_or_copied(folder, on_error, stream, tmp_path):
    beam = [] if stream else ["--beam", "1"]
    arguments = ["-m", folder, "--split", "never", "--on-error", on_error, *beam, *stream]
    result = run(*arguments, "-o", tmp_path / "out", stdin="\n".join(TEXTS * 2), code=1)
    output = (tmp_path / "out").read_text().split("\n")[:-1]
    translations = [result.text for result in uwaga.load(folder, device="cpu").translate(TEXTS[::2], beam=1)]
    replacement = "" if on_error == "skip" else TEXTS[1]
    assert output == [translations[0], replacement, translations[1]] * 2
    errors = [line for line in result.stderr.splitlines() if line.startswith("error:")]
    assert [line[:13] for line in errors[:2]] == ["error: line 2", "error: line 5"]
    assert errors[2:] == ["error: 2 lines could not be translated"]


def test_overlong_sentence_is_split_with_a_warning(folder):
    result = run("-m", folder, stdin="\n".join(TEXTS))
    assert "warning: line 2: the sentence 'house house" in result.stderr
    assert result.stdout.count("\n") == 3
    document = json.loads(run("-m", folder, "--json", OVERLONG_SENTENCE).stdout)
    assert "parts" in document["warnings"][0]


def test_warnings_are_printed_for_at_most_three_lines(folder):
    result = run("-m", folder, stdin="Привет\n" * 7)
    assert result.stderr.count("text in the Cyrillic script") == 3
    assert "warning: and 4 more such lines" in result.stderr
    assert DEMONSTRATION not in result.stderr
    assert "text in the Cyrillic script" in run("-m", folder, "--stream", "Привет").stderr


@pytest.mark.parametrize("arguments", [[], ["--model", "bundled"], ["--stream"]])
def test_demonstration_model_note_is_printed_only_for_unusual_texts(arguments):
    unusual = "Привет мир\n" * 5
    assert run(*arguments, stdin=unusual).stderr.count(DEMONSTRATION) == 1
    assert run(*arguments, stdin="I want to buy a car.\nWhere is Tom?\n").stderr == ""


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def start_translation(folder, tmp_path, sources, *arguments):
    """Start a run that reads a pipe, and wait until it has translated all lines so far."""
    command = [sys.executable, "-m", "uwaga", "translate", "-m", folder, "--device", "cpu", *arguments]
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([*map(str, command)], cwd=tmp_path, **pipes)
    process.stdin.write("".join(f"{line}\n" for line in sources).encode())
    process.stdin.flush()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        journals = [path.read_text().splitlines()[1:] for path in tmp_path.glob(".*.journal")]
        if sum(len(json.loads(line.partition(" ")[2])) for line in chain(*journals)) == len(sources):
            return process
        time.sleep(0.02)
    raise AssertionError(process.communicate())


SOURCES = [f"I want {number} cars." for number in range(6)]


@pytest.mark.parametrize(
    ("name", "options", "signal_number"),
    [
        pytest.param("out.de", [], signal.SIGINT, marks=pytest.mark.slow),
        pytest.param("out.gz", [], signal.SIGTERM, marks=pytest.mark.slow),
        ("out.de", ["--stream"], signal.SIGKILL),
    ],
)
def test_resumed_command_gives_the_output_of_an_uninterrupted_one(
    folder, tmp_path, name, options, signal_number
):
    options = [*options, "--beam", "1", "-o", tmp_path / name]
    links = [] if options[0] == "--stream" else ["--alignments", tmp_path / "links"]
    process = start_translation(folder, tmp_path, SOURCES[:3], *options, *links)
    process.send_signal(signal_number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[signal_number]
    assert signal_number == signal.SIGKILL or "kept for --resume" in errors.decode()
    assert not (tmp_path / name).exists()
    run("-m", folder, "--device", "cpu", *options, *links, "--resume", stdin="\n".join(SOURCES))
    assert names(tmp_path) == sorted([name, *(["links"] if links else [])])
    expected = [tmp_path / "whole", *([tmp_path / "all links"] if links else [])]
    uninterrupted = [*options[:-1], expected[0], *(["--alignments", expected[1]] if links else [])]
    run("-m", folder, "--device", "cpu", *uninterrupted, stdin="\n".join(SOURCES))
    with open_bytes(tmp_path / name) as file:
        assert file.read() == expected[0].read_bytes()
    if links:
        assert (tmp_path / "links").read_bytes() == expected[1].read_bytes()


def test_resuming_with_other_input_or_options_is_refused(folder, tmp_path):
    out, arguments = tmp_path / "out", ["-m", folder, "-o", tmp_path / "out"]
    failing = [*SOURCES, OVERLONG_SENTENCE.strip()]
    run(*arguments, "--split", "never", "--format", "markdown", stdin="\n".join(failing), code=1)
    assert names(tmp_path) == []  # nothing was finished
    process = start_translation(folder, tmp_path, SOURCES[:3], "-o", out)
    with pytest.raises(subprocess.CalledProcessError):
        subprocess.run(
            [sys.executable, "-m", "uwaga", "translate", "-o", out, "Hi."], check=True, capture_output=True
        )
    process.kill()
    process.communicate()
    arguments += ["--device", "cpu"]
    other = [SOURCES[0], "Where is Tom?", *SOURCES[2:]]
    assert "line 2" in run(*arguments, "--resume", stdin="\n".join(other), code=1).stderr
    journal = (tmp_path / ".out.journal").read_bytes()
    assert (
        "more lines"
        in run(*arguments, "--resume", "Hi." if journal.count(b"[") < 2 else SOURCES[0], code=1).stderr
    )
    assert "beam" in run(*arguments, "--resume", "--beam", "1", stdin="\n".join(SOURCES), code=1).stderr
    assert (tmp_path / ".out.journal").read_bytes() == journal
    assert "without --resume" in run(*arguments, "Hi.").stderr
    assert names(tmp_path) == ["out"]
    assert "needs the --output" in run("-m", folder, "--resume", "Hi.", code=1).stderr


def test_chunk_size_is_adjusted_to_about_one_second_per_chunk(tmp_path):
    (tmp_path / "in").write_text("x\n" * 5000)
    chunk_size = lines.ChunkSize()
    sizes = []
    for chunk in lines.file_chunks(tmp_path / "in", chunk_size):
        sizes.append(len(chunk.lines))
        chunk_size.adjust(len(chunk.lines) / 200)
    assert sizes[0] == lines.MIN_CHUNK_LINES
    assert max(sizes) <= lines.CHUNK_LINES
    assert sum(sizes) == 5000
    steady = sizes[5:-1]
    assert all(0.4 < count / 200 < 1.6 for count in steady)
