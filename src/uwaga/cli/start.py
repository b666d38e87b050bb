"""The entry point of the ``uwaga`` command, which starts :mod:`uwaga.cli.main` quickly."""

from __future__ import annotations

import gc
import os
import sys
from types import ModuleType

GC_THRESHOLD = 50_000
"""Net allocations before a garbage collection; importing what a translation needs makes nearly as many."""


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
    gc.disable()
    from uwaga.cli.main import main

    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)
    gc.enable()
    try:
        main()
    finally:
        gc.freeze()  # avoids another collection at exit
