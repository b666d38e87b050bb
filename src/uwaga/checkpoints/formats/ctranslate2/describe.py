"""What a CTranslate2 folder is."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from uwaga.checkpoints.card import read_card
from uwaga.checkpoints.description import SEARCH, Description, WeightSummary, attempt
from uwaga.checkpoints.files.stored_tensor import FORMATS
from uwaga.checkpoints.formats.ctranslate2.binary import ModelFile, read_model_file
from uwaga.checkpoints.formats.ctranslate2.folder import MODEL, NAME, OPTIONS
from uwaga.checkpoints.formats.ctranslate2.vocabulary import read_side
from uwaga.checkpoints.languages import UNKNOWN, stated_pairs, target_codes
from uwaga.search import SearchOptions


def describe_folder(
    folder: Path,
    name: str = NAME,
    options: SearchOptions = OPTIONS,
    languages: tuple[str, str] = UNKNOWN,
) -> Description:
    """Describe a folder.

    Args:
        folder: the folder.
        name: of the format, where it stands inside another.
        options: how to search unless told otherwise.
        languages: codes of source and target.

    Raises:
        ModelError: its ``model.bin`` is damaged.
    """
    file = read_model_file(folder / MODEL)
    card = read_card(folder)
    problems: list[str] = []
    nothing: tuple[tuple[str, ...], ...] = ()
    sides = attempt(lambda: (read_side(folder, "source"), read_side(folder, "target")), nothing, problems)
    return Description(
        place=str(folder),
        format=name,
        family=file.specification,
        sizes=_sizes(file),
        weights=_summary(file),
        vocabulary=tuple(map(len, sides)),
        languages=stated_pairs(languages, target_codes(sides[0] if sides else ()), card.languages),
        licence=card.licence,
        decoding={one.name: getattr(options, one.name) for one in fields(options) if one.name in SEARCH},
        problems=tuple(problems),
    )


def _sizes(file: ModelFile) -> dict[str, int]:
    layers = {
        f"{side} layers": len(
            {found[0] for name in file.variables if (found := re.match(rf"{side}/layer_\d+/", name))}
        )
        for side in ("encoder", "decoder")
    }
    return {name: count for name, count in layers.items() if count} | {"format version": file.version}


def _summary(file: ModelFile) -> WeightSummary:
    """Of the weights, whole numbers that stand for others among them."""
    distinct = {id(one): one for one in file.variables.values()}.values()
    weights = [one for one in distinct if one.stored.ndim and not one.name.endswith("_scale")]
    formats = {"BF16" if one.bfloat16 else FORMATS[one.stored.dtype.name] for one in weights}
    return WeightSummary(
        sum(one.stored.size for one in weights), file.path.stat().st_size, tuple(sorted(formats))
    )
