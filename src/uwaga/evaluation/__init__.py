"""Corpus metrics: BLEU, chrF and TER as sacreBLEU computes them, and the paired bootstrap."""

from uwaga.evaluation.metrics import METRICS, TOKENIZERS, MetricScore, Report, evaluate
from uwaga.evaluation.significance import Comparison, compare

__all__ = ["METRICS", "TOKENIZERS", "Comparison", "MetricScore", "Report", "compare", "evaluate"]
