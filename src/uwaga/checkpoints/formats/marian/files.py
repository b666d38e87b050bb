"""The files of a Marian model: their paths, vocabularies and decoding settings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from uwaga.checkpoints.formats.marian.weights import json_text
from uwaga.checkpoints.formats.uwaga.names import SOURCE, TARGET
from uwaga.decoder import Symbols
from uwaga.engine import _core
from uwaga.errors import ModelError, printable
from uwaga.files.regular import read_regular
from uwaga.search import SearchOptions
from uwaga.settings.yaml_text import load_yaml
from uwaga.tokenizers.marian import END, UNKNOWN, MarianTokeniser, add_padding, ids_by_piece
from uwaga.tokenizers.sentencepiece import SentencePieceModel, read_sentencepiece

MAX_BYTES = 1 << 26
"""Maximum size in bytes of a vocabulary or settings file."""


@dataclass(frozen=True)
class ModelFiles:
    """The files of a Marian model.

    Attributes:
        model: path of the weight file.
        shortlist: path of the lexical shortlist, None if there is none.
        decoder: name of the file with the decoding settings, empty if there is none.
        settings: the decoding settings as JSON.
        languages: codes of the source and target languages in the name of the weight file, None if the name
            contains none.
    """

    model: Path
    shortlist: Path | None
    decoder: str
    settings: str
    languages: tuple[str, str] | None

    @property
    def vocabularies(self) -> tuple[Path, Path]:
        """Paths of the source and target vocabularies, which may be the same file."""
        folder = self.model.parent
        source, target = _core.marian_vocabularies(
            printable(folder), _file_names(folder), self.decoder, self.settings
        )
        return folder / source, folder / target


def find_files(path: Path) -> ModelFiles:
    """Find a model's files: those that the decoding settings name or, without settings, the only candidates.

    Args:
        path: path of the weight file or its folder.
    """
    if not path.is_dir() and not path.is_file():
        raise ModelError(f"{path}: no such file")
    folder, name = (path, "") if path.is_dir() else (path.parent, printable(path.name))
    settings = {"": "{}"}

    def read(name: str) -> str:
        settings[name] = _read_settings(folder / name)
        return settings[name]

    model, decoder, shortlist = _core.marian_files(printable(folder), _file_names(folder), name, read)
    languages = _core.marian_languages(model)
    return ModelFiles(
        path if name else folder / model,
        folder / shortlist if shortlist else None,
        decoder,
        settings[decoder],
        languages if all(languages) else None,
    )


def _file_names(folder: Path) -> list[str]:
    """Return the sorted names of a folder's files, except names that are not UTF-8."""
    names = [path.name for path in folder.iterdir() if path.is_file()]
    return sorted(name for name in names if printable(name) == name)


def _read_settings(path: Path) -> str:
    try:
        return json_text(load_yaml(read_regular(path, MAX_BYTES).decode("utf-8")))
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise ModelError(f"{path}: cannot be read: {error}") from None


ENTRY = re.compile(r"""^(?P<piece>"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|.*?):[ ]+(?P<number>[0-9]{1,9})[ ]*$""")
ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
ESCAPED_CHARACTERS = {
    **{"0": "\0", "a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r"},
    **{"e": "\x1b", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029"},
}
"""YAML's one-letter escapes; any other escaped character is used unchanged."""

SENTENCEPIECE_SUFFIX = ".spm"


@dataclass(frozen=True)
class TextConfig:
    """Tokenisers, vocabulary sizes, special tokens and search options of a model.

    Attributes:
        source, target: tokenisers of the two sides.
        sizes: numbers of source and target pieces, without the padding token.
        size: number of rows of each embedding in uwaga; the last row belongs to the padding token.
        symbols: ids of the special tokens.
        options: default search options.
    """

    source: MarianTokeniser
    target: MarianTokeniser
    sizes: tuple[int, int]
    size: int
    symbols: Symbols
    options: SearchOptions


def read_text_config(files: ModelFiles) -> TextConfig:
    """Read the tokenisers and the decoding settings.

    A ``.yml`` vocabulary gives the ids of the pieces of ``source.spm`` and ``target.spm``. A ``.spm``
    vocabulary both segments text and gives the ids.
    """
    source, target = files.vocabularies
    first = _Side.read(source, files.model.parent, SOURCE)
    # A shared .spm vocabulary serves both sides; a .yml vocabulary needs a SentencePiece model for each.
    second = (
        first
        if target == source and target.suffix == SENTENCEPIECE_SUFFIX
        else _Side.read(target, files.model.parent, TARGET)
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
    """A vocabulary, and the SentencePiece model that segments texts into pieces of the vocabulary."""

    path: Path
    size: int
    ids: dict[str, int] | None
    """Ids of the pieces; None if the SentencePiece model gives the ids."""
    segmenter: SentencePieceModel

    @classmethod
    def read(cls, path: Path, folder: Path, pieces: str) -> _Side:
        if path.suffix == SENTENCEPIECE_SUFFIX:
            segmenter = read_sentencepiece(path)
            return cls(path, len(segmenter), None, segmenter)
        ids = _read_vocabulary(path)
        return cls(path, len(ids), ids, read_sentencepiece(_sentencepiece_path(folder, pieces)))

    def piece_id(self, piece: str) -> int:
        if self.ids is None:
            token = self.segmenter.number(piece)
            in_vocabulary = self.segmenter.piece(token) == piece
        else:
            token, in_vocabulary = self.ids.get(piece, 0), piece in self.ids
        if not in_vocabulary:
            raise ModelError(f"{self.path}: the vocabulary does not contain {piece}")
        return token

    def tokeniser(self, pad: int) -> MarianTokeniser:
        symbols = Symbols(start=pad, end=self.piece_id(END), pad=pad, unknown=self.piece_id(UNKNOWN))
        ids = None if self.ids is None else add_padding(self.ids, pad)
        return MarianTokeniser(self.segmenter, ids, symbols, str(self.path))


def read_decoding(files: ModelFiles) -> SearchOptions:
    """Return the search options that a model's decoding settings state.

    The defaults are Marian's, or Firefox's for a model that has a shortlist but no decoding settings.
    """
    shortlist = "" if files.shortlist is None else files.shortlist.name
    folder = printable(files.model.parent)
    return SearchOptions(**_core.marian_decoding(folder, files.decoder, shortlist, files.settings))


def _sentencepiece_path(folder: Path, name: str) -> Path:
    if (folder / name).is_file():
        return folder / name
    raise ModelError(
        f"{folder / name}: no such file; the vocabulary contains only the ids of pieces, so {SOURCE} and "
        f"{TARGET} are needed to segment text into pieces"
    )


def _read_vocabulary(path: Path) -> dict[str, int]:
    """Read a vocabulary as a mapping from pieces to ids."""
    if path.suffix == SENTENCEPIECE_SUFFIX:
        return ids_by_piece(read_sentencepiece(path))
    try:
        # a piece may contain any other line break
        lines = read_regular(path, MAX_BYTES).decode("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: the vocabulary cannot be read: {error}") from None
    ids: dict[str, int] = {}
    key: str | None = None
    for line_number, line in enumerate((line.rstrip("\r") for line in lines), start=1):
        if not line.strip() or line in ("---", "..."):
            continue
        if line.startswith("? "):  # YAML puts a long key on a line of its own
            key = line[2:]
            continue
        entry = ENTRY.match(f"{key}{line}" if key is not None else line)
        if entry is None:
            raise ModelError(f"{path}: line {line_number} must be a piece and its id, not {line[:40]!r}")
        try:
            piece = _decode_scalar(entry["piece"])
            piece.encode("utf-8")
        except ValueError:  # an escape beyond Unicode, or a lone surrogate
            raise ModelError(f"{path}: line {line_number} is not valid Unicode: {line[:40]!r}") from None
        ids[piece] = int(entry["number"])
        key = None
    if sorted(ids.values()) != list(range(len(ids))):
        raise ModelError(f"{path}: its {len(ids)} pieces are not numbered consecutively from 0")
    return ids


def _decode_scalar(piece: str) -> str:
    """Return the text of a YAML scalar, without quotes and escapes."""
    if len(piece) > 1 and piece[0] == piece[-1] == "'":
        return piece[1:-1].replace("''", "'")
    if len(piece) > 1 and piece[0] == piece[-1] == '"':
        return ESCAPE.sub(_unescape, piece[1:-1])
    return piece


def _unescape(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    return chr(int(code, 16)) if code else ESCAPED_CHARACTERS.get(match[4], match[4])
