"""What users do with the catalogue: list, download, find, remove."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from uwaga.errors import CatalogueError, shown
from uwaga.files.http import BrokenTransferError, Limits, UnreachableError, check_url, is_url, public_url
from uwaga.library.entry import CatalogueEntry, quality
from uwaga.library.fields import check_language, same_language
from uwaga.library.install import Progress, install, uninstall
from uwaga.library.installations import downloaded_models
from uwaga.library.installed_models import check_name, named
from uwaga.library.origin import models_home
from uwaga.library.sources.choose import choose
from uwaga.library.sources.registry import find_source
from uwaga.library.sources.source import Listing, Query, Source

Environment = Mapping[str, str]
Confirm = Callable[[CatalogueEntry], bool]
REMOVAL = {
    "bundled": "comes with uwaga and stays",
    "package": "belongs to an installed Python package: `pip uninstall` removes it",
    "hub": "lies in the Hugging Face cache: `hf cache rm` removes it",
    "argos": "is Argos Translate's: `argospm remove` removes it",
    "folder": "is a folder of yours",
}
"""Why a model of a kind is not removed here."""


def available(
    source: str | None = None,
    target: str | None = None,
    *,
    from_source: str | None = None,
    mirror: str | Path | None = None,
    every: bool = False,
    limits: Limits = Limits(),  # noqa: B008 (frozen)
    environment: Environment = os.environ,
) -> list[CatalogueEntry]:
    """The models that can be downloaded, the best of a pair first. Asks the network for the catalogue alone.

    Args:
        source: code of the language to translate from, None for any.
        target: code of the language to translate to, None for any.
        from_source: a source of the registry, ``firefox`` by default.
        mirror: a URL or a folder to ask instead of the source's own address.
        every: also those that are not released.
        limits: of waiting for servers.
        environment: where the variables that name mirrors are looked up.

    Raises:
        CatalogueError: the catalogue cannot be had or is none, or there is no such source.
        MissingExtraError: the source needs a library that is not installed.
    """
    found = listing(
        source, target, from_source=from_source, mirror=mirror, limits=limits, environment=environment
    )
    return [one for one in found.entries if every or one.released]


def listing(
    source: str | None = None,
    target: str | None = None,
    *,
    from_source: str | None = None,
    mirror: str | Path | None = None,
    limits: Limits = Limits(),  # noqa: B008 (frozen)
    environment: Environment = os.environ,
) -> Listing:
    """All models of a source, released or not, with what is wrong with the entries that are refused.

    Arguments and errors are those of :func:`available`.
    """
    asked = find_source(from_source)
    for code in (source, target):
        if code is not None:
            check_language(code, "a language")
    query = Query(source, target, _place(asked, mirror, environment), environment, limits)
    try:
        found = asked.read(query)
    except (UnreachableError, BrokenTransferError) as error:
        raise type(error)(f"{error}{_offline(asked, query)}") from None
    entries = [one for one in found.entries if query.matches(one)]
    entries.sort(key=lambda one: (one.pair, *(-float(part) for part in quality(one)), one.name))
    return Listing(tuple(entries), found.problems)


def download(
    model: str,
    *,
    architecture: str | None = None,
    from_source: str | None = None,
    mirror: str | Path | None = None,
    update: bool = False,
    confirm: Confirm | None = None,
    progress: Progress | None = None,
    waiting: Callable[[str], None] | None = None,
    limits: Limits = Limits(),  # noqa: B008 (frozen)
    environment: Environment = os.environ,
) -> Path:
    """Install a model and give its place. One that is installed already is not asked for again.

    Args:
        model: a pair of languages, such as ``en-pt``, or a name that :func:`available` gives.
        architecture: ``tiny``, ``base`` and so on; by default the best one that is released.
        from_source: a source of the registry; by default that of which the model has its name, or
            ``firefox``.
        mirror: a URL or a folder to ask instead of the source's own address.
        update: ask the catalogue also for an installed model, and replace one of another version.
        confirm: asked before anything of the model is fetched, so that its licence can be shown; a call
            without it agrees to the licence.
        progress: told the bytes that have come, and of how many.
        waiting: told if another process downloads the same model and is waited for.
        limits: of waiting for servers.
        environment: where the variables that place the models and name mirrors are looked up.

    Raises:
        CatalogueError: there is no such model, ``confirm`` says no, or it cannot be fetched or is not what
            the catalogue says; nothing is installed then.
        ModelError: the disk is full or refuses.
        MissingExtraError: the source needs a library that is not installed.
    """
    check_name(model)
    asked = find_source(from_source, model)
    if not update and (there := _already(model, architecture, asked, environment)) is not None:
        return there
    entry = _chosen(model, architecture, asked, mirror, limits, environment)
    if entry.place is not None:
        return entry.place
    if confirm is not None and not confirm(entry):
        raise CatalogueError(f"{entry.name}: not downloaded, because its licence was not agreed to")
    if asked.fetch is not None:
        return Path(asked.fetch(entry))
    try:
        folder = install(entry, environment, limits, progress, waiting)
    except (UnreachableError, BrokenTransferError) as error:
        raise type(error)(f"{error}{_by_hand(entry, environment)}") from None
    return folder / entry.model


def remove(
    name: str, environment: Environment = os.environ, waiting: Callable[[str], None] | None = None
) -> None:
    """Remove a model that was downloaded, and what has been kept of its downloads.

    Args:
        name: of the model.
        environment: where the variables that place the models are looked up.
        waiting: told if another process downloads it, which is waited for.

    Raises:
        CatalogueError: none is called so, or it is not uwaga's to remove.
    """
    home = models_home(environment)
    check_name(name)
    plain = name not in ("", ".", "..") and "/" not in name and "\0" not in name and not name.startswith(".")
    try:
        if plain and uninstall(name, environment, waiting):
            return
    except OSError as error:
        raise CatalogueError(f"{home / name}: cannot be removed: {error.strerror or error}") from None
    found = named(name, environment)
    raise CatalogueError(f"{found.name}: {REMOVAL[found.kind]}; it lies in {found.place}")


def _already(model: str, architecture: str | None, asked: Source, environment: Environment) -> Path | None:
    """An installed model of this source that is asked for by its name or its languages."""
    fitting = []
    for one in downloaded_models(environment, described=False):
        if one.problems or one.origin is None:
            continue
        by_name = one.name == model
        pairs = [(source, target) for source in one.languages[0] for target in one.languages[1]]
        by_pair = one.origin.source == asked.name and any(
            same_language("-".join(pair), model) for pair in pairs
        )
        if (by_name or by_pair) and architecture in (None, one.architecture):
            fitting.append(one)
    best = max(fitting, key=lambda one: (one.name == model, one.bytes), default=None)
    return Path(best.place) if best is not None else None


def _chosen(
    model: str,
    architecture: str | None,
    asked: Source,
    mirror: str | Path | None,
    limits: Limits,
    environment: Environment,
) -> CatalogueEntry:
    """The entry of the catalogue that is meant."""
    if asked.pairs is None:
        found = listing(from_source=asked.name, mirror=mirror, limits=limits, environment=environment)
        return choose(found, model, architecture, asked.name)[0]
    pairs = asked.pairs(model)
    if not pairs:
        raise CatalogueError(f"{asked.name}: {shown(model)}: give both languages, such as `en-de`")
    every = [
        listing(
            source, target, from_source=asked.name, mirror=mirror, limits=limits, environment=environment
        ).entries
        for source, target in pairs
    ]
    return choose(Listing(tuple(one for few in every for one in few)), model, architecture, asked.name)[0]


def _place(asked: Source, mirror: str | Path | None, environment: Environment) -> str:
    """The mirror that is asked, empty for the source's own address."""
    if not isinstance(mirror, str | Path | None):
        raise CatalogueError(f"mirror: give a URL or a folder, not {shown(mirror)}")
    given = environment.get(asked.variable, "") if mirror is None else str(mirror)
    said = asked.variable if mirror is None else "--mirror"
    if asked.fetch is not None and mirror is None:
        return ""  # its own library reads the variable
    if mirror == "":
        raise CatalogueError("--mirror: give a URL or a folder")
    if not given:
        return ""
    if is_url(given):
        return check_url(given)
    place = Path(given).expanduser()
    if "://" in given or not place.is_dir():
        raise CatalogueError(
            f"{said} {shown(public_url(given))}: no folder, and no address of https:// or http://"
        )
    return str(place)


def _offline(asked: Source, query: Query) -> str:
    """What to do without a network, of a source that is asked over one."""
    if query.place and not is_url(query.place):
        return ""
    text = (
        "; on a machine with a network run `uwaga models download`, and copy the model's folder "
        f"from there into {models_home(query.environment)} here"
    )
    if not asked.variable or asked.fetch is not None:
        return text
    return f"{text}; or give a mirror with --mirror or the variable {asked.variable}"


def _by_hand(entry: CatalogueEntry, environment: Environment) -> str:
    """Which files to copy where on a machine that cannot fetch them."""
    remote = [file for file in entry.files if is_url(file.locations[0])]
    if not remote:
        return ""
    lines = "".join(f"\n  {public_url(file.locations[0])}" for file in remote)
    return (
        f"\nWithout a network: run `uwaga models download {entry.name}` on a machine that has one, and copy "
        f"the folder {entry.name} from its models into {models_home(environment)} here. Its files are{lines}"
    )
