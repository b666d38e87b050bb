"""Whole folders that appear in one step or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

from uwaga.errors import ModelError


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Make ``folder`` hold exactly ``files``, whatever happens on the way.

    The files are written and synced in a hidden sibling, which is then renamed. A folder that is already
    there is moved aside first and removed last, and put back if the rename fails; the caller decides
    whether it may be replaced. Between those two renames a ``kill -9`` leaves the old and the new folder
    complete under hidden names (``.NAME.*.old`` and ``.NAME.*.part``), nothing half-written.

    Raises:
        ModelError: the disk is full or refuses; nothing has changed then.
    """
    folder = folder.resolve()
    token = secrets.token_hex(4)
    fresh = folder.parent / f".{folder.name}.{token}.part"
    aside = folder.parent / f".{folder.name}.{token}.old"
    try:
        fresh.mkdir(parents=True)
        for name, content in files.items():
            _write(fresh / name, content)
        _sync(fresh)
        _swap(fresh, folder, aside)
        _sync(folder.parent)
    except OSError as error:
        raise ModelError(f"{folder}: cannot be written: {_reason(error)}; nothing was changed") from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        if folder.exists():
            shutil.rmtree(aside, ignore_errors=True)


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _swap(fresh: Path, folder: Path, aside: Path) -> None:
    if not folder.exists():
        fresh.rename(folder)
        return
    folder.rename(aside)
    try:
        fresh.rename(folder)
    except OSError:
        aside.rename(folder)
        raise


def _reason(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"no space left ({error.strerror}); free some or choose another folder"
    return error.strerror or str(error)
