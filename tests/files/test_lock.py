"""Locks of training runs: exclusion of other processes, and stale locks."""

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
from uwaga.files.lock import LOCK_NAME, LockOwner, RunLock, current_owner, is_stale
from uwaga.training import final_model
from uwaga.training.checkpoint import checkpoint_steps
from uwaga.training.final_model import average_run
from uwaga.training.train import train

LOCK_SCRIPT = """
import sys
from pathlib import Path
from uwaga.files.lock import RunLock
with RunLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def start_lock_holder(run: Path) -> subprocess.Popen[bytes]:
    """Start a process that holds the lock of a run until its input ends."""
    command = [sys.executable, "-c", LOCK_SCRIPT, str(run)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    assert process.stdout is not None and process.stdout.readline() == b"held\n"
    return process


def write_lock(run: Path, owner: LockOwner) -> None:
    run.mkdir(parents=True, exist_ok=True)
    (run / LOCK_NAME).write_text(json.dumps(asdict(owner)))


def test_lock_excludes_a_second_process_until_its_owner_ends(tmp_path: Path) -> None:
    other = start_lock_holder(tmp_path)
    try:
        with pytest.raises(RunInUseError) as raised, RunLock(tmp_path):
            pass
        message = str(raised.value)
        assert message.startswith(
            f"{tmp_path}: process {other.pid} on host {socket.gethostname()} has been training here since 2"
        )
        assert "--set run=" in message
    finally:
        other.send_signal(signal.SIGKILL)
        other.communicate()
    assert (tmp_path / LOCK_NAME).exists()
    with RunLock(tmp_path):
        assert json.loads((tmp_path / LOCK_NAME).read_text())["pid"] == os.getpid()
    assert not (tmp_path / LOCK_NAME).exists()


def test_training_in_a_locked_run_folder_is_rejected(tmp_path: Path) -> None:
    write_reversal_corpus(tmp_path)
    settings = toy_settings(tmp_path, steps=2)
    settings.run.mkdir()
    other = start_lock_holder(settings.run)
    try:
        with pytest.raises(RunInUseError):
            train(settings)
        assert [path.name for path in settings.run.iterdir()] == [LOCK_NAME]
    finally:
        other.communicate(timeout=30)
    assert train(settings) is not None
    assert not (settings.run / LOCK_NAME).exists()


def test_locks_of_one_process_exclude_each_other(tmp_path: Path) -> None:
    with RunLock(tmp_path):
        with pytest.raises(RunInUseError), RunLock(tmp_path):
            pass
        assert (tmp_path / LOCK_NAME).exists()
    with RunLock(tmp_path):
        pass


@pytest.mark.parametrize("content", ["", "{", '{"pid": 1}', "[]", "\x00" * 40])
def test_damaged_lock_file_is_treated_as_stale(tmp_path: Path, content: str) -> None:
    (tmp_path / LOCK_NAME).write_text(content)
    with RunLock(tmp_path):
        pass


def test_lock_of_another_host_is_respected(tmp_path: Path) -> None:
    write_lock(tmp_path, LockOwner(123, "elsewhere", "2025-01-02 03:04:05 +0000", "another boot", "77"))
    with pytest.raises(RunInUseError, match=r"process 123 on host elsewhere .*since 2025-01-02") as raised:
        RunLock(tmp_path).__enter__()
    assert f"delete {tmp_path / LOCK_NAME}" in str(raised.value)
    (tmp_path / LOCK_NAME).unlink()
    with RunLock(tmp_path):
        pass


def test_lock_of_an_ended_process_is_stale() -> None:
    current = current_owner()
    assert current.boot and current.born
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert is_stale(current, is_locked=True)  # the kernel's lock takes precedence over process ids
    # Without locks in the file system, process ids and start times are compared.
    assert not is_stale(current, is_locked=False)
    assert is_stale(replace(current, pid=ended.pid), is_locked=False)
    assert is_stale(replace(current, born="1"), is_locked=False)  # the process id was reused
    assert is_stale(replace(current, boot="earlier"), is_locked=False)  # the host was rebooted
    assert not is_stale(replace(current, host="elsewhere"), is_locked=False)
    # Another container of this kernel: its host name differs, its lock does not.
    assert is_stale(replace(current, host="elsewhere"), is_locked=True)
    assert not is_stale(replace(current, host="elsewhere", boot="other"), is_locked=True)
    for locked in (True, False):  # systems without boot ids and start times
        assert not is_stale(replace(current, host="elsewhere", boot="", born=""), locked)
    assert not is_stale(replace(current, boot="", born=""), is_locked=False)
    assert is_stale(replace(current, pid=ended.pid, boot="", born=""), is_locked=False)


def test_checkpoints_can_be_averaged_during_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_reversal_corpus(tmp_path)
    settings = toy_settings(tmp_path, steps=15)
    train(settings)
    folder = settings.run / "checkpoints"
    mean = final_model.average_checkpoints

    def average_after_removal(paths: list[Path]) -> dict[str, torch.Tensor]:
        paths[0].unlink(missing_ok=True)  # as the run does after writing a newer one
        monkeypatch.undo()
        return mean(paths)

    monkeypatch.setattr(final_model, "average_checkpoints", average_after_removal)
    with RunLock(settings.run):
        before = sorted(settings.run.iterdir())
        assert average_run(settings.run, tmp_path / "mean", 2) == [5, 15]
        assert sorted(settings.run.iterdir()) == before
    assert checkpoint_steps(folder) == [5, 15]
