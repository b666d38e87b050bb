"""The reporter of the processes that do not report: rank 0 alone does."""

from __future__ import annotations

from types import TracebackType

from uwaga.training.checkpoint import Progress
from uwaga.training.report import Reporter
from uwaga.training.step import Update


class MutedReporter(Reporter):
    """Shows nothing and writes nothing of what every process tells."""

    def __enter__(self) -> MutedReporter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    def say(self, text: str) -> None:
        """Nothing."""

    def start(self, progress: Progress) -> None:
        """Nothing."""

    def update(self, progress: Progress, done: Update) -> None:
        """Nothing."""
