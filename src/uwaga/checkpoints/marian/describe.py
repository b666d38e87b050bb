"""What a Marian model is: of the weights the arrays' headers, and the settings among them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from uwaga.checkpoints.card import read_card
from uwaga.checkpoints.description import SEARCH, Description, Pairs, WeightSummary, attempt
from uwaga.checkpoints.files.npz import read_array_header
from uwaga.checkpoints.files.stored_tensor import FORMATS
from uwaga.checkpoints.files.zip import open_archive
from uwaga.checkpoints.languages import UNKNOWN, stated_pairs, target_codes
from uwaga.checkpoints.marian.npz import LARGEST, NAME, SETTINGS
from uwaga.checkpoints.marian.vocabulary import find_model, read_decoding, read_vocabularies
from uwaga.decoding import SearchOptions
from uwaga.errors import ModelError
from uwaga.settings.yaml_reader import load_yaml

SIZES = {
    "width": "dim-emb",
    "encoder layers": "enc-depth",
    "decoder layers": "dec-depth",
    "heads": "transformer-heads",
    "feed-forward": "transformer-dim-ffn",
}


def describe_marian(place: Path) -> Description:
    """Describe a ``.npz`` file, or the folder that holds one.

    Raises:
        ModelError: it is damaged, or the folder holds several.
    """
    path = find_model(place)
    settings, summary, tables = _headers(path)
    card = read_card(path.parent)
    problems: list[str] = []
    stated = settings.get("dim-vocabs")
    vocabulary = tuple(one for one in (stated if isinstance(stated, list) else []) if type(one) is int)
    nothing: Pairs = ((), ())
    return Description(
        place=str(place),
        format=NAME,
        family=str(settings.get("type", "transformer")),
        sizes={name: settings[key] for name, key in SIZES.items() if type(settings.get(key)) is int},
        weights=summary,
        vocabulary=vocabulary if vocabulary and all(vocabulary) else tuple((tables * 2)[:2]),
        languages=attempt(
            lambda: stated_pairs(UNKNOWN, target_codes(read_vocabularies(path)[0]), card.languages),
            nothing,
            problems,
        ),
        licence=card.licence,
        decoding=attempt(lambda: _decoding(path), {}, problems),
        problems=tuple(problems),
    )


def _decoding(path: Path) -> dict[str, object]:
    options = read_decoding(path)
    return {one.name: getattr(options, one.name) for one in fields(SearchOptions) if one.name in SEARCH}


def _headers(path: Path) -> tuple[Mapping[str, Any], WeightSummary, list[int]]:
    """The settings, what the weights are, and the rows of the embeddings."""
    count, formats, settings = 0, set[str](), None
    tables: list[int] = []
    with open_archive(path, "a model of Marian's") as archive:
        for member in archive.members:
            name = member.removesuffix(".npy")
            with archive.open(member) as stream:
                shape, _, dtype = read_array_header(path, member, stream)
                if name == SETTINGS:
                    settings = load_yaml(stream.read(LARGEST).rstrip(b"\0").decode("utf-8"))
                elif np.issubdtype(dtype, np.floating):
                    count += math.prod(shape)
                    formats.add(FORMATS.get(dtype.name, dtype.name))
                    if name.endswith("Wemb") and len(shape) == 2:
                        tables.append(shape[0])
    if not isinstance(settings, dict) or not settings:
        raise ModelError(f"{path}: holds no {SETTINGS!r}, so it is not a model that Marian saved")
    return settings, WeightSummary(count, path.stat().st_size, tuple(sorted(formats))), tables
