"""Marian's models (Junczys-Dowmunt et al. 2018), binary or ``.npz``: weights with embedded YAML settings.

Two details follow Marian, from which conversions of its models to other libraries differ slightly:
the rates of its sinusoids are ``10000^(-i / (width/2 - 1))``, and its norms add 1e-6 to the variance.
The decoder starts from a zero embedding: that of ``<pad>``, which is appended to the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uwaga.checkpoints.card import read_card
from uwaga.checkpoints.checkpoint import Checkpoint, Memory, WeightSummary
from uwaga.checkpoints.formats.marian.binary import read_binary
from uwaga.checkpoints.formats.marian.files import NPZ, ModelFiles, TextConfig, find_files, read_text_config
from uwaga.checkpoints.formats.marian.weights import (
    SETTINGS,
    TRANSPOSED_OUTPUT,
    embedded_settings,
    guided_head,
    model_settings,
    read_arrays,
    weight_table,
)
from uwaga.checkpoints.languages import UNSTATED_LANGUAGES, Languages
from uwaga.checkpoints.size_checks import check_against_weights, weight_shapes
from uwaga.checkpoints.storage.memory import read_private
from uwaga.checkpoints.storage.tensors import QuantisedTensor, StoredTensor
from uwaga.checkpoints.weight_map import map_weights
from uwaga.engine.shortlist import Shortlist, lexical_checksum
from uwaga.errors import ModelError

MAGIC = 0xF11A48D5013417F5
HEADER_NUMBERS = 6
LIST_MULTIPLE = 8
"""Marian pads lists to a multiple of this number, as its matrix products require."""


def read_lexical_shortlist(path: Path, sizes: tuple[int, int], padded: int, shared: bool) -> Shortlist:
    """Read a shortlist and verify its contents.

    Args:
        path: the file.
        sizes: pieces of the source and the target vocabulary as Marian counts them.
        padded: tokens of both sides including padding, which has no entries.
        shared: True if both sides have the same tokens; source tokens may then be copied.
    """
    content = read_private(path)
    if len(content) < 8 * HEADER_NUMBERS:
        raise ModelError(f"{path}: not a shortlist ({len(content)} bytes); fetch it again")
    magic, checksum, common, _, offsets, entries = content[: 8 * HEADER_NUMBERS].view("<u8").tolist()
    if magic != MAGIC:
        raise ModelError(f"{path}: not a binary Marian shortlist (it begins with {magic:#x})")
    if 8 * HEADER_NUMBERS + 8 * offsets + 4 * entries != len(content):
        raise ModelError(
            f"{path}: states {offsets} offsets and {entries} entries, which are not its {len(content)} "
            "bytes: it is cut short or damaged; fetch it again"
        )
    words = content[16 : 16 + (len(content) - 16) // 8 * 8].view("<u8")
    if lexical_checksum(words) != checksum:
        raise ModelError(f"{path}: the checksum is not that of the file; it is damaged: fetch it again")
    if offsets != sizes[0] + 1:
        raise ModelError(
            f"{path}: is for {offsets - 1} source tokens, and the model has {sizes[0]}; the files are of "
            "different models"
        )
    first = content[8 * HEADER_NUMBERS : 8 * (HEADER_NUMBERS + offsets)].view("<u8")
    targets = content[8 * (HEADER_NUMBERS + offsets) :].view("<u4")
    if first[0] != 0 or first[-1] != entries or (first[1:] < first[:-1]).any():
        raise ModelError(f"{path}: its offsets do not go from 0 to its {entries} entries")
    if common < 1 or common > sizes[1] or (entries and int(targets.max()) >= sizes[1]):
        raise ModelError(
            f"{path}: holds target tokens beyond the {sizes[1]} of the model; the files are of different "
            "models"
        )
    ends = np.full(padded - sizes[0], entries, dtype=np.int32)
    try:
        return Shortlist(
            np.arange(common, dtype=np.int32),
            np.concatenate([first.astype(np.int32), ends]),
            targets.view("<i4"),  # all are less than 2^31
            padded,
            own=shared,
            multiple=LIST_MULTIPLE,
        )
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None


NAME = "Marian"


def read_marian(path: Path, memory: Memory = "fast") -> Checkpoint:
    """Read a Marian model with the settings, vocabularies and shortlist next to it.

    Args:
        path: the ``.bin`` or ``.npz`` file, or its folder; of several files, its settings must name one.
        memory: ``none`` reads no weights, see :class:`uwaga.checkpoints.registry.Format`.
    """
    files = find_files(path)
    with_weights = memory != "none"
    stored, other_tensors = read_tensors(files.model, with_weights)
    options = embedded_settings(files.model, other_tensors.get(SETTINGS))
    text = read_text_config(files)
    settings = model_settings(files.model, options)
    check_against_weights(f"{files.model} ({SETTINGS})", settings, max(text.sizes), stored)
    table = weight_table(files.model, text.sizes, settings, TRANSPOSED_OUTPUT in stored)
    card = read_card(files.model.parent)
    integers = any(isinstance(tensor, QuantisedTensor) for tensor in stored.values())
    return Checkpoint(
        path=path,
        format=NAME,
        family=str(options.get("type", "transformer")),
        settings=settings,
        symbols=text.symbols,
        source_vocabulary=text.size,
        target_vocabulary=text.size,
        vocabulary=text.sizes,
        source=text.source,
        target=text.target,
        languages=Languages(
            text.source,
            text.target,
            files.languages or UNSTATED_LANGUAGES,
            text.options.first,
            {},
            card,
            str(path),
        ),
        decoding=text.options,
        card=card,
        weights=map_weights(weight_shapes(settings, text.size, text.size), table, stored, str(files.model))
        if with_weights
        else None,
        precision="int8" if integers else None,
        shortlist=_shortlist(files, text),
        alignment_head=guided_head(files.model, options, settings),
        summary=None if with_weights else WeightSummary.of(stored.values()),
    )


def _shortlist(files: ModelFiles, text: TextConfig) -> Callable[[], Shortlist] | None:
    path = files.shortlist
    if path is None:
        return None
    shared = text.source is text.target
    return lambda: read_lexical_shortlist(path, text.sizes, text.size, shared)


def read_tensors(
    path: Path, contents: bool = True
) -> tuple[dict[str, StoredTensor], dict[str, NDArray[Any]]]:
    """Return the weights of a binary or ``.npz`` file, and its other tensors by name."""
    return read_arrays(path, contents) if path.suffix == NPZ else read_binary(path)
