"""The models that are on this machine, by name and by language. Imports nothing that asks a network."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from uwaga.errors import CatalogueError, shown
from uwaga.library.fields import check_language, same_language
from uwaga.library.installations import InstalledModel, installed_models

Environment = Mapping[str, str]


def installed(environment: Environment = os.environ, *, described: bool = False) -> list[InstalledModel]:
    """Every model on this machine: bundled, of the catalogue, of packages, in the hub's cache, Argos's.

    Args:
        environment: where the variables that place them are looked up.
        described: describe also the models whose record says their languages, which takes longer.
    """
    return list(installed_models((), environment, described))


def find_installed(
    source: str | None = None, target: str | None = None, environment: Environment = os.environ
) -> list[InstalledModel]:
    """The sound models on this machine that translate from and to these languages, the best first.

    Args:
        source: code of a language, None for any.
        target: code of a language, None for any.
        environment: where the variables that place the models are looked up.

    Raises:
        CatalogueError: one of them is no language's code.
    """
    for code in (source, target):
        if code is not None:
            check_language(code, "a language")

    def fits(asked: str | None, codes: tuple[str, ...]) -> bool:
        return bool(codes) if asked is None else any(same_language(asked, code) for code in codes)

    found = [
        one
        for one in installed_models((), environment, described=False)
        if fits(source, one.languages[0]) and fits(target, one.languages[1]) and not one.damaged
    ]
    return sorted(found, key=lambda model: model.rank, reverse=True)


def path(name: str, environment: Environment = os.environ) -> Path:
    """The place of an installed model.

    Raises:
        CatalogueError: none is called so; says which are.
    """
    return Path(named(name, environment).place)


def named(name: str, environment: Environment) -> InstalledModel:
    """The installed model of a name.

    Raises:
        CatalogueError: none is called so; says which are.
    """
    check_name(name)
    every = installed(environment)
    for one in every:
        if one.name == name:
            return one
    names = ", ".join(one.name for one in every) or "none"
    raise CatalogueError(f"{shown(name)}: no installed model is called so; there are: {names}")


def check_name(name: object) -> None:
    """Refuse what is no name of a model.

    Raises:
        CatalogueError: it is no text.
    """
    if not isinstance(name, str):
        raise CatalogueError(f"{shown(name)}: a model is named by a text, such as 'en-pt'")
