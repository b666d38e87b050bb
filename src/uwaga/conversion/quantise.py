"""Making an int8 folder of a model, and saying what that costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from uwaga.checkpoints.checkpoint import Checkpoint
from uwaga.checkpoints.formats.uwaga.int8 import write_quantised
from uwaga.checkpoints.registry import read
from uwaga.checkpoints.to_engine import pack_weights, to_engine
from uwaga.checkpoints.usual import UsualScore, usual_score
from uwaga.conversion.compare import Agreement, comparison_sources, measure_agreement
from uwaga.conversion.own_sentences import own_sources
from uwaga.engine import NativeModel
from uwaga.search import search


def quantise(
    folder: Path, out: Path, keep: Sequence[str] = (), sample: Sequence[str] | None = None
) -> Agreement:
    """Write the model of ``folder`` as the int8 folder ``out`` and compare the two.

    Args:
        folder: a Transformer or a decoder-only model, of any format but int8.
        out: the folder to make.
        keep: patterns of the names of matrices that stay bfloat16, as ``output`` or ``decoder.5.*``.
        sample: sentences to compare on, and to measure the usual score on where there are a hundred; None for
            those of :mod:`uwaga.conversion.own_sentences`, and the model's own figures are kept.

    Raises:
        ModelError: the model cannot be read, is of another family or in int8 already, or ``out`` cannot be
            written.
        SettingsError: a pattern in ``keep`` fits no matrix.
    """
    checkpoint = read(folder)
    packed = pack_weights(checkpoint, "int8", tuple(keep))
    exact = to_engine(checkpoint, "float32", threads=1)
    rounded = to_engine(checkpoint, "int8", threads=1, packed=packed)
    if sample is None:
        sources, what = own_sources(checkpoint, exact)
    else:
        sources, what = comparison_sources(sample, checkpoint.source, exact), "sentences"
    card = checkpoint.card.text or f"# {folder.name}\n"
    card += "\nWeights quantised to int8 by `uwaga convert --int8`.\n"
    usual = checkpoint.usual if sample is None else measure_usual(checkpoint, rounded, sources)
    write_quantised(out, replace(checkpoint, usual=usual), packed, card)
    return replace(measure_agreement(exact, rounded, sources), measured_on=what)


def measure_usual(
    checkpoint: Checkpoint, model: NativeModel, sources: Sequence[Sequence[int]]
) -> UsualScore | None:
    """What the scores of a model's own translations of a sample usually are.

    Args:
        checkpoint: the model as it is stored: says how to search, and the figures kept of a small sample.
        model: the engine to measure.
        sources: token ids with their end symbols.
    """
    if checkpoint.task != "translate":
        return None
    options = checkpoint.decoding.changed({"sample": False, "nbest": 1})
    found = [best for [best, *_] in search(model, sources, options)]
    return usual_score(found) or checkpoint.usual
