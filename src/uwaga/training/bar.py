"""The line that moves on a terminal while a run trains."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TextColumn
from rich.progress import Progress as Bar
from rich.table import Column
from rich.text import Text

_MEMORY = 0.95  # share of the pace so far in the pace told: about the last twenty updates
_WIDTH, _NARROW = 16, 100  # of the bar itself, and of terminals on which the figures need its room


class TimeLeft(ProgressColumn):
    """The time that the run will still take, counting down between updates; before the first, its time."""

    max_refresh = None

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(Column(no_wrap=True))
        self._clock = clock

    def render(self, task: Task) -> Text:
        now = self._clock()
        fields = task.fields
        if not fields["pace"]:
            return Text(clock_time(now - fields["begun"]), style="progress.elapsed")
        left = fields["pace"] * ((task.total or 0) - task.completed) - (now - fields["last"])
        return Text(f"{clock_time(max(0.0, left))} left", style="progress.remaining")


class TrainingBar:
    """Shows epoch, step, figures and time left, drawn anew several times a second by a thread of rich's.

    Args:
        console: a terminal.
        steps: updates of the run.
        clock: seconds, for tests.
    """

    def __init__(self, console: Console, steps: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        drawn = [BarColumn(_WIDTH)] if console.width >= _NARROW else []
        self.bar = Bar(
            TextColumn("epoch {task.fields[epoch]}", table_column=Column(no_wrap=True)),
            TextColumn("step {task.completed:,.0f}/{task.total:,.0f}", table_column=Column(no_wrap=True)),
            *drawn,
            TextColumn("{task.fields[figures]}"),
            TimeLeft(clock),
            console=console,
        )
        now = clock()
        self._task = self.bar.add_task(
            "train", total=steps, figures="preparing", epoch=1, begun=now, last=now, pace=0.0
        )

    def start(self, step: int, epoch: int, figures: str) -> None:
        """The run begins, or goes on, behind ``step``: from here its pace is measured."""
        self.bar.update(self._task, completed=step, epoch=epoch, figures=figures, last=self._clock())

    def update(self, step: int, epoch: int, figures: str) -> None:
        """An update is done; the time since the last call was its own."""
        fields: Mapping[str, float] = self.bar.tasks[self._task].fields
        now = self._clock()
        spent, pace = now - fields["last"], fields["pace"]
        pace = _MEMORY * pace + (1 - _MEMORY) * spent if pace else spent
        self.bar.update(self._task, completed=step, epoch=epoch, figures=figures, last=now, pace=pace)

    def show(self, figures: str) -> None:
        """Other figures, while no update is made."""
        self.bar.update(self._task, figures=figures)

    def resume_pace(self) -> None:
        """Leave the time since the last update out of the pace: it went into a validation."""
        self.bar.update(self._task, last=self._clock())


def clock_time(seconds: float) -> str:
    """Seconds as h:mm:ss."""
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
