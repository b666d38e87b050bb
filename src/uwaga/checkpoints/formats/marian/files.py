"""Which files a model of Marian's consists of, and what its settings for decoding say of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uwaga.errors import ModelError, shown
from uwaga.files.regular import read_regular
from uwaga.settings.parsing import load_yaml

DECODER = "decoder.yml"
CONFIGS = "config*.yml"
LARGEST = 1 << 26
"""Bytes of a vocabulary or settings file."""
NPZ, BINARY = ".npz", ".bin"
MODELS = (f"*{NPZ}", f"model*{BINARY}")
VOCABULARIES = ("*vocab*.yml", "*vocab*.spm")
SHORTLISTS = ("lex*.bin",)
SIDES = (("*.src.vocab", "srcvocab*"), ("*.trg.vocab", "trgvocab*"))
LANGUAGES = re.compile(r"\.([a-z]{2})-?([a-z]{2})\.")
"""The codes in a name such as ``model.enpt.intgemm.alphas.bin``."""


@dataclass(frozen=True)
class ModelFiles:
    """A model's files.

    Attributes:
        model: the weights.
        shortlist: the lexical shortlist, None where there is none.
        decoder: the file with the settings for decoding, None where there is none.
        settings: what it says.
        languages: codes of source and target in the file's name, None where it has none.
    """

    model: Path
    shortlist: Path | None
    decoder: Path | None
    settings: Mapping[str, Any]
    languages: tuple[str, str] | None

    @property
    def vocabularies(self) -> tuple[Path, Path]:
        """Those of source and target, which may be the same.

        Raises:
            ModelError: one is missing, or it is not clear which it is.
        """
        return _vocabularies(self.model.parent, self.decoder, self.settings)


def find_files(path: Path) -> ModelFiles:
    """The files of a model: those that ``decoder.yml`` or ``config*.yml`` names, or the only ones there are.

    Args:
        path: the file of the weights, or a folder with one.

    Raises:
        ModelError: a file is missing, ambiguous or damaged.
    """
    if not path.is_dir() and not path.is_file():
        raise ModelError(f"{path}: no such file")
    folder = path if path.is_dir() else path.parent
    decoder, settings = _decoder(folder, None if path.is_dir() else path)
    model = path
    if path.is_dir():
        model = _only(folder, _named(decoder, settings, "models"), MODELS, "model")
    name = LANGUAGES.search(model.name)
    return ModelFiles(
        model,
        _shortlist(folder, decoder, settings),
        decoder,
        settings,
        (name[1], name[2]) if name and name[1] != name[2] else None,
    )


def _decoder(folder: Path, model: Path | None) -> tuple[Path | None, Mapping[str, Any]]:
    """The settings for decoding: of several the first that is for this model."""
    found = [folder / DECODER] if (folder / DECODER).is_file() else sorted(folder.glob(CONFIGS))
    read = [(path, _settings(path)) for path in found]
    for path, settings in read:
        names = _listed(settings, "models")
        if model is None or not names or model.name in [Path(name).name for name in names]:
            return path, settings
    return None, {}


def _settings(path: Path) -> Mapping[str, Any]:
    try:
        values = load_yaml(read_regular(path, LARGEST).decode("utf-8"))
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise ModelError(f"{path}: cannot be read: {error}") from None
    if not isinstance(values, dict):
        raise ModelError(f"{path}: not a mapping of settings")
    return values


def _listed(settings: Mapping[str, Any], key: str) -> list[str]:
    names = settings.get(key) or []
    return [str(name) for name in (names if isinstance(names, list) else [names])]


def _named(decoder: Path | None, settings: Mapping[str, Any], key: str) -> list[Path]:
    """The files that the settings name, which must stand beside them."""
    found: list[Path] = []
    for name in _listed(settings, key):
        assert decoder is not None
        file = decoder.parent / Path(name).name
        if not file.is_file():
            raise ModelError(f"{decoder}: names {shown(name)}, which is not in the folder")
        found.append(file)
    return found


def _only(folder: Path, named: list[Path], patterns: tuple[str, ...], what: str) -> Path:
    found = named or sorted({file for pattern in patterns for file in folder.glob(pattern)})
    if len(found) != 1:
        listed = ", ".join(file.name for file in found) or "none"
        raise ModelError(f"{folder}: expected one {what} ({' or '.join(patterns)}), found {listed}")
    return found[0]


def _vocabularies(folder: Path, decoder: Path | None, settings: Mapping[str, Any]) -> tuple[Path, Path]:
    named = _named(decoder, settings, "vocabs")
    if named:
        if len(named) != 2:
            raise ModelError(f"{decoder}: {len(named)} vocabularies, not one for each of two sides")
        return named[0], named[1]
    sides = [
        sorted(
            file for name in names for ending in ("yml", "spm") for file in folder.glob(f"{name}.{ending}")
        )
        for names in SIDES
    ]
    if all(len(side) == 1 for side in sides):
        return sides[0][0], sides[1][0]
    both = _only(folder, [], VOCABULARIES, "vocabulary for both sides")
    return both, both


def _shortlist(folder: Path, decoder: Path | None, settings: Mapping[str, Any]) -> Path | None:
    """The first file under ``shortlist`` in the settings (behind it stand limits), or the only one."""
    stated = settings.get("shortlist")
    if isinstance(stated, list) and stated and isinstance(stated[0], str):
        return _named(decoder, {"shortlist": stated[0]}, "shortlist")[0]
    found = sorted({file for pattern in SHORTLISTS for file in folder.glob(pattern)})
    return found[0] if len(found) == 1 else None
