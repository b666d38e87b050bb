"""The vocabularies, special tokens and tokenisers of a CTranslate2 folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uwaga.checkpoints.formats.ctranslate2.binary import ModelFile
from uwaga.checkpoints.formats.uwaga.names import CONFIG, SOURCE, TARGET
from uwaga.checkpoints.storage.json_file import read_optional
from uwaga.decoder import Symbols
from uwaga.errors import ModelError, quoted
from uwaga.files.regular import read_regular
from uwaga.tokenizers.marian import PAD, FramedMarianTokeniser, SegmentedTextTokeniser
from uwaga.tokenizers.sentencepiece import MARK, SentencePieceModel, read_sentencepiece

PIECES = "sentencepiece.model"
DECODER_VOCABULARY = "vocabulary"
"""Name of a decoder-only model's single vocabulary, which is its file name without the suffix."""
TOKENS_VERSION = 6
"""First format version in which ``config.json`` gives the special tokens."""
DEFAULT_TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "decoder_start_token": "<s>"}
DEFAULT_EPSILON = 1e-5
MAX_BYTES = 1 << 26
"""Maximum size of a vocabulary file in bytes."""


@dataclass(frozen=True)
class Vocabularies:
    """The vocabularies of both sides and their special tokens.

    Attributes:
        source, target: the pieces of each side in the order of their ids.
        size: number of rows of each embedding; the last row belongs to the padding token.
        symbols, source_symbols: ids of the special tokens of the target and the source side.
        prefix, suffix: ids of the tokens that are added before and after a source.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    size: int
    symbols: Symbols
    source_symbols: Symbols
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]


def read_epsilon(folder: Path) -> float:
    """Return the epsilon of the layer norms stated in ``config.json``, or the default if it states none."""
    value = read_config(folder).get("layer_norm_epsilon")
    if value is None:
        return DEFAULT_EPSILON
    if type(value) is not float or not 0.0 < value < 1.0:
        raise ModelError(
            f"{folder / CONFIG}: 'layer_norm_epsilon' must be a number between 0 and 1, not {quoted(value)}"
        )
    return value


def read_vocabularies(
    folder: Path, file: ModelFile, starts_from_zero: bool, special_token_flags: Mapping[str, bool]
) -> Vocabularies:
    """Read the vocabularies of both sides and look up their special tokens.

    Args:
        folder: the model folder.
        file: the contents of its ``model.bin``.
        starts_from_zero: True if the decoder's first input is a zero vector instead of a token's embedding.
        special_token_flags: flags for special tokens, used for files before version 6.
    """
    source, target = read_vocabulary(folder, "source"), read_vocabulary(folder, "target")
    config_values = read_config(folder)
    if file.version < TOKENS_VERSION:
        config_values = DEFAULT_TOKENS | {
            "decoder_start_token": "<s>" if special_token_flags["with_target_bos"] else "</s>",
            "add_source_bos": special_token_flags["with_source_bos"],
            "add_source_eos": special_token_flags["with_source_eos"],
        }
    tokens = {name: config_values.get(name, default) for name, default in DEFAULT_TOKENS.items()}
    pad = max(len(source), len(target))

    def token_id(pieces: tuple[str, ...], name: str) -> int:
        token = tokens[name]
        if token is None and name == "decoder_start_token":
            raise ModelError(
                f"{folder / CONFIG}: {name} is null, as for a model that translates into several languages; "
                "uwaga does not support such models in CTranslate2's format"
            )
        if token not in pieces:
            raise ModelError(f"{folder}: the vocabulary lacks the {name} {quoted(token)}")
        return pieces.index(token)

    unknown, end = token_id(target, "unk_token"), token_id(target, "eos_token")
    start = pad if starts_from_zero else token_id(target, "decoder_start_token")
    source_end = token_id(source, "eos_token")
    return Vocabularies(
        source,
        target,
        pad + 1,
        Symbols(start=start, end=end, pad=pad, unknown=unknown),
        Symbols(start=pad, end=source_end, pad=pad, unknown=token_id(source, "unk_token")),
        (token_id(source, "bos_token"),) if config_values.get("add_source_bos") else (),
        (source_end,) if config_values.get("add_source_eos") else (),
    )


def read_tokenisers(
    folder: Path, vocabularies: Vocabularies, pieces: Path | None, is_segmented: bool = False
) -> tuple[FramedMarianTokeniser | SegmentedTextTokeniser, FramedMarianTokeniser | SegmentedTextTokeniser]:
    """Return the tokenisers of both sides.

    If there is no SentencePiece model and no piece contains its space marker, texts must be segmented
    beforehand, with spaces between the pieces.

    Args:
        folder: the model folder.
        vocabularies: the vocabularies of the folder.
        pieces: path of the SentencePiece model of both sides; None to look for it in the folder.
        is_segmented: True if texts are already segmented; tokenisers in the folder are then ignored.
    """
    prefix, suffix = vocabularies.prefix, vocabularies.suffix
    models: list[SentencePieceModel | None]
    if is_segmented:
        models = [None, None]
    elif pieces is None and (folder / SOURCE).is_file() and (folder / TARGET).is_file():
        models = [read_sentencepiece(folder / SOURCE), read_sentencepiece(folder / TARGET)]
        prefix, suffix = (), (vocabularies.source_symbols.end,)  # as in Marian's tokeniser
    elif pieces is not None or (folder / PIECES).is_file():
        models = [read_sentencepiece(pieces or folder / PIECES)] * 2
    elif any(piece.startswith(MARK) for piece in vocabularies.source):
        raise ModelError(
            f"{folder}: contains no tokeniser; copy {SOURCE} and {TARGET} to it from the Marian folder that "
            f"the model was converted from, or the {PIECES} that both sides use"
        )
    else:
        models = [None, None]
    source = _tokeniser(
        models[0], vocabularies.source, vocabularies.source_symbols, folder, "source", prefix, suffix
    )
    target = _tokeniser(
        models[1],
        vocabularies.target,
        vocabularies.symbols,
        folder,
        "target",
        (),
        (vocabularies.symbols.end,),
    )
    return source, target


def _tokeniser(
    model: SentencePieceModel | None,
    pieces: tuple[str, ...],
    symbols: Symbols,
    folder: Path,
    side: str,
    prefix: tuple[int, ...],
    suffix: tuple[int, ...],
) -> FramedMarianTokeniser | SegmentedTextTokeniser:
    names = [*pieces, *(f"<unused{token_id}>" for token_id in range(len(pieces), symbols.pad)), PAD]
    ids: dict[str, int] = {}
    for token_id, piece in enumerate(names):
        name = piece if piece not in ids else f"<unused{token_id}>"
        if name in ids:
            raise ModelError(f"{folder}: the {side} vocabulary contains {quoted(piece)} twice")
        ids[name] = token_id
    location = f"{folder} ({side} vocabulary)"
    if model is None:
        return SegmentedTextTokeniser(ids, symbols, location, prefix, suffix)
    return FramedMarianTokeniser(model, ids, symbols, location, prefix, suffix)


def read_config(folder: Path) -> dict[str, Any]:
    """Return the contents of ``config.json``, or an empty dictionary if there is none."""
    return read_optional(folder / CONFIG)


def read_vocabulary(folder: Path, side: str) -> tuple[str, ...]:
    """Read the pieces of one side: ``source``, ``target``, or ``vocabulary`` for a decoder-only model.

    As in CTranslate2, a shared vocabulary is preferred, and the unknown token is appended if it is missing.
    """
    names = (
        [DECODER_VOCABULARY] if side == DECODER_VOCABULARY else ["shared_vocabulary", f"{side}_vocabulary"]
    )
    for name in names:
        for ending in ("json", "txt"):
            path = folder / f"{name}.{ending}"
            if path.is_file():
                pieces = _read_pieces(path)
                unknown = read_config(folder).get("unk_token", DEFAULT_TOKENS["unk_token"])
                return pieces if unknown in pieces or not isinstance(unknown, str) else (*pieces, unknown)
    raise ModelError(f"{folder}: contains neither {' nor '.join(names)} (.json or .txt)")


def _read_pieces(path: Path) -> tuple[str, ...]:
    try:
        text = read_regular(path, MAX_BYTES).decode("utf-8")  # a piece may contain other line breaks
        pieces = json.loads(text) if path.suffix == ".json" else text.removesuffix("\n").split("\n")
        json.dumps(pieces, ensure_ascii=False).encode("utf-8")  # a lone surrogate is not text
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise ModelError(
            f"{path}: not a valid vocabulary: {error}; fetch or convert the model again"
        ) from None
    if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
        raise ModelError(f"{path}: not a JSON list of strings")
    return tuple(pieces)
