"""The entry of the ``uwaga`` command: what makes a short command start sooner, then :mod:`uwaga.cli.main`."""

from __future__ import annotations

import gc
import os


def start() -> None:
    """Import the command line and run it on the arguments of the process.

    Raises:
        SystemExit: always, as :func:`uwaga.cli.main.main` says.
    """
    # Modules are made to stay, so collecting among them frees nothing. Looking through all installed packages
    # for plugins of pydantic, which no setting of ours wants, takes longer than reading a model's settings.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    gc.disable()
    from uwaga.cli.main import main

    gc.freeze()
    gc.enable()
    try:
        main()
    finally:
        gc.freeze()  # or Python would look through all of it once more, before the process gives it back
