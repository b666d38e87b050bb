"""One process a run: who is refused, and which locks count no more."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from toy import toy_settings, write_reversal_corpus

from uwaga.errors import RunInUseError
from uwaga.files.lock import LOCK, LockOwner, RunLock, is_stale, this_process
from uwaga.training import final_model
from uwaga.training.checkpoint import checkpoint_steps
from uwaga.training.final_model import average_run
from uwaga.training.train import train

HOLD = """
import sys
from pathlib import Path
from uwaga.files.lock import RunLock
with RunLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(run: Path) -> subprocess.Popen[bytes]:
    """Another process that holds the lock of a run until its input ends."""
    command = [sys.executable, "-c", HOLD, str(run)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    assert process.stdout is not None and process.stdout.readline() == b"held\n"
    return process


def leave(run: Path, owner: LockOwner) -> None:
    run.mkdir(parents=True, exist_ok=True)
    (run / LOCK).write_text(json.dumps(asdict(owner)))


def test_I11_1_the_second_is_refused_by_name_and_a_killed_owner_is_not_waited_for(tmp_path: Path) -> None:
    other = holder(tmp_path)
    try:
        with pytest.raises(RunInUseError) as found, RunLock(tmp_path):
            pass
        told = str(found.value)
        assert told.startswith(
            f"{tmp_path}: process {other.pid} on host {socket.gethostname()} trains here since 2"
        )
        assert "--set run=" in told
    finally:
        other.send_signal(signal.SIGKILL)
        other.communicate()
    assert (tmp_path / LOCK).exists()
    with RunLock(tmp_path):
        assert json.loads((tmp_path / LOCK).read_text())["pid"] == os.getpid()
    assert not (tmp_path / LOCK).exists()


def test_I11_1_training_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    write_reversal_corpus(tmp_path)
    settings = toy_settings(tmp_path, steps=2)
    settings.run.mkdir()
    other = holder(settings.run)
    try:
        with pytest.raises(RunInUseError):
            train(settings)
        assert [path.name for path in settings.run.iterdir()] == [LOCK]
    finally:
        other.communicate(timeout=30)
    assert train(settings) is not None
    assert not (settings.run / LOCK).exists()


def test_I11_1_two_in_one_process_exclude_each_other(tmp_path: Path) -> None:
    with RunLock(tmp_path):
        with pytest.raises(RunInUseError), RunLock(tmp_path):
            pass
        assert (tmp_path / LOCK).exists()
    with RunLock(tmp_path):
        pass


@pytest.mark.parametrize("content", ["", "{", '{"pid": 1}', "[]", "\x00" * 40])
def test_I11_1_a_lock_that_was_cut_short_is_taken(tmp_path: Path, content: str) -> None:
    (tmp_path / LOCK).write_text(content)
    with RunLock(tmp_path):
        pass


def test_I11_1_of_another_host_it_is_refused_with_the_way_out(tmp_path: Path) -> None:
    leave(tmp_path, LockOwner(123, "elsewhere", "2025-01-02 03:04:05 +0000", "another boot", "77"))
    with pytest.raises(RunInUseError, match=r"process 123 on host elsewhere .*since 2025-01-02") as found:
        RunLock(tmp_path).__enter__()
    assert f"delete {tmp_path / LOCK}" in str(found.value)
    (tmp_path / LOCK).unlink()
    with RunLock(tmp_path):
        pass


def test_I11_1_which_owners_have_ended() -> None:
    me = this_process()
    assert me.boot and me.born
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert is_stale(me, held=True)  # the kernel knows better than numbers
    # Where the file system knows no locks, process numbers and their starts must do.
    assert not is_stale(me, held=False)
    assert is_stale(replace(me, pid=gone.pid), held=False)
    assert is_stale(replace(me, born="1"), held=False)  # the number was given again
    assert is_stale(replace(me, boot="earlier"), held=False)  # the host was started again
    assert not is_stale(replace(me, host="elsewhere"), held=False)
    # Another container of this kernel: its host name differs, its lock does not.
    assert is_stale(replace(me, host="elsewhere"), held=True)
    assert not is_stale(replace(me, host="elsewhere", boot="other"), held=True)
    for held in (True, False):  # systems that tell neither boots nor starts
        assert not is_stale(replace(me, host="elsewhere", boot="", born=""), held)
    assert not is_stale(replace(me, boot="", born=""), held=False)
    assert is_stale(replace(me, pid=gone.pid, boot="", born=""), held=False)


def test_I11_1_average_works_while_a_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_reversal_corpus(tmp_path)
    settings = toy_settings(tmp_path, steps=15)
    train(settings)
    folder = settings.run / "checkpoints"
    mean = final_model.average_checkpoints

    def replaced(paths: list[Path]) -> dict[str, torch.Tensor]:
        paths[0].unlink(missing_ok=True)  # as the run does when it has written a newer one
        monkeypatch.undo()
        return mean(paths)

    monkeypatch.setattr(final_model, "average_checkpoints", replaced)
    with RunLock(settings.run):
        before = sorted(settings.run.iterdir())
        assert average_run(settings.run, tmp_path / "mean", 2) == [5, 15]
        assert sorted(settings.run.iterdir()) == before
    assert checkpoint_steps(folder) == [5, 15]
