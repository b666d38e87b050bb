"""One run of a sweep, in a process of its own: ``uwaga train`` with some settings changed."""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from uwaga.errors import DataError
from uwaga.settings.sweep import Value
from uwaga.training.records import METRICS, read_records

LOG = "train.log"
PATIENCE = 120.0
"""Seconds that a run may take to write its checkpoint and leave."""
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


def changes_of(values: Mapping[str, Value]) -> list[str]:
    """The values as ``--set`` takes them: JSON is YAML."""
    return [f"{name}={json.dumps(value)}" for name, value in values.items()]


class TrialRun:
    """A run that goes on by itself.

    Args:
        settings: the file that all runs share.
        values: what is changed for this one.
        folder: of the run. One that was begun goes on from its newest checkpoint.
        metric: what is read of its validations: higher is better, so a loss is turned.
    """

    def __init__(self, settings: Path, values: Mapping[str, Value], folder: Path, metric: str) -> None:
        self.folder, self._metric = folder, metric
        self._told, self._asked = -1, False
        folder.mkdir(parents=True, exist_ok=True)
        changes = [*changes_of(values), f"run={json.dumps(str(folder))}"]
        command = [sys.executable, "-m", "uwaga", "train", str(settings)]
        with (folder / LOG).open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - this program, with settings that were checked
                [*command, *(word for change in changes for word in ("--set", change))],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the sweep, which passes it on
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,
            )

    @property
    def ended(self) -> bool:
        """Whether the process has."""
        return self._process.poll() is not None

    @property
    def failed(self) -> bool:
        """Whether it has ended, and not as it should."""
        return self.ended and self._process.returncode != 0

    def validations(self) -> Iterator[tuple[int, float]]:
        """The steps and scores of validations since the last call."""
        for step, score in self._scores("dev"):
            if step > self._told:
                self._told = step
                yield step, score

    def result(self) -> float:
        """The score of the finished model.

        Raises:
            DataError: the run has not measured it.
        """
        found = [score for _, score in self._scores("final")]
        if not found:
            raise DataError(f"{self.folder / METRICS}: no {self._metric} of the finished model")
        return found[-1]

    def interrupt(self) -> None:
        """Ask the run to write a checkpoint and leave."""
        if not self.ended and not self._asked:
            self._process.send_signal(signal.SIGINT)
        self._asked = True

    def stop(self) -> None:
        """Ask it to, and wait until it has left; one that takes too long is killed, and has an older one."""
        self.interrupt()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def last_words(self) -> str:
        """The last line of its log."""
        text = (self.folder / LOG).read_text(encoding="utf-8", errors="replace")
        return text.rstrip().rpartition("\n")[2]

    def _scores(self, part: str) -> Iterator[tuple[int, float]]:
        for _, values in read_records(self.folder / METRICS):
            score = values.get(self._metric)
            if values["part"] == part and isinstance(score, int | float):
                turned = -float(score) if self._metric == "loss" else float(score)
                yield values["step"], turned if math.isfinite(turned) else -math.inf


def _die_with_parent() -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGTERM)
        if os.getppid() == 1:
            os._exit(1)
