"""Save a model's folder with a model card, and upload it to the Hugging Face hub."""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from uwaga.checkpoints import registry as formats
from uwaga.checkpoints.card import CARD, README, read_card
from uwaga.errors import MissingExtraError, ModelError, reason
from uwaga.files.atomic import new_folder
from uwaga.files.handles import sync
from uwaga.files.regular import open_regular
from uwaga.library.hub import HUB_NAME
from uwaga.library.model_card import CardFields, write_card

COPIED = (formats.UWAGA, formats.UWAGA_INT8, formats.UWAGA_INT4, formats.HUGGING_FACE)
"""Formats whose folders are copied."""


def save_folder(
    place: Path | None,
    folder: Path,
    name: str,
    fields: CardFields,
    languages: tuple[Sequence[str], Sequence[str]],
    longest: int | None,
) -> None:
    """Copy a model folder atomically, with a model card as its ``README.md``.

    Args:
        place: the model's folder, None if no folder holds exactly this model.
        folder: the folder to create.
        name: of the model, in its card.
        fields: values of the card.
        languages: codes of the languages that it translates from and to.
        longest: most tokens of a sentence, None if there is no limit.

    Raises:
        ModelError: ``folder`` exists and is not empty, or cannot be written; or the model is in no folder
            that can be copied. Nothing is written then.
        SettingsError: the card lacks a licence.
    """
    if os.path.lexists(folder) and (not folder.is_dir() or any(folder.iterdir())):
        raise ModelError(f"{folder}: exists and is not overwritten; give the model another folder")
    if place is None:
        raise ModelError(
            "an ensemble, a model with an adapter, or one with another decoder is in no folder, so it cannot "
            "be saved; merge an adapter with `uwaga merge` and load the merged model"
        )
    files = _model_files(place)
    text = write_card(name, read_card(place), fields, languages, longest)
    with new_folder(folder) as fresh:
        for file in files:
            with open_regular(file) as old, (fresh / file.name).open("wb") as new:
                shutil.copyfileobj(old, new, 1 << 20)
            sync(fresh / file.name)
        (fresh / README).write_text(text, encoding="utf-8", newline="\n")
        sync(fresh / README)


def _model_files(place: Path) -> list[Path]:
    """Return the files of a model other than its card."""
    kind = formats.detect(place)
    named = kind.files if kind is not None and kind in COPIED else formats.Files()
    if not (weights := _matching(place, named.weights)):
        raise ModelError(
            f"{place}: a model of the format {'unknown' if kind is None else kind.name} without safetensors "
            "cannot be saved; make a folder of it with `uwaga convert --int8`, and load that"
        )
    files = [*_matching(place, named.beside), *weights]
    for file in (*files, *_matching(place, (CARD, README))):
        _check_inside(file)
    return [file for file in files if file.name not in (CARD, README)]


def _matching(place: Path, patterns: Sequence[str]) -> list[Path]:
    return sorted({file for pattern in patterns for file in place.glob(pattern)})


def _check_inside(file: Path) -> None:
    """Refuse a link out of the folder, which would publish another file; the hub's cache has links."""
    folder = file.parent.resolve()
    cache = folder.parent.parent / "blobs" if folder.parent.name == "snapshots" else folder
    if file.resolve().parent not in (folder, cache):
        raise ModelError(
            f"{file}: a link that leads out of the model's folder; replace it with the file itself"
        )


def push(folder: Path, name: str, private: bool, token: str | None, message: str) -> str:
    """Upload a saved folder as one commit; create the repository if there is none.

    Args:
        folder: a folder that :func:`save_folder` wrote.
        name: of the repository, ``owner/name``.
        private: whether a new repository is private.
        token: of the hub; None for the one that ``hf auth login`` stored, or ``HF_TOKEN``.
        message: of the commit.

    Returns:
        the address of the repository.

    Raises:
        ModelError: the hub refuses the upload or cannot be reached.
        MissingExtraError: ``huggingface_hub`` is not installed.
    """
    hub = _hub(name)
    try:
        api = hub.HfApi(token=token)
        address = api.create_repo(name, private=private, exist_ok=True)
        api.upload_folder(repo_id=name, folder_path=folder, commit_message=message)
    except Exception as error:  # huggingface_hub lets the errors of its transport library through
        raise ModelError(
            f"{name}: cannot be uploaded: {reason(error)}; check the name and the network, and log in with "
            "`hf auth login` or give a token that may write"
        ) from None
    return str(address)


def check_name(name: str) -> None:
    """Check the name of a repository before anything is written, and that it can be uploaded to.

    Raises:
        ModelError: it is not a name of the hub.
        MissingExtraError: ``huggingface_hub`` is not installed.
    """
    problem = "give owner/name"
    if isinstance(name, str) and HUB_NAME.fullmatch(name):
        try:
            _hub(name).utils.validate_repo_id(name)
            return
        except ValueError as error:
            problem = reason(error)
    raise ModelError(f"{name!r:.200}: not the name of a Hugging Face repository: {problem}")


def _hub(name: str) -> Any:
    try:
        return importlib.import_module("huggingface_hub")
    except ImportError:
        raise MissingExtraError(
            f"{name}: to upload it to the Hugging Face hub, `pip install huggingface_hub`"
        ) from None
