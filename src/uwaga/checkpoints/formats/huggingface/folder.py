"""A folder in Hugging Face's format: its settings and its tensors, read into a checkpoint."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from uwaga.checkpoints.card import read_card
from uwaga.checkpoints.checkpoint import Checkpoint, WeightSummary
from uwaga.checkpoints.formats.uwaga.names import CONFIG
from uwaga.checkpoints.languages import UNKNOWN, Languages, task_prefixes
from uwaga.checkpoints.size_checks import LARGEST_BUFFERS, check_against_weights, layer_count, weight_shapes
from uwaga.checkpoints.storage.json_file import parse_stored, read_mapping, read_optional
from uwaga.checkpoints.storage.safetensors_files import open_shards, open_tensors
from uwaga.checkpoints.storage.tensors import StoredTensor
from uwaga.checkpoints.storage.torch_files import open_torch_file, open_torch_shards
from uwaga.checkpoints.weight_map import Table, map_weights
from uwaga.errors import ModelError, SettingsError, shown
from uwaga.search import SearchOptions, from_generation_config
from uwaga.settings import (
    DecoderOnlySettings,
    EncoderOnlySettings,
    ProphetNetSettings,
    StrictModel,
    TransformerSettings,
)
from uwaga.settings.text_options import TextOptions
from uwaga.tokenizers.chat_template import ChatTemplate
from uwaga.tokenizers.pretrained import Sides
from uwaga.tokenizers.pretrained_files import Declared, read_declared
from uwaga.tokenizers.prompt import read_chat_template

Group = TypeVar("Group", bound=StrictModel)

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
    folder: Path,
    config: Mapping[str, Any],
    unstated: Mapping[str, Any] | None = None,
    left_out: Collection[str] = (),
) -> SearchOptions:
    """Read the default search options in ``generation_config.json``, or in an older ``config.json``.

    Args:
        folder: the folder.
        config: its ``config.json``.
        unstated: defaults for settings that the folder does not state.
        left_out: settings that are not read.
    """
    path = folder / GENERATION
    values = dict(unstated or {}) | generation_settings(folder, config)
    values = {name: value for name, value in values.items() if name not in left_out}
    try:
        return from_generation_config(values)
    except (SettingsError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise ModelError(f"{path if path.exists() else folder / CONFIG}: {error}") from None


def generation_settings(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a folder states about generation, without what it leaves open."""
    path = folder / GENERATION
    stated = read_mapping(path) if path.exists() else config
    return {name: value for name, value in stated.items() if value is not None}


class ConfigReader:
    """Typed access to ``config.json``, with messages that name the file and the key."""

    def __init__(self, folder: Path, values: Mapping[str, Any]) -> None:
        self.path = folder / CONFIG
        self.values = values

    def whole(self, name: str, default: int | None = None, least: int = 0) -> int:
        """Return an integer of at least ``least``; without ``default`` the key is required."""
        value = self.values.get(name)
        value = default if value is None else value
        if type(value) is not int or not least <= value < 1 << 31:
            raise ModelError(
                f"{self.path}: {name!r} must be a whole number, {least} or more, not {shown(value)}"
            )
        return value

    def number(self, name: str, default: float) -> float:
        """Return a positive number."""
        value = self.values.get(name)
        value = default if value is None else value
        if type(value) not in (int, float) or not 0 < value < math.inf:
            raise ModelError(f"{self.path}: {name!r} must be a number above 0, not {shown(value)}")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        """Return a boolean."""
        value = self.values.get(name)
        value = default if value is None else value
        if type(value) is not bool:
            raise ModelError(f"{self.path}: {name!r} must be true or false, not {shown(value)}")
        return value

    def activation(self, name: str, default: str) -> Activation:
        """Return an activation function by its name in the file."""
        value = self.values.get(name) or default
        if not isinstance(value, str) or value not in ACTIVATIONS:
            raise ModelError(
                f"{self.path}: {name!r} = {shown(value)} is not supported; uwaga has {', '.join(ACTIVATIONS)}"
            )
        return cast(Activation, ACTIVATIONS[value])

    def refuse(self, neutral: Mapping[str, Collection[object]]) -> None:
        """Raise ModelError for a feature that uwaga lacks: a key whose value does not disable it."""
        everywhere = {"quantization_config": (), "is_encoder_decoder": (True,), "pruned_heads": ({},)}
        for name, off in {**everywhere, **neutral}.items():
            value = self.values.get(name)
            if value is not None and value not in off:
                raise ModelError(f"{self.path}: {name!r} = {shown(value)} is not supported by uwaga")

    def start(self) -> int:
        """Return the token that decoding starts from."""
        given = self.stated_start()
        if given is None:
            raise ModelError(f"{self.path}: 'decoder_start_token_id' must be a token id, not None")
        return given

    def stated_start(self) -> int | None:
        """Return the stated start token, None if there is none; the generation settings take precedence."""
        given = read_optional(self.path.parent / GENERATION).get("decoder_start_token_id")
        given = self.values.get("decoder_start_token_id") if given is None else given
        if given is not None and (type(given) is not int or given < 0):
            raise ModelError(f"{self.path}: 'decoder_start_token_id' must be a token id, not {shown(given)}")
        return given

    def within(self, size: int, **tokens: int | None) -> None:
        """Check that special tokens are in the vocabulary; None is not stated."""
        for name, token in tokens.items():
            if token is not None and token >= size:
                raise ModelError(f"{self.path}: {name} is {token}, but the vocabulary has {size} tokens")

    def settings(self, kind: type[Group], values: Mapping[str, Any]) -> Group:
        """Return the settings of a model after checking them together."""
        return parse_stored(kind, values, str(self.path))


Settings = TypeVar(
    "Settings", TransformerSettings, DecoderOnlySettings, EncoderOnlySettings, ProphetNetSettings
)
SAFE, SAFE_INDEX = "model.safetensors", "model.safetensors.index.json"
OLD, OLD_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
NAME = "Hugging Face"
WHOLE_TEXTS = frozenset({"bart", "mt5", "pegasus", "prophetnet", "t5"})
"""Families trained on whole texts; the others that translate were trained on single sentences."""
MAX_LAYERS = 1000
"""Of a model that is described without its weights."""


@dataclass(frozen=True)
class FamilyModel:
    """A folder as the reader of its family interprets it.

    Attributes:
        settings: settings of the model.
        sizes: rows of the source embedding and of the output.
        sides: the tokenisers.
        table: where each weight is stored.
        tensors: the stored tensors, by the names that the table uses.
        languages: codes of source and target where the folder states one pair.
        unstated: defaults for generation settings that the folder does not state.
        left_out: generation settings that are only recommended, and left out where uwaga lacks them.
    """

    settings: TransformerSettings | DecoderOnlySettings | EncoderOnlySettings | ProphetNetSettings
    sizes: tuple[int, int]
    sides: Sides
    table: Table
    tensors: Mapping[str, StoredTensor]
    languages: tuple[str, str] = UNKNOWN
    unstated: Mapping[str, Any] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()


class HuggingFaceFolder:
    """A folder to read; its weight files are opened at first use.

    Args:
        path: the folder.
        config: its ``config.json``.
        weighed: False for a description: the weights are not compared with each other or with the settings,
            torch's own files are not opened, and faults of the weight files go into :attr:`problems`.
    """

    def __init__(self, path: Path, config: Mapping[str, Any], weighed: bool = True) -> None:
        self.path, self.config, self.weighed = path, config, weighed
        self.reader = ConfigReader(path, config)
        self.problems: tuple[str, ...] = ()

    @cached_property
    def declared(self) -> Declared:
        """The configuration of the tokeniser."""
        return read_declared(self.path)

    @cached_property
    def tensors(self) -> Mapping[str, StoredTensor]:
        """The weights in ``model.safetensors`` or else ``pytorch_model.bin``, whole or in shards."""
        for name, read in (
            (SAFE, open_tensors),
            (SAFE_INDEX, open_shards),
            (OLD, open_torch_file),
            (OLD_INDEX, open_torch_shards),
        ):
            if (self.path / name).is_file():
                if self.weighed:
                    return read(self.path / name)
                try:
                    return {} if name in (OLD, OLD_INDEX) else read(self.path / name)
                except ModelError as error:
                    self.problems = (str(error),)
                    return {}
        text = f"{self.path}: holds neither {SAFE} nor {OLD}, so it is not a complete model folder"
        if self.weighed:
            raise ModelError(text)
        self.problems = (text,)
        return {}

    def settings(self, kind: type[Settings], values: Mapping[str, Any], vocabulary: int) -> Settings:
        """Return the settings of a model after checking them together and against the stored weights.

        Args:
            kind: class of the settings.
            values: settings by name.
            vocabulary: tokens of the larger side.
        """
        made = self.reader.settings(kind, values)
        if self.weighed or self.tensors:
            check_against_weights(str(self.reader.path), made, vocabulary, self.tensors)
        elif layer_count(made) > MAX_LAYERS:
            raise ModelError(f"{self.reader.path}: {layer_count(made)} layers are too many")
        return made

    def checkpoint(self, read: FamilyReader) -> Checkpoint:
        """Return the model, as the reader of its family interprets the folder."""
        found, card = read(self), read_card(self.path)
        settings = found.settings
        if isinstance(settings, TransformerSettings) and settings.positions == "sinusoidal":
            self._check_positions(settings)
        decoding = search_options(self.path, self.config, found.unstated, found.left_out)
        stated = generation_settings(self.path, self.config) if found.left_out else {}
        details = {
            name.replace("_", " "): f"{shown(stated[name])}, not applied"
            for name in found.left_out
            if stated.get(name, 1) != 1
        }
        sides, languages = found.sides, found.languages
        weights = None
        if self.weighed:
            shapes = weight_shapes(settings, *found.sizes)
            weights = map_weights(shapes, found.table, found.tensors, str(self.path))
        return Checkpoint(
            place=self.path,
            format=NAME,
            family=str(self.config["model_type"]),
            settings=settings,
            symbols=sides.target.symbols,
            source_vocabulary=found.sizes[0],
            target_vocabulary=found.sizes[1],
            vocabulary=found.sizes,
            source=sides.source,
            target=sides.target,
            languages=Languages(
                sides.source,
                sides.target,
                languages,
                decoding.first,
                task_prefixes(self.config),
                card,
                str(self.path),
            ),
            decoding=decoding,
            text=TextOptions(split_above=0 if self.config["model_type"] in WHOLE_TEXTS else 1),
            card=card,
            chat=self._chat() if isinstance(settings, DecoderOnlySettings) else None,
            weights=weights,
            summary=None if self.weighed else self.summary(),
            problems=self.problems,
            details=details,
        )

    def _chat(self) -> ChatTemplate | None:
        stated = [self.config.get(name) for name in ("_name_or_path", "model_type")]
        return read_chat_template(self.path, self.declared, [self.path.name, *map(str, stated)])

    def summary(self) -> WeightSummary:
        """Return the sizes of the weights by the headers of their files; of torch's files only the bytes."""
        if self.tensors:
            return WeightSummary.of(self.tensors.values())
        older = self.path.glob(f"{Path(OLD).stem}*.bin")
        return WeightSummary(None, sum(file.stat().st_size for file in older), ())

    def _check_positions(self, settings: TransformerSettings) -> None:
        if settings.max_length * settings.width > LARGEST_BUFFERS:
            raise ModelError(
                f"{self.reader.path}: {settings.max_length} positions at width {settings.width} need a table "
                f"of more than {LARGEST_BUFFERS} numbers"
            )


FamilyReader = Callable[[HuggingFaceFolder], FamilyModel]
"""Reads the folders of a family; raises ModelError."""
