"""What uwaga's own model folders are, float and int8."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from uwaga.checkpoints.card import read_card
from uwaga.checkpoints.description import SEARCH, Description, WeightSummary, attempt
from uwaga.checkpoints.files.json_file import peek
from uwaga.checkpoints.files.safetensors_read import read_header
from uwaga.checkpoints.formats.uwaga.int8_config import NAME as INT8
from uwaga.checkpoints.formats.uwaga.int8_config import (
    QuantisedConfig,
    check_layers,
    read_decoding,
    read_quantised_config,
)
from uwaga.checkpoints.formats.uwaga.int8_tokenisers import VOCABULARIES
from uwaga.checkpoints.formats.uwaga.names import CONFIG, INT8_WEIGHTS, SOURCE, WEIGHTS
from uwaga.checkpoints.formats.uwaga.read import NAME
from uwaga.checkpoints.formats.uwaga.schema import model_values, read_config
from uwaga.checkpoints.languages import stated_pairs, target_codes
from uwaga.engine.layout import stored_shapes
from uwaga.files.regular import read_regular
from uwaga.tokenizers.tokeniser import MAX_BYTES, language_tags


def describe_folder(folder: Path) -> Description:
    """Describe a float folder.

    Raises:
        ModelError: its ``config.json`` cannot be read.
    """
    config = read_config(folder)
    card = read_card(folder)
    problems: list[str] = []
    path = folder / WEIGHTS
    return Description(
        place=str(folder),
        format=NAME,
        family=config.model.family,
        sizes=_stated(model_values(config.model)),
        weights=attempt(
            lambda: WeightSummary.of(read_header(path).values(), path.stat().st_size),
            WeightSummary(None, 0, ()),
            problems,
        ),
        vocabulary=(config.vocabulary.source, config.vocabulary.target),
        languages=stated_pairs(config.languages, _marked(folder), card.languages),
        licence=card.licence,
        decoding=config.decoding.model_dump(mode="json"),
        problems=tuple(problems),
    )


def describe_int8(folder: Path) -> Description:
    """Describe an int8 folder: as many weights as the model that it was made of, in a quarter of the bytes.

    Raises:
        ModelError: its ``config.json`` cannot be read.
    """
    config = read_quantised_config(folder)
    card = read_card(folder)
    problems: list[str] = []
    marked = (
        target_codes(peek(folder / VOCABULARIES[0])) if config.tokenisers == "marian" else _marked(folder)
    )
    options, _ = read_decoding(config, folder / CONFIG)
    decoding: dict[str, object] = {key: one for key, one in vars(options).items() if key in SEARCH}
    if config.decoding is not None:
        decoding = config.decoding.model_dump(mode="json")
    return Description(
        place=str(folder),
        format=INT8,
        family=config.model.family,
        sizes=_stated(model_values(config.model)),
        weights=attempt(lambda: _int8_weights(folder, config), WeightSummary(None, 0, ()), problems),
        vocabulary=config.sizes,
        languages=stated_pairs(config.languages, marked, card.languages),
        licence=card.licence,
        decoding=decoding,
        problems=tuple(problems),
    )


def _int8_weights(folder: Path, config: QuantisedConfig) -> WeightSummary:
    check_layers(folder / INT8_WEIGHTS, config)
    return WeightSummary(
        sum(math.prod(shape) for shape in stored_shapes(config.model, *config.sizes).values()),
        config.weights.bytes,
        ("I8", *(["BF16"] if config.weights.kept else []), "F32"),
    )


def _marked(folder: Path) -> tuple[str, ...]:
    """Codes of the target languages that tags of our own tokeniser choose."""
    try:
        return target_codes(language_tags(read_regular(folder / SOURCE, MAX_BYTES)))
    except OSError:
        return ()


def _stated(model: Mapping[str, Any]) -> dict[str, int | float | str | bool]:
    return {
        name.replace("_", " "): value
        for name, value in model.items()
        if name != "family" and type(value) in (int, float, str)
    }
