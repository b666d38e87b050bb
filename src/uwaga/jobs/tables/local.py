"""Workers on this machine: this process itself, or processes of their own."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from typing import Any

from uwaga.errors import UwagaError
from uwaga.jobs.tables.pool import WorkerLostError
from uwaga.jobs.tables.rows import TranslatedCell
from uwaga.jobs.tables.work import (
    BatchTranslator,
    Identity,
    Task,
    Work,
    identity,
    packed_error,
    unpacked_error,
)


class OwnWorker:
    """A worker in this process, on the engine's threads."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._translator: BatchTranslator | None = None

    def begin(self) -> Identity:
        self._translator = BatchTranslator(self._work)
        return identity(self._work)

    def translate(self, task: Task) -> list[TranslatedCell]:
        assert self._translator is not None
        return self._translator.translate(task)

    def close(self) -> None:
        """Nothing: its thread ends with its block."""


class ProcessWorker:
    """A worker in a process of its own, which is spoken to in lines of JSON and ends with this one."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._process = subprocess.Popen(
            [sys.executable, "-m", "uwaga.jobs.tables.local"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is the first process's to answer
        )

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    def begin(self) -> Identity:
        return Identity.of(self._ask(self._work.to_dict()))

    def translate(self, task: Task) -> list[TranslatedCell]:
        return [TranslatedCell(*values) for values in self._ask(task._asdict())]

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _ask(self, question: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
            answer = json.loads(line) if line.endswith(b"\n") else None
        except (OSError, ValueError) as error:
            raise WorkerLostError(str(error)) from None
        if answer is None:
            raise WorkerLostError(f"process {self.pid} ended ({self._process.wait()})")
        if "error" in answer:
            raise unpacked_error(answer["error"])
        return answer["answer"]


def _serve() -> None:
    """Answer the lines of standard input until it ends: first the work, then its tasks."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not come among the answers
    translator: BatchTranslator | None = None
    for line in sys.stdin.buffer:
        question = json.loads(line)
        try:
            if translator is None:
                work = Work.from_dict(question)
                translator = BatchTranslator(work)
                answer: object = {"answer": identity(work)}
            else:
                answer = {"answer": translator.translate(Task(**question))}
        except UwagaError as error:
            answer = {"error": packed_error(error)}
        output.write(json.dumps(answer).encode() + b"\n")
        output.flush()


if __name__ == "__main__":
    _serve()
