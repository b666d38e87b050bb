"""OPUS-MT's models on the Hugging Face hub, by pair. They lie in the hub's own cache."""

from __future__ import annotations

import importlib
import os
import re
from typing import Any

from uwaga.errors import CatalogueError, MissingExtraError
from uwaga.files.http import reason
from uwaga.library.entry import CatalogueEntry
from uwaga.library.hub import find_model
from uwaga.library.sources.choose import language_pairs
from uwaga.library.sources.source import Listing, Query, Source

NAME = "opus-mt"
OWNER = "Helsinki-NLP"
SERIES = {"base": "opus-mt", "big": "opus-mt-tc-big"}
"""Architectures, and how the names of repositories begin."""
VARIABLE = "HF_ENDPOINT"


def read_opus(query: Query) -> Listing:
    """The models of a pair; there are too many repositories to list them all.

    Raises:
        CatalogueError: not both languages are given, or the hub cannot be asked.
        MissingExtraError: ``huggingface_hub`` is not installed.
    """
    if query.place:
        raise CatalogueError(f"{NAME}: a mirror of the hub is named by {VARIABLE}, not by --mirror")
    if query.source is None or query.target is None:
        raise CatalogueError(f"{NAME}: is listed by pair: give --from and --to")
    hub = _hub()
    found = []
    for architecture, series in SERIES.items():
        repository = f"{OWNER}/{series}-{query.source}-{query.target}"
        licence = _licence(hub, repository, query.limits.timeout)
        if licence is not None:
            found.append(
                CatalogueEntry(
                    source=NAME,
                    name=repository,
                    source_language=query.source,
                    target_language=query.target,
                    architecture=architecture,
                    status="Release",
                    licence=licence,
                    repository=repository,
                )
            )
    return Listing(tuple(found))


def fetch_opus(entry: CatalogueEntry) -> str:
    """Bring a repository into the hub's cache.

    Raises:
        ModelError: it cannot be fetched.
    """
    return str(find_model(entry.repository))


def opus_pairs(model: str) -> list[tuple[str, str]]:
    """The languages that ``en-de`` or ``Helsinki-NLP/opus-mt-en-de`` may mean."""
    prefix = rf"(?:{OWNER}/)?(?:{'|'.join(sorted(SERIES.values(), key=len, reverse=True))})-"
    return language_pairs(re.sub(f"^{prefix}", "", model))


def _licence(hub: Any, repository: str, timeout: float) -> str | None:
    """What a repository states as its licence, None where there is no such repository."""
    try:
        card = hub.HfApi().model_info(repository, timeout=timeout).card_data
    except hub.errors.RepositoryNotFoundError:
        return None
    except Exception as error:  # huggingface_hub lets the errors of its transport library through
        offline = "offline mode is on" if os.environ.get("HF_HUB_OFFLINE") else reason(error)
        raise CatalogueError(
            f"{repository}: the Hugging Face hub cannot be asked: {offline}; on a machine with a network "
            f"run `hf download {repository}` and give uwaga the folder that it prints"
        ) from None
    stated = getattr(card, "license", None)
    return stated if isinstance(stated, str) and stated.isprintable() else "not stated"


def _hub() -> Any:
    try:
        return importlib.import_module("huggingface_hub")
    except ImportError:
        raise MissingExtraError(
            f"{NAME}: the Hugging Face hub is asked with `pip install huggingface_hub`"
        ) from None


OPUS = Source(
    NAME,
    "OPUS-MT on the Hugging Face hub",
    "https://huggingface.co",
    VARIABLE,
    read_opus,
    fetch_opus,
    opus_pairs,
    f"{OWNER}/",
)
