"""What an Argos package is, unpacked or not."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

from uwaga.checkpoints.card import read_card
from uwaga.checkpoints.description import SEARCH, Description, WeightSummary
from uwaga.checkpoints.formats.argos.package import (
    METADATA,
    NAME,
    OPTIONS,
    codes,
    needed_members,
    read_metadata,
)
from uwaga.checkpoints.formats.ctranslate2.describe import describe_folder
from uwaga.checkpoints.formats.ctranslate2.folder import MODEL
from uwaga.checkpoints.languages import stated_pairs
from uwaga.errors import ModelError
from uwaga.files.zip import open_archive

LARGEST = 1 << 20
"""Bytes of the metadata inside a package."""


def describe_package(path: Path) -> Description:
    """Describe a package, or the folder that one was unpacked into.

    Raises:
        ModelError: it is damaged.
    """
    if not path.is_dir():
        return _packed(path)
    values = read_metadata(path / METADATA, str(path))
    inner = describe_folder(path / "model", NAME, OPTIONS, codes(values))
    return replace(inner, place=str(path), licence=read_card(path).licence)


def _packed(path: Path) -> Description:
    """Of a package what can be said without unpacking its weights."""
    with open_archive(path, "an Argos package") as package:
        inside = needed_members(package)
        described, binary = inside.get(METADATA), inside.get(f"model/{MODEL}")
        if described is None or binary is None:
            raise ModelError(f"{path}: not an Argos package, which is one folder with {METADATA} and model/")
        values = json.loads(package.read(described, LARGEST))
        size = package.members[binary].file_size
    if not isinstance(values, dict):
        raise ModelError(f"{path}: {METADATA} is not a mapping")
    return Description(
        place=str(path),
        format=NAME,
        family="TransformerSpec",
        sizes={},
        weights=WeightSummary(None, size, ()),
        vocabulary=(),
        languages=stated_pairs(codes(values), (), ()),
        licence=None,
        decoding={one.name: getattr(OPTIONS, one.name) for one in fields(OPTIONS) if one.name in SEARCH},
        problems=("the weights are packed; unpack the package to see their sizes",),
    )
