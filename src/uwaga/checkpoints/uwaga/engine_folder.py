"""The project's own model folder for the native engine: the checks of ``load_model``, and no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from uwaga.checkpoints.files.safetensors_read import STORED, StoredTensor, check_header, open_tensors
from uwaga.checkpoints.uwaga import schema
from uwaga.checkpoints.uwaga.checks import check_plausible, check_tokenisers, read_tokeniser
from uwaga.checkpoints.uwaga.schema import SOURCE, TARGET, WEIGHTS, FolderConfig
from uwaga.contracts import Floats
from uwaga.engine.layout import stored_shapes
from uwaga.errors import ModelError
from uwaga.settings import TransformerSettings
from uwaga.text.tokeniser import Tokeniser


@dataclass(frozen=True)
class NativeFolder:
    """A folder read for the engine; ``target is source`` where they share a tokeniser."""

    settings: TransformerSettings
    tensors: Mapping[str, StoredTensor]
    source: Tokeniser
    target: Tokeniser
    config: FolderConfig
    path: Path

    def read(self, name: str) -> Floats:
        """A stored tensor in float32."""
        return self.tensors[name].floats()


def open_native(folder: Path) -> NativeFolder:
    """Map a Transformer's model folder, checking everything before memory is taken.

    Raises:
        ModelError: as :func:`uwaga.checkpoints.uwaga.folder.load_model`, or the model is no Transformer.
    """
    config = schema.read_config(folder)
    settings = config.model
    if not isinstance(settings, TransformerSettings):
        raise ModelError(
            f"{folder / schema.CONFIG}: the native engine runs Transformers, not the family "
            f"{settings.family!r}; use the engine torch"
        )
    source = read_tokeniser(folder / SOURCE)
    target = source if config.vocabulary.joint else read_tokeniser(folder / TARGET)
    check_tokenisers(folder, config, source, target)
    path = folder / WEIGHTS
    check_plausible(folder, config)
    shapes = stored_shapes(settings, config.vocabulary.source, config.vocabulary.target)
    check_header(path, shapes, dict.fromkeys(shapes, STORED[config.weights]))
    return NativeFolder(settings, open_tensors(path), source, target, config, path)
