"""Marian's models (Junczys-Dowmunt et al. 2018), binary or ``.npz``: weights, with settings as YAML in them.

Two things are as Marian computes them, where conversions of its models to other libraries differ a little:
the rates of its sinusoids are ``10000^(-i / (width/2 - 1))``, and its norms add 1e-6 to the variance.
The decoder starts from a zero embedding; that is ``<pad>``, which becomes the last token of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from uwaga.checkpoints.card import read_card
from uwaga.checkpoints.checkpoint import Checkpoint, Memory, WeightSummary
from uwaga.checkpoints.formats.marian.binary import read_binary
from uwaga.checkpoints.formats.marian.files import NPZ, ModelFiles, find_files
from uwaga.checkpoints.formats.marian.npz import read_arrays
from uwaga.checkpoints.formats.marian.options import SETTINGS, embedded_settings, model_settings
from uwaga.checkpoints.formats.marian.shortlist import read_lexical_shortlist
from uwaga.checkpoints.formats.marian.table import TURNED_OUTPUT, weight_table
from uwaga.checkpoints.formats.marian.vocabulary import Texts, read_texts
from uwaga.checkpoints.languages import UNKNOWN, Languages
from uwaga.checkpoints.size_checks import check_against_weights, weight_shapes
from uwaga.checkpoints.storage.tensors import QuantisedTensor, StoredTensor
from uwaga.checkpoints.weight_map import map_weights
from uwaga.engine.shortlist import Shortlist

NAME = "Marian"


def read_marian(path: Path, memory: Memory = "fast") -> Checkpoint:
    """Read a model of Marian's, with the settings, vocabularies and shortlist that stand beside it.

    Args:
        path: the ``.bin`` or ``.npz`` file, or a folder with one (that which its settings name, if several).
        memory: ``none`` reads no weights, see :class:`uwaga.checkpoints.registry.Format`.

    Raises:
        ModelError: a missing or damaged file, a feature that uwaga lacks, a weight that is missing,
            unknown or of another shape, a vocabulary of another size.
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
            card.languages,
            str(path),
        ),
        decoding=texts.options,
        card=card,
        weights=map_weights(weight_shapes(settings, texts.size, texts.size), table, stored, str(files.model))
        if opened
        else None,
        precision="int8" if integers else None,
        shortlist=_shortlist(files, texts),
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
    """Return the weights of a file of either kind, and its other tensors by name.

    Raises:
        ModelError: it is damaged; see :mod:`uwaga.checkpoints.formats.marian.binary`.
    """
    return read_arrays(path, contents) if path.suffix == NPZ else read_binary(path)
