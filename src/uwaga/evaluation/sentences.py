"""Metrics of each sentence by itself, as sacreBLEU computes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from uwaga.evaluation.metrics import DEFAULT_METRICS, build_metrics, reference_streams

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU


def evaluate_sentences(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    metrics: Sequence[str] = DEFAULT_METRICS,
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
) -> list[dict[str, float]]:
    """The scores of every sentence, by metric, in the order given.

    BLEU counts only the orders of n-grams that a sentence is long enough for (``effective_order``), as
    ``sacrebleu --sentence-level`` does. Arguments are those of :func:`uwaga.evaluation.evaluate`.

    Raises:
        DataError, SettingsError, MissingExtraError: as :func:`uwaga.evaluation.evaluate`.
    """
    reference_streams(hypotheses, references)  # which checks both
    built = build_metrics(metrics, tokenize=tokenize, lowercase=lowercase)
    if "bleu" in built:
        cast("BLEU", built["bleu"]).effective_order = True
    pairs = list(zip(hypotheses, references, strict=True))
    return [
        {name: float(metric.sentence_score(line, list(ways)).score) for name, metric in built.items()}
        for line, ways in pairs
    ]
