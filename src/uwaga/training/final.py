"""What becomes the finished model: the mean of the last checkpoints, or the best one where that is better."""

from __future__ import annotations

from dataclasses import dataclass

from uwaga.training.checkpoint import average_checkpoints, checkpoint_path, regular_steps
from uwaga.training.run import Run, load_weights
from uwaga.training.validation import Validation


@dataclass(frozen=True)
class FinalWeights:
    """Where the weights of a finished model come from: the steps of their checkpoints, and as text."""

    steps: tuple[int, ...]
    origin: str


def load_final_weights(run: Run) -> FinalWeights:
    """Put the finished model's weights into the run's model.

    The mean of the newest ``training.average`` checkpoints is validated as every checkpoint was. Where it
    scores worse than the best of them by ``training.early_stopping_metric``, that one is taken. Both are said
    and logged.
    """
    best = _best_step(run)
    if run.training.average and (
        steps := tuple(regular_steps(run.folder, run.training)[-run.training.average :])
    ):
        mean = f"mean of the checkpoints of steps {', '.join(map(str, steps))}"
        _load(run, steps)
        if best is None or steps == (best,):
            return FinalWeights(steps, mean)
        result = run.validate("the mean", run.training.validation_beam)
        run.reporter.validation(run.progress, result, "mean", steps)
        told = _compared(run, result, best)
        if result.score(run.training.early_stopping_metric) >= run.progress.best[best]:
            return FinalWeights(steps, f"{mean}, not worse on the dev set than step {best} ({told})")
        _load(run, (best,))
        return FinalWeights(
            (best,), f"checkpoint of step {best}, better on the dev set than the {mean} ({told})"
        )
    if best is not None:
        _load(run, (best,))
        return FinalWeights((best,), f"checkpoint of step {best}, the best on the dev set")
    return FinalWeights((run.progress.step,), f"weights of step {run.progress.step}")


def _best_step(run: Run) -> int | None:
    there = [step for step in run.progress.best if checkpoint_path(run.folder, step).exists()]
    return max(there, key=lambda step: run.progress.best[step], default=None)


def _load(run: Run, steps: tuple[int, ...]) -> None:
    paths = [checkpoint_path(run.folder, step) for step in steps]
    load_weights(run.model, average_checkpoints(paths), paths[-1])


def _compared(run: Run, mean: Validation, best: int) -> str:
    """``dev loss 4.281 of the mean, 3.120 of step 240``."""
    metric = run.training.early_stopping_metric
    sign = -1 if metric == "loss" else 1
    return (
        f"dev {metric} {sign * mean.score(metric):.6g} of the mean, "
        f"{sign * run.progress.best[best]:.6g} of step {best}"
    )
