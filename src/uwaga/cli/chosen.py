"""The models of a verb that translates texts: those that are named, or chosen by two languages."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from uwaga.errors import NotInstalledError, SettingsError
from uwaga.languages.codes import same_language
from uwaga.languages.detection import AUTO

if TYPE_CHECKING:
    from uwaga.settings.load_options import LoadOptions
    from uwaga.translator import Translator


def load_for_texts(
    names: Sequence[str] | None, wanted: LoadOptions, via: Sequence[str] | None
) -> tuple[Translator, bool]:
    """Return a translator, and True if it is the bundled model; report a chain of models on standard error.

    On a terminal, ask whether to download the models that two languages lack.

    Args:
        names: models, none for the bundled one or what the languages choose.
        wanted: how to load them, and the languages.
        via: the languages between.
    """
    from uwaga.translator.choose_models import choose_for

    try:
        chosen = choose_for(names, wanted, via or None)
    except NotInstalledError as error:
        if not is_interactive() or not _fetched(error):
            raise
        chosen = choose_for(names, wanted, via or None)
    if len(chosen.legs) > 1:
        typer.echo(f"note: {chosen}, one after the other", err=True)
    return chosen.load(wanted), chosen.bundled


def load_for_sample(
    names: Sequence[str] | None,
    wanted: LoadOptions,
    via: Sequence[str] | None,
    sample: Sequence[str],
    of_document: bool = False,
) -> tuple[Translator, bool]:
    """Load models as :func:`load_for_texts` does; with the source ``auto``, for the language of a sample.

    It is detected among the languages that the model, or the installed ones, translate from, and reported. A
    sample of lines in the target language, which are left alone, decides nothing.
    """
    if wanted.source != AUTO:
        return load_for_texts(names, wanted, via)
    if not names and wanted.adapter is None and wanted.target is not None:
        source = _reported(sample, _installed_sources(wanted.target), wanted.target, of_document)
        return load_for_texts(names, replace(wanted, source=source), via)
    translator, bundled = load_for_texts(names, replace(wanted, source=None), via)
    target = translator.languages[1]
    sources = [code for code in translator.languages.sources if not same_language(code, target)]
    return translator.between(_reported(sample, sources, target, of_document)), bundled


def _installed_sources(target: str) -> list[str]:
    """Return the languages that installed models translate from; of those to the target, the first."""
    from uwaga.library.installed import installed_models

    models = [one.languages for one in installed_models()]
    models.sort(key=lambda pair: not any(same_language(code, target) for code in pair[1]))
    codes = dict.fromkeys(code for sources, _ in models for code in sources)
    return [code for code in codes if not same_language(code, target)]


def _reported(sample: Sequence[str], sources: Sequence[str], target: str, of_document: bool) -> str:
    """Return the source language of a sample, after reporting it on standard error."""
    from uwaga.languages.detection import UNDETERMINED, detect_language

    if not sample and sources:
        return sources[0]
    found = detect_language(sample, sources, target)
    if found.language == UNDETERMINED:
        raise SettingsError("the language of the input cannot be detected; name it with --from")
    typer.echo(f"note: from {found.language} (probability {found.probability:.2f})", err=True)
    if of_document and same_language(found.language, target):
        raise SettingsError(
            f"the document is already in {target!r}; if it is not, name its language with --from"
        )
    if sources and same_language(found.language, target):
        return sources[0]
    return next((code for code in sources if same_language(code, found.language)), found.language)


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
