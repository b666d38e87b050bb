"""What of a model folder can be checked before anything is built from it. Nothing here needs torch."""

from __future__ import annotations

from pathlib import Path

from uwaga.checkpoints.formats.uwaga.names import CONFIG, SOURCE, TARGET, WEIGHTS
from uwaga.checkpoints.formats.uwaga.schema import FolderConfig
from uwaga.checkpoints.size_checks import LARGEST_BUFFERS
from uwaga.checkpoints.storage.safetensors_files import count_tensors
from uwaga.errors import ModelError
from uwaga.settings import TransformerSettings
from uwaga.settings.recurrent import RecurrentSettings
from uwaga.tokenizers.tokeniser import Tokeniser


def read_tokeniser(path: Path) -> Tokeniser:
    """A tokeniser of a model folder.

    Raises:
        ModelError: it is missing, too large or damaged.
    """
    if not path.is_file():
        raise ModelError(f"{path}: no such file, so {path.parent} is not a complete model folder")
    return Tokeniser.load(path)


def check_tokenisers(folder: Path, config: FolderConfig, source: Tokeniser, target: Tokeniser) -> None:
    """Hold the tokenisers against what ``config.json`` says of them.

    Raises:
        ModelError: one has another size, other special symbols or another normalisation.
    """
    wanted = config.symbols.symbols()
    sides = ((SOURCE, source, config.vocabulary.source), (TARGET, target, config.vocabulary.target))
    for name, tokeniser, size in sides:
        place = folder / (SOURCE if config.vocabulary.joint else name)
        if tokeniser.size != size:
            raise ModelError(
                f"{place}: has {tokeniser.size} pieces, config.json says {size}; "
                "the tokeniser belongs to another model"
            )
        if tokeniser.symbols != wanted:
            raise ModelError(
                f"{place}: declares {tokeniser.symbols}, config.json says {wanted}; "
                "the tokeniser belongs to another model"
            )
        if tokeniser.normalisation != config.normalisation:
            raise ModelError(
                f"{place}: normalises text by {tokeniser.normalisation}, config.json says "
                f"{config.normalisation}; the tokeniser belongs to another model"
            )


def check_plausible(folder: Path, config: FolderConfig) -> None:
    """Hold the settings against the size of the weight file, before anything is built from them."""
    tensors, size = count_tensors(folder / WEIGHTS)
    settings, vocabulary = config.model, config.vocabulary
    if isinstance(settings, RecurrentSettings):
        _check_plausible_recurrent(folder, settings, max(vocabulary.source, vocabulary.target), tensors, size)
        return
    fixed = isinstance(settings, TransformerSettings) and settings.positions != "learned"
    learned = 0 if fixed else settings.max_length
    rows = max(vocabulary.source, vocabulary.target, settings.feed_forward, settings.width, learned)
    layers = settings.encoder_layers + settings.decoder_layers
    if layers > tensors:
        raise ModelError(
            f"{folder / CONFIG}: {layers} layers, but {WEIGHTS} holds only {tensors} weights; "
            "the two files are of different models"
        )
    if rows * settings.width > size:
        raise ModelError(
            f"{folder / CONFIG}: asks for a weight of {rows} x {settings.width} numbers, but {WEIGHTS} has "
            f"only {size} bytes; the two files are of different models, or it is cut short"
        )
    if settings.max_length * settings.width > LARGEST_BUFFERS:
        raise ModelError(
            f"{folder / CONFIG}: model.max_length {settings.max_length} at width {settings.width} needs a "
            f"position table of more than {LARGEST_BUFFERS} numbers"
        )


def _check_plausible_recurrent(
    folder: Path, settings: RecurrentSettings, pieces: int, tensors: int, size: int
) -> None:
    if settings.layers_in_all > tensors:
        raise ModelError(
            f"{folder / CONFIG}: {settings.layers_in_all} layers, but {WEIGHTS} holds {tensors} weights; "
            "the two files are of different models"
        )
    rows, columns = max(
        (pieces, settings.embedding),
        (settings.hidden, settings.hidden),
        key=lambda shape: shape[0] * shape[1],
    )
    if max(rows * columns, settings.features) > size:
        raise ModelError(
            f"{folder / CONFIG}: asks for a weight of {rows} x {columns} numbers, but {WEIGHTS} has "
            f"only {size} bytes; the two files are of different models, or it is cut short"
        )
