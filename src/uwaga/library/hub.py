"""Finding the folder or file of a model by its name."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from uwaga.checkpoints import registry as formats
from uwaga.checkpoints.card import README, read_card
from uwaga.checkpoints.formats.uwaga.names import BUNDLED, CONFIG, SOURCE, WEIGHTS
from uwaga.errors import MissingExtraError, ModelError, UnknownModelError, reason
from uwaga.library.licences import restriction

HUB_NAME = re.compile(r"[A-Za-z0-9][\w.\-]*/[A-Za-z0-9][\w.\-]*")
FORMER_NAMES = {
    "google-bert": (
        "bert-base-uncased bert-base-cased bert-large-uncased bert-large-cased bert-base-chinese "
        "bert-base-german-cased bert-base-multilingual-cased bert-base-multilingual-uncased"
    ),
    "google-t5": "t5-small t5-base t5-large t5-3b t5-11b",
    "openai-community": "gpt2 gpt2-medium gpt2-large gpt2-xl",
    "distilbert": "distilgpt2",
}
"""Names of models from before repositories on the hub had owners, grouped by present owner."""
PRESENT_NAMES = {name: f"{owner}/{name}" for owner, names in FORMER_NAMES.items() for name in names.split()}


def find_model(name: str | Path | None = None) -> Path:
    """Return the folder or file of a model.

    A name is looked up among the existing folders and files, then among the models that ``uwaga models``
    lists, then among the repositories of the Hugging Face Hub. Repositories are read from the local cache or
    downloaded; before the first download, known restrictions of the licence are logged as a warning.

    Args:
        name: name or path of the model; None or ``bundled`` for the model that comes with uwaga.

    Raises:
        ModelError: if there is no such model, or it cannot be downloaded.
        MissingExtraError: if the name is that of a repository and ``huggingface_hub`` is not installed.
    """
    if name is None or (str(name) == "bundled" and not os.path.lexists(name)):
        if not (BUNDLED / CONFIG).is_file():
            raise ModelError(
                f"{BUNDLED}: this installation has no bundled model; "
                "give another model, such as a folder written by `uwaga train`"
            )
        return BUNDLED
    folder = Path(os.path.expanduser(name))  # noqa: PTH111 (Path.expanduser fails on an unknown user)
    if str(name) and folder.is_dir():
        return folder
    if str(name) and folder.exists():
        suffixes = formats.files().suffixes
        if folder.suffix in suffixes:
            return folder
        raise UnknownModelError(
            f"{folder}: this file is not a model; a model is a folder with {CONFIG}, {WEIGHTS} and "
            f"{SOURCE}, or a file {' or '.join(suffixes)}"
        )
    if isinstance(name, str) and (path := _find_installed(name)) is not None:
        return path
    name = PRESENT_NAMES.get(name, name) if isinstance(name, str) else name
    if isinstance(name, str) and HUB_NAME.fullmatch(name) and ".." not in name:
        return _download_from_hub(name)
    raise UnknownModelError(
        f"{str(name)!r}: no such folder, Hugging Face name (owner/model) or name that `uwaga models` lists; "
        "give a folder written by `uwaga train`, or `bundled` for the model that comes with uwaga"
    )


def _find_installed(name: str) -> Path | None:
    """Return the folder or file of an installed model, or None if no installed model has this name."""
    # Imported here because models given as folders do not need these modules.
    from uwaga.library.installed import find_installed_folder, find_packaged

    return find_installed_folder(name) or find_packaged(name)


def _download_from_hub(name: str) -> Path:
    try:
        hub = importlib.import_module("huggingface_hub")
    except ImportError:
        raise MissingExtraError(
            f"{name}: no such folder; to download the model from the Hugging Face Hub, run "
            "`pip install 'uwaga[hub]'`"
        ) from None
    files = formats.files()
    default_patterns = [*files.auxiliary, *files.weights]
    cached_folder = _find_cached(hub, name, default_patterns)
    if cached_folder is not None and _has_match(cached_folder, (*files.weights, *files.fallback_weights)):
        return cached_folder
    try:
        if cached_folder is None:
            _log_restriction(hub, name)
        snapshot = Path(hub.snapshot_download(name, allow_patterns=default_patterns))
        if not _has_match(snapshot, files.weights):
            snapshot = Path(
                hub.snapshot_download(name, allow_patterns=[*default_patterns, *files.fallback_weights])
            )
        return snapshot
    except Exception as error:  # huggingface_hub does not wrap the errors of its transport library
        if cached_folder is not None:
            return cached_folder
        cause = "offline mode is on" if os.environ.get("HF_HUB_OFFLINE") else reason(error)
        raise ModelError(
            f"{name}: no such folder, no copy in the Hugging Face cache, and it cannot be fetched: {cause}; "
            f"check the name and the network, or on a machine with a network run `hf download {name}` "
            "and give the folder that it prints"
        ) from None


def _log_restriction(hub: Any, name: str) -> None:
    """Log a warning that says what a repository's licence forbids, if that is known."""
    import logging  # imported late: few models are fetched

    notice = restriction(read_card(Path(hub.snapshot_download(name, allow_patterns=[README]))))
    if notice is not None:
        logging.getLogger("uwaga.library").warning("%s: %s", name, notice)


def _has_match(folder: Path, patterns: Sequence[str]) -> bool:
    """Return True if a folder contains a file that matches one of the patterns."""
    return any(next(folder.glob(pattern), None) is not None for pattern in patterns)


def _find_cached(hub: object, name: str, patterns: list[str]) -> Path | None:
    """Return the folder of a cached repository, or None if it is not cached or its format is unknown."""
    try:
        snapshot = Path(hub.snapshot_download(name, allow_patterns=patterns, local_files_only=True))  # type: ignore[attr-defined]
    except (OSError, ValueError):
        return None
    return snapshot if (snapshot / CONFIG).exists() or formats.detect(snapshot) is not None else None
