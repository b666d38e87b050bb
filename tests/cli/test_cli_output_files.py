"""Output files of commands are written atomically, and compressed according to their suffix."""

import contextlib
import gzip
import lzma
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from uwaga.cli import lines
from uwaga.errors import DataError, MissingExtraError
from uwaga.files import atomic
from uwaga.files.atomic import new_file
from uwaga.files.lines import read_lines


@pytest.mark.parametrize("suffix", [".gz", ".zst", ".xz", ".GZ"])
def test_output_compression_is_chosen_by_the_file_suffix(tmp_path, suffix):
    if suffix == ".zst":
        pytest.importorskip("zstandard")
    path = tmp_path / f"x.de{suffix}"
    with lines.open_output(path) as write:
        for number in range(3000):
            write(f"Zeile {number} äöü\n")
    assert path.stat().st_size < 20_000
    assert [line.decode() for line in read_lines(path)] == [f"Zeile {number} äöü" for number in range(3000)]
    first = path.read_bytes()
    with lines.open_output(path) as write:
        write("".join(f"Zeile {number} äöü\n" for number in range(3000)))
    if suffix == ".xz":
        assert lzma.decompress(path.read_bytes()).count(b"\n") == 3000
    if suffix.lower() == ".gz":
        assert gzip.decompress(path.read_bytes()).count(b"\n") == 3000
        assert path.read_bytes()[:10] == first[:10]  # without time and name


def test_missing_zstandard_is_reported_before_output_is_written(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    expected_error = pytest.raises(MissingExtraError, match=r"x\.zst: writing zstd files needs zstandard")
    with expected_error, lines.open_output(tmp_path / "x.zst"):
        raise AssertionError("never reached")
    assert list(tmp_path.iterdir()) == []


def test_planted_symbolic_links_are_not_followed(tmp_path, monkeypatch):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    output = tmp_path / "out"
    (tmp_path / f".out.{os.getpid()}.part").symlink_to(victim)  # the name in earlier versions
    with new_file(output) as file:
        file.write(b"new")
    assert victim.read_text() == "precious"
    assert output.read_bytes() == b"new"
    monkeypatch.setattr(atomic.os, "urandom", bytes)
    (tmp_path / f".out.{'0' * 16}.part").symlink_to(victim)
    with pytest.raises(DataError, match="cannot be written"), new_file(output):
        raise AssertionError("never reached")
    assert victim.read_text() == "precious"


def test_overwriting_a_file_keeps_its_mode_and_symbolic_link(tmp_path):
    real = tmp_path / "real"
    real.write_text("old")
    real.chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    with new_file(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert real.read_bytes() == b"new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    umask = os.umask(0o027)
    try:
        with new_file(tmp_path / "fresh") as file:
            file.write(b"x")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "fresh").stat().st_mode) == 0o640
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(DataError, match="cannot be written"), new_file(tmp_path / "circle"):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["circle", "fresh", "link", "real"]


def test_failed_write_keeps_the_old_file(tmp_path):
    (tmp_path / "out").write_text("old")
    for error in (ZeroDivisionError, RuntimeError):
        with contextlib.suppress(error), new_file(tmp_path / "out") as file:
            file.write(b"half")
            raise error
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


def test_temporary_files_of_dead_processes_are_removed(tmp_path):
    leftover = tmp_path / f".out.{'a' * 16}.part"
    leftover.write_text("half")
    with new_file(tmp_path / "out") as first:
        first.write(b"first")
        assert not leftover.exists()
        with new_file(tmp_path / "out") as other:
            other.write(b"second")
        assert (tmp_path / "out").read_text() == "second"
    assert (tmp_path / "out").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_terminated_command_leaves_no_temporary_files(tmp_path):
    command = [sys.executable, "-m", "uwaga", "score", "--output", "out", "--threads", "1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as process:
        process.stdin.write(b"Hello.\tHallo.\n")
        process.stdin.flush()
        for _ in range(600):
            if any(Path(tmp_path).iterdir()):
                break
            time.sleep(0.05)
        assert any(tmp_path.iterdir())
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
        assert process.stderr.read() == b""
    assert list(tmp_path.iterdir()) == []
