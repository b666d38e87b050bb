"""Functions that read the settings of the MCP server, which are those of the HTTP server, and run it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from uwaga.errors import NotInstalledError
from uwaga.library.installed import installed_models
from uwaga_server.mcp.folders import Folders
from uwaga_server.mcp.http import run_http
from uwaga_server.mcp.stdio import run_stdio
from uwaga_server.settings import ServerSettings, read_server_settings


def read_mcp_settings(path: Path | None, changes: Mapping[str, Any]) -> ServerSettings:
    """Return the settings of the MCP server.

    Without a file and without models in the changes, all installed models are served, but not preloaded.

    Args:
        path: the settings file; None for the default settings.
        changes: values by key that override those in the file.
    """
    values = dict(changes)
    if path is None and "models" not in values:
        values["models"] = [
            {"name": model.name, "preload": False}
            for model in installed_models()
            if all(model.languages) and not model.is_damaged
        ]
        if not values["models"]:
            raise NotInstalledError("no model is installed; install one with `uwaga models download`")
    settings = read_server_settings(path, values)
    # Only the HTTP server stores documents, glossaries and usage.
    return settings.model_copy(update={"state": None, "database": None, "page": False})


def run_mcp(settings: ServerSettings, folders: Sequence[Path], http: bool) -> None:
    """Run the MCP server over HTTP, or over standard input and output."""
    allowed_folders = Folders(folders)
    logging.getLogger().addHandler(logging.NullHandler())  # the mcp package logs the contents of requests
    if http:
        run_http(settings, allowed_folders)
    else:
        run_stdio(settings, allowed_folders)
