"""Reader of Hugging Face folders, which turns settings and tensors into a checkpoint."""

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
from uwaga.checkpoints.languages import UNSTATED_LANGUAGES, Languages, task_prefixes
from uwaga.checkpoints.size_checks import (
    MAX_BUFFER_NUMBERS,
    check_against_weights,
    layer_count,
    weight_shapes,
)
from uwaga.checkpoints.storage.json_file import parse_stored, read_mapping, read_optional
from uwaga.checkpoints.storage.safetensors_files import open_shards, open_tensors
from uwaga.checkpoints.storage.tensors import StoredTensor
from uwaga.checkpoints.storage.torch_files import open_torch_file, open_torch_shards
from uwaga.checkpoints.weight_map import Table, map_weights
from uwaga.errors import ModelError, SettingsError, quoted
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
from uwaga.tokenizers.pretrained import TokeniserPair
from uwaga.tokenizers.pretrained_files import TokeniserConfig, read_tokeniser_config
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
    defaults: Mapping[str, Any] | None = None,
    ignored_names: Collection[str] = (),
    decoder_only: bool = False,
) -> SearchOptions:
    """Read the default search options from ``generation_config.json`` or, in older folders, ``config.json``.

    Args:
        folder: the model folder.
        config: the contents of its ``config.json``.
        defaults: values of settings that the folder does not state.
        ignored_names: names of settings that are not read.
        decoder_only: True for a decoder-only model.
    """
    path = folder / GENERATION
    stated_settings = generation_settings(folder, config)
    values = dict(defaults or {}) | stated_settings
    if "max_length" in stated_settings and "max_new_tokens" not in stated_settings:
        values.pop("max_new_tokens", None)
    values = {name: value for name, value in values.items() if name not in ignored_names}
    try:
        return from_generation_config(values, decoder_only)
    except (SettingsError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise ModelError(f"{path if path.exists() else folder / CONFIG}: {error}") from None


def generation_settings(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the generation settings that a folder states, except those that are null."""
    path = folder / GENERATION
    settings = read_mapping(path) if path.exists() else config
    return {name: value for name, value in settings.items() if value is not None}


class ConfigReader:
    """Typed access to the values of ``config.json``; error messages name the file and the key."""

    def __init__(self, folder: Path, values: Mapping[str, Any]) -> None:
        self.path = folder / CONFIG
        self.values = values

    def integer(self, name: str, default: int | None = None, minimum: int = 0) -> int:
        """Return an integer of at least ``minimum``; the key is required if ``default`` is None."""
        value = self.values.get(name)
        value = default if value is None else value
        if type(value) is not int or not minimum <= value < 1 << 31:
            raise ModelError(
                f"{self.path}: {name!r} must be a whole number, {minimum} or more, not {quoted(value)}"
            )
        return value

    def number(self, name: str, default: float) -> float:
        """Return a positive number, or the default if the key is missing."""
        value = self.values.get(name)
        value = default if value is None else value
        if type(value) not in (int, float) or not 0 < value < math.inf:
            raise ModelError(f"{self.path}: {name!r} must be a number above 0, not {quoted(value)}")
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        """Return a boolean, or the default if the key is missing."""
        value = self.values.get(name)
        value = default if value is None else value
        if type(value) is not bool:
            raise ModelError(f"{self.path}: {name!r} must be true or false, not {quoted(value)}")
        return value

    def activation(self, name: str, default: str) -> Activation:
        """Return uwaga's name for the activation function that the file states, or else for the default."""
        value = self.values.get(name) or default
        if not isinstance(value, str) or value not in ACTIVATIONS:
            raise ModelError(
                f"{self.path}: {name!r} = {quoted(value)} is not supported; uwaga supports "
                f"{', '.join(ACTIVATIONS)}"
            )
        return cast(Activation, ACTIVATIONS[value])

    def refuse(self, neutral_values: Mapping[str, Collection[object]]) -> None:
        """Raise ModelError if a key enables a feature that uwaga does not support.

        Args:
            neutral_values: for each key, the values that disable the feature.
        """
        common_values = {"quantization_config": (), "is_encoder_decoder": (True,), "pruned_heads": ({},)}
        for name, allowed_values in {**common_values, **neutral_values}.items():
            value = self.values.get(name)
            if value is not None and value not in allowed_values:
                raise ModelError(f"{self.path}: {name!r} = {quoted(value)} is not supported by uwaga")

    def start(self) -> int:
        """Return the id of the token that decoding starts from, which the folder must state."""
        token = self.decoder_start_token()
        if token is None:
            raise ModelError(f"{self.path}: 'decoder_start_token_id' must be a token id, not None")
        return token

    def decoder_start_token(self) -> int | None:
        """Return the id of the start token, or None if none is stated.

        ``generation_config.json`` takes precedence over ``config.json``.
        """
        token = read_optional(self.path.parent / GENERATION).get("decoder_start_token_id")
        token = self.values.get("decoder_start_token_id") if token is None else token
        if token is not None and (type(token) is not int or token < 0):
            raise ModelError(f"{self.path}: 'decoder_start_token_id' must be a token id, not {quoted(token)}")
        return token

    def check_ids(self, size: int, **tokens: int | None) -> None:
        """Raise ModelError if a special token's id is not in the vocabulary; None is ignored."""
        for name, token in tokens.items():
            if token is not None and token >= size:
                raise ModelError(f"{self.path}: {name} is {token}, but the vocabulary has {size} tokens")

    def settings(self, kind: type[Group], values: Mapping[str, Any]) -> Group:
        """Return the settings of a model after validating them."""
        return parse_stored(kind, values, str(self.path))


Settings = TypeVar(
    "Settings", TransformerSettings, DecoderOnlySettings, EncoderOnlySettings, ProphetNetSettings
)
SAFETENSORS, SAFETENSORS_INDEX = "model.safetensors", "model.safetensors.index.json"
TORCH_FILE, TORCH_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
NAME = "Hugging Face"
DOCUMENT_FAMILIES = frozenset({"bart", "mt5", "pegasus", "prophetnet", "t5"})
"""Families trained on whole documents; all other translation models were trained on single sentences."""
MAX_LAYERS = 1000
"""Maximum number of layers of a model that is described without weights."""


@dataclass(frozen=True)
class FamilyModel:
    """A folder's contents, as interpreted by the reader of the folder's family.

    Attributes:
        settings: settings of the model.
        sizes: number of rows of the source embedding and of the output layer.
        sides: the tokenisers of both sides.
        table: the mapping from weights to stored tensors.
        tensors: the stored tensors by the names used in the table.
        languages: codes of the source and target languages, if the folder states exactly one pair.
        generation_defaults: values of generation settings that the folder does not state.
        ignored: names of recommended generation settings that uwaga does not apply.
    """

    settings: TransformerSettings | DecoderOnlySettings | EncoderOnlySettings | ProphetNetSettings
    sizes: tuple[int, int]
    sides: TokeniserPair
    table: Table
    tensors: Mapping[str, StoredTensor]
    languages: tuple[str, str] = UNSTATED_LANGUAGES
    generation_defaults: Mapping[str, Any] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()


class HuggingFaceFolder:
    """A model folder whose weight files are opened when they are first needed.

    Args:
        path: path of the folder.
        config: the contents of its ``config.json``.
        with_weights: False to read the folder for a description. Weights are then not compared with each
            other or with the settings, PyTorch files are not opened, and problems with the weight files are
            stored in :attr:`problems`.
    """

    def __init__(self, path: Path, config: Mapping[str, Any], with_weights: bool = True) -> None:
        self.path, self.config, self.with_weights = path, config, with_weights
        self.reader = ConfigReader(path, config)
        self.problems: tuple[str, ...] = ()

    @cached_property
    def tokeniser_config(self) -> TokeniserConfig:
        """The tokeniser's configuration, as stated in the folder."""
        return read_tokeniser_config(self.path)

    @cached_property
    def tensors(self) -> Mapping[str, StoredTensor]:
        """The tensors by name, from ``model.safetensors`` or ``pytorch_model.bin`` or from their shards."""
        for name, read in (
            (SAFETENSORS, open_tensors),
            (SAFETENSORS_INDEX, open_shards),
            (TORCH_FILE, open_torch_file),
            (TORCH_INDEX, open_torch_shards),
        ):
            if (self.path / name).is_file():
                if self.with_weights:
                    return read(self.path / name)
                try:
                    return {} if name in (TORCH_FILE, TORCH_INDEX) else read(self.path / name)
                except ModelError as error:
                    self.problems = (str(error),)
                    return {}
        message = (
            f"{self.path}: contains neither {SAFETENSORS} nor {TORCH_FILE}, so it is not a complete model "
            "folder"
        )
        if self.with_weights:
            raise ModelError(message)
        self.problems = (message,)
        return {}

    def settings(self, kind: type[Settings], values: Mapping[str, Any], vocabulary: int) -> Settings:
        """Return the settings of a model after validating them and comparing them with the stored weights.

        Args:
            kind: class of the settings.
            values: settings by name.
            vocabulary: number of tokens of the larger vocabulary.
        """
        model_settings = self.reader.settings(kind, values)
        if self.with_weights or self.tensors:
            check_against_weights(str(self.reader.path), model_settings, vocabulary, self.tensors)
        elif layer_count(model_settings) > MAX_LAYERS:
            raise ModelError(
                f"{self.reader.path}: {layer_count(model_settings)} layers are more than the maximum of "
                f"{MAX_LAYERS}"
            )
        return model_settings

    def checkpoint(self, read: FamilyReader) -> Checkpoint:
        """Return the model as interpreted by ``read``, the reader of the model's family."""
        model, card = read(self), read_card(self.path)
        settings = model.settings
        if isinstance(settings, TransformerSettings) and settings.positions == "sinusoidal":
            self._check_position_table_size(settings)
        decoding = search_options(
            self.path,
            self.config,
            model.generation_defaults,
            model.ignored,
            isinstance(settings, DecoderOnlySettings),
        )
        generation = generation_settings(self.path, self.config) if model.ignored else {}
        details = {
            name.replace("_", " "): f"{quoted(generation[name])}, not applied"
            for name in model.ignored
            if generation.get(name, 1) != 1
        }
        sides, languages = model.sides, model.languages
        weights = None
        if self.with_weights:
            shapes = weight_shapes(settings, *model.sizes)
            weights = map_weights(shapes, model.table, model.tensors, str(self.path))
        return Checkpoint(
            path=self.path,
            format=NAME,
            family=str(self.config["model_type"]),
            settings=settings,
            symbols=sides.target.symbols,
            source_vocabulary=model.sizes[0],
            target_vocabulary=model.sizes[1],
            vocabulary=model.sizes,
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
            text=TextOptions(split_above=0 if self.config["model_type"] in DOCUMENT_FAMILIES else 1),
            card=card,
            chat=self._chat_template() if isinstance(settings, DecoderOnlySettings) else None,
            weights=weights,
            summary=None if self.with_weights else self.summary(),
            problems=self.problems,
            details=details,
        )

    def _chat_template(self) -> ChatTemplate | None:
        model_names = [self.config.get(name) for name in ("_name_or_path", "model_type")]
        return read_chat_template(self.path, self.tokeniser_config, [self.path.name, *map(str, model_names)])

    def summary(self) -> WeightSummary:
        """Return the size of the weights from the file headers; for PyTorch files, only the size in bytes."""
        if self.tensors:
            return WeightSummary.from_tensors(self.tensors.values())
        torch_files = self.path.glob(f"{Path(TORCH_FILE).stem}*.bin")
        return WeightSummary(None, sum(file.stat().st_size for file in torch_files), ())

    def _check_position_table_size(self, settings: TransformerSettings) -> None:
        if settings.max_length * settings.width > MAX_BUFFER_NUMBERS:
            raise ModelError(
                f"{self.reader.path}: {settings.max_length} positions at width {settings.width} need a table "
                f"of more than {MAX_BUFFER_NUMBERS} numbers"
            )


FamilyReader = Callable[[HuggingFaceFolder], FamilyModel]
"""Type of the functions that read the folders of a family; they raise ModelError for invalid folders."""
