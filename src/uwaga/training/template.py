"""A commented settings file, generated from the settings classes."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from uwaga.errors import SettingsError
from uwaga.files.lines import COMPRESSED_SUFFIXES
from uwaga.settings import Settings, StrictModel, change_setting, parse, preset_name, preset_training

_EXAMPLE_SETTINGS = {
    "run": "runs/my-model",
    "data": {"train": ["train.src.txt", "train.tgt.txt"], "dev": ["dev.src.txt", "dev.tgt.txt"]},
}
_FIRST_SETTINGS = ("family", "encoder_layers", "decoder_layers")
"""Names of the settings that are listed first in their group."""
_PAIR_BYTES, _COMPRESSION_RATIO = 130, 3
"""Average number of bytes of a sentence pair, and average compression ratio of a file of text."""
_PRESET_MAX_PAIRS = {"transformer-tiny": 100_000, "transformer-small": 1_000_000}
"""Number of pairs, for each preset, from which the next larger preset is chosen."""
_HEADER = """\
# Settings of a training run: uwaga train THIS-FILE
# It lists every setting with {values}. Delete those that you do not change; an unknown key is an error.
# Paths are relative to the working directory of the command.
"""


def preset_for(files: Sequence[Path]) -> tuple[str, int]:
    """Return the preset for a corpus and its approximate number of pairs, estimated from the file sizes.

    Args:
        files: a TSV file, or two aligned files.
    """
    size = sum(
        file.stat().st_size * (_COMPRESSION_RATIO if file.suffix in COMPRESSED_SUFFIXES else 1)
        for file in files
    )
    pairs = size // _PAIR_BYTES
    presets = [name for name, limit in _PRESET_MAX_PAIRS.items() if pairs < limit]
    return (presets or ["transformer"])[0], max(1, round(pairs, 1 - len(str(pairs))))


def template_settings(preset: str | None = None, changes: Sequence[str] = ()) -> Settings:
    """Return example settings with the model and training of a preset, and with changes ``KEY=VALUE``."""
    values: dict[str, Any] = copy.deepcopy(_EXAMPLE_SETTINGS)
    if preset is not None:
        try:
            values |= {"model": preset_name(preset), "training": copy.deepcopy(preset_training(preset))}
        except ValueError as error:
            raise SettingsError(f"--preset: {error}") from None
    for change in changes:
        try:
            change_setting(values, change)
        except SettingsError as error:
            raise SettingsError(f"--set {error}") from None
    return parse(Settings, values, "--set" if changes else "the template")


def settings_template(preset: str | None = None, changes: Sequence[str] = ()) -> str:
    """Return a settings file as YAML, with a comment on every setting; its corpora are placeholders."""
    settings = template_settings(preset, changes)
    values = "its default" if preset is None else f"the values of the preset {preset_name(preset)}"
    return _HEADER.format(values=values) + "\n".join(_format_group(settings, 0)) + "\n"


def write_template(path: Path, preset: str | None = None, changes: Sequence[str] = ()) -> None:
    """Write the result of :func:`settings_template` to a new file."""
    text = settings_template(preset, changes)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise SettingsError(f"{path}: already exists; choose another name or delete it") from None
    except OSError as error:
        raise SettingsError(f"{path}: cannot be written: {error.strerror}") from None


def _format_group(values: StrictModel, depth: int) -> list[str]:
    lines = []
    indent = "  " * depth
    fields = type(values).model_fields.items()
    dumped = values.model_dump(mode="json")  # corpora in their short form
    for name, field in sorted(fields, key=lambda item: item[0] not in _FIRST_SETTINGS):
        value = getattr(values, name)
        if isinstance(value, StrictModel):
            title = (type(value).__doc__ or "").strip().splitlines()[0]
            comment = [f"{indent}# {field.description}"] if field.description else []
            header = ["", f"{indent}# {title}", *comment, f"{indent}{name}:"]
            lines += [*header, *_format_group(value, depth + 1)]
        else:
            lines.append(f"{indent}{name}: {_format_value(dumped[name])}{_format_comment(field)}")
    return lines


def _format_value(value: Any) -> str:
    if isinstance(value, float) and value != 0 and abs(value) < 1e-3:
        mantissa, exponent = f"{value:e}".split("e")
        return f"{float(mantissa)}e{int(exponent):+03d}"
    return json.dumps(value, default=str)  # JSON is YAML


def _format_comment(field: FieldInfo) -> str:
    parts = [field.description] if field.description else []
    if get_origin(field.annotation) is Literal:
        parts.append("one of " + ", ".join(map(str, get_args(field.annotation))))
    return "  # " + "; ".join(parts) if parts else ""
