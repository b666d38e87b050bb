"""Progress of a run: a progress bar on a terminal, log lines, metrics.jsonl and TensorBoard."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TextColumn
from rich.progress import Progress as Bar
from rich.table import Column
from rich.text import Text
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from uwaga.files.atomic import write_file
from uwaga.results.translation import shorten
from uwaga.training.checkpoint import Progress, append_to_file
from uwaga.training.page import METRICS_FILE, REPORT_FILE, SAMPLES_FILE, format_run_report, read_records
from uwaga.training.step import UpdateStats
from uwaga.training.utilisation import Utilisation
from uwaga.training.validation import Validation, samples_record

_PACE_DECAY = 0.95  # weight of earlier updates in the pace, which averages about the last twenty
_BAR_WIDTH, _MIN_TERMINAL_WIDTH = 16, 100  # width of the bar, and minimum width of a terminal that shows it


class RemainingTimeColumn(ProgressColumn):
    """A progress bar column with the remaining time or, before the first update, the elapsed time."""

    max_refresh = None

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(Column(no_wrap=True))
        self._clock = clock

    def render(self, task: Task) -> Text:
        now = self._clock()
        fields = task.fields
        if not fields["pace"]:
            return Text(clock_time(now - fields["started"]), style="progress.elapsed")
        remaining_seconds = fields["pace"] * ((task.total or 0) - task.completed) - (now - fields["last"])
        return Text(f"{clock_time(max(0.0, remaining_seconds))} left", style="progress.remaining")


class TrainingBar:
    """A progress bar with the epoch, the step, current figures such as the loss, and the remaining time.

    Args:
        console: a terminal.
        steps: number of updates of the run.
        clock: function that returns seconds; tests replace it.
    """

    def __init__(self, console: Console, steps: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        bar_columns = [BarColumn(_BAR_WIDTH)] if console.width >= _MIN_TERMINAL_WIDTH else []
        self.bar = Bar(
            TextColumn("epoch {task.fields[epoch]}", table_column=Column(no_wrap=True)),
            TextColumn("step {task.completed:,.0f}/{task.total:,.0f}", table_column=Column(no_wrap=True)),
            *bar_columns,
            TextColumn("{task.fields[figures]}"),
            RemainingTimeColumn(clock),
            console=console,
        )
        now = clock()
        self._task = self.bar.add_task(
            "train", total=steps, figures="preparing", epoch=1, started=now, last=now, pace=0.0
        )

    def start(self, step: int, epoch: int, figures: str) -> None:
        """Show that training starts or resumes after ``step``; the pace is measured from this call."""
        self.bar.update(self._task, completed=step, epoch=epoch, figures=figures, last=self._clock())

    def update(self, step: int, epoch: int, figures: str) -> None:
        """Show the state after an update, whose duration is the time since the last call."""
        fields: Mapping[str, float] = self.bar.tasks[self._task].fields
        now = self._clock()
        elapsed, pace = now - fields["last"], fields["pace"]
        pace = _PACE_DECAY * pace + (1 - _PACE_DECAY) * elapsed if pace else elapsed
        self.bar.update(self._task, completed=step, epoch=epoch, figures=figures, last=now, pace=pace)

    def show(self, figures: str) -> None:
        """Show a text in place of the figures until the next update."""
        self.bar.update(self._task, figures=figures)

    def restart_pace(self) -> None:
        """Exclude the time since the last update, which was spent on a validation, from the pace."""
        self.bar.update(self._task, last=self._clock())


def clock_time(seconds: float) -> str:
    """Return a number of seconds in the form h:mm:ss."""
    total = int(seconds)
    return f"{total // 3600}:{total // 60 % 60:02}:{total % 60:02}"


EVENT_FILE_VERSION = "brain.Event:2"


class EventFile:
    """A TensorBoard event file in ``folder``, created when the first record is written.

    ``start`` is the step from which the run resumes. TensorBoard then ignores records of later steps in the
    earlier event files of the folder.
    """

    def __init__(self, folder: Path, start: int) -> None:
        self.folder, self.start = folder, start
        self.path = folder / f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
        self._has_started = False

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Write the values of a step; ``values`` maps tags to numbers."""
        now = time.time()
        events = []
        if not self._has_started:
            self.folder.mkdir(parents=True, exist_ok=True)
            session = SessionLog(status=SessionLog.START)
            events.append(Event(wall_time=now, file_version=EVENT_FILE_VERSION))
            events.append(Event(wall_time=now, step=self.start + 1, session_log=session))
        scalars = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        events.append(Event(wall_time=now, step=step, summary=Summary(value=scalars)))
        content = io.BytesIO()
        records = RecordWriter(content)
        for event in events:
            records.write(event.SerializeToString())
        append_to_file(self.path, content.getvalue())
        self._has_started = True


_REPORT_SECONDS = 30.0
"""Minimum number of seconds between two reports of averages."""

ValidationPart = Literal["dev", "mean", "final", "before", "also", "after"]
"""The dev set and the weights that a validation evaluates.

On the dev set: ``dev``, the weights at a step; ``mean``, the mean of checkpoints; ``final``, the finished
model. On an additional dev set: ``also``, the weights at a step; ``after``, the finished model. On every dev
set: ``before``, the base model.
"""


class Reporter:
    """Reports averages over updates and validations to the log; used as a context manager.

    Each report is a line of ``metrics.jsonl``, whose ``part`` is ``train`` for averages over updates, or a
    value of :data:`ValidationPart`. Tokens per second and ``utilisation`` cover all processes.
    """

    def __init__(self, folder: Path, steps: int, console: Console | None = None) -> None:
        self.folder, self.steps = folder, steps
        self.console = console or Console(stderr=True)
        self.bar: TrainingBar | None = None
        self._events = EventFile(folder / "logs", 0)
        self._dev_score = ""
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

    def log(self, text: str) -> None:
        """Print a line of text, above the progress bar if it is shown."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)
        if not self.console.is_terminal:
            sys.stderr.flush()

    def start(self, progress: Progress) -> None:
        """Start the log, or resume it after the step of ``progress`` and delete the records of later steps.

        The results of a finished run are kept if the run is extended.
        """
        self._events = EventFile(self.folder / "logs", progress.step)
        dev = self._truncate(progress.step, self.steps)
        if dev:
            self._dev_score = _format_main_score(dev)
        if self.bar:
            self.bar.start(progress.step, progress.epoch + 1, self._dev_score)
        self._reset()

    def update(self, progress: Progress, result: UpdateStats) -> None:
        """Add an update to the averages, which are written every half minute and after the last update."""
        self._loss += result.loss
        self._nll += result.nll
        self._tokens += result.tokens
        self._source_tokens += result.source_tokens
        self._updates += 1
        seconds = time.perf_counter() - self._report_time
        if self.bar:
            self.bar.update(progress.step, progress.epoch + 1, self._format_figures(seconds))
        if seconds < _REPORT_SECONDS and progress.step < self.steps:
            return
        if not self.bar:
            remaining_seconds = (self.steps - progress.step) * seconds / self._updates
            self.log(
                f"step {progress.step}/{self.steps}  epoch {progress.epoch + 1}  "
                f"{self._format_figures(seconds)}  {remaining_seconds / 60:.0f} min left"
            )
        values = {
            "loss": self._loss / self._tokens,
            "perplexity": math.exp(min(50.0, self._nll / self._tokens)),
            "tokens_per_second": self._tokens / seconds,
            "gradient_norm": result.norm,
            "learning_rate": result.rate,
        }
        if self.utilisation:
            values["utilisation"] = self.utilisation.share(self._source_tokens, self._tokens, seconds)
        self._record("train", progress, values, {})
        self._reset()

    @contextlib.contextmanager
    def validating(self, name: str) -> Iterator[None]:
        """Show the name of a validation, and exclude the time spent in the block from the training speed."""
        start = time.perf_counter()
        if self.bar:
            self.bar.show(f"validating {name}")
        yield
        self._report_time += time.perf_counter() - start
        if self.bar:
            self.bar.restart_pace()

    def validation(
        self, progress: Progress, result: Validation, part: ValidationPart = "dev", steps: Sequence[int] = ()
    ) -> None:
        """Report a validation on the dev set; ``steps`` are the steps of the averaged checkpoints, if any."""
        values = {"loss": result.loss, "perplexity": math.exp(min(50.0, result.loss))}
        values |= {score.metric: score.value for score in (result.bleu, result.chrf) if score}
        self._record(part, progress, values, {"steps": list(steps)} if steps else {})
        name = {"dev": f"step {progress.step}", "mean": "mean", "final": "final model"}[part]
        self.log(f"{name}: {_format_scores(values)}")
        if part == "dev":
            self._dev_score = _format_main_score(values)
        if result.samples and part != "mean":
            sample = result.samples[0]
            for title in ("source", "translation", "reference"):
                self.log(f"  {title:<11} {shorten(getattr(sample, title), MAX_SAMPLE_LENGTH)}")
        if result.samples:
            record = {"part": part, "step": progress.step, **samples_record(result.samples, result.by_length)}
            append_to_file(self.folder / SAMPLES_FILE, json.dumps(record).encode() + b"\n")

    def finish(self) -> None:
        """Write the HTML report of the run to its folder."""
        write_file(self.folder / REPORT_FILE, format_run_report(self.folder))

    def report_dev_set(self, progress: Progress, name: str, result: Validation, part: ValidationPart) -> None:
        """Report a validation on the dev set ``name``, without samples."""
        values = {"loss": result.loss}
        values |= {score.metric: score.value for score in (result.bleu, result.chrf) if score}
        record = {"part": part, "step": progress.step, "epoch": progress.epoch, "corpus": name, **values}
        append_to_file(self.folder / METRICS_FILE, json.dumps(record).encode() + b"\n")
        self._events.add(progress.step, {f"{part}/{name}/{key}": value for key, value in values.items()})
        position = part if part != "also" else f"step {progress.step}"
        self.log(f"{name}, {position}: {_format_scores(values)}")

    def _format_figures(self, seconds: float) -> str:
        dev = f"  {self._dev_score}" if self._dev_score else ""
        rate = self._tokens / max(seconds, 1e-9)
        utilisation = ""
        if self.utilisation:
            utilisation = (
                f"  {self.utilisation.share(self._source_tokens, self._tokens, max(seconds, 1e-9)):.0%} MFU"
            )
        return f"loss {self._loss / self._tokens:.3f}{dev}  {rate:,.0f} tokens/s{utilisation}"

    def _record(
        self, part: str, progress: Progress, values: dict[str, float], details: Mapping[str, object]
    ) -> None:
        record = {"part": part, "step": progress.step, "epoch": progress.epoch, **details, **values}
        append_to_file(self.folder / METRICS_FILE, json.dumps(record).encode() + b"\n")
        self._events.add(progress.step, {f"{part}/{name}": value for name, value in values.items()})

    def _truncate(self, step: int, steps: int) -> dict[str, Any] | None:
        """Delete records of steps after ``step``; return the newest remaining dev validation, or None."""
        records: list[dict[str, Any]] = []
        for name in (SAMPLES_FILE, METRICS_FILE):
            path = self.folder / name
            records = []
            text = ""
            for line, values in read_records(path):
                part, record_step = str(values["part"]), int(values["step"])
                # The end of the run is repeated, and so is the validation before its first update.
                is_repeated = (
                    record_step >= steps
                    if part in ("mean", "final", "after")
                    else part == "before" and not step
                )
                if record_step <= step and not is_repeated:
                    records.append(values)
                    text += line
            if path.exists() and text != path.read_text(encoding="utf-8", errors="replace"):
                write_file(path, text)
        return next((values for values in reversed(records) if values["part"] == "dev"), None)

    def _reset(self) -> None:
        self._loss = self._nll = 0.0
        self._tokens = self._source_tokens = self._updates = 0
        self._report_time = time.perf_counter()


SCORE_FORMATS = {
    "loss": "dev loss {:.3f}",
    "perplexity": "perplexity {:,.1f}",
    "bleu": "BLEU {:.2f}",
    "chrf": "chrF {:.2f}",
}
MAX_SAMPLE_LENGTH = 160
"""Maximum number of characters of a sample in the log: early in training, a model may repeat words."""


def _format_scores(values: Mapping[str, float]) -> str:
    return "  ".join(SCORE_FORMATS[name].format(value) for name, value in values.items())


def _format_main_score(values: Mapping[str, float]) -> str:
    name = "bleu" if "bleu" in values else "loss"
    return SCORE_FORMATS[name].format(values[name])


class NullReporter(Reporter):
    """A reporter without output, for all ranks except 0."""

    def __enter__(self) -> NullReporter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    def log(self, text: str) -> None:
        """Do nothing."""

    def start(self, progress: Progress) -> None:
        """Do nothing."""

    def update(self, progress: Progress, result: UpdateStats) -> None:
        """Do nothing."""
