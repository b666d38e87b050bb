"""The project's own model folder, read: checked wholly before memory is taken. Nothing here needs torch."""

from __future__ import annotations

from pathlib import Path

from uwaga.checkpoints.card import read_card
from uwaga.checkpoints.checkpoint import Checkpoint
from uwaga.checkpoints.files.safetensors_read import STORED, check_header, open_tensors
from uwaga.checkpoints.formats.uwaga import schema
from uwaga.checkpoints.formats.uwaga.checks import check_plausible, check_tokenisers, read_tokeniser
from uwaga.checkpoints.formats.uwaga.names import SOURCE, TARGET, WEIGHTS
from uwaga.checkpoints.formats.uwaga.schema import FolderConfig
from uwaga.checkpoints.languages import Languages
from uwaga.checkpoints.shapes import weight_shapes
from uwaga.checkpoints.weight_map import Table, Weights, plain
from uwaga.errors import ModelError
from uwaga.search.options import from_settings
from uwaga.settings import ProphetNetSettings, TransformerSettings

NAME = "uwaga"


def read_folder(folder: Path) -> Checkpoint:
    """Read a model folder.

    Raises:
        ModelError: a file is missing, cut short or damaged; a key, shape, number format, vocabulary or
            setting does not fit; the format or family is unknown. The message names the file.
    """
    folder = Path(folder)
    config = schema.read_config(folder)
    source = read_tokeniser(folder / SOURCE)
    target = source if config.vocabulary.joint else read_tokeniser(folder / TARGET)
    check_tokenisers(folder, config, source, target)
    check_plausible(folder, config)
    weights = _weights(folder / WEIGHTS, config)
    sizes = config.vocabulary
    decoding, text = from_settings(config.decoding)
    return Checkpoint(
        place=folder,
        format=NAME,
        family=config.model.family,
        settings=config.model,
        symbols=config.symbols.symbols(),
        source_vocabulary=sizes.source,
        target_vocabulary=sizes.target,
        vocabulary=(sizes.source, sizes.target),
        source=source,
        target=target,
        languages=Languages(source, target, config.languages, where=str(folder)),
        decoding=decoding,
        text=text,
        card=read_card(folder),
        weights=weights,
        usual=config.usual_score,
    )


def _weights(path: Path, config: FolderConfig) -> Weights:
    """The weights; of a recurrent model torch alone knows the names, and holds them against the settings."""
    wanted = STORED[config.weights]
    if isinstance(config.model, TransformerSettings | ProphetNetSettings):
        shapes = weight_shapes(config.model, config.vocabulary.source, config.vocabulary.target)
        check_header(path, shapes, dict.fromkeys(shapes, wanted))
    stored = open_tensors(path, config.sha256)
    for name, tensor in stored.items():
        if tensor.format != wanted:
            raise ModelError(
                f"{path}: {name!r} is stored as {tensor.format}, config.json asks for {wanted}; "
                "the two files are of different models"
            )
    shapes = {name: tensor.shape for name, tensor in stored.items()}
    return Weights(shapes, Table(plain({name: name for name in stored})), stored)
