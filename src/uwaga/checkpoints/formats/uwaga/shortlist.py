"""Vocabulary shortlists, stored as safetensors files whose metadata identifies the tokenisers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field

from uwaga.checkpoints.storage.json_file import parse_stored
from uwaga.checkpoints.storage.safetensors_files import aligned_bytes, open_tensors, read_metadata
from uwaga.checkpoints.storage.tensors import StoredTensor
from uwaga.engine.shortlist import Shortlist
from uwaga.errors import DataError, ModelError
from uwaga.files.atomic import new_file
from uwaga.settings import StrictModel
from uwaga.tokenizers.subwords import Subwords

FORMAT = "uwaga shortlist"
VERSION = 1
TENSOR_NAMES = ("common", "first", "targets")
MAX_VOCABULARY = 1 << 24
SHA256_FIELD = Field(pattern=r"^[0-9a-f]{64}$")


class ShortlistCard(StrictModel):
    """The metadata of a shortlist: vocabulary sizes, tokeniser hashes and number of training pairs."""

    format: Literal["uwaga shortlist"]
    version: int = Field(ge=1)
    source_vocabulary: int = Field(ge=1, lt=MAX_VOCABULARY)
    target_vocabulary: int = Field(ge=1, lt=MAX_VOCABULARY)
    source_tokeniser: str = SHA256_FIELD
    target_tokeniser: str = SHA256_FIELD
    pairs: int = Field(ge=0)


def write_shortlist(
    path: Path, shortlist: Shortlist, source: Subwords, target: Subwords, pairs: int = 0
) -> None:
    """Write a shortlist atomically, replacing an existing file."""
    card = {
        "format": FORMAT,
        "version": VERSION,
        "source_vocabulary": shortlist.source_vocabulary,
        "target_vocabulary": shortlist.vocabulary,
        "source_tokeniser": _fingerprint(source),
        "target_tokeniser": _fingerprint(target),
        "pairs": pairs,
    }
    tensors = {name: getattr(shortlist, name) for name in TENSOR_NAMES}
    content = aligned_bytes(tensors, {name: str(value) for name, value in card.items()})
    try:
        with new_file(path) as file:
            file.write(content)
    except DataError as error:
        raise ModelError(f"{error}; nothing was changed") from None


def read_shortlist(
    path: Path, source: Subwords, target: Subwords, source_vocabulary: int, target_vocabulary: int
) -> Shortlist:
    """Read a model's shortlist and check its contents."""
    if not path.is_file():
        raise ModelError(f"{path}: no such file; create a shortlist with `uwaga shortlist`")
    card = _check_metadata(path, read_metadata(path))
    _check_model(path, card, source, target, (source_vocabulary, target_vocabulary))
    tensors = open_tensors(path)
    _check_tensors(path, tensors, card)
    common_tokens, first_indices, targets = (tensors[name].values for name in TENSOR_NAMES)
    try:
        return Shortlist(common_tokens, first_indices, targets, target_vocabulary)
    except ModelError as error:
        raise ModelError(f"{path}: damaged: {error}; create it again") from None


def _fingerprint(tokeniser: Subwords) -> str:
    return hashlib.sha256(tokeniser.model_bytes).hexdigest()


def _check_metadata(path: Path, metadata: dict[str, str]) -> ShortlistCard:
    if metadata.get("format") != FORMAT:
        raise ModelError(
            f'{path}: not a shortlist (no "format": "{FORMAT}"); create a shortlist with `uwaga shortlist`'
        )
    version = metadata.get("version", "")
    if version.isdecimal() and len(version) < 9 and int(version) > VERSION:
        raise ModelError(
            f"{path}: written in version {version} of the shortlist format, but the installed uwaga reads "
            f"versions up to {VERSION}; install a newer version of uwaga"
        )
    return parse_stored(ShortlistCard, metadata, str(path))


def _check_model(
    path: Path, card: ShortlistCard, source: Subwords, target: Subwords, sizes: tuple[int, int]
) -> None:
    stored_sizes = (card.source_vocabulary, card.target_vocabulary)
    if stored_sizes != sizes:
        raise ModelError(
            f"{path}: made for {stored_sizes[0]} source and {stored_sizes[1]} target tokens, but the model "
            f"has {sizes[0]} and {sizes[1]}; this is the shortlist of another model"
        )
    for side, tokeniser, expected_fingerprint in (
        ("source", source, card.source_tokeniser),
        ("target", target, card.target_tokeniser),
    ):
        if _fingerprint(tokeniser) != expected_fingerprint:
            raise ModelError(
                f"{path}: made for another {side} tokeniser; this is the shortlist of another model"
            )


def _check_tensors(path: Path, tensors: Mapping[str, StoredTensor], card: ShortlistCard) -> None:
    """Raise ModelError for wrong names, formats or shapes, before the tensors are read."""
    names = sorted(tensors)
    if names != sorted(TENSOR_NAMES):
        raise ModelError(
            f"{path}: contains {', '.join(names) or 'nothing'} instead of {', '.join(TENSOR_NAMES)}"
        )
    for name in TENSOR_NAMES:
        shape, number_format = tensors[name].shape, tensors[name].format
        expected_length = card.source_vocabulary + 1 if name == "first" else None
        if (
            number_format != "I32"
            or len(shape) != 1
            or (expected_length is not None and shape[0] != expected_length)
        ):
            length = "any length" if expected_length is None else str(expected_length)
            raise ModelError(f"{path}: {name!r} is {number_format} of shape {shape}, not I32 of ({length},)")
