"""The entry point of the ``uwaga`` command, which starts :mod:`uwaga.cli.main` quickly."""

from __future__ import annotations

import gc
import os
import sys
from types import ModuleType

GC_THRESHOLD = 100_000
"""Net allocations before a garbage collection; a translation, with its imports, makes 56,000."""
STACK_SLOTS = 66_000
"""Number of unused values in the first frame, for which CPython allocates 1 MiB, so that the frames above it
have 520 kB."""


def start() -> None:
    """Import the command line and run it with the arguments of the process."""
    os.environ.setdefault("PYTHONSAFEPATH", "1")  # also for processes that libraries start
    # Imported modules stay alive, so garbage collection during imports frees nothing. Searching the installed
    # packages for pydantic plugins takes longer than reading a model's settings.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # Even so, pydantic imports importlib.metadata unless its plugin loader is already in sys.modules.
    no_plugins = ModuleType("pydantic.plugin._loader")
    no_plugins.get_plugins = tuple  # type: ignore[attr-defined]
    sys.modules.setdefault(no_plugins.__name__, no_plugins)
    # The threads of numpy's OpenBLAS busy-wait for 2 ** 26 cycles when numpy is imported and after each
    # product. 2 ** 16 are enough for one product after another.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "16")
    gc.disable()
    from uwaga.cli.main import main

    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)
    gc.enable()
    try:
        # CPython allocates frames in chunks of 16 kB. A loop at the end of a chunk would map and unmap the
        # next one in each call; the frames above this one are in its large chunk.
        main.__code__ = main.__code__.replace(co_stacksize=STACK_SLOTS)
        main()
    finally:
        gc.freeze()  # avoids another collection at exit
