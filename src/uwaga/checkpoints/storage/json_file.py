"""JSON files that hold a mapping: a model's settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from uwaga.errors import ModelError, SettingsError
from uwaga.files.regular import read_regular
from uwaga.settings import StrictModel, parse
from uwaga.tokenizers.pretrained_files import refuse_surrogates

Group = TypeVar("Group", bound=StrictModel)
LARGEST = 1 << 24
"""Bytes of a configuration; some list every word they ban."""


def read_mapping(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file."""
    try:
        content = read_regular(path, LARGEST)
        values = json.loads(content.decode("utf-8"))
        refuse_surrogates(content, values)
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


def parse_stored(kind: type[Group], values: object, where: str) -> Group:
    """Check the settings in a model's file, as :func:`uwaga.settings.parsing` does."""
    try:
        return parse(kind, values, where)
    except SettingsError as error:
        raise ModelError(str(error)) from None


def peek(path: Path) -> Mapping[str, Any]:
    """Read a JSON object from a file; return an empty one if it cannot be read. The reader reports why."""
    try:
        return read_mapping(path)
    except ModelError:
        return {}
