"""The models of a verb that translates texts: those that are named, or chosen by two languages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from uwaga.translator import PivotTranslator, Translator
    from uwaga.translator.loading import LoadOptions


def load_for_texts(
    names: Sequence[str] | None, wanted: LoadOptions, via: Sequence[str] | None
) -> tuple[Translator | PivotTranslator, bool]:
    """A translator, and whether it is the bundled model; several models one after the other are told of.

    Args:
        names: models, none for the bundled one or what the languages choose.
        wanted: how to load them, and the languages.
        via: the languages between.

    Raises:
        ModelError, SettingsError, MissingExtraError: as :func:`uwaga.load`.
    """
    from uwaga.translator import Translator
    from uwaga.translator.by_language import choose_for

    chosen = choose_for(names, wanted, via or None)
    if chosen is None:
        return Translator.load(names, *wanted), list(names or ()) in ([], ["bundled"])
    if len(chosen.legs) > 1:
        typer.echo(f"note: {chosen}, one after the other", err=True)
    return chosen.load(wanted), all(leg.model.kind == "bundled" for leg in chosen.legs)
