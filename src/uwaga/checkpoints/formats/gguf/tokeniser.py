"""The tokeniser in the metadata of a GGUF file: SentencePiece (``llama``) or byte-level BPE (``gpt2``).

A file holds tokens, their types, and scores or merges. Those of SentencePiece are converted to its model
format. For byte-level BPE a file states only the name of the pre-tokenisation; the patterns are those of
the models' ``tokenizer.json``.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from uwaga.checkpoints.formats.gguf.file import GgufFile, Strings
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
LLAMA3 = rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_PUNCTUATION}"
QWEN2 = rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_PUNCTUATION}"
TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
HUNYUAN = (
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)


@dataclass(frozen=True)
class PreTokeniser:
    """The pre-tokenisation of a byte-level tokeniser, which splits texts into words.

    Attributes:
        patterns: regular expressions applied one after the other; empty for GPT-2's.
        digits: True if every digit is a word.
        nfc: True if texts are first normalised to NFC.
        whole_words: True if a word that is a token is not merged from its bytes.
        add_bos: True if texts begin with the token ``bos`` by default.
    """

    patterns: tuple[str, ...] = ()
    digits: bool = False
    nfc: bool = False
    whole_words: bool = False
    add_bos: bool = False


PRE_TOKENISERS: Mapping[str, PreTokeniser] = {
    "gpt-2": PreTokeniser(),
    "smollm": PreTokeniser(digits=True),
    **dict.fromkeys(
        ("llama-bpe", "llama3", "llama-v3"), PreTokeniser((LLAMA3,), whole_words=True, add_bos=True)
    ),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen"), PreTokeniser((QWEN2,), nfc=True)),
    "tekken": PreTokeniser((TEKKEN,), whole_words=True, add_bos=True),
    "hunyuan-dense": PreTokeniser(HUNYUAN),
}
"""Pre-tokenisers by ``tokenizer.ggml.pre``."""


def read_tokeniser(file: GgufFile, vocabulary: int) -> FramedTokeniser:
    """Return the tokeniser of a file.

    Args:
        file: the file.
        vocabulary: rows of the embeddings.
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
        add_bos, codec = True, _sentencepiece(file, tokens)
        unknown = codec.unknown
    elif kind == "gpt2":
        pre_tokeniser = _pre_tokeniser(file)
        add_bos, unknown = pre_tokeniser.add_bos, _token(file, "unknown_token_id", tokens)
        codec = _byte_level(file, tokens, pre_tokeniser)
    else:
        raise ModelError(
            f"{file.path}: '{KEY_PREFIX}model' is {quoted(kind)}, which is not supported; uwaga reads llama "
            "(SentencePiece) and gpt2 (byte-level BPE)"
        )
    end = _token(file, "eos_token_id", tokens)
    if end is None:
        raise ModelError(f"{file.path}: '{KEY_PREFIX}eos_token_id' is missing: no token ends a text")
    start = _token(file, "bos_token_id", tokens)
    pad = _token(file, "padding_token_id", tokens)
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
            other_ends=_other_ends(file, end, tokens),
        ),
        vocabulary=vocabulary,
        name=str(file.path),
        prefix=prefix,
        suffix=(end,) if file.flag(f"{KEY_PREFIX}add_eos_token", False) else (),
    )


def _token(file: GgufFile, name: str, tokens: Strings) -> int | None:
    """Return the id of a special token, or None if it is not stated."""
    if f"{KEY_PREFIX}{name}" not in file.metadata:
        return None
    number = file.integer(f"{KEY_PREFIX}{name}")
    if number >= len(tokens):
        raise ModelError(f"{file.path}: '{KEY_PREFIX}{name}' is {number}, but there are {len(tokens)} tokens")
    return number


def _other_ends(file: GgufFile, end: int, tokens: Strings) -> tuple[int, ...]:
    """Return the tokens that end a turn or a message, without ``end``."""
    candidates = (_token(file, name, tokens) for name in ("eot_token_id", "eom_token_id"))
    return tuple(dict.fromkeys(token for token in candidates if token is not None and token != end))


def _types(file: GgufFile, tokens: Strings) -> list[int]:
    key = f"{KEY_PREFIX}token_type"
    if key not in file.metadata:
        return [PieceType.normal] * len(tokens)
    types: list[int] = file.numbers(key, len(tokens)).tolist()
    if not set(types) <= set(PieceType):
        raise ModelError(
            f"{file.path}: {key!r} has types other than 1 to {max(PieceType)}; the file is damaged"
        )
    return types


def _check_distinct(file: GgufFile, tokens: Sequence[str]) -> None:
    """Check that tokens are distinct and not empty."""
    ids = {token: number for number, token in enumerate(tokens)}
    if len(ids) < len(tokens) or "" in ids:
        index = next(number for number, token in enumerate(tokens) if not token or ids[token] != number)
        problem = f"is {quoted(tokens[index])}, which occurs twice" if tokens[index] else "is empty"
        raise ModelError(f"{file.path}: entry {index} of '{KEY_PREFIX}tokens' {problem}; the file is damaged")


# SentencePiece


def _unknown_id(file: GgufFile, tokens: Strings) -> int:
    """Return the id of the unknown token; some files mark it only by its type."""
    token = _token(file, "unknown_token_id", tokens)
    if token is None:
        types = _types(file, tokens)
        if PieceType.unknown not in types:
            raise ModelError(
                f"{file.path}: '{KEY_PREFIX}unknown_token_id' is missing, and no token has its type"
            )
        token = types.index(PieceType.unknown)
    return token


def _sentencepiece(file: GgufFile, tokens: Strings) -> SentencePieceCodec:
    if file.metadata.get(f"{KEY_PREFIX}precompiled_charsmap") is not None:
        raise ModelError(
            f"{file.path}: '{KEY_PREFIX}precompiled_charsmap' (a normalisation of texts) is not supported"
        )
    types, unknown = _types(file, tokens), _unknown_id(file, tokens)
    for number, kind in enumerate(types):
        if kind == PieceType.unknown and number != unknown:
            raise ModelError(
                f"{file.path}: tokens {unknown} and {number} both stand for unknown characters; the file is "
                "damaged"
            )
    types[unknown] = PieceType.unknown
    if types.count(PieceType.byte) not in (0, BYTE_COUNT):
        raise ModelError(
            f"{file.path}: {types.count(PieceType.byte)} tokens stand for single bytes, not {BYTE_COUNT}; "
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
    """Return a serialised SentencePiece model of BPE (``sentencepiece_model.proto``).

    Args:
        pieces: pieces by id.
        scores: scores of the pieces; the possible merge with the highest score is applied first.
        types: see :class:`uwaga.tokenizers.segmentation_sampling.PieceType`.
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
    normaliser = (
        _varint_field(3, dummy_prefix) + _varint_field(4, strip) + _varint_field(5, True)
    )  # the last: spaces become ▁
    for key, body in ((b"\x12", trainer), (b"\x1a", normaliser)):
        parts.append(key + _varint(len(body)) + body)
    return b"".join(parts)


def _varint_field(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(int(value))


def _varint(value: int) -> bytes:
    if value < 128:
        return bytes((value,))
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes((*encoded, value))


# Byte-level BPE


def _pre_tokeniser(file: GgufFile) -> PreTokeniser:
    name = file.string(f"{KEY_PREFIX}pre")
    if name not in PRE_TOKENISERS:
        raise ModelError(
            f"{file.path}: '{KEY_PREFIX}pre' is {quoted(name)}, a pre-tokenisation that uwaga does not know; "
            f"it knows {', '.join(PRE_TOKENISERS)}"
        )
    return PRE_TOKENISERS[name]


def _byte_level(file: GgufFile, tokens: Strings, pre_tokeniser: PreTokeniser) -> TokenizersCodec:
    library = tokenizers_library(file.path)
    pairs = _byte_pairs(file, tokens, pre_tokeniser.whole_words)
    pre_tokenizers = library.pre_tokenizers
    steps: list[Any] = [
        pre_tokenizers.Split(library.Regex(pattern), "isolated") for pattern in pre_tokeniser.patterns
    ]
    steps += [pre_tokenizers.Digits(individual_digits=True)] if pre_tokeniser.digits else []
    space = file.flag(f"{KEY_PREFIX}add_space_prefix", False)
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=space, use_regex=not pre_tokeniser.patterns))
    normaliser = library.normalizers.NFC() if pre_tokeniser.nfc else None
    codec = byte_level_codec(library, pairs, str(file.path), pre_tokenizers.Sequence(steps), normaliser)
    added_types = (PieceType.unknown, PieceType.control, PieceType.user_defined)
    codec.add(
        AddedToken(tokens[number], special=kind != PieceType.user_defined)
        for number, kind in enumerate(_types(file, tokens))
        if kind in added_types
    )
    return codec


def _byte_pairs(file: GgufFile, tokens: Strings, whole_words: bool) -> _core.BytePairs:
    pieces, merges = tokens.decode_all(), file.strings(f"{KEY_PREFIX}merges").decode_all()
    _check_distinct(file, pieces)
    for number, merge in enumerate(merges):
        if merge.count(" ") != 1:
            raise ModelError(f"{file.path}: entry {number} of '{KEY_PREFIX}merges' is not a pair of tokens")
    with TokenizersErrorHandler(file.path, f"'{KEY_PREFIX}merges' disagree with '{KEY_PREFIX}tokens'"):
        return _core.BytePairs(pieces, merges, whole_words)
