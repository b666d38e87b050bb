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
from uwaga.checkpoints.formats.marian.files import NPZ, ModelFiles, Texts, find_files, read_texts
from uwaga.checkpoints.formats.marian.weights import (
    SETTINGS,
    TURNED_OUTPUT,
    embedded_settings,
    guided_head,
    model_settings,
    read_arrays,
    weight_table,
)
from uwaga.checkpoints.languages import UNKNOWN, Languages
from uwaga.checkpoints.size_checks import check_against_weights, weight_shapes
from uwaga.checkpoints.storage.memory import read_private
from uwaga.checkpoints.storage.tensors import QuantisedTensor, StoredTensor
from uwaga.checkpoints.weight_map import map_weights
from uwaga.engine.shortlist import Shortlist, lexical_checksum
from uwaga.errors import ModelError

MAGIC = 0xF11A48D5013417F5
HEAD = 6
MULTIPLE = 8
"""Marian fills lists up to this, as its products want it."""


def read_lexical_shortlist(path: Path, sizes: tuple[int, int], padded: int, shared: bool) -> Shortlist:
    """Read a shortlist and verify all of it.

    Args:
        path: the file.
        sizes: pieces of the source and the target vocabulary as Marian counts them.
        padded: tokens of both sides including padding, which has no entries.
        shared: True if both sides have the same tokens; source tokens may then be copied.
    """
    content = read_private(path)
    if len(content) < 8 * HEAD:
        raise ModelError(f"{path}: not a shortlist ({len(content)} bytes); fetch it again")
    magic, checksum, common, _, offsets, entries = content[: 8 * HEAD].view("<u8").tolist()
    if magic != MAGIC:
        raise ModelError(f"{path}: not a binary Marian shortlist (it begins with {magic:#x})")
    if 8 * HEAD + 8 * offsets + 4 * entries != len(content):
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
    first = content[8 * HEAD : 8 * (HEAD + offsets)].view("<u8")
    targets = content[8 * (HEAD + offsets) :].view("<u4")
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
            targets.view("<i4"),  # none is so large that it would be negative
            padded,
            own=shared,
            multiple=MULTIPLE,
        )
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None


NAME = "Marian"


def read_marian(path: Path, memory: Memory = "fast") -> Checkpoint:
    """Read a Marian model with the settings, vocabularies and shortlist next to it.

    Args:
        path: the ``.bin`` or ``.npz`` file, or a folder with one (of several, the one its settings name).
        memory: ``none`` reads no weights, see :class:`uwaga.checkpoints.registry.Format`.
    """
    files = find_files(path)
    opened = memory != "none"
    stored, others = read_tensors(files.model, opened)
    options = embedded_settings(files.model, others.get(SETTINGS))
    texts = read_texts(files)
    settings = model_settings(files.model, options)
    check_against_weights(f"{files.model} ({SETTINGS})", settings, max(texts.sizes), stored)
    table = weight_table(files.model, texts.sizes, settings, TURNED_OUTPUT in stored)
    card = read_card(files.model.parent)
    integers = any(isinstance(tensor, QuantisedTensor) for tensor in stored.values())
    return Checkpoint(
        place=path,
        format=NAME,
        family=str(options.get("type", "transformer")),
        settings=settings,
        symbols=texts.symbols,
        source_vocabulary=texts.size,
        target_vocabulary=texts.size,
        vocabulary=texts.sizes,
        source=texts.source,
        target=texts.target,
        languages=Languages(
            texts.source,
            texts.target,
            files.languages or UNKNOWN,
            texts.options.first,
            {},
            card,
            str(path),
        ),
        decoding=texts.options,
        card=card,
        weights=map_weights(weight_shapes(settings, texts.size, texts.size), table, stored, str(files.model))
        if opened
        else None,
        precision="int8" if integers else None,
        shortlist=_shortlist(files, texts),
        alignment_head=guided_head(files.model, options, settings),
        summary=None if opened else WeightSummary.of(stored.values()),
    )


def _shortlist(files: ModelFiles, texts: Texts) -> Callable[[], Shortlist] | None:
    path = files.shortlist
    if path is None:
        return None
    shared = texts.source is texts.target
    return lambda: read_lexical_shortlist(path, texts.sizes, texts.size, shared)


def read_tensors(
    path: Path, contents: bool = True
) -> tuple[dict[str, StoredTensor], dict[str, NDArray[Any]]]:
    """Return the weights of a file of either kind, and its other tensors by name."""
    return read_arrays(path, contents) if path.suffix == NPZ else read_binary(path)
