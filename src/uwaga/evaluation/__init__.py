"""BLEU, chrF and TER as sacreBLEU computes them, COMET, and the paired bootstrap test."""

from uwaga.evaluation.learned import CometScores, comet
from uwaga.evaluation.metrics import METRICS, TOKENIZERS, MetricScore, Report, evaluate, evaluate_sentences
from uwaga.evaluation.significance import Comparison, compare

__all__ = [
    "METRICS", "TOKENIZERS", "CometScores", "Comparison", "MetricScore", "Report", "comet", "compare",
    "evaluate", "evaluate_sentences",
]  # fmt: skip
