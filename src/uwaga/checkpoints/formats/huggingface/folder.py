"""A folder in Hugging Face's format: its settings, its tensors, and the record of what they mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from uwaga.checkpoints.card import read_card
from uwaga.checkpoints.checkpoint import Checkpoint, WeightSummary
from uwaga.checkpoints.formats.huggingface.config import ConfigReader, search_options
from uwaga.checkpoints.languages import UNKNOWN, Languages, task_prefixes
from uwaga.checkpoints.size_checks import LARGEST_BUFFERS, check_against_weights, layer_count, weight_shapes
from uwaga.checkpoints.storage.safetensors_files import open_shards, open_tensors
from uwaga.checkpoints.storage.tensors import StoredTensor
from uwaga.checkpoints.storage.torch_files import open_torch_file, open_torch_shards
from uwaga.checkpoints.weight_map import Table, map_weights
from uwaga.errors import ModelError
from uwaga.settings import (
    DecoderOnlySettings,
    EncoderOnlySettings,
    ProphetNetSettings,
    TransformerSettings,
)
from uwaga.tokenizers.pretrained import Sides

Settings = TypeVar(
    "Settings", TransformerSettings, DecoderOnlySettings, EncoderOnlySettings, ProphetNetSettings
)
SAFE, SAFE_INDEX = "model.safetensors", "model.safetensors.index.json"
OLD, OLD_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
NAME = "Hugging Face"
MAX_LAYERS = 1000
"""Of a model that is described without its weights."""


@dataclass(frozen=True)
class FamilyModel:
    """What a family makes of a folder.

    Attributes:
        settings: of the model.
        sizes: rows of the source embedding and of the output.
        sides: the tokenisers.
        table: where each weight is stored.
        tensors: the stored tensors, by the names that the table uses.
        languages: codes of source and target where the folder states one pair.
        unstated: generation settings to take where the folder has none of that name.
    """

    settings: TransformerSettings | DecoderOnlySettings | EncoderOnlySettings | ProphetNetSettings
    sizes: tuple[int, int]
    sides: Sides
    table: Table
    tensors: Mapping[str, StoredTensor]
    languages: tuple[str, str] = UNKNOWN
    unstated: Mapping[str, Any] = field(default_factory=dict)


class HuggingFaceFolder:
    """A folder that is being read; its weight files are opened at first use.

    Args:
        path: the folder.
        config: its ``config.json``.
        weighed: False for a description: the weights are not compared with each other or with the settings,
            torch's own files are not opened, and faults of the weight files are :attr:`problems`.
    """

    def __init__(self, path: Path, config: Mapping[str, Any], weighed: bool = True) -> None:
        self.path, self.config, self.weighed = path, config, weighed
        self.reader = ConfigReader(path, config)
        self.problems: tuple[str, ...] = ()

    @cached_property
    def tensors(self) -> Mapping[str, StoredTensor]:
        """The weights in ``model.safetensors`` or else ``pytorch_model.bin``, whole or in shards.

        Raises:
            ModelError: no such file, or one that is missing, cut short, damaged or holds more than tensors.
            MissingExtraError: only torch can read the file, and it is not installed.
        """
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
        """The settings of a model, checked together and held against the stored weights.

        Args:
            kind: their class.
            values: by name.
            vocabulary: tokens of the larger side.

        Raises:
            ModelError: names the file and the setting.
        """
        made = self.reader.settings(kind, values)
        if self.weighed or self.tensors:
            check_against_weights(str(self.reader.path), made, vocabulary, self.tensors)
        elif layer_count(made) > MAX_LAYERS:
            raise ModelError(f"{self.reader.path}: {layer_count(made)} layers are too many")
        return made

    def checkpoint(self, read: FamilyReader) -> Checkpoint:
        """The record of the model, as its family understands the folder.

        Raises:
            ModelError, MissingExtraError: as :func:`uwaga.checkpoints.registry.read`.
        """
        found, card = read(self), read_card(self.path)
        settings = found.settings
        if isinstance(settings, TransformerSettings) and settings.positions == "sinusoidal":
            self._check_positions(settings)
        decoding = search_options(self.path, self.config, found.unstated)
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
                card.languages,
                str(self.path),
            ),
            decoding=decoding,
            card=card,
            weights=weights,
            summary=None if self.weighed else self.summary(),
            problems=self.problems,
        )

    def summary(self) -> WeightSummary:
        """The sizes of the weights by the headers of their files; of torch's own files only the bytes."""
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
