"""The attention head that aligns words best, stored in a small file next to the model.

``alignment_head.json`` contains a :class:`uwaga.settings.AlignmentHead`. The file is stored in the
model's folder, or next to a model that is a single file, or in the user's cache if neither is writable.
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


def read_head(path: Path) -> AlignmentHead | None:
    """Return the attention head stored for a model, or None if there is none."""
    adjacent = _adjacent_path(path)
    if adjacent.is_file():
        return _read(adjacent)
    if not _cache_folder().is_dir():
        return None
    cached_path = _cache_path(path)
    return _read(cached_path) if cached_path.is_file() else None


def write_head(path: Path, head: AlignmentHead) -> Path:
    """Store an attention head next to a model or, if the location is not writable, in the user's cache.

    Returns:
        the path of the file that was written.
    """
    head_path = _adjacent_path(path)
    try:
        return _write(head_path, head)
    except DataError:
        head_path = _cache_path(path)
    try:
        head_path.parent.mkdir(parents=True, exist_ok=True)
        return _write(head_path, head)
    except (OSError, DataError) as error:
        raise ModelError(f"{head_path}: the attention head cannot be stored: {error}") from None


def head_bytes(head: AlignmentHead) -> bytes:
    """Return the contents of ``alignment_head.json`` for an attention head."""
    return (json.dumps(head.model_dump(exclude_none=True), ensure_ascii=False) + "\n").encode()


def _read(path: Path) -> AlignmentHead:
    return parse_stored(AlignmentHead, read_mapping(path), f"{path} (written by `uwaga align --choose`)")


def _write(path: Path, head: AlignmentHead) -> Path:
    from uwaga.files.atomic import new_file

    with new_file(path) as file:
        file.write(head_bytes(head))
    return path


def _adjacent_path(path: Path) -> Path:
    return path / HEAD_FILE if path.is_dir() else path.with_name(f"{path.name}.{HEAD_FILE}")


def _cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "uwaga" / "alignment"


def _cache_path(model: Path) -> Path:
    """Return the cache path for a model, derived from its path, file sizes and modification times."""
    files = sorted(model.iterdir()) if model.is_dir() else [model]
    stats = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files if path.is_file()]
    key = hashlib.sha256(repr((str(model.resolve()), stats)).encode()).hexdigest()[:32]
    return _cache_folder() / f"{key}.json"
