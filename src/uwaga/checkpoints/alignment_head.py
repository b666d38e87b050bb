"""The attention head of a model that aligns words best, stored in a small file next to the model.

``alignment_head.json`` holds an :class:`uwaga.settings.AlignmentHead`. Where a model is a file, or its folder
cannot be written, it lies elsewhere: beside the file, or among the user's caches, by the model's files.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from uwaga.checkpoints.storage.json_file import parse_stored, read_mapping
from uwaga.errors import DataError, ModelError
from uwaga.settings import AlignmentHead

HEAD_FILE = "alignment_head.json"


def read_head(place: Path) -> AlignmentHead | None:
    """Return the attention head that is stored for a model, None if there is none.

    Args:
        place: the model's folder or file.
    """
    beside = _beside(place)
    if beside.is_file():
        return _read(beside)
    if not _caches().is_dir():
        return None
    cached = _cached(place)
    return _read(cached) if cached.is_file() else None


def write_head(place: Path, head: AlignmentHead) -> Path:
    """Store an attention head with a model: next to it or, if that cannot be written, in the user's cache.

    Args:
        place: the model's folder or file.
        head: the attention head.

    Returns:
        the file.
    """
    path = _beside(place)
    try:
        return _write(path, head)
    except DataError:
        path = _cached(place)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return _write(path, head)
    except (OSError, DataError) as error:
        raise ModelError(f"{path}: the choice cannot be kept: {error}") from None


def head_bytes(head: AlignmentHead) -> bytes:
    """Return the contents of the file."""
    return (json.dumps(head.model_dump(exclude_none=True), ensure_ascii=False) + "\n").encode()


def _read(path: Path) -> AlignmentHead:
    return parse_stored(AlignmentHead, read_mapping(path), f"{path} (written by `uwaga align --choose`)")


def _write(path: Path, head: AlignmentHead) -> Path:
    from uwaga.files.atomic import new_file

    with new_file(path) as file:
        file.write(head_bytes(head))
    return path


def _beside(place: Path) -> Path:
    return place / HEAD_FILE if place.is_dir() else place.with_name(f"{place.name}.{HEAD_FILE}")


def _caches() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "uwaga" / "alignment"


def _cached(place: Path) -> Path:
    """Return the cache path of a model, which depends on its path and the sizes and times of its files."""
    files = sorted(place.iterdir()) if place.is_dir() else [place]
    told = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files if path.is_file()]
    key = hashlib.sha256(repr((str(place.resolve()), told)).encode()).hexdigest()[:32]
    return _caches() / f"{key}.json"
