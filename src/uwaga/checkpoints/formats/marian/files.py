"""The files of a Marian model: their paths, vocabularies and decoding settings."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uwaga.checkpoints.formats.uwaga.names import SOURCE, TARGET
from uwaga.decoder import Symbols
from uwaga.errors import ModelError, SettingsError, shown
from uwaga.files.regular import read_regular
from uwaga.search import SearchOptions
from uwaga.settings.yaml_text import load_yaml
from uwaga.tokenizers.marian import (
    END,
    UNKNOWN,
    MarianTokeniser,
    numbered_pieces,
    padded,
)
from uwaga.tokenizers.sentencepiece import SentencePieceModel, read_sentencepiece

DECODER = "decoder.yml"
CONFIGS = "config*.yml"
LARGEST = 1 << 26
"""Maximum bytes of a vocabulary or settings file."""
NPZ, BINARY = ".npz", ".bin"
MODELS = (f"*{NPZ}", f"model*{BINARY}")
VOCABULARIES = ("*vocab*.yml", "*vocab*.spm")
SHORTLISTS = ("lex*.bin",)
SIDES = (("*.src.vocab", "srcvocab*"), ("*.trg.vocab", "trgvocab*"))
LANGUAGES = re.compile(r"\.([a-z]{2})-?([a-z]{2})\.")
"""Language codes in a name such as ``model.enpt.intgemm.alphas.bin``."""


@dataclass(frozen=True)
class ModelFiles:
    """The files of a Marian model.

    Attributes:
        model: the weights.
        shortlist: the lexical shortlist, None if there is none.
        decoder: the file with the decoding settings, None if there is none.
        settings: its contents.
        languages: codes of source and target in the file's name, None if it has none.
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
    """Find the files of a model: those named in ``decoder.yml`` or ``config*.yml``, or the only ones.

    Args:
        path: the file of the weights, or a folder with one.
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
    """Return the first file with decoding settings for this model, and its contents."""
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
    """Return the files that the settings name, which must be in the same folder."""
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
            raise ModelError(f"{decoder}: names {len(named)} vocabularies, expected source and target")
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
    """Return the file that ``shortlist`` in the settings names, followed by limits, or else the only one."""
    stated = settings.get("shortlist")
    if isinstance(stated, list) and stated and isinstance(stated[0], str):
        return _named(decoder, {"shortlist": stated[0]}, "shortlist")[0]
    found = sorted({file for pattern in SHORTLISTS for file in folder.glob(pattern)})
    return found[0] if len(found) == 1 else None


ENTRY = re.compile(r"""^(?P<piece>"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|.*?):[ ]+(?P<number>[0-9]{1,9})[ ]*$""")
ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
ESCAPED = {
    **{"0": "\0", "a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r"},
    **{"e": "\x1b", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029"},
}
"""YAML's one-letter escapes; any other letter stands for itself."""

SPM = ".spm"
STUDENT: Mapping[str, Any] = {"beam-size": 1, "normalize": 1.0, "max-length-factor": 2.0}
"""Firefox's search options for its models, which come with a shortlist but without settings."""


@dataclass(frozen=True)
class Texts:
    """Tokenisers, vocabulary sizes, special tokens and search options of a model.

    ``sizes``: numbers of source and target pieces in Marian. ``size``: rows of both embeddings here,
    including the padding token, which is the last.
    """

    source: MarianTokeniser
    target: MarianTokeniser
    sizes: tuple[int, int]
    size: int
    symbols: Symbols
    options: SearchOptions


def read_texts(files: ModelFiles) -> Texts:
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
    tokeniser = first.tokeniser(pad)
    towards = tokeniser if second is first else second.tokeniser(pad)
    return Texts(
        tokeniser,
        towards,
        (first.size, second.size),
        pad + 1,
        towards.symbols,
        read_decoding(files),
    )


@dataclass(frozen=True)
class _Side:
    """A vocabulary and the SentencePiece model that segments text into its pieces."""

    path: Path
    size: int
    ids: dict[str, int] | None
    """None if the SentencePiece model numbers the pieces itself."""
    cutter: SentencePieceModel

    @classmethod
    def read(cls, path: Path, folder: Path, pieces: str) -> _Side:
        if path.suffix == SPM:
            cutter = read_sentencepiece(path)
            return cls(path, len(cutter), None, cutter)
        ids = _vocabulary(path)
        return cls(path, len(ids), ids, read_sentencepiece(_pieces(folder, pieces)))

    def number(self, piece: str) -> int:
        if self.ids is None:
            found = self.cutter.number(piece)
            known = self.cutter.piece(found) == piece
        else:
            found, known = self.ids.get(piece, 0), piece in self.ids
        if not known:
            raise ModelError(f"{self.path}: the vocabulary lacks {piece}")
        return found

    def tokeniser(self, pad: int) -> MarianTokeniser:
        symbols = Symbols(start=pad, end=self.number(END), pad=pad, unknown=self.number(UNKNOWN))
        ids = None if self.ids is None else padded(self.ids, pad)
        return MarianTokeniser(self.cutter, ids, symbols, str(self.path))


def read_vocabularies(files: ModelFiles) -> tuple[dict[str, int], dict[str, int]]:
    """Read the vocabularies of source and target as ids by piece."""
    source, target = files.vocabularies
    ids = _vocabulary(source)
    return ids, ids if target == source else _vocabulary(target)


def read_decoding(files: ModelFiles) -> SearchOptions:
    """Read the search options in the settings next to a model; without settings, return Marian's defaults."""
    stated = files.settings if files.decoder is not None or files.shortlist is None else STUDENT
    return _options(files.decoder or files.model.parent / DECODER, stated)


def _options(path: Path, decoder: Mapping[str, Any]) -> SearchOptions:
    """Convert the options of Marian's decoder; features that uwaga lacks raise ModelError."""
    for name in ("word-penalty", "n-best", "weights"):
        value = decoder.get(name)
        if value and value not in (0, 0.0, [1], [1.0]):
            raise ModelError(f"{path}: {name} = {shown(value)} is not supported by uwaga")
    normalise = decoder.get("normalize", 0)
    normalise = 1.0 if normalise is True else normalise
    try:
        return SearchOptions(
            beam=decoder.get("beam-size", 12),
            length_penalty=float(normalise),
            max_length=None,
            # Marian's limit of steps is this factor times the number of source tokens, rounded up.
            max_ratio=math.nextafter(float(decoder.get("max-length-factor", 3)), 0.0),
            max_extra=1,
            early_stopping=False,
            unknown=bool(decoder.get("allow-unk", False)),
        )
    except (SettingsError, TypeError, ValueError, OverflowError) as error:
        raise ModelError(f"{path}: {error}") from None


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
            read_regular(path, LARGEST).decode("utf-8").split("\n")
        )  # a piece may contain any other line break
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: the vocabulary cannot be read: {error}") from None
    found: dict[str, int] = {}
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
            piece = _plain(entry["piece"])
            piece.encode("utf-8")
        except ValueError:  # an escape beyond Unicode, or a lone surrogate
            raise ModelError(f"{path}: line {number} is not Unicode: {line[:40]!r}") from None
        found[piece] = int(entry["number"])
        key = None
    if sorted(found.values()) != list(range(len(found))):
        raise ModelError(f"{path}: its {len(found)} pieces are not numbered consecutively from 0")
    return found


def _plain(piece: str) -> str:
    """Decode a YAML scalar."""
    if len(piece) > 1 and piece[0] == piece[-1] == "'":
        return piece[1:-1].replace("''", "'")
    if len(piece) > 1 and piece[0] == piece[-1] == '"':
        return ESCAPE.sub(_unescaped, piece[1:-1])
    return piece


def _unescaped(found: re.Match[str]) -> str:
    code = found[1] or found[2] or found[3]
    return chr(int(code, 16)) if code else ESCAPED.get(found[4], found[4])
