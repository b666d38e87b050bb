"""Making an int8 folder of a model, and saying what that costs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from uwaga.checkpoints.uwaga.int8 import write_quantised
from uwaga.checkpoints.uwaga.schema import CARD
from uwaga.conversion.compare import Agreement, comparison_sources, measure_agreement
from uwaga.translator.native import open_weights


def quantise(
    folder: Path, out: Path, keep: Sequence[str] = (), sample: Sequence[str] | None = None
) -> Agreement:
    """Write the model of ``folder`` as the int8 folder ``out`` and compare the two.

    Args:
        folder: a Transformer's folder, ours or one that :mod:`uwaga.checkpoints.huggingface.registry` reads.
        out: the folder to make.
        keep: patterns of the names of matrices that stay bfloat16, as ``output`` or ``decoder.5.*``.
        sample: sentences to compare on; without any, sources are drawn from the vocabulary.

    Raises:
        ModelError: the model is no Transformer, cannot be read, or ``out`` cannot be written.
        SettingsError: a pattern in ``keep`` fits no matrix.
    """
    weights = open_weights(folder)
    exact = weights.model("float32", threads=1)
    packed = weights.packed("int8", tuple(keep))
    rounded = weights.model("int8", threads=1, packed=packed)
    sources = comparison_sources(sample, weights.source, exact)
    card = folder / CARD
    text = card.read_text(encoding="utf-8") if card.is_file() else f"# {folder.name}\n"
    write_quantised(
        out,
        weights.settings,
        packed,
        weights.source,
        weights.target,
        weights.decoding,
        weights.languages,
        text + "\nWeights quantised to int8 by `uwaga convert --int8`.\n",
    )
    return measure_agreement(exact, rounded, sources)
