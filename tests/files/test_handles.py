"""Locks of open files, with a fake of Windows' functions and on systems without file locks."""

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from uwaga.files import handles
from uwaga.files.lock import file_lock


@pytest.fixture
def handle(tmp_path: Path) -> Iterator[int]:
    number = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.write(number, b"content")
    yield number
    os.close(number)


class FakeMsvcrt:
    """A fake of ``msvcrt``, which locks bytes from a handle's position."""

    LK_NBLCK, LK_UNLCK = 2, 0

    def __init__(self) -> None:
        self.held: set[range] = set()

    def locking(self, handle: int, kind: int, length: int) -> None:
        start = os.lseek(handle, 0, os.SEEK_CUR)
        requested = range(start, start + length)
        if kind == self.LK_UNLCK:
            self.held.remove(requested)
        elif any(
            max(requested.start, locked.start) < min(requested.stop, locked.stop) for locked in self.held
        ):
            raise PermissionError(13, "locked")
        else:
            self.held.add(requested)


def test_lock_on_windows_covers_bytes_beyond_the_content(handle, monkeypatch) -> None:
    windows = FakeMsvcrt()
    monkeypatch.setattr(handles, "fcntl", None)
    monkeypatch.setattr(handles, "msvcrt", windows)
    assert handles.try_lock(handle) is True
    assert handles.try_lock(handle) is False
    assert os.lseek(handle, 0, os.SEEK_CUR) == len(b"content")
    windows.held.clear()
    with handles.range_lock(handle, 64, 32):
        assert windows.held == {range(handles.FIRST_LOCK_BYTE + 64, handles.FIRST_LOCK_BYTE + 96)}
        monkeypatch.setattr(handles, "time", SimpleNamespace(sleep=lambda _: windows.held.clear()))
        with handles.range_lock(handle, 90, 6):  # waits until the other bytes are free
            assert windows.held == {range(handles.FIRST_LOCK_BYTE + 90, handles.FIRST_LOCK_BYTE + 96)}
        windows.held.add(range(handles.FIRST_LOCK_BYTE + 64, handles.FIRST_LOCK_BYTE + 96))
    assert not windows.held


def test_systems_without_file_locks_are_supported(handle, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(handles, "fcntl", None)
    assert handles.try_lock(handle) is None
    with handles.range_lock(handle, 0, 8), file_lock(tmp_path / "lock"), file_lock(tmp_path / "lock"):
        pass
