"""Translate batches with one checkout of uwaga, and print their cost in ms per 1,000 sentences.

The script uses only functions that all revisions have.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from uwaga import Translator
from uwaga.engine import _core


class CoreTime:
    """Measures the user time that this thread spends in the methods of the core."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._calls = 0
        for kind in vars(_core).values():
            if isinstance(kind, type):
                for name, method in list(vars(kind).items()):
                    if callable(method) and not name.startswith("__"):
                        setattr(kind, name, self._timed(method))

    def _timed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            self._calls += 1
            start = resource.getrusage(resource.RUSAGE_THREAD).ru_utime
            try:
                return method(*arguments, **options)
            finally:
                self._calls -= 1
                if not self._calls:  # a call of the core may call back
                    self.seconds += resource.getrusage(resource.RUSAGE_THREAD).ru_utime - start

        return call


def main(folder: str, file: str, tokens: str, batches: str) -> None:
    texts = Path(file).read_text(encoding="utf-8").splitlines()
    translator = Translator.load(folder, threads=1, dtype="int8")
    options = {"beam": 1, "split": "never", "min_length": int(tokens), "max_length": int(tokens) + 1}
    core = CoreTime()
    translator.translate(texts, **options)
    core.seconds = 0.0
    start = resource.getrusage(resource.RUSAGE_SELF)
    for _ in range(int(batches)):
        translator.translate(texts, **options)
    end = resource.getrusage(resource.RUSAGE_SELF)
    scale = 1e6 / (int(batches) * len(texts))
    user, system = end.ru_utime - start.ru_utime, end.ru_stime - start.ru_stime
    rest = user - core.seconds
    values = [core.seconds, system, rest, rest + system]
    faults = (end.ru_minflt - start.ru_minflt) * scale / 1e3
    print(*(value * scale for value in values), faults)


if __name__ == "__main__":
    main(*sys.argv[1:])
