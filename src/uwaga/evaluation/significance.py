"""The paired bootstrap test of whether one system is better than another (Koehn 2004)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from uwaga.errors import DataError, SettingsError
from uwaga.evaluation.metrics import DEFAULT_METRICS, build_metrics, reference_streams


@dataclass(frozen=True)
class Comparison:
    """A comparison of a system with a baseline on one metric.

    Attributes:
        metric: name of the metric.
        value: score of the system.
        mean: mean score of the system over the resamples.
        interval: half-width of the 95% confidence interval of ``mean``.
        baseline: score of the baseline.
        baseline_mean: mean score of the baseline over the resamples.
        baseline_interval: half-width of the 95% confidence interval of ``baseline_mean``.
        p_value: probability of a difference at least this large between equally good systems.
        signature: signature of sacreBLEU, with the number of samples (``bs``) and the seed.
    """

    metric: str
    value: float
    mean: float
    interval: float
    baseline: float
    baseline_mean: float
    baseline_interval: float
    p_value: float
    signature: str

    @property
    def difference(self) -> float:
        """The difference ``value - baseline``."""
        return self.value - self.baseline

    def to_dict(self) -> dict[str, object]:
        """Return the comparison as JSON values, including its ``difference``."""
        return asdict(self) | {"difference": self.difference}


def compare(
    hypotheses: Sequence[str],
    baseline: Sequence[str],
    references: Sequence[Sequence[str]],
    metrics: Sequence[str] = DEFAULT_METRICS,
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
    samples: int = 1000,
) -> tuple[Comparison, ...]:
    """Compare the outputs of two systems for the same lines by sacreBLEU's paired bootstrap resampling.

    Test sets are sampled with the seed 12345, or with that of the environment variable ``SACREBLEU_SEED``, so
    that the figures equal those of ``sacrebleu --paired-bs``. ``samples`` is the number of test sets to draw;
    the other arguments are those of :func:`uwaga.evaluation.evaluate`.

    Raises:
        DataError: as in ``evaluate``, or the two systems have different numbers of lines.
        SettingsError: as in ``evaluate``, or ``samples`` is less than 1.
        MissingExtraError: as in ``evaluate``.
    """
    if samples < 1:
        raise SettingsError(f"the bootstrap needs 1 sample or more, not {samples}")
    if len(hypotheses) != len(baseline):
        raise DataError(f"{len(hypotheses)} hypotheses but {len(baseline)} lines of the baseline")
    streams = reference_streams(hypotheses, references)
    metric_objects = build_metrics(metrics, tokenize=tokenize, lowercase=lowercase)

    from sacrebleu.significance import PairedTest

    systems: list[tuple[str, Sequence[str]]] = [("baseline", baseline), ("system", hypotheses)]
    results = []
    for name, metric in metric_objects.items():  # one at a time: chrF and chrF++ would share a key
        test = PairedTest(systems, {name: metric}, streams, test_type="bs", n_samples=samples)
        signatures, table = test()
        (key, signature), *_ = signatures.items()
        (
            (baseline_score, baseline_mean, baseline_interval, _),
            (system_score, system_mean, system_interval, p_value),
        ) = map(_figures, table[key])
        results.append(
            Comparison(
                metric=name,
                value=system_score,
                mean=system_mean,
                interval=system_interval,
                baseline=baseline_score,
                baseline_mean=baseline_mean,
                baseline_interval=baseline_interval,
                # Without a difference every resample has one at least as large. sacreBLEU counts strictly
                # larger ones, and would find a system better than itself.
                p_value=1.0 if system_score == baseline_score else p_value,
                signature=signature.format(),
            )
        )
    return tuple(results)


def _figures(result: object) -> tuple[float, float, float, float]:
    """Return the score, mean, half-width of the 95% interval and p-value (1 for the baseline) of a result."""
    from sacrebleu.significance import Result

    assert isinstance(result, Result)
    assert result.mean is not None
    assert result.ci is not None
    p_value = 1.0 if result.p_value is None else result.p_value
    return float(result.score), float(result.mean), float(result.ci), float(p_value)
