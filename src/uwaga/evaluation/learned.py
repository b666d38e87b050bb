"""COMET, a metric learned from human ratings (Rei 2020), where its package is installed."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from uwaga.errors import DataError, MissingExtraError, ModelError, reason

MODEL = "Unbabel/wmt22-comet-da"
"""The model that most papers of the last years report."""


class CometScores(NamedTuple):
    """``model`` by its name, its mean over the corpus, and its score of each sentence; about 0 to 1."""

    model: str
    value: float
    sentences: tuple[float, ...]


def comet(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    model: str = MODEL,
    *,
    gpus: int = 0,
    batch_size: int = 8,
) -> CometScores:
    """Score translations with COMET, against the first reference of each line.

    Args:
        sources: the texts that were translated; COMET looks at them too.
        hypotheses: their translations.
        references: for each line its references.
        model: a model's name, which the package fetches where it is not there yet, or a checkpoint's path.
        gpus: how many GPUs to use, 0 for the CPU.
        batch_size: sentences scored together.

    Raises:
        MissingExtraError: the package ``unbabel-comet`` is not installed.
        ModelError: the model cannot be fetched or read.
        DataError: unequal counts, or no lines.
    """
    if not hypotheses:
        raise DataError("nothing to evaluate: there are no hypotheses")
    if not len(sources) == len(hypotheses) == len(references):
        raise DataError(
            f"{len(sources)} sources, {len(hypotheses)} hypotheses, {len(references)} lines of references: "
            "COMET needs as many of each"
        )
    try:
        package: Any = importlib.import_module("comet")
    except ImportError:
        raise MissingExtraError("COMET needs its package: pip install unbabel-comet") from None
    try:
        place = model if model.endswith(".ckpt") else package.download_model(model)
        scorer = package.load_from_checkpoint(place)
    except Exception as error:  # the package lets through whatever its libraries raise
        raise ModelError(f"COMET's model {model} cannot be fetched or read: {reason(error)}") from None
    rows = [
        {"src": source, "mt": line, "ref": ways[0]}
        for source, line, ways in zip(sources, hypotheses, references, strict=True)
    ]
    found = scorer.predict(rows, batch_size=batch_size, gpus=gpus, progress_bar=False)
    return CometScores(model, float(found.system_score), tuple(float(score) for score in found.scores))
