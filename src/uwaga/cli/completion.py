"""Shell completion of model names, language codes and presets."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple


class Completion(NamedTuple):
    """A completion in the form that click expects."""

    value: str
    type: str = "plain"
    help: str | None = None


def complete_values(parameter: Any) -> None:
    """Let shells complete the values of a parameter if there is a completer for its name."""
    complete = next((COMPLETERS[name] for name in parameter.opts if name in COMPLETERS), None)
    if complete is not None:
        parameter.shell_complete = lambda _, incomplete: list(map(Completion, complete(incomplete)))


def complete_models(incomplete: str) -> list[str]:
    """Return the names of the installed models and folders that begin with an incomplete word."""
    from uwaga.library.installed import installed_models

    names = ["bundled", *(model.name for model in installed_models())]
    head, slash, name = incomplete.rpartition("/")
    folders = sorted(path.name for path in Path(head + slash or ".").glob("*") if path.is_dir())
    visible_folders = [folder for folder in folders if name.startswith(".") or not folder.startswith(".")]
    words = dict.fromkeys([*names, *(head + slash + folder for folder in visible_folders)])
    return [word for word in words if word.startswith(incomplete)]


def complete_languages(incomplete: str) -> list[str]:
    """Return the language codes of the installed models that begin with an incomplete word."""
    from uwaga.library.installed import installed_models

    codes = {code for model in installed_models() for side in model.languages for code in side}
    return sorted(code for code in codes if code.startswith(incomplete))


def complete_presets(incomplete: str) -> list[str]:
    """Return the names of model presets that begin with an incomplete word."""
    from uwaga.settings import PRESETS

    return sorted(name for name in PRESETS if name.startswith(incomplete))


COMPLETERS = {
    "--model": complete_models,
    "model": complete_models,  # where it is an argument
    "--draft": complete_models,
    "--from": complete_languages,
    "--to": complete_languages,
    "--via": complete_languages,
    "--preset": complete_presets,
}
"""Functions that complete values, by the option or argument that they complete."""
