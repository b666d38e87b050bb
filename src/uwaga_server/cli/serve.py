"""``uwaga serve``: run the translation server and manage its API keys."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uwaga.cli.errors import report_errors, require_extra
from uwaga.cli.verb import Verb, VerbGroup
from uwaga.errors import SettingsError

serve = typer.Typer(
    name="serve",
    add_completion=False,
    invoke_without_command=True,
    context_settings={"help_option_names": ["--help", "-h"]},
    rich_markup_mode=None,
    cls=VerbGroup,
)
keys = typer.Typer(name="keys", cls=VerbGroup, help="Add, list and revoke API keys.", no_args_is_help=True)

SettingsFile = Annotated[
    Path | None,
    typer.Option("--settings", help="YAML settings file; command-line options override it."),
]
ModelNames = Annotated[
    list[str] | None,
    typer.Option(
        "--model", "-m",
        help="Model folder, name, or language pair (en-pt); repeatable. Default: the bundled model.",
    ),
]  # fmt: skip
KeyFile = Annotated[Path, typer.Option("--file", help="File of API keys.")]
KeyName = Annotated[str, typer.Argument(help="Name of the client.")]


@serve.callback()
@report_errors()
def run(
    context: typer.Context,
    settings: SettingsFile = None,
    model: ModelNames = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on.", show_default="5000")] = None,
    workers: Annotated[int | None, typer.Option(help="Number of processes.", show_default="1")] = None,
    threads: Annotated[
        int | None, typer.Option(help="Engine threads per process.", show_default="all cores")
    ] = None,
    keys_file: Annotated[
        Path | None, typer.Option("--keys", help="Require an API key from this file.", show_default="no keys")
    ] = None,
    cors: Annotated[
        list[str] | None,
        typer.Option(help="Web origin whose pages may call the server, or * for any; repeatable."),
    ] = None,
    dialect: Annotated[
        list[str] | None,
        typer.Option(help="Name of an API to serve; repeatable.", show_default="v1, libretranslate, deepl"),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            help="Folder for stored glossaries, documents and usage.",
            show_default="a temporary folder if --host is a loopback address",
        ),
    ] = None,
    memories: Annotated[
        Path | None, typer.Option(help="Folder of translation memories.", show_default="none")
    ] = None,
    show: Annotated[
        bool, typer.Option("--show-settings", help="Print all settings as YAML and exit.")
    ] = False,
) -> None:
    """Serve translations over HTTP: uwaga's own API, LibreTranslate's, DeepL's, and a web page.

    **Examples**

        uwaga serve                                     # the bundled model at http://127.0.0.1:5000

        uwaga serve --model en-pt --model models/ours --port 8080

        uwaga serve --host 0.0.0.0 --state state        # for other machines; stores documents and glossaries

        uwaga serve --settings server.yaml --workers 4

        uwaga serve keys add ann && uwaga serve --keys keys.json

        uwaga serve --dialect v1 --dialect google       # see "Dialects" in the documentation
    """
    if context.invoked_subcommand is not None:
        return
    with require_extra("serve", "the server"):
        from uwaga_server.serve import run_server
        from uwaga_server.settings import read_server_settings
    options = {"models": model or None, "host": host, "port": port, "workers": workers, "threads": threads}
    options |= {"keys": None if keys_file is None else str(keys_file), "cors": cors or None}
    folders = {"state": state, "memories": memories}
    options |= {"dialects": dialect or None}
    options |= {name: None if folder is None else str(folder) for name, folder in folders.items()}
    overrides = {key: value for key, value in options.items() if value is not None}
    server_settings = read_server_settings(settings, overrides)
    if show:
        import yaml

        typer.echo(
            yaml.safe_dump(server_settings.model_dump(mode="json"), sort_keys=False, allow_unicode=True),
            nl=False,
        )
        return
    run_server(server_settings)


@keys.command("add", cls=Verb)
@report_errors()
def add(
    name: KeyName,
    file: KeyFile = Path("keys.json"),
    requests_per_minute: Annotated[
        int | None,
        typer.Option(help="Maximum number of requests per minute.", show_default="the server's limit"),
    ] = None,
    characters_per_minute: Annotated[
        int | None,
        typer.Option(help="Maximum number of characters per minute.", show_default="the server's limit"),
    ] = None,
    characters: Annotated[
        int, typer.Option(help="Maximum number of characters in total; 0 for no limit.")
    ] = 0,
    rotate: Annotated[
        bool,
        typer.Option("--rotate", help="Create another key for an existing client, with the same limits."),
    ] = False,
) -> None:
    """Create an API key and print it. Only its hash is stored, so it cannot be shown again.

    **Examples**

        uwaga serve keys add ann

        uwaga serve keys add ann --requests-per-minute 60

        uwaga serve keys add ann --rotate
    """
    with require_extra("serve", "the server"):
        from uwaga_server.auth import add_key, rotate_key
    if rotate:
        if requests_per_minute is not None or characters_per_minute is not None or characters:
            raise SettingsError("--rotate keeps the limits of the existing key; omit the options for limits")
        typer.echo(rotate_key(file, name))
        return
    typer.echo(add_key(file, name, requests_per_minute, characters_per_minute, characters))


@keys.command("list", cls=Verb)
@report_errors()
def list_(file: KeyFile = Path("keys.json")) -> None:
    """List the API keys: the client, the creation date and the limits of each key.

    **Examples**

        uwaga serve keys list
    """
    with require_extra("serve", "the server"):
        from uwaga_server.auth import read_keys
    for key in read_keys(file):
        limits = {"requests/min": key.requests_per_minute, "characters/min": key.characters_per_minute}
        limits |= {"characters": key.characters or None}
        limits_text = ", ".join(f"{value} {unit}" for unit, value in limits.items() if value is not None)
        typer.echo(f"{key.name}\t{key.created}\t{limits_text or 'default limits'}")


@keys.command("remove", cls=Verb)
@report_errors()
def remove(
    name: KeyName,
    file: KeyFile = Path("keys.json"),
    older: Annotated[
        bool, typer.Option("--older", help="Revoke only the older keys, and keep the newest one.")
    ] = False,
) -> None:
    """Revoke the API keys of a client; a running server rejects them within a second.

    **Examples**

        uwaga serve keys remove ann

        uwaga serve keys remove ann --older
    """
    with require_extra("serve", "the server"):
        from uwaga_server.auth import remove_key
    remove_key(file, name, older)


serve.add_typer(keys)
