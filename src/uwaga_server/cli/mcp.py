"""``uwaga mcp``: run a Model Context Protocol server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from uwaga.cli.errors import require_extra
from uwaga_server.cli.serve import SettingsFile

ModelNames = Annotated[
    list[str] | None,
    typer.Option(
        "--model", "-m",
        help="Model folder, name, or language pair (en-pt); repeatable. Default: every installed model.",
    ),
]  # fmt: skip
FolderNames = Annotated[
    list[Path] | None,
    typer.Option(
        "--folder", "-f",
        help="Folder of documents, glossaries and translation memories that clients may read and write; "
        "repeatable. Default: no folder.",
    ),
]  # fmt: skip


def mcp(
    model: ModelNames = None,
    folder: FolderNames = None,
    settings: SettingsFile = None,
    http: Annotated[
        bool, typer.Option("--http", help="Serve over HTTP rather than over standard input and output.")
    ] = False,
    host: Annotated[
        str | None, typer.Option(help="With --http: address to listen on.", show_default="127.0.0.1")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="With --http: port to listen on.", show_default="5000")
    ] = None,
    keys_file: Annotated[
        Path | None,
        typer.Option(
            "--keys", help="With --http: require an API key from this file.", show_default="no keys"
        ),
    ] = None,
    threads: Annotated[int | None, typer.Option(help="Engine threads.", show_default="all cores")] = None,
) -> None:
    """Offer translation to AI assistants and editors as tools of the Model Context Protocol (MCP).

    The client usually starts the server and communicates with it over standard input and output. The tools
    are translate, translate_file, languages, glossary, memory and confirm. They do not access files outside
    the given folders.

    **Examples**

        uwaga mcp                                       # all installed models; no access to files

        uwaga mcp --model en-pt --folder ~/Documents

        uwaga mcp --http --port 8080 --keys keys.json   # at http://127.0.0.1:8080/mcp
    """
    with require_extra("mcp", "the MCP server"):
        from uwaga_server.mcp.serve import read_mcp_settings, run_mcp
    options: dict[str, object] = {
        "host": host,
        "port": port,
        "keys": None if keys_file is None else str(keys_file),
    }
    http_options = [key for key, value in options.items() if value is not None]
    if http_options and not http:
        raise typer.BadParameter(f"--{http_options[0]} requires --http")
    options |= {"models": model or None, "threads": threads}
    overrides = {key: value for key, value in options.items() if value is not None}
    if not http and sys.stdin is not None and sys.stdin.isatty():
        typer.echo(
            "Waiting for an MCP client on standard input; clients usually start this command themselves.",
            err=True,
        )
    run_mcp(read_mcp_settings(settings, overrides), folder or [], http)
