"""Python child processes that import nothing from the current folder.

``python -m`` and ``python -c`` put the current folder first in ``sys.path``, so that a ``numpy.py`` or
``json.py`` in it, for example in the folder of a downloaded model, would be executed in place of the library.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

SAFE_PATH = "PYTHONSAFEPATH"
"""Environment variable that has the effect of ``python -P`` in all processes that inherit it."""


def python_command(*arguments: str) -> list[str]:
    """Return a command that runs this Python interpreter with the given arguments."""
    return [sys.executable, "-P", *arguments]


@contextlib.contextmanager
def safe_import_path() -> Iterator[None]:
    """Prevent imports from the current folder in processes that libraries start in the block.

    multiprocessing, uvicorn and Ray build the commands themselves, so only the environment affects these
    processes.
    """
    previous_value = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        if previous_value is None:
            del os.environ[SAFE_PATH]
        else:
            os.environ[SAFE_PATH] = previous_value
