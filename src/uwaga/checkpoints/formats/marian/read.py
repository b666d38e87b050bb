"""Reader of Marian's binary and ``.npz`` models (Junczys-Dowmunt et al. 2018), which embed YAML settings.

Two details follow Marian, from which conversions to other libraries differ slightly: sinusoids have the rates
``10000^(-i / (width/2 - 1))``, and norms add 1e-6 to the variance. The decoder starts from a zero embedding,
that of ``<pad>``, a token that is appended to the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uwaga.checkpoints.card import read_card
from uwaga.checkpoints.checkpoint import Checkpoint, Memory, WeightSummary
from uwaga.checkpoints.formats.marian.files import ModelFiles, TextConfig, find_files, read_text_config
from uwaga.checkpoints.formats.marian.weights import (
    SETTINGS,
    model_settings,
    parse_embedded_settings,
    read_arrays,
    read_binary,
    weight_table,
)
from uwaga.checkpoints.languages import UNSTATED_LANGUAGES, Languages
from uwaga.checkpoints.size_checks import check_against_weights, weight_shapes
from uwaga.checkpoints.storage.memory import read_private
from uwaga.checkpoints.storage.tensors import QuantisedTensor, StoredTensor
from uwaga.checkpoints.weight_map import map_weights
from uwaga.engine import _core
from uwaga.engine.shortlist import Shortlist
from uwaga.errors import printable


def read_lexical_shortlist(
    path: Path, sizes: tuple[int, int], padded_size: int, is_shared: bool
) -> Shortlist:
    """Read a lexical shortlist and check its contents.

    Args:
        path: path of the shortlist.
        sizes: number of pieces in the source and in the target vocabulary, without padding.
        padded_size: number of tokens of each side with the padding token, which has no shortlist entries.
        is_shared: True if both sides have the same tokens, so that source tokens may be copied.
    """
    common_tokens, first_indices, targets = _core.marian_lists(printable(path), read_private(path), *sizes)
    return Shortlist(
        np.arange(common_tokens, dtype=np.int32),
        np.concatenate([first_indices, np.full(padded_size - sizes[0], len(targets), dtype=np.int32)]),
        targets,
        padded_size,
        allow_source=is_shared,
        multiple=_core.LEXICAL_MULTIPLE,
    )


NAME = "Marian"


def read_marian(path: Path, memory: Memory = "fast") -> Checkpoint:
    """Read a Marian model with the settings, vocabularies and shortlist next to it.

    Args:
        path: path of the ``.bin`` or ``.npz`` file or of its folder; if the folder contains several, its
            decoding settings must name one.
        memory: ``none`` to read no weights; see :class:`uwaga.checkpoints.registry.Format`.
    """
    files = find_files(path)
    with_weights = memory != "none"
    tensors, other_tensors = read_tensors(files.model, with_weights)
    options = parse_embedded_settings(files.model, other_tensors.get(SETTINGS))
    text = read_text_config(files)
    settings, guided_head = model_settings(files.model, options)
    check_against_weights(f"{files.model} ({SETTINGS})", settings, max(text.sizes), tensors)
    table = weight_table(files.model, text.sizes, settings, tensors)
    card = read_card(files.model.parent)
    has_int8_weights = any(isinstance(tensor, QuantisedTensor) for tensor in tensors.values())
    return Checkpoint(
        path=path,
        format=NAME,
        family=settings.family,
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
        weights=map_weights(weight_shapes(settings, text.size, text.size), table, tensors, str(files.model))
        if with_weights
        else None,
        precision="int8" if has_int8_weights else None,
        shortlist=_shortlist_reader(files, text),
        alignment_head=guided_head,
        summary=None if with_weights else WeightSummary.from_tensors(tensors.values()),
    )


def _shortlist_reader(files: ModelFiles, text: TextConfig) -> Callable[[], Shortlist] | None:
    path = files.shortlist
    if path is None:
        return None
    is_shared = text.source is text.target
    return lambda: read_lexical_shortlist(path, text.sizes, text.size, is_shared)


def read_tensors(
    path: Path, with_contents: bool = True
) -> tuple[dict[str, StoredTensor], dict[str, NDArray[Any]]]:
    """Return the weights of a binary or ``.npz`` file and, separately, its other arrays, both by name."""
    return read_arrays(path, with_contents) if path.suffix == ".npz" else read_binary(path)
