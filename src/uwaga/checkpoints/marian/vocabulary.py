"""What stands beside a Marian ``.npz``: ``decoder.yml``, vocabularies, and SentencePiece models."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentencepiece import SentencePieceProcessor

from uwaga.checkpoints.uwaga.schema import SOURCE, TARGET
from uwaga.contracts import Symbols
from uwaga.decoding import SearchOptions
from uwaga.errors import ModelError, SettingsError, shown
from uwaga.settings.yaml_reader import load_yaml
from uwaga.text.marian import END, PAD, UNKNOWN, MarianTokeniser, read_sentencepiece
from uwaga.text.regular_file import read_regular

DECODER = "decoder.yml"
LARGEST = 1 << 26
"""Bytes of a vocabulary or settings file."""
ENTRY = re.compile(r"""^(?P<piece>"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|.*?):[ ]+(?P<number>[0-9]{1,9})[ ]*$""")
ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
ESCAPED = {
    **{"0": "\0", "a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r"},
    **{"e": "\x1b", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029"},
}
"""YAML's escapes of one letter; any other letter stands for itself."""


@dataclass(frozen=True)
class Texts:
    """What a model translates from and to, and how.

    ``sizes``: pieces of source and target as Marian counts them. ``size``: of both embeddings here, with the
    padding token, which is the last.
    """

    model: Path
    source: MarianTokeniser
    target: MarianTokeniser
    sizes: tuple[int, int]
    size: int
    symbols: Symbols
    options: SearchOptions


def read_texts(path: Path) -> Texts:
    """Find and read what stands beside a model.

    Vocabularies are those that ``decoder.yml`` names, or the only ``.yml`` or ``.spm`` ones in the folder.
    A ``.yml`` vocabulary numbers the pieces that ``source.spm`` and ``target.spm`` cut; a ``.spm`` one does
    both.

    Args:
        path: the ``.npz`` file, or a folder with one.

    Raises:
        ModelError: a file is missing, ambiguous or damaged.
    """
    model = find_model(path)
    folder = model.parent
    decoder = _decoder(folder)
    files = _vocabulary_files(folder, decoder)
    ids = [_vocabulary(file) for file in files]
    pad = max(map(len, ids))
    tokenisers = []
    for file, numbered, name in zip(files, ids, (SOURCE, TARGET), strict=True):
        missing = [piece for piece in (END, UNKNOWN) if piece not in numbered]
        if missing:
            raise ModelError(f"{file}: the vocabulary lacks {', '.join(missing)}")
        symbols = Symbols(start=pad, end=numbered[END], pad=pad, unknown=numbered[UNKNOWN])
        used = {piece if piece != PAD else f"<unused{number}>": number for piece, number in numbered.items()}
        used |= {f"<unused{number}>": number for number in range(len(numbered), pad)} | {PAD: pad}
        cutter = read_sentencepiece(file if file.suffix == ".spm" else _pieces(folder, name))
        tokenisers.append(MarianTokeniser(cutter, used, symbols, str(file)))
    return Texts(
        model,
        tokenisers[0],
        tokenisers[1],
        (len(ids[0]), len(ids[1])),
        pad + 1,
        tokenisers[1].symbols,
        _options(folder / DECODER, decoder),
    )


def find_model(path: Path) -> Path:
    """The ``.npz`` file itself, or that of a folder, which ``decoder.yml`` names if there are several.

    Raises:
        ModelError: there is none, or it is not clear which it is.
    """
    if path.is_dir():
        return _only(path, _named(path, _decoder(path), "models"), ["*.npz"], "model")
    if not path.is_file():
        raise ModelError(f"{path}: no such file")
    return path


def read_vocabularies(model: Path) -> tuple[dict[str, int], dict[str, int]]:
    """Ids by pieces, of source and target, beside a model.

    Raises:
        ModelError: a file is missing, ambiguous or damaged.
    """
    source, target = _vocabulary_files(model.parent, _decoder(model.parent))
    return _vocabulary(source), _vocabulary(target)


def read_decoding(model: Path) -> SearchOptions:
    """How ``decoder.yml`` beside a model searches, or Marian without one.

    Raises:
        ModelError: it is damaged, or asks for what uwaga lacks.
    """
    return _options(model.parent / DECODER, _decoder(model.parent))


def _decoder(folder: Path) -> Mapping[str, Any]:
    path = folder / DECODER
    if not path.is_file():
        return {}
    try:
        values = load_yaml(read_regular(path, LARGEST).decode("utf-8"))
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise ModelError(f"{path}: cannot be read: {error}") from None
    if not isinstance(values, dict):
        raise ModelError(f"{path}: not a mapping of settings")
    return values


def _options(path: Path, decoder: Mapping[str, Any]) -> SearchOptions:
    """How Marian's decoder searches; what it has and we lack is refused."""
    for name in ("word-penalty", "n-best", "weights"):
        value = decoder.get(name)
        if value and value not in (0, 0.0, [1], [1.0]):
            raise ModelError(f"{path}: {name} = {shown(value)} is a feature that uwaga lacks")
    normalise = decoder.get("normalize", 0)
    normalise = 1.0 if normalise is True else normalise
    try:
        return SearchOptions(
            beam=decoder.get("beam-size", 12),
            length_penalty=float(normalise),
            max_length=None,
            max_ratio=float(decoder.get("max-length-factor", 3)),
            max_extra=1,
            early_stopping=False,
            unknown=bool(decoder.get("allow-unk", False)),
        )
    except (SettingsError, TypeError, ValueError, OverflowError) as error:
        raise ModelError(f"{path}: {error}") from None


def _named(folder: Path, decoder: Mapping[str, Any], key: str) -> list[Path]:
    """The files that ``decoder.yml`` names, which must stand in its folder."""
    names = decoder.get(key) or []
    found: list[Path] = []
    for name in names if isinstance(names, list) else [names]:
        file = folder / Path(str(name)).name
        if not file.is_file():
            raise ModelError(f"{folder / DECODER}: names {shown(str(name))}, which is not in the folder")
        found.append(file)
    return found


def _only(folder: Path, named: list[Path], patterns: list[str], what: str) -> Path:
    found = named or sorted({file for pattern in patterns for file in folder.glob(pattern)})
    if len(found) != 1:
        listed = ", ".join(file.name for file in found) or "none"
        raise ModelError(f"{folder}: expected one {what} ({' or '.join(patterns)}), found {listed}")
    return found[0]


def _vocabulary_files(folder: Path, decoder: Mapping[str, Any]) -> tuple[Path, Path]:
    named = _named(folder, decoder, "vocabs")
    if named:
        if len(named) != 2:
            raise ModelError(f"{folder / DECODER}: {len(named)} vocabularies, not one for each of two sides")
        return named[0], named[1]
    sides = [
        sorted(file for ending in ("yml", "spm") for file in folder.glob(f"*{side}.vocab.{ending}"))
        for side in ("src", "trg")
    ]
    if all(len(side) == 1 for side in sides):
        return sides[0][0], sides[1][0]
    both = _only(folder, [], ["*vocab*.yml", "*vocab*.spm"], "vocabulary for both sides")
    return both, both


def _pieces(folder: Path, name: str) -> Path:
    if (folder / name).is_file():
        return folder / name
    raise ModelError(
        f"{folder / name}: no such file; the vocabulary only numbers pieces, and {SOURCE} and {TARGET} cut "
        "text into them"
    )


def _vocabulary(path: Path) -> dict[str, int]:
    """Ids by pieces."""
    if path.suffix == ".spm":
        return _of_sentencepiece(read_sentencepiece(path))
    try:
        lines = (
            read_regular(path, LARGEST).decode("utf-8").split("\n")
        )  # a piece may hold any other line break
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: the vocabulary cannot be read: {error}") from None
    found: dict[str, int] = {}
    key: str | None = None
    for number, line in enumerate((line.rstrip("\r") for line in lines), start=1):
        if not line.strip() or line in ("---", "..."):
            continue
        if line.startswith("? "):  # a long key stands on a line of its own
            key = line[2:]
            continue
        entry = ENTRY.match(f"{key}{line}" if key is not None else line)
        if entry is None:
            raise ModelError(f"{path}: line {number} is not a piece and its number: {line[:40]!r}")
        try:
            piece = _plain(entry["piece"])
            piece.encode("utf-8")
        except ValueError:  # an escape beyond Unicode, or half a surrogate pair
            raise ModelError(f"{path}: line {number} is not Unicode: {line[:40]!r}") from None
        found[piece] = int(entry["number"])
        key = None
    if sorted(found.values()) != list(range(len(found))):
        raise ModelError(f"{path}: its {len(found)} pieces are not numbered from 0 on, each once")
    return found


def _of_sentencepiece(model: SentencePieceProcessor) -> dict[str, int]:
    return {model.id_to_piece(number): number for number in range(model.get_piece_size())}


def _plain(piece: str) -> str:
    """A YAML scalar as the text that it stands for."""
    if len(piece) > 1 and piece[0] == piece[-1] == "'":
        return piece[1:-1].replace("''", "'")
    if len(piece) > 1 and piece[0] == piece[-1] == '"':
        return ESCAPE.sub(_unescaped, piece[1:-1])
    return piece


def _unescaped(found: re.Match[str]) -> str:
    code = found[1] or found[2] or found[3]
    return chr(int(code, 16)) if code else ESCAPED.get(found[4], found[4])
