"""Child processes of Python, which import nothing from the current folder.

``python -m`` and ``python -c`` put the current folder first in ``sys.path``: a ``numpy.py`` or ``json.py``
there, as in the folder of a downloaded model, would be executed in place of the library.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

SAFE_PATH = "PYTHONSAFEPATH"
"""Environment variable that is ``python -P`` for all processes that inherit it."""


def python_command(*arguments: str) -> list[str]:
    """Return a command that runs this Python with some arguments."""
    return [sys.executable, "-P", *arguments]


@contextlib.contextmanager
def safe_import_path() -> Iterator[None]:
    """Let processes that a library starts within the block import nothing from the current folder, either.

    multiprocessing, uvicorn and Ray make their commands themselves; the environment is all that reaches them.
    """
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SAFE_PATH]
        else:
            os.environ[SAFE_PATH] = before
