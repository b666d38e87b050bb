"""Reading Hugging Face's ``config.json`` and ``generation_config.json``."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from uwaga.checkpoints.formats.uwaga.names import CONFIG
from uwaga.checkpoints.storage.json_file import parse_stored, read_mapping, read_optional
from uwaga.errors import ModelError, SettingsError, shown
from uwaga.search import SearchOptions, from_generation_config
from uwaga.settings import StrictModel

Settings = TypeVar("Settings", bound=StrictModel)

GENERATION = "generation_config.json"
Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]
ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}


def search_options(
    folder: Path, config: Mapping[str, Any], unstated: Mapping[str, Any] | None = None
) -> SearchOptions:
    """The checkpoint's decoding defaults: ``generation_config.json``, or older ones in ``config.json``.

    Args:
        folder: the folder.
        config: its ``config.json``.
        unstated: settings to take where the folder has none of that name.

    Raises:
        ModelError: a default asks for something that the search does not do.
    """
    path = folder / GENERATION
    stated = read_mapping(path) if path.exists() else dict(config)
    values = dict(unstated or {}) | {name: value for name, value in stated.items() if value is not None}
    try:
        return from_generation_config(values)
    except (SettingsError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise ModelError(f"{path if path.exists() else folder / CONFIG}: {error}") from None


class ConfigReader:
    """Typed access to ``config.json``, with messages that name the file and the key."""

    def __init__(self, folder: Path, values: Mapping[str, Any]) -> None:
        self.path = folder / CONFIG
        self.values = values

    def whole(self, name: str, default: int | None = None, least: int = 0) -> int:
        """A whole number of at least ``least``; without ``default`` it must be there."""
        value = self.values.get(name)
        value = default if value is None else value
        if type(value) is not int or not least <= value < 1 << 31:
            raise ModelError(
                f"{self.path}: {name!r} must be a whole number, {least} or more, not {shown(value)}"
            )
        return value

    def number(self, name: str, default: float) -> float:
        """A number above 0."""
        value = self.values.get(name)
        value = default if value is None else value
        if type(value) not in (int, float) or not 0 < value < math.inf:
            raise ModelError(f"{self.path}: {name!r} must be a number above 0, not {shown(value)}")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        """A truth value."""
        value = self.values.get(name)
        value = default if value is None else value
        if type(value) is not bool:
            raise ModelError(f"{self.path}: {name!r} must be true or false, not {shown(value)}")
        return value

    def activation(self, name: str, default: str) -> Activation:
        """An activation function by its name there."""
        value = self.values.get(name) or default
        if not isinstance(value, str) or value not in ACTIVATIONS:
            raise ModelError(
                f"{self.path}: {name!r} = {shown(value)} is not supported; uwaga has {', '.join(ACTIVATIONS)}"
            )
        return cast(Activation, ACTIVATIONS[value])

    def refuse(self, neutral: Mapping[str, Collection[object]]) -> None:
        """Refuse a feature that uwaga lacks: a key whose value is none of those that switch it off."""
        everywhere = {"quantization_config": (), "is_encoder_decoder": (True,), "pruned_heads": ({},)}
        for name, off in {**everywhere, **neutral}.items():
            value = self.values.get(name)
            if value is not None and value not in off:
                raise ModelError(f"{self.path}: {name!r} = {shown(value)} is a feature that uwaga lacks")

    def start(self) -> int:
        """The token that decoding starts from."""
        given = self.stated_start()
        if given is None:
            raise ModelError(f"{self.path}: 'decoder_start_token_id' must be a token id, not None")
        return given

    def stated_start(self) -> int | None:
        """The token that decoding starts from, None if nothing is said; the generation settings win."""
        given = read_optional(self.path.parent / GENERATION).get("decoder_start_token_id")
        given = self.values.get("decoder_start_token_id") if given is None else given
        if given is not None and (type(given) is not int or given < 0):
            raise ModelError(f"{self.path}: 'decoder_start_token_id' must be a token id, not {shown(given)}")
        return given

    def within(self, size: int, **tokens: int) -> None:
        """Check that special tokens are in the vocabulary."""
        for name, token in tokens.items():
            if token >= size:
                raise ModelError(f"{self.path}: {name} is {token}, but the vocabulary has {size} tokens")

    def settings(self, kind: type[Settings], values: Mapping[str, Any]) -> Settings:
        """The settings of a model, checked together.

        Raises:
            ModelError: names the file and the setting.
        """
        return parse_stored(kind, values, str(self.path))
