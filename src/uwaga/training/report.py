"""What a run tells: a moving line on a terminal, lines in a log, metrics.jsonl and TensorBoard."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from rich.console import Console

from uwaga.training.bar import TrainingBar
from uwaga.training.checkpoint import Progress
from uwaga.training.disk import append, replace_text
from uwaga.training.events import EventFile
from uwaga.training.page import run_page
from uwaga.training.records import METRICS, REPORT, SAMPLES, read_records
from uwaga.training.samples import samples_record
from uwaga.training.step import Update
from uwaga.training.utilisation import Utilisation
from uwaga.training.validation import Validation

_LINE_SECONDS = 30.0

Judged = Literal["dev", "mean", "final", "before", "also", "after"]
"""What a validation was of: the run's weights at a step, the mean of checkpoints, the finished model.

``before`` is the model that the run began from, ``also`` a further dev set at a step, and ``after`` each dev
set at the end."""


class Reporter:
    """Collects updates and shows their averages; use it as a context manager.

    ``metrics.jsonl`` has one line per report. Its ``part`` is ``train`` for averages over updates, and what
    :data:`Judged` says for validations. Tokens per second and ``utilisation`` are of all processes together.
    """

    def __init__(self, folder: Path, steps: int, console: Console | None = None) -> None:
        self.folder, self.steps = folder, steps
        self.console = console or Console(stderr=True)
        self.bar: TrainingBar | None = None
        self._events = EventFile(folder / "logs", 0)
        self._dev = ""
        self.utilisation: Utilisation | None = None
        self._reset()

    def __enter__(self) -> Reporter:
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.console.is_terminal:
            self.bar = TrainingBar(self.console, self.steps)
            self.bar.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar:
            self.bar.bar.stop()

    def say(self, text: str) -> None:
        """A line for the reader, above the bar if there is one."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)
        if not self.console.is_terminal:
            sys.stderr.flush()

    def start(self, progress: Progress) -> None:
        """The run begins at, or goes on from, this place: what was logged behind it is dropped.

        It will be logged again. The results of a finished run are kept where it is lengthened.

        Raises:
            OSError: the log cannot be written.
        """
        self._events = EventFile(self.folder / "logs", progress.step)
        dev = self._cut(progress.step, self.steps)
        if dev:
            self._dev = _shown_score(dev)
        if self.bar:
            self.bar.start(progress.step, progress.epoch + 1, self._dev)
        self._reset()

    def update(self, progress: Progress, done: Update) -> None:
        """Count one update; show the averages, and write a line every half minute."""
        self._loss += done.loss
        self._nll += done.nll
        self._tokens += done.tokens
        self._source += done.source_tokens
        self._updates += 1
        seconds = time.perf_counter() - self._since
        if self.bar:
            self.bar.update(progress.step, progress.epoch + 1, self._figures(seconds))
        if seconds < _LINE_SECONDS and progress.step < self.steps:
            return
        if not self.bar:
            left = (self.steps - progress.step) * seconds / self._updates
            self.say(
                f"step {progress.step}/{self.steps}  epoch {progress.epoch + 1}  "
                f"{self._figures(seconds)}  {left / 60:.0f} min left"
            )
        values = {
            "loss": self._loss / self._tokens,
            "perplexity": math.exp(min(50.0, self._nll / self._tokens)),
            "tokens_per_second": self._tokens / seconds,
            "gradient_norm": done.norm,
            "learning_rate": done.rate,
        }
        if self.utilisation:
            values["utilisation"] = self.utilisation.share(self._source, self._tokens, seconds)
        self._record("train", progress, values, {})
        self._reset()

    @contextlib.contextmanager
    def validating(self, what: str) -> Iterator[None]:
        """The time inside goes into a validation of ``what``: shown so, and not counted as training's."""
        begun = time.perf_counter()
        if self.bar:
            self.bar.show(f"validating {what}")
        yield
        self._since += time.perf_counter() - begun
        if self.bar:
            self.bar.resume_pace()

    def validation(
        self, progress: Progress, result: Validation, part: Judged = "dev", steps: Sequence[int] = ()
    ) -> None:
        """Show and record a validation; ``steps`` are those whose checkpoints the weights come from."""
        values = {"loss": result.loss, "perplexity": math.exp(min(50.0, result.loss))}
        values |= {score.metric: score.value for score in (result.bleu, result.chrf) if score}
        self._record(part, progress, values, {"steps": list(steps)} if steps else {})
        shown = "  ".join(f"{name} {value:.3f}" for name, value in values.items())
        name = {"dev": f"step {progress.step}", "mean": "mean", "final": "final model"}[part]
        self.say(f"{name}: dev {shown}")
        if part == "dev":
            self._dev = _shown_score(values)
        if result.samples and part != "mean":
            first = result.samples[0]
            self.say(f"  source      {first.source}\n  translation {first.translation}")
            self.say(f"  reference   {first.reference}")
        if result.samples:
            record = {"part": part, "step": progress.step, **samples_record(result.samples, result.by_length)}
            append(self.folder / SAMPLES, json.dumps(record).encode() + b"\n")

    def finish(self) -> None:
        """Write the run's report.

        Raises:
            OSError: it cannot be written.
        """
        replace_text(self.folder / REPORT, run_page(self.folder))

    def also(self, progress: Progress, name: str, result: Validation, part: Judged) -> None:
        """Show and record a validation on one of several dev sets, ``name``."""
        values = {"loss": result.loss}
        values |= {score.metric: score.value for score in (result.bleu, result.chrf) if score}
        line = {"part": part, "step": progress.step, "epoch": progress.epoch, "corpus": name, **values}
        append(self.folder / METRICS, json.dumps(line).encode() + b"\n")
        self._events.add(progress.step, {f"{part}/{name}/{key}": value for key, value in values.items()})
        shown = "  ".join(f"{key} {value:.3f}" for key, value in values.items())
        self.say(f"{name}, {part if part != 'also' else f'step {progress.step}'}: {shown}")

    def _figures(self, seconds: float) -> str:
        dev = f"  {self._dev}" if self._dev else ""
        rate = self._tokens / max(seconds, 1e-9)
        used = ""
        if self.utilisation:
            used = f"  {self.utilisation.share(self._source, self._tokens, max(seconds, 1e-9)):.0%} MFU"
        return f"loss {self._loss / self._tokens:.3f}{dev}  {rate:,.0f} tokens/s{used}"

    def _record(
        self, part: str, progress: Progress, values: dict[str, float], facts: Mapping[str, object]
    ) -> None:
        line = {"part": part, "step": progress.step, "epoch": progress.epoch, **facts, **values}
        append(self.folder / METRICS, json.dumps(line).encode() + b"\n")
        self._events.add(progress.step, {f"{part}/{name}": value for name, value in values.items()})

    def _cut(self, step: int, steps: int) -> dict[str, Any] | None:
        """Cut the records back to ``step`` of ``steps``; the newest of a dev validation that is left."""
        kept: list[dict[str, Any]] = []
        for name in (SAMPLES, METRICS):
            path = self.folder / name
            kept = []
            text = ""
            for line, values in read_records(path):
                part, at = str(values["part"]), int(values["step"])
                # The end of this run comes again, and so does what is measured before its first update.
                ended = at >= steps if part in ("mean", "final", "after") else part == "before" and not step
                if at <= step and not ended:
                    kept.append(values)
                    text += line
            if path.exists() and text != path.read_text(encoding="utf-8", errors="replace"):
                replace_text(path, text)
        return next((one for one in reversed(kept) if one["part"] == "dev"), None)

    def _reset(self) -> None:
        self._loss = self._nll = 0.0
        self._tokens = self._source = self._updates = 0
        self._since = time.perf_counter()


def _shown_score(values: Mapping[str, float]) -> str:
    return f"BLEU {values['bleu']:.2f}" if "bleu" in values else f"dev loss {values['loss']:.3f}"
