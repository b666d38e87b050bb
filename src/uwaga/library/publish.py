"""Saving of model folders with a model card, and upload to the Hugging Face Hub."""

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

COPYABLE_FORMATS = (formats.UWAGA, formats.UWAGA_INT8, formats.UWAGA_INT4, formats.HUGGING_FACE)
"""Formats whose folders can be copied."""


def save_folder(
    model_folder: Path | None,
    folder: Path,
    name: str,
    fields: CardFields,
    languages: tuple[Sequence[str], Sequence[str]],
    max_tokens: int | None,
) -> None:
    """Copy a model folder atomically, with a model card as its ``README.md``.

    Args:
        model_folder: folder of the model, None if no folder contains exactly this model.
        folder: the folder to create.
        name: name of the model in the model card.
        fields: values that override those of the original card.
        languages: codes of the source languages and of the target languages.
        max_tokens: maximum number of tokens of a sentence, None if there is no limit.

    Raises:
        ModelError: if ``folder`` exists and is not empty or cannot be written, or if there is no model
            folder that can be copied. Nothing is then written.
        SettingsError: if no licence is stated.
    """
    if os.path.lexists(folder) and (not folder.is_dir() or any(folder.iterdir())):
        raise ModelError(f"{folder}: this folder exists and is not overwritten; give another folder")
    if model_folder is None:
        raise ModelError(
            "an ensemble, a model with an adapter or a model with a replaced decoder has no folder, so it "
            "cannot be saved; merge an adapter with `uwaga merge`, and load the merged model"
        )
    files = _model_files(model_folder)
    text = write_card(name, read_card(model_folder), fields, languages, max_tokens)
    with new_folder(folder) as staging:
        for file in files:
            with open_regular(file) as old_file, (staging / file.name).open("wb") as new_file:
                shutil.copyfileobj(old_file, new_file, 1 << 20)
            sync(staging / file.name)
        (staging / README).write_text(text, encoding="utf-8", newline="\n")
        sync(staging / README)


def _model_files(folder: Path) -> list[Path]:
    """Return the paths of a model's files, except its card."""
    kind = formats.detect(folder)
    format_files = kind.files if kind is not None and kind in COPYABLE_FORMATS else formats.Files()
    if not (weights := _glob_files(folder, format_files.weights)):
        raise ModelError(
            f"{folder}: a model of the format {'unknown' if kind is None else kind.name} without safetensors "
            "files cannot be saved; convert it with `uwaga convert --int8`, and load the result"
        )
    files = [*_glob_files(folder, format_files.auxiliary), *weights]
    for file in (*files, *_glob_files(folder, (CARD, README))):
        _check_inside(file)
    return [file for file in files if file.name not in (CARD, README)]


def _glob_files(folder: Path, patterns: Sequence[str]) -> list[Path]:
    return sorted({file for pattern in patterns for file in folder.glob(pattern)})


def _check_inside(file: Path) -> None:
    """Raise ModelError if a file is a link out of the folder, since the linked file would be published.

    Links from the hub's cache to the files stored there are permitted.
    """
    folder = file.parent.resolve()
    cache = folder.parent.parent / "blobs" if folder.parent.name == "snapshots" else folder
    if file.resolve().parent not in (folder, cache):
        raise ModelError(
            f"{file}: this is a link to a file outside the model's folder; replace it with the file itself"
        )


def push(folder: Path, name: str, private: bool, token: str | None, message: str) -> str:
    """Upload a saved folder as a single commit, creating the repository if necessary.

    Args:
        folder: a folder written by :func:`save_folder`.
        name: name of the repository, ``owner/name``.
        private: True to create a new repository as private.
        token: access token of the hub; None for ``HF_TOKEN`` or the token stored by ``hf auth login``.
        message: the commit message.

    Returns:
        the URL of the repository.

    Raises:
        ModelError: if the hub refuses the upload or cannot be reached.
        MissingExtraError: if ``huggingface_hub`` is not installed.
    """
    hub = _hub(name)
    try:
        api = hub.HfApi(token=token)
        address = api.create_repo(name, private=private, exist_ok=True)
        api.upload_folder(repo_id=name, folder_path=folder, commit_message=message)
    except Exception as error:  # huggingface_hub does not wrap the errors of its transport library
        raise ModelError(
            f"{name}: cannot be uploaded: {reason(error)}; check the name and the network, and log in with "
            "`hf auth login` or give a token with write permission"
        ) from None
    return str(address)


def check_name(name: str) -> None:
    """Check that a repository name is valid and that ``huggingface_hub`` is installed.

    Raises:
        ModelError: if the name is not valid.
        MissingExtraError: if ``huggingface_hub`` is not installed.
    """
    problem = "give owner/name"
    if isinstance(name, str) and HUB_NAME.fullmatch(name):
        try:
            _hub(name).utils.validate_repo_id(name)
            return
        except ValueError as error:
            problem = reason(error)
    raise ModelError(f"{name!r:.200}: not a valid name of a Hugging Face repository: {problem}")


def _hub(name: str) -> Any:
    try:
        return importlib.import_module("huggingface_hub")
    except ImportError:
        raise MissingExtraError(
            f"{name}: to upload the model to the Hugging Face Hub, run `pip install 'uwaga[hub]'`"
        ) from None
