"""The entry point of the ``uwaga`` command, which starts :mod:`uwaga.cli.main` quickly."""

from __future__ import annotations

import gc
import os
import sys
from types import ModuleType

OBJECTS = 50_000
"""New objects after which Python searches for garbage; a command imports nearly as many to translate."""


def start() -> None:
    """Import the command line and run it with the arguments of the process."""
    os.environ.setdefault("PYTHONSAFEPATH", "1")  # also for processes that libraries start
    # Imported modules stay alive, so garbage collection during imports frees nothing. Searching all installed
    # packages for plugins of pydantic takes longer than reading a model's settings.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # Even then pydantic imports importlib.metadata, unless the module that searches is there already.
    no_plugins = ModuleType("pydantic.plugin._loader")
    no_plugins.get_plugins = tuple  # type: ignore[attr-defined]
    sys.modules.setdefault(no_plugins.__name__, no_plugins)
    gc.disable()
    from uwaga.cli.main import main

    gc.freeze()
    gc.set_threshold(OBJECTS)
    gc.enable()
    try:
        main()
    finally:
        gc.freeze()  # else Python would collect once more at exit
