"""Reading of JSON files with the settings of models."""

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
"""Maximum size of a configuration in bytes; some contain long lists of banned words."""


def read_mapping(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file."""
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
        raise ModelError(f"{path}: not a JSON object")
    return values


def read_optional(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file, or an empty dictionary if the file does not exist."""
    return read_mapping(path) if path.exists() else {}


def parse_stored(kind: type[Group], values: object, location: str) -> Group:
    """Return the checked settings of a model's file.

    This is :func:`uwaga.settings.parse`, but raises ModelError instead of SettingsError.
    """
    try:
        return parse(kind, values, location)
    except SettingsError as error:
        raise ModelError(str(error)) from None


def peek(path: Path) -> Mapping[str, Any]:
    """Return the JSON object in a file, or an empty dictionary if the file is missing or invalid.

    This is used to detect formats; errors are reported by the reader of the format.
    """
    try:
        return read_mapping(path)
    except ModelError:
        return {}
