"""Loading of models for a command that translates texts: named models, or models for a language pair."""

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
    names: Sequence[str] | None, options: LoadOptions, via: Sequence[str] | None
) -> tuple[Translator, bool]:
    """Return a translator, and True if it is the bundled model.

    A chain of models is reported on standard error. On a terminal, the user may download the models that are
    missing for the two languages.

    Args:
        names: the models; if empty, the bundled model, or the models for the languages of ``options``.
        options: load options, with the languages.
        via: the pivot languages.
    """
    from uwaga.translator.choose_models import choose_for

    try:
        choice = choose_for(names, options, via or None)
    except NotInstalledError as error:
        if not is_interactive() or not _offer_download(error):
            raise
        choice = choose_for(names, options, via or None)
    if len(choice.steps) > 1:
        typer.echo(f"note: {choice}, one after the other", err=True)
    return choice.load(options), choice.is_bundled


def load_for_sample(
    names: Sequence[str] | None,
    options: LoadOptions,
    via: Sequence[str] | None,
    sample: Sequence[str],
    is_document: bool = False,
) -> tuple[Translator, bool]:
    """Load models like :func:`load_for_texts`; if the source is ``auto``, detect the language of a sample.

    The candidates are the source languages of the named model or, without one, of the installed models. The
    detected language is reported on standard error. If the sample is in the target language, the first
    candidate is used, and lines in that language are copied.
    """
    if options.source != AUTO:
        return load_for_texts(names, options, via)
    if not names and options.adapter is None and options.target is not None:
        source = _detect_source(sample, _installed_sources(options.target), options.target, is_document)
        return load_for_texts(names, replace(options, source=source), via)
    translator, is_bundled = load_for_texts(names, replace(options, source=None), via)
    target = translator.languages[1]
    sources = [code for code in translator.languages.sources if not same_language(code, target)]
    return translator.between(_detect_source(sample, sources, target, is_document)), is_bundled


def _installed_sources(target: str) -> list[str]:
    """Return the source languages of the installed models, those of models into ``target`` first."""
    from uwaga.library.installed import installed_models

    models = [model.languages for model in installed_models()]
    models.sort(key=lambda pair: not any(same_language(code, target) for code in pair[1]))
    codes = dict.fromkeys(code for sources, _ in models for code in sources)
    return [code for code in codes if not same_language(code, target)]


def _detect_source(sample: Sequence[str], sources: Sequence[str], target: str, is_document: bool) -> str:
    """Detect the source language of a sample, report it on standard error and return it."""
    from uwaga.languages.detection import UNDETERMINED, detect_language

    if not sample and sources:
        return sources[0]
    detection = detect_language(sample, sources, target)
    if detection.language == UNDETERMINED:
        raise SettingsError("the language of the input cannot be detected; give it with --from")
    typer.echo(f"note: from {detection.language} (probability {detection.probability:.2f})", err=True)
    if is_document and same_language(detection.language, target):
        raise SettingsError(
            f"the document is already in {target!r}; if it is not, give its language with --from"
        )
    if sources and same_language(detection.language, target):
        return sources[0]
    return next((code for code in sources if same_language(code, detection.language)), detection.language)


def is_interactive() -> bool:
    """Return True if standard input and standard error are terminals, so that the user can be prompted."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def _offer_download(error: NotInstalledError) -> bool:
    """Offer to download the missing models; return False if the user declines."""
    from uwaga.cli.catalogue import fetch_model

    typer.echo(str(error), err=True)
    typer.echo(f"Look in the catalogue for {' and '.join(error.pairs)} now? [y/N] ", err=True, nl=False)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        return False
    for pair in error.pairs:
        fetch_model(pair)
    return True
