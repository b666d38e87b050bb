"""The files of a Marian model: their paths, vocabularies and decoding settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uwaga.checkpoints.formats.marian.weights import json_text
from uwaga.checkpoints.formats.uwaga.names import SOURCE, TARGET
from uwaga.decoder import Symbols
from uwaga.engine import _core
from uwaga.errors import ModelError, printable, quoted
from uwaga.files.regular import read_regular
from uwaga.search import SearchOptions
from uwaga.settings.yaml_text import load_yaml
from uwaga.tokenizers.marian import (
    END,
    UNKNOWN,
    MarianTokeniser,
    add_padding,
    numbered_pieces,
)
from uwaga.tokenizers.sentencepiece import SentencePieceModel, read_sentencepiece

DECODER = "decoder.yml"
CONFIGS = "config*.yml"
MAX_BYTES = 1 << 26
"""Maximum bytes of a vocabulary or settings file."""
NPZ, BINARY = ".npz", ".bin"
MODEL_PATTERNS = (f"*{NPZ}", f"model*{BINARY}")
VOCABULARY_PATTERNS = ("*vocab*.yml", "*vocab*.spm")
SHORTLIST_PATTERNS = ("lex*.bin",)
SIDE_PATTERNS = (("*.src.vocab", "srcvocab*"), ("*.trg.vocab", "trgvocab*"))


@dataclass(frozen=True)
class ModelFiles:
    """The files of a Marian model.

    Attributes:
        model: the weights.
        shortlist: the lexical shortlist, None if there is none.
        decoder: the file with the decoding settings, None if there is none.
        settings: contents of this file.
        languages: codes of source and target in the model's file name, None if it has none.
    """

    model: Path
    shortlist: Path | None
    decoder: Path | None
    settings: Mapping[str, Any]
    languages: tuple[str, str] | None

    @property
    def vocabularies(self) -> tuple[Path, Path]:
        """The vocabulary files of source and target, which may be the same."""
        return _vocabularies(self.model.parent, self.decoder, self.settings)


def find_files(path: Path) -> ModelFiles:
    """Find the files of a model: those named in ``decoder.yml`` or ``config*.yml``, or the only candidates.

    Args:
        path: the weight file, or its folder.
    """
    if not path.is_dir() and not path.is_file():
        raise ModelError(f"{path}: no such file")
    folder = path if path.is_dir() else path.parent
    decoder, settings = _decoder(folder, None if path.is_dir() else path)
    model = path
    if path.is_dir():
        model = _single_file(folder, _named(decoder, settings, "models"), MODEL_PATTERNS, "model")
    languages = _core.marian_languages(printable(model.name))
    return ModelFiles(
        model,
        _shortlist(folder, decoder, settings),
        decoder,
        settings,
        languages if all(languages) else None,
    )


def _decoder(folder: Path, model: Path | None) -> tuple[Path | None, Mapping[str, Any]]:
    """Return the first file with decoding settings for this model, and its contents."""
    paths = [folder / DECODER] if (folder / DECODER).is_file() else sorted(folder.glob(CONFIGS))
    candidates = [(path, _settings(path)) for path in paths]
    for path, settings in candidates:
        names = _as_list(settings, "models")
        if model is None or not names or model.name in [Path(name).name for name in names]:
            return path, settings
    return None, {}


def _settings(path: Path) -> Mapping[str, Any]:
    try:
        values = load_yaml(read_regular(path, MAX_BYTES).decode("utf-8"))
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise ModelError(f"{path}: cannot be read: {error}") from None
    if not isinstance(values, dict):
        raise ModelError(f"{path}: not a mapping of settings")
    return values


def _as_list(settings: Mapping[str, Any], key: str) -> list[str]:
    names = settings.get(key) or []
    return [str(name) for name in (names if isinstance(names, list) else [names])]


def _named(decoder: Path | None, settings: Mapping[str, Any], key: str) -> list[Path]:
    """Return the files named by the settings, which must be in the same folder."""
    files: list[Path] = []
    for name in _as_list(settings, key):
        assert decoder is not None
        file = decoder.parent / Path(name).name
        if not file.is_file():
            raise ModelError(f"{decoder}: names {quoted(name)}, which is not in the folder")
        files.append(file)
    return files


def _single_file(folder: Path, named: list[Path], patterns: tuple[str, ...], label: str) -> Path:
    files = named or sorted({file for pattern in patterns for file in folder.glob(pattern)})
    if len(files) != 1:
        names = ", ".join(file.name for file in files) or "none"
        raise ModelError(f"{folder}: expected one {label} ({' or '.join(patterns)}), found {names}")
    return files[0]


def _vocabularies(folder: Path, decoder: Path | None, settings: Mapping[str, Any]) -> tuple[Path, Path]:
    named = _named(decoder, settings, "vocabs")
    if named:
        if len(named) != 2:
            raise ModelError(f"{decoder}: names {len(named)} vocabularies, expected source and target")
        return named[0], named[1]
    sides = [
        sorted(
            file for name in names for ending in ("yml", "spm") for file in folder.glob(f"{name}.{ending}")
        )
        for names in SIDE_PATTERNS
    ]
    if all(len(side) == 1 for side in sides):
        return sides[0][0], sides[1][0]
    shared = _single_file(folder, [], VOCABULARY_PATTERNS, "vocabulary for both sides")
    return shared, shared


def _shortlist(folder: Path, decoder: Path | None, settings: Mapping[str, Any]) -> Path | None:
    """Return the file named by ``shortlist`` in the settings, before its limits, or else the only one."""
    setting = settings.get("shortlist")
    if isinstance(setting, list) and setting and isinstance(setting[0], str):
        return _named(decoder, {"shortlist": setting[0]}, "shortlist")[0]
    files = sorted({file for pattern in SHORTLIST_PATTERNS for file in folder.glob(pattern)})
    return files[0] if len(files) == 1 else None


ENTRY = re.compile(r"""^(?P<piece>"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|.*?):[ ]+(?P<number>[0-9]{1,9})[ ]*$""")
ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
ESCAPED = {
    **{"0": "\0", "a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r"},
    **{"e": "\x1b", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029"},
}
"""YAML's one-letter escapes; any other letter stands for itself."""

SPM = ".spm"


@dataclass(frozen=True)
class TextConfig:
    """Tokenisers, vocabulary sizes, special tokens and search options of a model.

    ``sizes``: numbers of source and target pieces in Marian. ``size``: rows of both embeddings in uwaga,
    including the padding token, which is the last.
    """

    source: MarianTokeniser
    target: MarianTokeniser
    sizes: tuple[int, int]
    size: int
    symbols: Symbols
    options: SearchOptions


def read_text_config(files: ModelFiles) -> TextConfig:
    """Read the tokenisers and the decoding settings.

    A ``.yml`` vocabulary numbers the pieces of ``source.spm`` and ``target.spm``; a ``.spm`` vocabulary
    both segments text and numbers the pieces.
    """
    source, target = files.vocabularies
    first = _Side.read(source, files.model.parent, SOURCE)
    # A shared .spm vocabulary serves both sides; a .yml vocabulary needs a SentencePiece model for each.
    second = (
        first if target == source and target.suffix == SPM else _Side.read(target, files.model.parent, TARGET)
    )
    pad = max(first.size, second.size)
    source_tokeniser = first.tokeniser(pad)
    target_tokeniser = source_tokeniser if second is first else second.tokeniser(pad)
    return TextConfig(
        source_tokeniser,
        target_tokeniser,
        (first.size, second.size),
        pad + 1,
        target_tokeniser.symbols,
        read_decoding(files),
    )


@dataclass(frozen=True)
class _Side:
    """A vocabulary and the SentencePiece model that segments text into its pieces."""

    path: Path
    size: int
    ids: dict[str, int] | None
    """None if the SentencePiece model numbers the pieces itself."""
    segmenter: SentencePieceModel

    @classmethod
    def read(cls, path: Path, folder: Path, pieces: str) -> _Side:
        if path.suffix == SPM:
            segmenter = read_sentencepiece(path)
            return cls(path, len(segmenter), None, segmenter)
        ids = _vocabulary(path)
        return cls(path, len(ids), ids, read_sentencepiece(_pieces(folder, pieces)))

    def number(self, piece: str) -> int:
        if self.ids is None:
            token = self.segmenter.number(piece)
            in_vocabulary = self.segmenter.piece(token) == piece
        else:
            token, in_vocabulary = self.ids.get(piece, 0), piece in self.ids
        if not in_vocabulary:
            raise ModelError(f"{self.path}: the vocabulary lacks {piece}")
        return token

    def tokeniser(self, pad: int) -> MarianTokeniser:
        symbols = Symbols(start=pad, end=self.number(END), pad=pad, unknown=self.number(UNKNOWN))
        ids = None if self.ids is None else add_padding(self.ids, pad)
        return MarianTokeniser(self.segmenter, ids, symbols, str(self.path))


def read_vocabularies(files: ModelFiles) -> tuple[dict[str, int], dict[str, int]]:
    """Read the vocabularies of source and target as ids by piece."""
    source, target = files.vocabularies
    ids = _vocabulary(source)
    return ids, ids if target == source else _vocabulary(target)


def read_decoding(files: ModelFiles) -> SearchOptions:
    """Read the search options from the settings next to a model.

    The defaults are Marian's, and Firefox's for a model that has a shortlist but no settings.
    """
    path = files.decoder or files.model.parent / DECODER
    student = files.decoder is None and files.shortlist is not None
    values = _core.marian_decoding(printable(path), json_text(files.settings), student)
    return SearchOptions(**values)


def _pieces(folder: Path, name: str) -> Path:
    if (folder / name).is_file():
        return folder / name
    raise ModelError(
        f"{folder / name}: no such file; the vocabulary only numbers pieces, so {SOURCE} and {TARGET} are "
        "needed to segment text into them"
    )


def _vocabulary(path: Path) -> dict[str, int]:
    """Read a vocabulary as ids by piece."""
    if path.suffix == SPM:
        return numbered_pieces(read_sentencepiece(path))
    try:
        lines = (
            read_regular(path, MAX_BYTES).decode("utf-8").split("\n")
        )  # a piece may contain any other line break
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: the vocabulary cannot be read: {error}") from None
    ids: dict[str, int] = {}
    key: str | None = None
    for number, line in enumerate((line.rstrip("\r") for line in lines), start=1):
        if not line.strip() or line in ("---", "..."):
            continue
        if line.startswith("? "):  # YAML puts a long key on a line of its own
            key = line[2:]
            continue
        entry = ENTRY.match(f"{key}{line}" if key is not None else line)
        if entry is None:
            raise ModelError(f"{path}: line {number} must be a piece and its number, not {line[:40]!r}")
        try:
            piece = _decode_scalar(entry["piece"])
            piece.encode("utf-8")
        except ValueError:  # an escape beyond Unicode, or a lone surrogate
            raise ModelError(f"{path}: line {number} is not Unicode: {line[:40]!r}") from None
        ids[piece] = int(entry["number"])
        key = None
    if sorted(ids.values()) != list(range(len(ids))):
        raise ModelError(f"{path}: its {len(ids)} pieces are not numbered consecutively from 0")
    return ids


def _decode_scalar(piece: str) -> str:
    """Decode a YAML scalar."""
    if len(piece) > 1 and piece[0] == piece[-1] == "'":
        return piece[1:-1].replace("''", "'")
    if len(piece) > 1 and piece[0] == piece[-1] == '"':
        return ESCAPE.sub(_unescape, piece[1:-1])
    return piece


def _unescape(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    return chr(int(code, 16)) if code else ESCAPED.get(match[4], match[4])
