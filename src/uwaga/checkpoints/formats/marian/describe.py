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
from uwaga.checkpoints.files.private_memory import PrivateFile
from uwaga.checkpoints.files.stored_tensor import FORMATS
from uwaga.checkpoints.formats.marian.binary import ALPHA, EMBEDDINGS, read_entries
from uwaga.checkpoints.formats.marian.files import NPZ, ModelFiles, find_files
from uwaga.checkpoints.formats.marian.options import LARGEST, SETTINGS, embedded_settings
from uwaga.checkpoints.formats.marian.read import NAME
from uwaga.checkpoints.formats.marian.vocabulary import read_decoding, read_vocabularies
from uwaga.checkpoints.languages import UNKNOWN, stated_pairs, target_codes
from uwaga.files.zip import open_archive
from uwaga.search import SearchOptions

SIZES = {
    "width": "dim-emb",
    "encoder layers": "enc-depth",
    "decoder layers": "dec-depth",
    "heads": "transformer-heads",
    "feed-forward": "transformer-dim-ffn",
}


def describe_marian(place: Path) -> Description:
    """Describe a model's file, or the folder that holds one.

    Raises:
        ModelError: it is damaged, or the folder holds several.
    """
    files = find_files(place)
    settings, summary, tables = (_npz if files.model.suffix == NPZ else _binary)(files.model)
    card = read_card(files.model.parent)
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
            lambda: stated_pairs(
                files.languages or UNKNOWN, target_codes(read_vocabularies(files)[0]), card.languages
            ),
            nothing,
            problems,
        ),
        licence=card.licence,
        decoding=attempt(lambda: _decoding(files), {}, problems),
        problems=tuple(problems),
    )


def _decoding(files: ModelFiles) -> dict[str, object]:
    options = read_decoding(files)
    return {one.name: getattr(options, one.name) for one in fields(SearchOptions) if one.name in SEARCH}


Headers = tuple[Mapping[str, Any], WeightSummary, list[int]]
"""The settings, what the weights are, and the rows of the embeddings."""


def _binary(path: Path) -> Headers:
    file = PrivateFile(path)
    entries = {entry.name: entry for entry in read_entries(path, file)}
    settings = entries.pop(SETTINGS, None)
    content = None if settings is None else file.part(settings.start, min(settings.bytes, LARGEST + 1))
    weights = [entry for name, entry in entries.items() if not name.endswith(ALPHA)]
    return (
        embedded_settings(path, content),
        WeightSummary(
            sum(math.prod(entry.shape) for entry in weights),
            file.size,
            tuple(sorted({entry.format for entry in weights})),
        ),
        [entry.shape[0] for entry in weights if entry.name.endswith(EMBEDDINGS) and len(entry.shape) == 2],
    )


def _npz(path: Path) -> Headers:
    count, formats, settings = 0, set[str](), None
    tables: list[int] = []
    with open_archive(path, "a model of Marian's") as archive:
        for member in archive.members:
            name = member.removesuffix(".npy")
            with archive.open(member) as stream:
                shape, _, dtype = read_array_header(path, member, stream)
                if name == SETTINGS:
                    settings = np.frombuffer(stream.read(LARGEST), dtype=np.uint8)
                elif np.issubdtype(dtype, np.floating):
                    count += math.prod(shape)
                    formats.add(FORMATS.get(dtype.name, dtype.name))
                    if name.endswith("Wemb") and len(shape) == 2:
                        tables.append(shape[0])
    return (
        embedded_settings(path, settings),
        WeightSummary(count, path.stat().st_size, tuple(sorted(formats))),
        tables,
    )
