"""BLEU, chrF and TER of a corpus, with signatures that make the scores comparable.

sacreBLEU computes the scores (Post 2018, "A Call for Clarity in Reporting BLEU Scores"). In this module, each
line may have any number of references, and errors name the line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, cast

from uwaga.errors import DataError, MissingExtraError, SettingsError

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric
    from sacrebleu.metrics.bleu import BLEU


METRICS = ("bleu", "chrf", "chrf++", "ter")
"""Names of the metrics; ``chrf++`` is chrF with word bigrams (Popović 2017)."""

TOKENIZERS = ("13a", "intl", "zh", "char", "none", "ja-mecab", "ko-mecab")
"""Tokenisers of BLEU; ``none`` is for tokenised text. The last two need MeCab."""

DEFAULT_METRICS = ("bleu", "chrf", "ter")


@dataclass(frozen=True)
class MetricScore:
    """The score of one metric over a corpus.

    Attributes:
        metric: name in :data:`METRICS`, or ``comet``.
        value: the score, from 0 to 100 (TER may exceed 100; COMET is about 0 to 1).
        signature: the signature of sacreBLEU, or the model of COMET, to be reported with the value.
        detail: for BLEU, the n-gram precisions and the brevity penalty; otherwise empty.
    """

    metric: str
    value: float
    signature: str
    detail: str = ""

    @property
    def higher_is_better(self) -> bool:
        """True if a higher score is better: False for TER, which counts edits."""
        return self.metric != "ter"


@dataclass(frozen=True)
class Report:
    """The scores of one system.

    Attributes:
        sentences: number of lines.
        scores: the scores, in the order of the requested metrics.
    """

    sentences: int
    scores: tuple[MetricScore, ...]

    def __getitem__(self, metric: str) -> MetricScore:
        for score in self.scores:
            if score.metric == metric:
                return score
        raise KeyError(metric)

    def to_dict(self) -> dict[str, object]:
        """Return the report as JSON values."""
        return asdict(self)


def evaluate(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    metrics: Sequence[str] = DEFAULT_METRICS,
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
) -> Report:
    """Return the scores of a system's output against references.

    Args:
        hypotheses: the detokenised translation of each line.
        references: one or more references of each line; lines may have different numbers of references.
        metrics: names from :data:`METRICS`.
        tokenize: tokeniser of BLEU, from :data:`TOKENIZERS`.
        lowercase: whether BLEU and chrF ignore case. TER always ignores case, as Tercom does by default.

    Raises:
        DataError: there are no lines, the numbers of lines differ, or a line has no reference.
        SettingsError: a metric or tokeniser is unknown.
        MissingExtraError: sacrebleu or the library of the tokeniser is not installed.
    """
    streams = reference_streams(hypotheses, references)
    scores = []
    for name, metric in build_metrics(metrics, tokenize=tokenize, lowercase=lowercase).items():
        result = metric.corpus_score(list(hypotheses), streams)
        signature = metric.get_signature().format()
        scores.append(MetricScore(name, float(result.score), signature, result._verbose.strip()))
    return Report(sentences=len(hypotheses), scores=tuple(scores))


def reference_streams(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return references as sacreBLEU's streams: stream n has the n-th reference of each line, or None.

    The declared return type is that of sacreBLEU, which documents None but does not declare it as allowed.

    Raises:
        DataError: as in :func:`evaluate`.
    """
    if not hypotheses:
        raise DataError("nothing to evaluate: there are no hypotheses")
    if len(hypotheses) != len(references):
        raise DataError(f"{len(hypotheses)} hypotheses but {len(references)} lines of references")
    for number, line in enumerate(references, start=1):
        if isinstance(line, str):
            raise DataError(f"references of line {number}: expected a sequence of texts, found one text")
        if not line:
            raise DataError(f"line {number} has no reference")
    return cast(list[list[str]], [list(stream) for stream in zip_longest(*references)])


def build_metrics(names: Sequence[str], *, tokenize: str, lowercase: bool) -> dict[str, Metric]:
    """Return sacreBLEU's metric objects by name; ``names`` are from :data:`METRICS`.

    Raises:
        SettingsError, MissingExtraError: as in :func:`evaluate`.
    """
    _check_known("metric", names, METRICS)
    _check_known("tokeniser", [tokenize], TOKENIZERS)
    if not names:
        raise SettingsError(f"no metric is given; known: {', '.join(METRICS)}")
    try:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
        from sacrebleu.metrics.ter import TER
    except ImportError:
        raise MissingExtraError("metrics need sacrebleu: pip install 'uwaga[evaluate]'") from None
    metrics: dict[str, Metric] = {}
    for name in names:
        if name == "bleu":
            try:
                # force: no warning about tokenised text, which `none` implies
                metrics[name] = BLEU(tokenize=tokenize, lowercase=lowercase, force=tokenize == "none")
            except (ImportError, RuntimeError) as error:
                reason = " ".join(str(error).split())
                raise MissingExtraError(f"tokeniser {tokenize!r} cannot be used: {reason}") from None
        elif name == "ter":
            metrics[name] = TER()
        else:
            metrics[name] = CHRF(word_order=2 if name == "chrf++" else 0, lowercase=lowercase)
    return metrics


def _check_known(kind: str, names: Sequence[str], supported: Sequence[str]) -> None:
    for name in names:
        if name not in supported:
            raise SettingsError(f"unknown {kind} {name!r}; known: {', '.join(supported)}")


def evaluate_sentences(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    metrics: Sequence[str] = DEFAULT_METRICS,
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
) -> list[dict[str, float]]:
    """Return the scores of each sentence by metric.

    BLEU uses only n-gram orders up to the sentence's length (``effective_order``), as ``sacrebleu
    --sentence-level`` does. Arguments are those of :func:`uwaga.evaluation.evaluate`.

    Raises:
        DataError, SettingsError, MissingExtraError: as in :func:`uwaga.evaluation.evaluate`.
    """
    reference_streams(hypotheses, references)  # checks both
    metric_objects = build_metrics(metrics, tokenize=tokenize, lowercase=lowercase)
    if "bleu" in metric_objects:
        cast("BLEU", metric_objects["bleu"]).effective_order = True
    pairs = list(zip(hypotheses, references, strict=True))
    return [
        {
            name: float(metric.sentence_score(line, list(line_references)).score)
            for name, metric in metric_objects.items()
        }
        for line, line_references in pairs
    ]
