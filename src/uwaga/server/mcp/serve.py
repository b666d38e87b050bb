"""The settings of the server of the protocol, which are those of the HTTP server, and its start."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from uwaga.errors import NotInstalledError
from uwaga.library.installed import installed_models
from uwaga.server.mcp.folders import Folders
from uwaga.server.mcp.http import run_http
from uwaga.server.mcp.stdio import run_stdio
from uwaga.server.settings import ServerSettings, read_server_settings


def read_mcp_settings(path: Path | None, changes: Mapping[str, Any]) -> ServerSettings:
    """Read settings; without a file, every installed model is served and loaded at its first use.

    Args:
        path: the file; None for the defaults.
        changes: values that replace those of the file, by key.
    """
    values = dict(changes)
    if path is None and "models" not in values:
        values["models"] = [
            {"name": model.name, "preload": False}
            for model in installed_models()
            if all(model.languages) and not model.damaged
        ]
        if not values["models"]:
            raise NotInstalledError("no model is installed: `uwaga models download` installs one")
    settings = read_server_settings(path, values)
    # Documents, glossaries and usage that a file stores are of the HTTP server.
    return settings.model_copy(update={"state": None, "database": None, "page": False})


def run_mcp(settings: ServerSettings, folders: Sequence[Path], http: bool) -> None:
    """Serve over HTTP, or over standard input and output."""
    named = Folders(folders)
    logging.getLogger().addHandler(logging.NullHandler())  # the package's messages quote what clients send
    if http:
        run_http(settings, named)
    else:
        run_stdio(settings, named)
