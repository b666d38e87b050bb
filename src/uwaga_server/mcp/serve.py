"""Read the settings of the MCP server, which are those of the HTTP server, and run it."""

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
    """Read the settings; without a file, all installed models are served and loaded at first use.

    Args:
        path: the file; None for the defaults.
        changes: values that replace those of the file, by key.
    """
    values = dict(changes)
    if path is None and "models" not in values:
        values["models"] = [
            {"name": model.name, "preload": False}
            for model in installed_models()
            if all(model.languages) and not model.is_damaged
        ]
        if not values["models"]:
            raise NotInstalledError("no model is installed: `uwaga models download` installs one")
    settings = read_server_settings(path, values)
    # Stored documents, glossaries and usage are for the HTTP server only.
    return settings.model_copy(update={"state": None, "database": None, "page": False})


def run_mcp(settings: ServerSettings, folders: Sequence[Path], http: bool) -> None:
    """Serve over HTTP, or over standard input and output."""
    allowed_folders = Folders(folders)
    logging.getLogger().addHandler(logging.NullHandler())  # log messages of the mcp package quote requests
    if http:
        run_http(settings, allowed_folders)
    else:
        run_stdio(settings, allowed_folders)
