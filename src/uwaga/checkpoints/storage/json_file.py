"""JSON files of a model's settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from uwaga.errors import ModelError, SettingsError
from uwaga.files.regular import read_regular
from uwaga.settings import StrictModel, parse
from uwaga.tokenizers.pretrained_files import check_surrogates

Group = TypeVar("Group", bound=StrictModel)
MAX_BYTES = 1 << 24
"""Maximum bytes of a configuration; some list all banned words."""


def read_mapping(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file."""
    try:
        content = read_regular(path, MAX_BYTES)
        values = json.loads(content.decode("utf-8"))
        check_surrogates(content, values)
    except OSError as error:
        raise ModelError(
            f"{path}: cannot be read: {error.strerror or error}; fetch the model again"
        ) from None
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: not valid JSON: {error}; fetch the model again") from None
    if not isinstance(values, dict):
        raise ModelError(f"{path}: not a mapping of settings")
    return values


def read_optional(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file; return an empty one if the file does not exist."""
    return read_mapping(path) if path.exists() else {}


def parse_stored(kind: type[Group], values: object, location: str) -> Group:
    """Check the settings in a model's file; like :func:`uwaga.settings.parse`, but raises ModelError."""
    try:
        return parse(kind, values, location)
    except SettingsError as error:
        raise ModelError(str(error)) from None


def peek(path: Path) -> Mapping[str, Any]:
    """Read a JSON object from a file; return an empty one on errors, which the format's reader reports."""
    try:
        return read_mapping(path)
    except ModelError:
        return {}
