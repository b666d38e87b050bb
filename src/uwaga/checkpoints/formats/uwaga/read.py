"""Reading uwaga's own model folders, checked before memory is taken. Nothing here needs torch."""

from __future__ import annotations

from pathlib import Path

from uwaga.checkpoints.card import read_card
from uwaga.checkpoints.checkpoint import Checkpoint, Memory, WeightSummary
from uwaga.checkpoints.formats.uwaga import schema
from uwaga.checkpoints.formats.uwaga.checks import check_plausible, check_tokenisers, read_tokeniser
from uwaga.checkpoints.formats.uwaga.names import SOURCE, TARGET, WEIGHTS
from uwaga.checkpoints.formats.uwaga.schema import FolderConfig
from uwaga.checkpoints.languages import Languages
from uwaga.checkpoints.size_checks import weight_shapes
from uwaga.checkpoints.storage.safetensors_files import STORED, check_header, open_tensors
from uwaga.checkpoints.weight_map import Table, Weights, plain
from uwaga.errors import ModelError
from uwaga.search.options import from_settings
from uwaga.settings import ProphetNetSettings, TransformerSettings

NAME = "uwaga"


def read_folder(folder: Path, memory: Memory = "fast") -> Checkpoint:
    """Read a model folder.

    Args:
        folder: the folder.
        memory: ``none`` opens no weights, see :class:`uwaga.checkpoints.registry.Format`.

    Raises:
        ModelError: a file is missing, cut short or damaged; a key, shape, number format, vocabulary or
            setting does not fit; the format or family is unknown. The message names the file.
    """
    folder = Path(folder)
    config = schema.read_config(folder)
    source = read_tokeniser(folder / SOURCE)
    target = source if config.vocabulary.joint else read_tokeniser(folder / TARGET)
    check_tokenisers(folder, config, source, target)
    weights, summary = None, None
    problems: tuple[str, ...] = ()
    if memory == "none":
        summary, problems = _summary(folder, config)
    else:
        check_plausible(folder, config)
        weights = _weights(folder / WEIGHTS, config)
    sizes, card = config.vocabulary, read_card(folder)
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
        languages=Languages(source, target, config.languages, listed=card.languages, where=str(folder)),
        decoding=decoding,
        text=text,
        card=card,
        weights=weights,
        usual=config.usual_score,
        summary=summary,
        problems=problems,
    )


def _summary(folder: Path, config: FolderConfig) -> tuple[WeightSummary, tuple[str, ...]]:
    """The sizes of the weights by the file's header, and what is wrong with the file."""
    path = folder / WEIGHTS
    try:
        check_plausible(folder, config)
        return WeightSummary.of(open_tensors(path).values()), ()
    except ModelError as error:
        return WeightSummary(None, 0, ()), (str(error),)


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
