"""The source of OPUS-MT models on the Hugging Face Hub, which are downloaded to the hub's cache."""

from __future__ import annotations

import importlib
import os
import re
from typing import Any

from uwaga.errors import CatalogueError, MissingExtraError
from uwaga.files.http import reason
from uwaga.library.entry import CatalogueEntry, Listing, Query, Source
from uwaga.library.fields import language_pairs
from uwaga.library.hub import find_model

NAME = "opus-mt"
OWNER = "Helsinki-NLP"
SERIES = {"base": "opus-mt", "big": "opus-mt-tc-big"}
"""Prefixes of repository names by architecture."""
ENDPOINT_VARIABLE = "HF_ENDPOINT"


def read_opus(query: Query) -> Listing:
    """Return the models of a language pair, which must be given because there are too many repositories."""
    if query.mirror:
        raise CatalogueError(
            f"{NAME}: give a mirror of the hub with the environment variable {ENDPOINT_VARIABLE}, not with "
            "--mirror"
        )
    if query.source is None or query.target is None:
        raise CatalogueError(f"{NAME}: models can be listed only by language pair; give --from and --to")
    hub = _hub()
    entries = []
    for architecture, series in SERIES.items():
        repository = f"{OWNER}/{series}-{query.source}-{query.target}"
        licence = _licence(hub, repository, query.limits.timeout)
        if licence is not None:
            entries.append(
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
    return Listing(tuple(entries))


def fetch_opus(entry: CatalogueEntry) -> str:
    """Download a repository into the hub's cache and return the path of its folder."""
    return str(find_model(entry.repository))


def opus_pairs(model: str) -> list[tuple[str, str]]:
    """Return the language pairs that ``en-de`` or ``Helsinki-NLP/opus-mt-en-de`` may mean."""
    prefix = rf"(?:{OWNER}/)?(?:{'|'.join(sorted(SERIES.values(), key=len, reverse=True))})-"
    return language_pairs(re.sub(f"^{prefix}", "", model))


def _licence(hub: Any, repository: str, timeout: float) -> str | None:
    """Return the licence of a repository, or None if there is no such repository."""
    try:
        card = hub.HfApi().model_info(repository, timeout=timeout).card_data
    except hub.errors.RepositoryNotFoundError:
        return None
    except Exception as error:  # huggingface_hub does not wrap the errors of its transport library
        cause = "offline mode is on" if os.environ.get("HF_HUB_OFFLINE") else reason(error)
        raise CatalogueError(
            f"{repository}: the Hugging Face hub cannot be reached: {cause}; run "
            f"`hf download {repository}` on another machine, and give uwaga the folder that it prints"
        ) from None
    licence = getattr(card, "license", None)
    return licence if isinstance(licence, str) and licence.isprintable() else "not stated"


def _hub() -> Any:
    try:
        return importlib.import_module("huggingface_hub")
    except ImportError:
        raise MissingExtraError(
            f"{NAME}: this source requires huggingface_hub; run `pip install 'uwaga[hub]'`"
        ) from None


OPUS = Source(
    NAME,
    "OPUS-MT on the Hugging Face hub",
    "https://huggingface.co",
    ENDPOINT_VARIABLE,
    read_opus,
    fetch_opus,
    opus_pairs,
    f"{OWNER}/",
)
