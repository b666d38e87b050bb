"""What an Argos package is, unpacked or not."""

from __future__ import annotations

import json
import zipfile
import zlib
from dataclasses import fields, replace
from pathlib import Path, PurePosixPath

from uwaga.checkpoints.argos.package import METADATA, NAME, OPTIONS, codes, read_metadata
from uwaga.checkpoints.card import read_card
from uwaga.checkpoints.ctranslate2.describe import describe_folder
from uwaga.checkpoints.ctranslate2.folder import MODEL
from uwaga.checkpoints.description import SEARCH, Description, WeightSummary
from uwaga.checkpoints.languages import stated_pairs
from uwaga.errors import ModelError

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
    try:
        with zipfile.ZipFile(path) as package:
            inside = {
                PurePosixPath(*PurePosixPath(one.filename).parts[1:]): one for one in package.infolist()
            }
            described = inside.get(PurePosixPath(METADATA))
            binary = inside.get(PurePosixPath("model", MODEL))
            if described is None or binary is None or described.file_size > LARGEST:
                raise ModelError(
                    f"{path}: not an Argos package, which is one folder with {METADATA} and model/"
                )
            with package.open(described) as file:
                values = json.loads(file.read(LARGEST))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise ModelError(f"{path}: damaged or not an Argos package ({error}); fetch it again") from None
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from None
    if not isinstance(values, dict):
        raise ModelError(f"{path}: {METADATA} is not a mapping")
    return Description(
        place=str(path),
        format=NAME,
        family="TransformerSpec",
        sizes={},
        weights=WeightSummary(None, binary.file_size, ()),
        vocabulary=(),
        languages=stated_pairs(codes(values), (), ()),
        licence=None,
        decoding={one.name: getattr(OPTIONS, one.name) for one in fields(OPTIONS) if one.name in SEARCH},
        problems=("the weights are packed; unpack the package to see their sizes",),
    )
