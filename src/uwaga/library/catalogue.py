"""Listing, downloading and removing models from catalogues."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypedDict, Unpack

from uwaga.errors import CatalogueError, quoted
from uwaga.files.http import BrokenTransferError, Limits, UnreachableError, check_url, is_http_url, public_url
from uwaga.library.entry import CatalogueEntry, Listing, Query, Source, quality
from uwaga.library.fields import MAX_PAIR_LENGTH, check_language, language_pairs, same_spelling
from uwaga.library.install import Progress, install, uninstall
from uwaga.library.installed import check_name, downloaded_models, installed_model, models_home
from uwaga.library.sources import find_source

Environment = Mapping[str, str]
Confirm = Callable[[CatalogueEntry], bool]
MAX_LISTED_LANGUAGES = 12
"""Maximum number of languages in a message."""
REMOVAL_ADVICE = {
    "bundled": "is part of uwaga and cannot be removed",
    "package": "belongs to an installed Python package: `pip uninstall` removes it",
    "hub": "is in the Hugging Face cache: `hf cache rm` removes it",
    "argos": "belongs to Argos Translate: `argospm remove` removes it",
    "folder": "is a folder of yours, which uwaga does not remove",
}
"""For each kind of model that uwaga does not remove, the reason and how to remove it."""


def available(
    source: str | None = None,
    target: str | None = None,
    *,
    from_source: str | None = None,
    mirror: str | Path | None = None,
    include_unreleased: bool = False,
    limits: Limits = Limits(),  # noqa: B008 (frozen)
    environment: Environment = os.environ,
) -> list[CatalogueEntry]:
    """Return the models that can be downloaded, sorted by language pair and, for the same pair, best first.

    Only the catalogue is read.

    Args:
        source: code of the source language, None for any.
        target: code of the target language, None for any.
        from_source: name of the source, by default ``firefox``.
        mirror: URL or folder of a mirror to read instead of the source's address.
        include_unreleased: True to include models that are not released.
        limits: timeouts and retries.
        environment: environment variables, which may give mirrors.

    Raises:
        CatalogueError: if there is no such source, or its catalogue cannot be downloaded or is not valid.
        MissingExtraError: if the source requires a library that is not installed.
    """
    result = listing(
        source, target, from_source=from_source, mirror=mirror, limits=limits, environment=environment
    )
    return [entry for entry in result.entries if include_unreleased or entry.released]


def listing(
    source: str | None = None,
    target: str | None = None,
    *,
    from_source: str | None = None,
    mirror: str | Path | None = None,
    limits: Limits = Limits(),  # noqa: B008 (frozen)
    environment: Environment = os.environ,
) -> Listing:
    """Return all models of a source, including unreleased models, and the problems with refused entries.

    The arguments and exceptions are those of :func:`available`.
    """
    catalogue_source = find_source(from_source)
    for code in (source, target):
        if code is not None:
            check_language(code, "a language")
    query = Query(
        source, target, _mirror_location(catalogue_source, mirror, environment), environment, limits
    )
    try:
        result = catalogue_source.read(query)
    except (UnreachableError, BrokenTransferError) as error:
        raise type(error)(f"{error}{_offline_advice(catalogue_source, query)}") from None
    entries = [entry for entry in result.entries if query.matches(entry)]
    entries.sort(key=lambda entry: (entry.pair, *(-float(part) for part in quality(entry)), entry.name))
    return Listing(tuple(entries), result.problems)


class DownloadEvents(TypedDict, total=False):
    """Callbacks of a download.

    Attributes:
        confirm: called with the catalogue entry before any file of the model is downloaded, to show its
            licence; returns True to accept it. Without ``confirm``, the licence is accepted.
        progress: called with the number of bytes received and the total number, None if the total is unknown.
        on_wait: called with a message if another process is downloading the same model.
    """

    confirm: Confirm | None
    progress: Progress | None
    on_wait: Callable[[str], None] | None


def download(
    model: str,
    *,
    architecture: str | None = None,
    from_source: str | None = None,
    mirror: str | Path | None = None,
    update: bool = False,
    limits: Limits = Limits(),  # noqa: B008 (frozen)
    environment: Environment = os.environ,
    **events: Unpack[DownloadEvents],
) -> Path:
    """Install a model and return its path; nothing is downloaded if it is already installed.

    Args:
        model: a language pair, such as ``en-pt``, or a name that :func:`available` returns.
        architecture: ``tiny``, ``base`` and so on; by default the architecture of the best released model.
        from_source: name of the source; by default the source whose prefix matches the model's name, or
            otherwise ``firefox``.
        mirror: URL or folder of a mirror to read instead of the source's address.
        update: True to read the catalogue even if the model is installed, and to replace the model if the
            catalogue has another version.
        limits: timeouts and retries.
        environment: environment variables, which may give mirrors and the folder of models.
        **events: ``confirm``, ``progress`` and ``on_wait``; see :class:`DownloadEvents`.

    Raises:
        CatalogueError: if there is no such model, if ``confirm`` returns False, or if a file cannot be
            downloaded or does not match the catalogue. Nothing is then installed.
        ModelError: if the disk is full or cannot be written.
        MissingExtraError: if the source requires a library that is not installed.
    """
    check_name(model)
    source = find_source(from_source, model)
    if (
        not update
        and (installed_path := _installed_path(model, architecture, source, environment)) is not None
    ):
        return installed_path
    entry = _find_entry(model, architecture, source, mirror, limits, environment)
    if entry.path is not None:
        return entry.path
    confirm = events.get("confirm")
    if confirm is not None and not confirm(entry):
        raise CatalogueError(f"{entry.name}: not downloaded, because its licence was not accepted")
    if source.fetch is not None:
        return Path(source.fetch(entry))
    try:
        folder = install(entry, environment, limits, events.get("progress"), events.get("on_wait"))
    except (UnreachableError, BrokenTransferError) as error:
        raise type(error)(f"{error}{_manual_copy_advice(entry, environment)}") from None
    return folder / entry.model


def remove(
    name: str, environment: Environment = os.environ, on_wait: Callable[[str], None] | None = None
) -> None:
    """Remove a downloaded model, or a partial download of a model.

    Args:
        name: name of the model.
        environment: environment variables, which may give the folder of models.
        on_wait: called with a message if another process is downloading the model.

    Raises:
        CatalogueError: if no model has this name, or the model was not downloaded by uwaga.
    """
    home = models_home(environment)
    check_name(name)
    is_valid = (
        name not in ("", ".", "..") and "/" not in name and "\0" not in name and not name.startswith(".")
    )
    try:
        if is_valid and uninstall(name, environment, on_wait):
            return
    except OSError as error:
        raise CatalogueError(f"{home / name}: cannot be removed: {error.strerror or error}") from None
    model = installed_model(name, environment)
    raise CatalogueError(f"{model.name}: {REMOVAL_ADVICE[model.kind]}; it is in {model.path}")


def _installed_path(
    model: str, architecture: str | None, source: Source, environment: Environment
) -> Path | None:
    """Return the path of an installed model, found by its name or by its source and language pair.

    The result is None if there is no such model.
    """
    matches = []
    for model_folder in downloaded_models(environment, describe_all=False):
        if model_folder.problems or model_folder.origin is None:
            continue
        matches_name = model_folder.name == model
        codes = model_folder.languages
        matches_pair = model_folder.origin.source == source.name and any(
            same_spelling(f"{source_code}-{target_code}", model)
            for source_code in codes[0]
            for target_code in codes[1]
        )
        if (matches_name or matches_pair) and architecture in (None, model_folder.architecture):
            matches.append(model_folder)
    best_match = max(matches, key=lambda candidate: (candidate.name == model, candidate.bytes), default=None)
    return Path(best_match.path) if best_match is not None else None


def _mirror_location(source: Source, mirror: str | Path | None, environment: Environment) -> str:
    """Return the URL or folder of the mirror to read, or an empty string for the source's address."""
    if not isinstance(mirror, str | Path | None):
        raise CatalogueError(f"mirror: give a URL or a folder, not {quoted(mirror)}")
    location = environment.get(source.variable, "") if mirror is None else str(mirror)
    label = source.variable if mirror is None else "--mirror"
    if source.fetch is not None and mirror is None:
        return ""  # huggingface_hub reads the variable itself
    if mirror == "":
        raise CatalogueError("--mirror: give a URL or a folder")
    if not location:
        return ""
    if is_http_url(location):
        return check_url(location)
    folder = Path(location).expanduser()
    if "://" in location or not folder.is_dir():
        raise CatalogueError(f"{label} {quoted(public_url(location))}: not a folder or an http(s):// URL")
    return str(folder)


def _offline_advice(source: Source, query: Query) -> str:
    """Return advice to add to a message, for a machine without a network connection.

    The advice is empty if a folder is read instead of the network.
    """
    if query.mirror and not is_http_url(query.mirror):
        return ""
    text = (
        "; run `uwaga models download` on a machine with a network connection, and copy the model's "
        f"folder from there into {models_home(query.environment)} here"
    )
    if not source.variable or source.fetch is not None:
        return text
    return f"{text}; or give a mirror with --mirror or the environment variable {source.variable}"


def _manual_copy_advice(entry: CatalogueEntry, environment: Environment) -> str:
    """Return advice to add to a message, on how to copy a model to a machine that cannot download it."""
    remote_files = [file for file in entry.files if is_http_url(file.locations[0])]
    if not remote_files:
        return ""
    lines = "".join(f"\n  {public_url(file.locations[0])}" for file in remote_files)
    return (
        f"\nWithout a network connection: run `uwaga models download {entry.name}` on another machine, and "
        f"copy the folder {entry.name} from its folder of models into {models_home(environment)} here. The "
        f"files of the model are{lines}"
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
    """Return the entry of a source with the given name, or the best entry of the given language pair."""
    if source.pairs is None:
        result = listing(from_source=source.name, mirror=mirror, limits=limits, environment=environment)
        return choose_entry(result, model, architecture, source.name)
    pairs = source.pairs(model)
    if not pairs:
        raise CatalogueError(f"{source.name}: {quoted(model)}: give both languages, such as `en-de`")
    entries = [
        entry
        for pair in pairs
        for entry in listing(
            *pair, from_source=source.name, mirror=mirror, limits=limits, environment=environment
        ).entries
    ]
    return choose_entry(Listing(tuple(entries)), model, architecture, source.name)


def choose_entry(listing: Listing, model: str, architecture: str | None, source: str) -> CatalogueEntry:
    """Return the entry with the given name, or the best entry of the given language pair.

    The best entry is the greatest by :func:`~uwaga.library.entry.quality`.

    Raises:
        CatalogueError: if there is no such model; the message lists alternatives.
    """
    by_name = [entry for entry in listing.entries if entry.name == model]
    candidates = by_name or [entry for entry in listing.entries if same_spelling(entry.pair, model)]
    matches = [entry for entry in candidates if architecture in (None, entry.architecture)]
    if matches:
        return max(matches, key=quality)
    if candidates:
        names = ", ".join(sorted(entry.architecture or "one without a name" for entry in candidates))
        raise CatalogueError(
            f"{source}: {model} has no architecture {quoted(architecture)}; available: {names}"
        )
    raise CatalogueError(f"{source}: " + "; ".join(_alternatives(listing, model)))


def _alternatives(listing: Listing, model: str) -> Iterator[str]:
    """Yield the parts of the message for an unknown model, such as reasons and models with similar names."""
    yield f"there is no model {quoted(model)}"
    name = model.replace("_", "-").lower()
    refused = [problem for problem in listing.problems if name in problem.lower()]
    if refused:
        yield f"entries of that pair were refused: {refused[0]}"
    elif listing.problems:
        yield f"{len(listing.problems)} entries were refused; the first problem: {listing.problems[0]}"
    names = [name for entry in listing.entries for name in (entry.name, entry.pair)]
    similar_names = difflib.get_close_matches(model[:MAX_PAIR_LENGTH], names, n=3, cutoff=0.7)
    if similar_names:
        yield f"did you mean {' or '.join(dict.fromkeys(similar_names))}?"
    pairs = language_pairs(model)
    for source, target in pairs:
        targets = {
            entry.target_language for entry in listing.entries if same_spelling(entry.source_language, source)
        }
        sources = {
            entry.source_language for entry in listing.entries if same_spelling(entry.target_language, target)
        }
        if pivots := sorted(targets & sources, key=lambda code: (code != "en", code)):
            yield f"{source}-{pivots[0]} and {pivots[0]}-{target} are available and can be chained"
        elif targets or sources:
            yield (
                _describe_languages(targets, f"from {source}", "to")
                if targets
                else _describe_languages(sources, f"to {target}", "from")
            )
    if not pairs:
        yield "give a language pair, such as `en-pt`, or a name that `uwaga models list` shows"
    elif not similar_names:
        yield "`uwaga models list` shows all models"


def _describe_languages(codes: set[str], direction: str, opposite_direction: str) -> str:
    sorted_codes = sorted(codes)
    remainder = (
        f" and {len(sorted_codes) - MAX_LISTED_LANGUAGES} more"
        if len(sorted_codes) > MAX_LISTED_LANGUAGES
        else ""
    )
    return (
        f"{direction} there are models {opposite_direction} "
        f"{', '.join(sorted_codes[:MAX_LISTED_LANGUAGES])}{remainder}"
    )
