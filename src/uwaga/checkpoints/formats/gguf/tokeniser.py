"""The tokeniser in the metadata of a GGUF file: SentencePiece (``llama``) or byte-level BPE (``gpt2``).

A file contains tokens, their types, and scores or merges. A SentencePiece tokeniser is converted to
SentencePiece's model format. For byte-level BPE a file states only the name of the pre-tokenisation; the
patterns here are from the models' ``tokenizer.json``.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from uwaga.checkpoints.formats.gguf.file import GgufFile, StringArray
from uwaga.decoder import Symbols
from uwaga.engine import _core
from uwaga.errors import ModelError, quoted
from uwaga.tokenizers.codecs import (
    SentencePieceCodec,
    TokenizersCodec,
    TokenizersErrorHandler,
    byte_level_codec,
    tokenizers_library,
)
from uwaga.tokenizers.framed import FramedTokeniser
from uwaga.tokenizers.pretrained import MAX_UNUSED_ROWS
from uwaga.tokenizers.pretrained_files import AddedToken
from uwaga.tokenizers.segmentation_sampling import BPE, PieceType
from uwaga.tokenizers.sentencepiece import MARK

KEY_PREFIX = "tokenizer.ggml."
BYTE_COUNT = 256

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_PUNCTUATION = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3_PATTERN = rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_PUNCTUATION}"
QWEN2_PATTERN = rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_PUNCTUATION}"
TEKKEN_PATTERN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
HUNYUAN_PATTERNS = (
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)


@dataclass(frozen=True)
class PreTokeniser:
    """The pre-tokenisation of a byte-level tokeniser, which splits texts into words.

    Attributes:
        patterns: regular expressions that are applied in order; if there are none, GPT-2's is used.
        splits_digits: True if every digit is a separate word.
        uses_nfc: True if texts are first normalised to NFC.
        whole_words: True if a word that is itself a token becomes that token without any merges.
        add_bos: True if texts begin with the token ``bos`` by default.
    """

    patterns: tuple[str, ...] = ()
    splits_digits: bool = False
    uses_nfc: bool = False
    whole_words: bool = False
    add_bos: bool = False


PRE_TOKENISERS: Mapping[str, PreTokeniser] = {
    "gpt-2": PreTokeniser(),
    "smollm": PreTokeniser(splits_digits=True),
    **dict.fromkeys(
        ("llama-bpe", "llama3", "llama-v3"), PreTokeniser((LLAMA3_PATTERN,), whole_words=True, add_bos=True)
    ),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen"), PreTokeniser((QWEN2_PATTERN,), uses_nfc=True)),
    "tekken": PreTokeniser((TEKKEN_PATTERN,), whole_words=True, add_bos=True),
    "hunyuan-dense": PreTokeniser(HUNYUAN_PATTERNS),
}
"""Pre-tokenisers by the value of ``tokenizer.ggml.pre``."""


def read_tokeniser(file: GgufFile, vocabulary: int) -> FramedTokeniser:
    """Return the tokeniser of a file.

    Args:
        file: the file of the model.
        vocabulary: number of rows of the embeddings.
    """
    tokens = file.strings(f"{KEY_PREFIX}tokens")
    if not len(tokens) <= vocabulary < len(tokens) + MAX_UNUSED_ROWS:
        raise ModelError(
            f"{file.path}: '{KEY_PREFIX}tokens' has {len(tokens)} tokens, but the weights are for "
            f"{vocabulary}; the file is damaged"
        )
    kind = file.string(f"{KEY_PREFIX}model")
    codec: SentencePieceCodec | TokenizersCodec
    unknown: int | None
    if kind == "llama":
        add_bos, codec = True, _sentencepiece_codec(file, tokens)
        unknown = codec.unknown
    elif kind == "gpt2":
        pre_tokeniser = _find_pre_tokeniser(file)
        add_bos, unknown = pre_tokeniser.add_bos, _special_token_id(file, "unknown_token_id", tokens)
        codec = _byte_level_codec(file, tokens, pre_tokeniser)
    else:
        raise ModelError(
            f"{file.path}: '{KEY_PREFIX}model' is {quoted(kind)}, which is not supported; uwaga reads llama "
            "(SentencePiece) and gpt2 (byte-level BPE)"
        )
    end = _special_token_id(file, "eos_token_id", tokens)
    if end is None:
        raise ModelError(f"{file.path}: '{KEY_PREFIX}eos_token_id' is missing, so no token ends a text")
    start = _special_token_id(file, "bos_token_id", tokens)
    pad = _special_token_id(file, "padding_token_id", tokens)
    prefix: tuple[int, ...] = ()
    if file.flag(f"{KEY_PREFIX}add_bos_token", add_bos and start is not None):
        if start is None:
            raise ModelError(f"{file.path}: '{KEY_PREFIX}add_bos_token' is true, but bos_token_id is missing")
        prefix = (start,)
    return FramedTokeniser(
        codec=codec,
        symbols=Symbols(
            start=end if start is None else start,
            end=end,
            pad=end if pad is None else pad,
            unknown=end if unknown is None else unknown,
            other_ends=_other_end_tokens(file, end, tokens),
        ),
        vocabulary=vocabulary,
        name=str(file.path),
        prefix=prefix,
        suffix=(end,) if file.flag(f"{KEY_PREFIX}add_eos_token", False) else (),
    )


def _special_token_id(file: GgufFile, name: str, tokens: StringArray) -> int | None:
    """Return the id of a special token, or None if it is not stated."""
    if f"{KEY_PREFIX}{name}" not in file.metadata:
        return None
    token_id = file.integer(f"{KEY_PREFIX}{name}")
    if token_id >= len(tokens):
        raise ModelError(
            f"{file.path}: '{KEY_PREFIX}{name}' is {token_id}, but there are {len(tokens)} tokens"
        )
    return token_id


def _other_end_tokens(file: GgufFile, end: int, tokens: StringArray) -> tuple[int, ...]:
    """Return the ids of all tokens other than ``end`` that end a turn or a message."""
    candidates = (_special_token_id(file, name, tokens) for name in ("eot_token_id", "eom_token_id"))
    return tuple(dict.fromkeys(token for token in candidates if token is not None and token != end))


def _piece_types(file: GgufFile, tokens: StringArray) -> list[int]:
    key = f"{KEY_PREFIX}token_type"
    if key not in file.metadata:
        return [PieceType.normal] * len(tokens)
    types: list[int] = file.numbers(key, len(tokens)).tolist()
    if not set(types) <= set(PieceType):
        raise ModelError(
            f"{file.path}: {key!r} contains a type that is not from 1 to {max(PieceType)}; the file is "
            "damaged"
        )
    return types


def _check_distinct(file: GgufFile, tokens: Sequence[str]) -> None:
    """Raise ModelError if a token is empty or occurs twice."""
    ids = {token: token_id for token_id, token in enumerate(tokens)}
    if len(ids) < len(tokens) or "" in ids:
        index = next(token_id for token_id, token in enumerate(tokens) if not token or ids[token] != token_id)
        problem = f"is {quoted(tokens[index])}, which occurs twice" if tokens[index] else "is empty"
        raise ModelError(f"{file.path}: entry {index} of '{KEY_PREFIX}tokens' {problem}; the file is damaged")


# SentencePiece


def _unknown_id(file: GgufFile, tokens: StringArray) -> int:
    """Return the id of the unknown token, which some files mark only by its type."""
    token = _special_token_id(file, "unknown_token_id", tokens)
    if token is None:
        types = _piece_types(file, tokens)
        if PieceType.unknown not in types:
            raise ModelError(
                f"{file.path}: '{KEY_PREFIX}unknown_token_id' is missing, and no token is of the type "
                "`unknown`"
            )
        token = types.index(PieceType.unknown)
    return token


def _sentencepiece_codec(file: GgufFile, tokens: StringArray) -> SentencePieceCodec:
    if file.metadata.get(f"{KEY_PREFIX}precompiled_charsmap") is not None:
        raise ModelError(
            f"{file.path}: '{KEY_PREFIX}precompiled_charsmap' (a normalisation of texts) is not supported"
        )
    types, unknown = _piece_types(file, tokens), _unknown_id(file, tokens)
    for token_id, kind in enumerate(types):
        if kind == PieceType.unknown and token_id != unknown:
            raise ModelError(
                f"{file.path}: tokens {unknown} and {token_id} both represent unknown characters; the file "
                "is damaged"
            )
    types[unknown] = PieceType.unknown
    if types.count(PieceType.byte) not in (0, BYTE_COUNT):
        raise ModelError(
            f"{file.path}: {types.count(PieceType.byte)} tokens represent single bytes, not {BYTE_COUNT}; "
            "the file is damaged"
        )
    # llama.cpp stores user-defined tokens with spaces.
    pieces = [
        token.replace(" ", MARK) if kind == PieceType.user_defined else token
        for token, kind in zip(tokens.decode_all(), types, strict=True)
    ]
    _check_distinct(file, pieces)
    content = sentencepiece_model(
        pieces,
        file.numbers(f"{KEY_PREFIX}scores", len(tokens)).astype(np.float32).tolist(),
        types,
        dummy_prefix=file.flag(f"{KEY_PREFIX}add_space_prefix", True),
        strip=file.flag(f"{KEY_PREFIX}remove_extra_whitespaces", False),
    )
    return SentencePieceCodec.from_piece_types(content, str(file.path))


def sentencepiece_model(
    pieces: Sequence[str], scores: Sequence[float], types: Sequence[int], dummy_prefix: bool, strip: bool
) -> bytes:
    """Return a SentencePiece BPE model, serialised as in ``sentencepiece_model.proto``.

    Args:
        pieces: pieces by id.
        scores: scores of the pieces; the merge whose result has the highest score is applied first.
        types: types of the pieces, see :class:`uwaga.tokenizers.segmentation_sampling.PieceType`.
        dummy_prefix: True to insert a space before a text.
        strip: True to remove leading, trailing and repeated spaces.
    """
    parts = []
    for piece, score, kind in zip(pieces, scores, types, strict=True):
        text = piece.encode("utf-8")
        body = b"\x0a" + _varint(len(text)) + text + b"\x15" + struct.pack("<f", score) + bytes((0x18, kind))
        parts.append(b"\x0a" + _varint(len(body)) + body)
    unknown = pieces[types.index(PieceType.unknown)].encode("utf-8")
    trainer = _varint_field(3, BPE) + _varint_field(35, PieceType.byte in types)  # model_type, byte_fallback
    trainer += _varint(45 << 3 | 2) + _varint(len(unknown)) + unknown  # unk_piece
    # the last: spaces become ▁
    normaliser = _varint_field(3, dummy_prefix) + _varint_field(4, strip) + _varint_field(5, True)
    for key, body in ((b"\x12", trainer), (b"\x1a", normaliser)):
        parts.append(key + _varint(len(body)) + body)
    return b"".join(parts)


def _varint_field(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(int(value))


def _varint(value: int) -> bytes:
    if value < 128:
        return bytes((value,))
    content = bytearray()
    while value > 127:
        content.append(value & 127 | 128)
        value >>= 7
    return bytes((*content, value))


# Byte-level BPE


def _find_pre_tokeniser(file: GgufFile) -> PreTokeniser:
    name = file.string(f"{KEY_PREFIX}pre")
    if name not in PRE_TOKENISERS:
        raise ModelError(
            f"{file.path}: '{KEY_PREFIX}pre' is {quoted(name)}, a pre-tokenisation that uwaga does not "
            f"support; it supports {', '.join(PRE_TOKENISERS)}"
        )
    return PRE_TOKENISERS[name]


def _byte_level_codec(file: GgufFile, tokens: StringArray, pre_tokeniser: PreTokeniser) -> TokenizersCodec:
    library = tokenizers_library(file.path)
    pairs = _byte_pairs(file, tokens, pre_tokeniser.whole_words)
    pre_tokenizers = library.pre_tokenizers
    steps: list[Any] = [
        pre_tokenizers.Split(library.Regex(pattern), "isolated") for pattern in pre_tokeniser.patterns
    ]
    steps += [pre_tokenizers.Digits(individual_digits=True)] if pre_tokeniser.splits_digits else []
    space = file.flag(f"{KEY_PREFIX}add_space_prefix", False)
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=space, use_regex=not pre_tokeniser.patterns))
    normaliser = library.normalizers.NFC() if pre_tokeniser.uses_nfc else None
    codec = byte_level_codec(library, pairs, str(file.path), pre_tokenizers.Sequence(steps), normaliser)
    added_types = (PieceType.unknown, PieceType.control, PieceType.user_defined)
    codec.add(
        AddedToken(tokens[token_id], special=kind != PieceType.user_defined)
        for token_id, kind in enumerate(_piece_types(file, tokens))
        if kind in added_types
    )
    return codec


def _byte_pairs(file: GgufFile, tokens: StringArray, whole_words: bool) -> _core.BytePairs:
    pieces, merges = tokens.decode_all(), file.strings(f"{KEY_PREFIX}merges").decode_all()
    _check_distinct(file, pieces)
    for index, merge in enumerate(merges):
        if merge.count(" ") != 1:
            raise ModelError(f"{file.path}: entry {index} of '{KEY_PREFIX}merges' is not a pair of tokens")
    with TokenizersErrorHandler(file.path, f"'{KEY_PREFIX}merges' disagree with '{KEY_PREFIX}tokens'"):
        return _core.BytePairs(pieces, merges, whole_words)
