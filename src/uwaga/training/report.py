"""What a run tells: a progress bar on a terminal, lines in a log, metrics.jsonl and TensorBoard."""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from uwaga.training.checkpoint import Progress
from uwaga.training.step import Update
from uwaga.training.validation import Validation

_LINE_SECONDS = 30.0


class Reporter:
    """Collects updates and shows their averages; use it as a context manager."""

    def __init__(self, folder: Path, steps: int, console: Console | None = None) -> None:
        self.folder, self.steps = folder, steps
        self.console = console or Console(stderr=True)
        self.bar: Bar | None = None
        self._writer: Any = None
        self._reset()

    def __enter__(self) -> Reporter:
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.console.is_terminal:
            self.bar = Bar(
                TextColumn("step {task.completed:,.0f} of {task.total:,.0f}"),
                BarColumn(),
                TextColumn("{task.fields[figures]}"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                console=self.console,
            )
            self.bar.start()
            self.task = self.bar.add_task("train", total=self.steps, figures="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar:
            self.bar.stop()
        if self._writer is not None:
            self._writer.close()

    def say(self, text: str) -> None:
        """A line for the reader, above the bar if there is one."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)
        if not self.console.is_terminal:
            sys.stderr.flush()

    def update(self, progress: Progress, done: Update) -> None:
        """Count one update; show the averages about twice a second, or a line every half minute."""
        self._loss += done.loss
        self._nll += done.nll
        self._tokens += done.tokens
        self._updates += 1
        seconds = time.perf_counter() - self._since
        if self.bar:
            self.bar.update(self.task, completed=progress.step, figures=self._figures(done, seconds))
        if seconds < _LINE_SECONDS and progress.step < self.steps:
            return
        if not self.bar:
            left = (self.steps - progress.step) * seconds / self._updates
            self.say(
                f"step {progress.step}/{self.steps}  epoch {progress.epoch + 1}  "
                f"{self._figures(done, seconds)}  {left / 60:.0f} min left"
            )
        values = {
            "loss": self._loss / self._tokens,
            "perplexity": math.exp(min(50.0, self._nll / self._tokens)),
            "tokens_per_second": self._tokens / seconds,
            "gradient_norm": done.norm,
            "learning_rate": done.rate,
        }
        self._record("train", progress, values)
        self._reset()

    def validation(self, progress: Progress, result: Validation) -> None:
        """Show and record a validation."""
        values = {"loss": result.loss, "perplexity": math.exp(min(50.0, result.loss))}
        values |= {score.metric: score.value for score in (result.bleu, result.chrf) if score}
        self._record("dev", progress, values)
        shown = "  ".join(f"{name} {value:.3f}" for name, value in values.items())
        self.say(f"step {progress.step}: dev {shown}")
        if result.sample:
            self.say("  source      {}\n  translation {}\n  reference   {}".format(*result.sample))

    def _figures(self, done: Update, seconds: float) -> str:
        return (
            f"loss {self._loss / self._tokens:.3f}  ppl {math.exp(min(50.0, self._nll / self._tokens)):.2f}  "
            f"{self._tokens / max(seconds, 1e-9):,.0f} tokens/s  lr {done.rate:.2e}"
        )

    def _record(self, part: str, progress: Progress, values: dict[str, float]) -> None:
        line = {"part": part, "step": progress.step, "epoch": progress.epoch, **values}
        with (self.folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        writer = self._tensorboard(progress.step)
        if writer is not None:
            for name, value in values.items():
                writer.add_scalar(f"{part}/{name}", value, progress.step)

    def _tensorboard(self, step: int) -> Any:
        if self._writer is None:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError:
                return None
            # Steps after the one a run resumed from were logged by the part that was killed.
            self._writer = SummaryWriter(str(self.folder / "logs"), purge_step=step)
        return self._writer

    def _reset(self) -> None:
        self._loss = self._nll = 0.0
        self._tokens = self._updates = 0
        self._since = time.perf_counter()
