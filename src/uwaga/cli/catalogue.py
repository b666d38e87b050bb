"""``uwaga models list``, ``download``, ``remove`` and ``path``: the catalogue of models."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from uwaga.cli.info import PIPED_WIDTH, readable_size
from uwaga.cli.meter import transfer_meter
from uwaga.errors import CatalogueError, UwagaError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from uwaga.library import CatalogueEntry, Listing

MAX_PROBLEMS = 5
"""Maximum number of refused entries that are printed."""

Source = Annotated[str | None, typer.Option("--from", help="The language to translate from.")]
Target = Annotated[str | None, typer.Option("--to", help="The language to translate to.")]
FromSource = Annotated[
    str | None,
    typer.Option(
        help="The catalogue: firefox, argos, opus-mt, firefox-records, folder or packages.",
        show_default="firefox",
    ),
]
Mirror = Annotated[
    str | None, typer.Option(help="A URL or a folder to read instead of the catalogue's own address.")
]
IncludeAll = Annotated[
    bool, typer.Option("--all", help="Include unreleased models, and every catalogue if none is named.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]
CatalogueModel = Annotated[
    str,
    typer.Argument(
        metavar="PAIR|NAME", help="Both languages, such as `en-pt`, or a name that `uwaga models list` shows."
    ),
]
Architecture = Annotated[
    str | None,
    typer.Option(
        help="Architecture, if the pair has several models: tiny, base-memory or base.",
        show_default="the best",
    ),
]
Update = Annotated[
    bool,
    typer.Option("--update", help="Replace an installed model whose version differs from the catalogue's."),
]
AcceptLicence = Annotated[
    bool, typer.Option("--yes", "-y", help="Show the licence and accept it without a prompt.")
]
NameOrPair = Annotated[
    str,
    typer.Argument(
        metavar="PAIR|NAME", help="A name that `uwaga models` lists, or both languages, such as `en-pt`."
    ),
]
Name = Annotated[str, typer.Argument(help="A name that `uwaga models` lists.")]


def list_available(
    source: Source = None,
    target: Target = None,
    include_all: IncludeAll = False,
    from_source: FromSource = None,
    mirror: Mirror = None,
    as_json: AsJson = False,
) -> None:
    """List the models that can be downloaded, the best of each language pair first.

    Only the catalogue is downloaded. Without `--all` it lists Firefox's released models. The score is the
    mean of the scores that the catalogue states (BLEU, chrF, COMET).

    **Examples**

        uwaga models list --from en --to pt

        uwaga models list --to en --all

        uwaga models list --from en --to de --from-source opus-mt
    """
    listings, failures = _listings(source, target, include_all, from_source, mirror)
    entries = [entry for listing in listings for entry in listing.entries if include_all or entry.released]
    if as_json:
        for entry in entries:
            typer.echo(json.dumps(entry.to_dict(), ensure_ascii=False))
    elif entries:
        _print(entries)
    _print_problems([problem for listing in listings for problem in listing.problems], include_all)
    if failures and not entries:
        raise failures[0]
    for failure in failures:
        typer.echo(f"not listed: {failure}", err=True)
    if not entries:
        languages = " ".join(
            f"{direction} {code}" for direction, code in (("from", source), ("to", target)) if code
        )
        hint = "" if include_all else "; --all searches every catalogue and includes unreleased models"
        raise CatalogueError(
            f"there is no model {languages or 'in this catalogue'}; languages are codes such as `en`{hint}"
        )


def download(
    model: CatalogueModel,
    architecture: Architecture = None,
    from_source: FromSource = None,
    mirror: Mirror = None,
    update: Update = False,
    yes: AcceptLicence = False,
) -> None:
    """Download a model and print its path. Nothing else is downloaded.

    Its licence is shown first and must be accepted; `--yes` accepts it without a prompt, for scripts.
    Hashes and sizes are verified; interrupted downloads are resumed. Then pass its name to `--model`.

    **Examples**

        uwaga models download en-pt

        uwaga models download en-pt --architecture tiny --yes

        uwaga models download en-pt --mirror https://models.example.org/firefox

        uwaga models download en-pt --from-source folder --mirror /media/stick/models
    """
    typer.echo(str(fetch_model(model, architecture, from_source, mirror, update, yes)))


def fetch_model(
    model: str,
    architecture: str | None = None,
    from_source: str | None = None,
    mirror: str | None = None,
    update: bool = False,
    yes: bool = False,
) -> Path:
    """Download a model with a licence prompt and a progress bar, and return its path."""
    from uwaga import library as catalogue

    with contextlib.ExitStack() as stack:
        update_bar: list[Callable[[int, int | None], None]] = []

        def confirm(entry: CatalogueEntry) -> bool:
            is_accepted = _accept_licence(entry, yes)
            if is_accepted and entry.files:
                update_bar.append(stack.enter_context(transfer_meter(entry.name)))
            return is_accepted

        return catalogue.download(
            model,
            architecture=architecture,
            from_source=from_source,
            mirror=mirror,
            update=update,
            confirm=confirm,
            progress=lambda received_bytes, total: update_bar[0](received_bytes, total),
            on_wait=lambda text: typer.echo(text, err=True),
        )


def remove(name: Name) -> None:
    """Remove a downloaded model, and any partial download of it.

    **Examples**

        uwaga models remove firefox-en-pt-tiny
    """
    from uwaga import library as catalogue

    catalogue.remove(name, on_wait=lambda text: typer.echo(text, err=True))


def path(name: NameOrPair) -> None:
    """Print the path of an installed model.

    For a pair of languages, it is the model that `uwaga translate` selects. For a chain of models, one path
    is printed per line.

    **Examples**

        ls "$(uwaga models path firefox-en-pt-tiny)"

        ls "$(uwaga models path en-pt)"
    """
    from uwaga import library as catalogue
    from uwaga.translator.choose_models import choose_models, language_pair

    pair = language_pair(name)
    paths = (
        [catalogue.path(name)]
        if pair is None
        else [step.model.path for step, _ in choose_models(*pair).steps]
    )
    typer.echo("\n".join(map(str, paths)))


def _listings(
    source: str | None, target: str | None, include_all: bool, from_source: str | None, mirror: str | None
) -> tuple[list[Listing], list[UwagaError]]:
    """Return the listings of one catalogue, or of all that have an address, and the errors of failed ones."""
    from uwaga import library as catalogue

    if not include_all or from_source is not None or mirror is not None:
        return [catalogue.listing(source, target, from_source=from_source, mirror=mirror)], []
    listings, failures = [], []
    for catalogue_source in catalogue.SOURCES.values():
        if catalogue_source.address or not catalogue_source.variable:
            try:
                listings.append(catalogue.listing(source, target, from_source=catalogue_source.name))
            except UwagaError as error:
                failures.append(error)
    return listings, failures


def _accept_licence(entry: CatalogueEntry, yes: bool) -> bool:
    """Print a model's name and licence; return True if the user accepts it at a prompt, or with ``yes``."""
    from uwaga.library.install import licence_notice

    size = f", {readable_size(entry.size)}" if entry.size else ""
    state = "" if entry.released else f", not released{f' ({entry.status})' if entry.status else ''}"
    typer.echo(f"{entry.name}: {entry.source_language} to {entry.target_language}{size}{state}", err=True)
    typer.echo(licence_notice(entry.licence), err=True)
    if yes:
        return True
    if not sys.stdin.isatty():
        raise CatalogueError(
            f"{entry.name}: input is not a terminal, so the licence cannot be accepted; --yes accepts it"
        )
    typer.echo("Download it under this licence? [y/N] ", err=True, nl=False)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _print(entries: Sequence[CatalogueEntry]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from uwaga.library.installed import installed_folders, mean_score

    installed_names = {folder.name for folder in installed_folders(os.environ)}
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("model", "from", "to", "architecture", "size", "score", "status", "licence", ""):
        table.add_column(
            heading, overflow="fold", justify="right" if heading in ("size", "score") else "left"
        )
    for entry in entries:
        score = mean_score(entry.metrics)
        cells = (
            *(entry.name, entry.source_language, entry.target_language, entry.architecture),
            readable_size(entry.size) if entry.size else "",
            f"{100 * score:.1f}" if score else "",
            *(
                entry.status or "not released",
                entry.licence,
                "installed" if entry.name in installed_names else "",
            ),
        )
        table.add_row(*map(Text, cells))
    Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_WIDTH).print(table)


def _print_problems(problems: Sequence[str], include_all: bool) -> None:
    if problems and not include_all:
        typer.echo(f"refused entries: {len(problems)}; --all lists them", err=True)
        return
    for problem in problems[:MAX_PROBLEMS]:
        typer.echo(f"refused: {problem}", err=True)
    if len(problems) > MAX_PROBLEMS:
        typer.echo(f"refused: {len(problems) - MAX_PROBLEMS} more entries", err=True)
