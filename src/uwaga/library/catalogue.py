"""The catalogue of models: list, download and remove."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from uwaga.errors import CatalogueError, shown
from uwaga.files.http import BrokenTransferError, Limits, UnreachableError, check_url, is_url, public_url
from uwaga.library.entry import CatalogueEntry, Listing, Query, Source, quality
from uwaga.library.fields import LONGEST_PAIR, check_language, language_pairs, same_spelling
from uwaga.library.install import Progress, install, uninstall
from uwaga.library.installed import check_name, downloaded_models, installed_model, models_home
from uwaga.library.sources import find_source

Environment = Mapping[str, str]
Confirm = Callable[[CatalogueEntry], bool]
MAX_NAMED = 12
"""Languages named in a message."""
REMOVAL = {
    "bundled": "is part of uwaga and stays",
    "package": "belongs to an installed Python package: `pip uninstall` removes it",
    "hub": "is in the Hugging Face cache: `hf cache rm` removes it",
    "argos": "belongs to Argos Translate: `argospm remove` removes it",
    "folder": "is a folder of yours",
}
"""Why a model of each kind is not removed."""


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
    """Return the models that can be downloaded, the best of a pair first. Only the catalogue is fetched.

    Args:
        source: code of the source language, None for any.
        target: code of the target language, None for any.
        from_source: name of a source, ``firefox`` by default.
        mirror: URL or folder to read instead of the source's own address.
        every: include models that are not released.
        limits: timeouts and retries.
        environment: environment variables that name mirrors.

    Raises:
        CatalogueError: there is no such source, or its catalogue cannot be fetched or is not valid.
        MissingExtraError: the source needs a library that is not installed.
    """
    answer = listing(
        source, target, from_source=from_source, mirror=mirror, limits=limits, environment=environment
    )
    return [entry for entry in answer.entries if every or entry.released]


def listing(
    source: str | None = None,
    target: str | None = None,
    *,
    from_source: str | None = None,
    mirror: str | Path | None = None,
    limits: Limits = Limits(),  # noqa: B008 (frozen)
    environment: Environment = os.environ,
) -> Listing:
    """Return all models of a source, released or not, and why entries were refused.

    Arguments and errors are those of :func:`available`.
    """
    origin = find_source(from_source)
    for code in (source, target):
        if code is not None:
            check_language(code, "a language")
    query = Query(source, target, _mirror(origin, mirror, environment), environment, limits)
    try:
        answer = origin.read(query)
    except (UnreachableError, BrokenTransferError) as error:
        raise type(error)(f"{error}{_offline(origin, query)}") from None
    entries = [entry for entry in answer.entries if query.matches(entry)]
    entries.sort(key=lambda entry: (entry.pair, *(-float(part) for part in quality(entry)), entry.name))
    return Listing(tuple(entries), answer.problems)


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
    """Install a model and return its path. For a model that is installed already, nothing is fetched.

    Args:
        model: a language pair, such as ``en-pt``, or a name that :func:`available` returns.
        architecture: ``tiny``, ``base`` and so on; by default the best one that is released.
        from_source: name of a source; by default the one whose prefix begins the model's name, or
            ``firefox``.
        mirror: URL or folder to read instead of the source's own address.
        update: fetch the catalogue for an installed model too, and replace it if its version differs.
        confirm: called before any file of the model is fetched, so that its licence can be shown; a call
            without it accepts the licence.
        progress: called with the bytes received and their total.
        waiting: called with a message if another process downloads the same model and has to be waited for.
        limits: timeouts and retries.
        environment: environment variables that locate the models and name mirrors.

    Raises:
        CatalogueError: there is no such model, ``confirm`` returns False, or a file cannot be fetched or is
            not what the catalogue states; nothing is installed then.
        ModelError: the disk is full or cannot be written.
        MissingExtraError: the source needs a library that is not installed.
    """
    check_name(model)
    source = find_source(from_source, model)
    if not update and (place := _already_installed(model, architecture, source, environment)) is not None:
        return place
    entry = _find_entry(model, architecture, source, mirror, limits, environment)
    if entry.place is not None:
        return entry.place
    if confirm is not None and not confirm(entry):
        raise CatalogueError(f"{entry.name}: not downloaded, because its licence was not accepted")
    if source.fetch is not None:
        return Path(source.fetch(entry))
    try:
        folder = install(entry, environment, limits, progress, waiting)
    except (UnreachableError, BrokenTransferError) as error:
        raise type(error)(f"{error}{_manual_copy(entry, environment)}") from None
    return folder / entry.model


def remove(
    name: str, environment: Environment = os.environ, waiting: Callable[[str], None] | None = None
) -> None:
    """Remove a downloaded model and any partial download of it.

    Args:
        name: of the model.
        environment: environment variables that locate the models.
        waiting: called with a message if another process downloads it and has to be waited for.

    Raises:
        CatalogueError: no model has this name, or uwaga did not download it.
    """
    home = models_home(environment)
    check_name(name)
    plain = name not in ("", ".", "..") and "/" not in name and "\0" not in name and not name.startswith(".")
    try:
        if plain and uninstall(name, environment, waiting):
            return
    except OSError as error:
        raise CatalogueError(f"{home / name}: cannot be removed: {error.strerror or error}") from None
    model = installed_model(name, environment)
    raise CatalogueError(f"{model.name}: {REMOVAL[model.kind]}; it is in {model.place}")


def _already_installed(
    model: str, architecture: str | None, source: Source, environment: Environment
) -> Path | None:
    """The installed model of a source that has this name or translates this language pair."""
    fitting = []
    for installed in downloaded_models(environment, described=False):
        if installed.problems or installed.origin is None:
            continue
        by_name = installed.name == model
        codes = installed.languages
        by_pair = installed.origin.source == source.name and any(
            same_spelling(f"{one}-{other}", model) for one in codes[0] for other in codes[1]
        )
        if (by_name or by_pair) and architecture in (None, installed.architecture):
            fitting.append(installed)
    best = max(fitting, key=lambda installed: (installed.name == model, installed.bytes), default=None)
    return Path(best.place) if best is not None else None


def _mirror(source: Source, mirror: str | Path | None, environment: Environment) -> str:
    """The URL or folder of the mirror to read; empty for the source's own address."""
    if not isinstance(mirror, str | Path | None):
        raise CatalogueError(f"mirror: give a URL or a folder, not {shown(mirror)}")
    given = environment.get(source.variable, "") if mirror is None else str(mirror)
    label = source.variable if mirror is None else "--mirror"
    if source.fetch is not None and mirror is None:
        return ""  # huggingface_hub reads the variable itself
    if mirror == "":
        raise CatalogueError("--mirror: give a URL or a folder")
    if not given:
        return ""
    if is_url(given):
        return check_url(given)
    place = Path(given).expanduser()
    if "://" in given or not place.is_dir():
        raise CatalogueError(f"{label} {shown(public_url(given))}: not a folder or an http(s):// URL")
    return str(place)


def _offline(source: Source, query: Query) -> str:
    """Advice for a machine without a network, of a source that needs one."""
    if query.place and not is_url(query.place):
        return ""
    text = (
        "; on a machine with a network run `uwaga models download`, and copy the model's folder "
        f"from there into {models_home(query.environment)} here"
    )
    if not source.variable or source.fetch is not None:
        return text
    return f"{text}; or give a mirror with --mirror or the variable {source.variable}"


def _manual_copy(entry: CatalogueEntry, environment: Environment) -> str:
    """Advice on which files to copy where on a machine that cannot fetch them."""
    remote = [file for file in entry.files if is_url(file.locations[0])]
    if not remote:
        return ""
    lines = "".join(f"\n  {public_url(file.locations[0])}" for file in remote)
    return (
        f"\nWithout a network: run `uwaga models download {entry.name}` on a machine that has one, and copy "
        f"the folder {entry.name} from its models into {models_home(environment)} here. Its files are{lines}"
    )


# Choosing an entry


def _find_entry(
    model: str,
    architecture: str | None,
    source: Source,
    mirror: str | Path | None,
    limits: Limits,
    environment: Environment,
) -> CatalogueEntry:
    """The entry of a source that has this name or is the best of this language pair."""
    if source.pairs is None:
        answer = listing(from_source=source.name, mirror=mirror, limits=limits, environment=environment)
        return choose(answer, model, architecture, source.name)
    pairs = source.pairs(model)
    if not pairs:
        raise CatalogueError(f"{source.name}: {shown(model)}: give both languages, such as `en-de`")
    entries = [
        entry
        for pair in pairs
        for entry in listing(
            *pair, from_source=source.name, mirror=mirror, limits=limits, environment=environment
        ).entries
    ]
    return choose(Listing(tuple(entries)), model, architecture, source.name)


def choose(listing: Listing, model: str, architecture: str | None, source: str) -> CatalogueEntry:
    """Return the model of a name, or the best one of a language pair.

    The best is decided by :func:`~uwaga.library.entry.quality`: released before others, then by score, then
    by size.

    Raises:
        CatalogueError: there is none; the message says what there is instead.
    """
    named = [entry for entry in listing.entries if entry.name == model]
    candidates = named or [entry for entry in listing.entries if same_spelling(entry.pair, model)]
    fitting = [entry for entry in candidates if architecture in (None, entry.architecture)]
    if fitting:
        return max(fitting, key=quality)
    if candidates:
        names = ", ".join(sorted(entry.architecture or "one without a name" for entry in candidates))
        raise CatalogueError(f"{source}: {model} has no architecture {shown(architecture)}; there is {names}")
    raise CatalogueError(f"{source}: " + "; ".join(_alternatives(listing, model)))


def _alternatives(listing: Listing, model: str) -> Iterator[str]:
    """Yield why there is no such model, and what there is instead."""
    yield f"there is no model {shown(model)}"
    name = model.replace("_", "-").lower()
    refused = [problem for problem in listing.problems if name in problem.lower()]
    if refused:
        yield f"entries of that pair were refused: {refused[0]}"
    elif listing.problems:
        yield f"{len(listing.problems)} entries were refused, the first: {listing.problems[0]}"
    names = [name for entry in listing.entries for name in (entry.name, entry.pair)]
    similar = difflib.get_close_matches(model[:LONGEST_PAIR], names, n=3, cutoff=0.7)
    if similar:
        yield f"did you mean {' or '.join(dict.fromkeys(similar))}?"
    pairs = language_pairs(model)
    for source, target in pairs:
        first = {
            entry.target_language for entry in listing.entries if same_spelling(entry.source_language, source)
        }
        second = {
            entry.source_language for entry in listing.entries if same_spelling(entry.target_language, target)
        }
        if both := sorted(first & second, key=lambda code: (code != "en", code)):
            yield f"{source}-{both[0]} and {both[0]}-{target} are available, to be used one after the other"
        elif first or second:
            yield _known(first, f"from {source}", "to") if first else _known(second, f"to {target}", "from")
    if not pairs:
        yield "name a model by its languages, such as `en-pt`, or as `uwaga models list` shows it"
    elif not similar:
        yield "`uwaga models list` shows all models"


def _known(codes: set[str], side: str, other: str) -> str:
    listed = sorted(codes)
    more = f" and {len(listed) - MAX_NAMED} more" if len(listed) > MAX_NAMED else ""
    return f"{side} there are models {other} {', '.join(listed[:MAX_NAMED])}{more}"
