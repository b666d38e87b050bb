"""COMET, a metric learned from human ratings (Rei 2020); it needs the package ``unbabel-comet``."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from uwaga.errors import DataError, MissingExtraError, ModelError, reason

MODEL = "Unbabel/wmt22-comet-da"
"""The model with which most recent papers report scores."""


class CometScores(NamedTuple):
    """The scores of COMET, which are mostly between 0 and 1.

    Attributes:
        model: the name of the model.
        value: the mean score over the corpus.
        sentences: the score of each sentence.
    """

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
    """Return the COMET scores of translations, compared with the first reference of each line.

    Args:
        sources: the texts that were translated, which COMET also reads.
        hypotheses: their translations.
        references: the references of each line.
        model: a model's name, which the package downloads if necessary, or a checkpoint's path.
        gpus: number of GPUs, 0 for the CPU.
        batch_size: number of sentences scored together.

    Raises:
        MissingExtraError: the package ``unbabel-comet`` is not installed.
        ModelError: the model cannot be fetched or read.
        DataError: the numbers of lines differ, or there are no lines.
    """
    if not hypotheses:
        raise DataError("nothing to evaluate: there are no hypotheses")
    if not len(sources) == len(hypotheses) == len(references):
        raise DataError(
            f"{len(sources)} sources, {len(hypotheses)} hypotheses, {len(references)} lines of references: "
            "COMET needs the same number of each"
        )
    try:
        package: Any = importlib.import_module("comet")
    except ImportError:
        raise MissingExtraError("COMET needs its package: pip install unbabel-comet") from None
    try:
        path = model if model.endswith(".ckpt") else package.download_model(model)
        scorer = package.load_from_checkpoint(path)
    except Exception as error:  # the package passes on the errors of its libraries
        raise ModelError(f"COMET's model {model} cannot be fetched or read: {reason(error)}") from None
    rows = [
        {"src": source, "mt": line, "ref": line_references[0]}
        for source, line, line_references in zip(sources, hypotheses, references, strict=True)
    ]
    result = scorer.predict(rows, batch_size=batch_size, gpus=gpus, progress_bar=False)
    return CometScores(model, float(result.system_score), tuple(float(score) for score in result.scores))
