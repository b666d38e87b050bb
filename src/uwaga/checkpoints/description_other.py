"""What CTranslate2 folders, Argos packages and Marian's ``.npz`` files are, read without torch."""

from __future__ import annotations

import json
import math
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import yaml
from numpy.lib import format as npy

from uwaga.checkpoints.ctranslate2.binary import read_model_file
from uwaga.checkpoints.description import Description, Weights
from uwaga.checkpoints.files.npz import HEADERS
from uwaga.checkpoints.huggingface.config import read_mapping
from uwaga.checkpoints.uwaga.card import read_card
from uwaga.errors import ModelError

BINARY = "model.bin"
METADATA = "metadata.json"
SETTINGS = "special:model.yml"
LARGEST = 1 << 20
"""Bytes of settings inside a file."""
NAMES = {"float32": "F32", "float16": "F16", "int8": "I8", "int16": "I16", "int32": "I32", "uint16": "BF16"}
MARIAN_SIZES = {
    "width": "dim-emb",
    "encoder layers": "enc-depth",
    "decoder layers": "dec-depth",
    "heads": "transformer-heads",
    "feed-forward": "transformer-dim-ffn",
}


def describe_other(place: Path) -> Description | None:
    """Describe a model that is not a folder of ours or Hugging Face's, None where it is none.

    Raises:
        ModelError: it is one, but damaged.
    """
    if place.is_dir():
        if (place / METADATA).is_file() and (place / "model" / BINARY).is_file():
            return _argos_folder(place)
        if (place / BINARY).is_file():
            return _ctranslate2(place)
        archives = sorted(place.glob("*.npz"))
        return _marian(archives[0]) if archives else None
    if place.suffix == ".argosmodel":
        return _argos_package(place)
    return _marian(place) if place.suffix == ".npz" else None


def _ctranslate2(folder: Path) -> Description:
    file = read_model_file(folder / BINARY)
    distinct = {id(one): one for one in file.variables.values()}.values()
    matrices = [one for one in distinct if one.stored.ndim and not one.name.endswith("_scale")]
    formats = {"BF16" if one.bfloat16 else NAMES.get(str(one.stored.dtype), "?") for one in matrices}
    card = read_card(folder)
    layers = {
        f"{side} layers": len(
            {name.split("/")[1] for name in file.variables if name.startswith(f"{side}/layer_")}
        )
        for side in ("encoder", "decoder")
    }
    return Description(
        place=str(folder),
        format="CTranslate2",
        family=file.specification,
        sizes={name: count for name, count in layers.items() if count} | {"format version": file.version},
        weights=Weights(
            sum(one.stored.size for one in matrices),
            (folder / BINARY).stat().st_size,
            tuple(sorted(formats)),
        ),
        vocabulary=tuple(_pieces(folder, side) for side in ("source", "target")),
        languages=((), ()),
        licence=card.licence,
        decoding={},
    )


def _pieces(folder: Path, side: str) -> int:
    """How many pieces a side's vocabulary has."""
    for name in (f"{side}_vocabulary", "shared_vocabulary"):
        for ending in ("json", "txt"):
            path = folder / f"{name}.{ending}"
            try:
                content = path.read_bytes()
            except OSError:
                continue
            if ending == "txt":
                return len(content.removesuffix(b"\n").split(b"\n"))
            try:
                return len(json.loads(content))
            except (ValueError, TypeError, RecursionError):
                raise ModelError(f"{path}: not a list of pieces; fetch or convert the model again") from None
    raise ModelError(f"{folder}: holds neither shared_vocabulary nor {side}_vocabulary (.json or .txt)")


def _argos_folder(folder: Path) -> Description:
    inner = _ctranslate2(folder / "model")
    values = read_mapping(folder / METADATA)
    return Description(
        place=str(folder),
        format="Argos Translate",
        family=inner.family,
        sizes=inner.sizes,
        weights=inner.weights,
        vocabulary=inner.vocabulary,
        languages=_codes(values),
        licence=read_card(folder).licence,
        decoding={},
    )


def _argos_package(path: Path) -> Description:
    """Of a package what can be said without unpacking its weights."""
    try:
        with zipfile.ZipFile(path) as package:
            inside = {
                PurePosixPath(*PurePosixPath(one.filename).parts[1:]): one for one in package.infolist()
            }
            described, binary = (
                inside.get(PurePosixPath(METADATA)),
                inside.get(PurePosixPath("model", BINARY)),
            )
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
        format="Argos Translate",
        family="TransformerSpec",
        sizes={},
        weights=Weights(None, binary.file_size, ()),
        vocabulary=(),
        languages=_codes(values),
        licence=None,
        decoding={},
        problems=("the weights are packed; unpack the package to see their sizes",),
    )


def _codes(values: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    source, target = (values.get(key) for key in ("from_code", "to_code"))
    return ((str(source),) if source else ()), ((str(target),) if target else ())


def _marian(path: Path) -> Description:
    """Of Marian's own format the arrays' headers and the settings among them."""
    count, formats, settings = 0, set[str](), {}
    shapes: dict[str, tuple[int, ...]] = {}
    try:
        with zipfile.ZipFile(path) as file:
            for member in file.infolist():
                name = member.filename.removesuffix(".npy")
                with file.open(member) as stream:
                    version = npy.read_magic(stream)
                    if version not in HEADERS:
                        raise ModelError(f"{path}: {name!r} is of the unknown format {version}")
                    shape, _, dtype = HEADERS[version](stream)
                    if name == SETTINGS:
                        settings = yaml.safe_load(stream.read(LARGEST).rstrip(b"\0").decode("utf-8"))
                    elif np.issubdtype(dtype, np.floating):
                        shapes[name] = tuple(shape)
                        count += math.prod(shape)
                        formats.add(NAMES.get(str(dtype), str(dtype)))
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, yaml.YAMLError, RuntimeError) as error:
        raise ModelError(f"{path}: damaged or not a model of Marian's ({error}); fetch it again") from None
    if not isinstance(settings, dict) or not settings:
        raise ModelError(f"{path}: holds no {SETTINGS!r}, so it is not a model that Marian saved")
    sizes = {name: settings[key] for name, key in MARIAN_SIZES.items() if type(settings.get(key)) is int}
    stated = settings.get("dim-vocabs")
    vocabulary = tuple(one for one in (stated if isinstance(stated, list) else []) if type(one) is int)
    tables = [shape[0] for name, shape in shapes.items() if name.endswith("Wemb") and len(shape) == 2]
    return Description(
        place=str(path),
        format="Marian",
        family=str(settings.get("type", "unknown")),
        sizes=sizes,
        weights=Weights(count, path.stat().st_size, tuple(sorted(formats))),
        vocabulary=vocabulary if vocabulary and all(vocabulary) else tuple((tables * 2)[:2]),
        languages=((), ()),
        licence=read_card(path.parent).licence,
        decoding={},
    )
