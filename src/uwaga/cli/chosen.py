"""The models of a verb that translates texts: those that are named, or chosen by two languages."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from uwaga.errors import NotInstalledError

if TYPE_CHECKING:
    from uwaga.settings.load_options import LoadOptions
    from uwaga.translator import Translator


def load_for_texts(
    names: Sequence[str] | None, wanted: LoadOptions, via: Sequence[str] | None
) -> tuple[Translator, bool]:
    """A translator, and whether it is the bundled model; several models one after the other are told of.

    Who sits at a terminal is asked whether to download what two languages lack.

    Args:
        names: models, none for the bundled one or what the languages choose.
        wanted: how to load them, and the languages.
        via: the languages between.

    Raises:
        ModelError, SettingsError, MissingExtraError: as :func:`uwaga.load`.
    """
    from uwaga.translator import Translator
    from uwaga.translator.choose_models import choose_for
    from uwaga.translator.loading import load_named, named_by

    if not names and wanted.adapter is not None:
        names = [str(named_by(wanted.adapter, None))]
    try:
        chosen = choose_for(names, wanted, via or None)
    except NotInstalledError as error:
        if not is_interactive() or not _fetched(error):
            raise
        chosen = choose_for(names, wanted, via or None)
    if chosen is None:
        return Translator(load_named(names, wanted)), list(names or ()) in ([], ["bundled"])
    if len(chosen.legs) > 1:
        typer.echo(f"note: {chosen}, one after the other", err=True)
    return chosen.load(wanted), all(leg.model.kind == "bundled" for leg in chosen.legs)


def is_interactive() -> bool:
    """Return True if stdin and stderr are terminals, so that a question can be asked."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def _fetched(error: NotInstalledError) -> bool:
    """Ask whether to download what is missing, and do so; False if the user declines."""
    from uwaga.cli.catalogue import fetch_model

    typer.echo(str(error), err=True)
    typer.echo(f"Look in the catalogue for {' and '.join(error.pairs)} now? [y/N] ", err=True, nl=False)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        return False
    for pair in error.pairs:
        fetch_model(pair)
    return True
