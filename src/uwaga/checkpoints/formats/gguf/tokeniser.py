"""The tokeniser in the metadata of a GGUF file: SentencePiece (``llama``) or byte-level BPE (``gpt2``).

A file holds tokens, their types, and scores or merges. Those of SentencePiece are made into the SentencePiece
model that they come from. For byte-level BPE a file only names how texts are split before; the patterns are
those of the models' own ``tokenizer.json``.
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
from uwaga.errors import ModelError, shown
from uwaga.tokenizers.codecs import (
    LibraryCall,
    SentencePieceCodec,
    TokenizersCodec,
    byte_level_codec,
    tokenizers_library,
)
from uwaga.tokenizers.framed import FramedTokeniser
from uwaga.tokenizers.pretrained import PADDING
from uwaga.tokenizers.pretrained_files import Special
from uwaga.tokenizers.segmentation_sampling import BPE, PieceType
from uwaga.tokenizers.sentencepiece import MARK

KEY = "tokenizer.ggml."
BYTES = 256

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
class Splitting:
    """How a byte-level tokeniser splits texts into words.

    Attributes:
        patterns: regular expressions that cut one after the other; empty for GPT-2's own.
        digits: every digit is a word.
        nfc: texts are normalised to NFC first.
        whole_words: a word that is a token is not merged from its bytes.
        begin: texts begin with the token ``bos`` unless the file says otherwise.
    """

    patterns: tuple[str, ...] = ()
    digits: bool = False
    nfc: bool = False
    whole_words: bool = False
    begin: bool = False


SPLITTINGS: Mapping[str, Splitting] = {
    "gpt-2": Splitting(),
    "smollm": Splitting(digits=True),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3"), Splitting((LLAMA3,), whole_words=True, begin=True)),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen"), Splitting((QWEN2,), nfc=True)),
    "tekken": Splitting((TEKKEN,), whole_words=True, begin=True),
    "hunyuan-dense": Splitting(HUNYUAN),
}
"""By ``tokenizer.ggml.pre``."""


def read_tokeniser(file: GgufFile, vocabulary: int) -> FramedTokeniser:
    """Return the tokeniser of a file.

    Args:
        file: the file.
        vocabulary: rows of the embeddings.
    """
    tokens = file.words(f"{KEY}tokens")
    if not len(tokens) <= vocabulary < len(tokens) + PADDING:
        raise ModelError(
            f"{file.path}: '{KEY}tokens' has {len(tokens)} tokens, but the weights are for {vocabulary}; the "
            "file is damaged"
        )
    kind = file.word(f"{KEY}model")
    codec: SentencePieceCodec | TokenizersCodec
    unknown: int | None
    if kind == "llama":
        begin, codec = True, _sentencepiece(file, tokens)
        unknown = codec.unknown
    elif kind == "gpt2":
        splitting = _splitting(file)
        begin, unknown = splitting.begin, _token(file, "unknown_token_id", tokens)
        codec = _byte_level(file, tokens, splitting)
    else:
        raise ModelError(
            f"{file.path}: '{KEY}model' is {shown(kind)}, which is not supported; uwaga reads llama "
            "(SentencePiece) and gpt2 (byte-level BPE)"
        )
    end = _token(file, "eos_token_id", tokens)
    if end is None:
        raise ModelError(f"{file.path}: '{KEY}eos_token_id' is missing: no token ends a text")
    start = _token(file, "bos_token_id", tokens)
    pad = _token(file, "padding_token_id", tokens)
    prefix: tuple[int, ...] = ()
    if file.flag(f"{KEY}add_bos_token", begin and start is not None):
        if start is None:
            raise ModelError(f"{file.path}: '{KEY}add_bos_token' is true, but bos_token_id is missing")
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
        suffix=(end,) if file.flag(f"{KEY}add_eos_token", False) else (),
    )


def _token(file: GgufFile, name: str, tokens: Strings) -> int | None:
    """Return the id of a special token, None if it is not stated."""
    if f"{KEY}{name}" not in file.metadata:
        return None
    number = file.whole(f"{KEY}{name}")
    if number >= len(tokens):
        raise ModelError(f"{file.path}: '{KEY}{name}' is {number}, but there are {len(tokens)} tokens")
    return number


def _other_ends(file: GgufFile, end: int, tokens: Strings) -> tuple[int, ...]:
    """Return the tokens that end a turn or a message, without ``end``."""
    stated = (_token(file, name, tokens) for name in ("eot_token_id", "eom_token_id"))
    return tuple(dict.fromkeys(token for token in stated if token is not None and token != end))


def _types(file: GgufFile, tokens: Strings) -> list[int]:
    key = f"{KEY}token_type"
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
        wrong = next(number for number, token in enumerate(tokens) if not token or ids[token] != number)
        what = f"is {shown(tokens[wrong])}, which occurs twice" if tokens[wrong] else "is empty"
        raise ModelError(f"{file.path}: entry {wrong} of '{KEY}tokens' {what}; the file is damaged")


# SentencePiece


def _unknown(file: GgufFile, tokens: Strings) -> int:
    """Return the id of unknown characters; some files mark it only by its type."""
    stated = _token(file, "unknown_token_id", tokens)
    if stated is None:
        types = _types(file, tokens)
        if PieceType.unknown not in types:
            raise ModelError(f"{file.path}: '{KEY}unknown_token_id' is missing, and no token has its type")
        stated = types.index(PieceType.unknown)
    return stated


def _sentencepiece(file: GgufFile, tokens: Strings) -> SentencePieceCodec:
    if file.metadata.get(f"{KEY}precompiled_charsmap") is not None:
        raise ModelError(
            f"{file.path}: '{KEY}precompiled_charsmap' (a normalisation of texts) is not supported"
        )
    types, unknown = _types(file, tokens), _unknown(file, tokens)
    for number, kind in enumerate(types):
        if kind == PieceType.unknown and number != unknown:
            raise ModelError(
                f"{file.path}: tokens {unknown} and {number} are both for unknown characters; the file is "
                "damaged"
            )
    types[unknown] = PieceType.unknown
    if types.count(PieceType.byte) not in (0, BYTES):
        raise ModelError(
            f"{file.path}: {types.count(PieceType.byte)} tokens are for single bytes, not {BYTES}; the file "
            "is damaged"
        )
    # llama.cpp spells spaces in user-defined tokens as themselves.
    pieces = [
        token.replace(" ", MARK) if kind == PieceType.user_defined else token
        for token, kind in zip(tokens.decoded(), types, strict=True)
    ]
    _check_distinct(file, pieces)
    content = sentencepiece_model(
        pieces,
        file.numbers(f"{KEY}scores", len(tokens)).astype(np.float32).tolist(),
        types,
        dummy_prefix=file.flag(f"{KEY}add_space_prefix", True),
        strip=file.flag(f"{KEY}remove_extra_whitespaces", False),
    )
    return SentencePieceCodec.of_types(content, str(file.path))


def sentencepiece_model(
    pieces: Sequence[str], scores: Sequence[float], types: Sequence[int], dummy_prefix: bool, strip: bool
) -> bytes:
    """Return a serialised SentencePiece model (``sentencepiece_model.proto``) of BPE.

    Args:
        pieces: by id.
        scores: of the pieces: of two possible merges, the one with the higher score is made first.
        types: see :class:`uwaga.tokenizers.segmentation_sampling.PieceType`.
        dummy_prefix: a space is put before a text.
        strip: spaces at the ends and repeated ones are removed.
    """
    parts = []
    for piece, score, kind in zip(pieces, scores, types, strict=True):
        text = piece.encode("utf-8")
        body = b"\x0a" + _varint(len(text)) + text + b"\x15" + struct.pack("<f", score) + bytes((0x18, kind))
        parts.append(b"\x0a" + _varint(len(body)) + body)
    unknown = pieces[types.index(PieceType.unknown)].encode("utf-8")
    trainer = _whole(3, BPE) + _whole(35, PieceType.byte in types)  # model_type, byte_fallback
    trainer += _varint(45 << 3 | 2) + _varint(len(unknown)) + unknown  # unk_piece
    normaliser = _whole(3, dummy_prefix) + _whole(4, strip) + _whole(5, True)  # the last: spaces become ▁
    for key, body in ((b"\x12", trainer), (b"\x1a", normaliser)):
        parts.append(key + _varint(len(body)) + body)
    return b"".join(parts)


def _whole(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(int(value))


def _varint(value: int) -> bytes:
    if value < 128:
        return bytes((value,))
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes((*made, value))


# Byte-level BPE


def _splitting(file: GgufFile) -> Splitting:
    name = file.word(f"{KEY}pre")
    if name not in SPLITTINGS:
        raise ModelError(
            f"{file.path}: '{KEY}pre' is {shown(name)}, a way to split texts that uwaga does not know; it "
            f"knows {', '.join(SPLITTINGS)}"
        )
    return SPLITTINGS[name]


def _byte_level(file: GgufFile, tokens: Strings, splitting: Splitting) -> TokenizersCodec:
    library = tokenizers_library(file.path)
    pairs = _byte_pairs(file, tokens, splitting.whole_words)
    split = library.pre_tokenizers
    words: list[Any] = [split.Split(library.Regex(one), "isolated") for one in splitting.patterns]
    words += [split.Digits(individual_digits=True)] if splitting.digits else []
    space = file.flag(f"{KEY}add_space_prefix", False)
    words.append(split.ByteLevel(add_prefix_space=space, use_regex=not splitting.patterns))
    normaliser = library.normalizers.NFC() if splitting.nfc else None
    codec = byte_level_codec(library, pairs, str(file.path), split.Sequence(words), normaliser)
    added = (PieceType.unknown, PieceType.control, PieceType.user_defined)
    codec.add(
        Special(tokens[number], special=kind != PieceType.user_defined)
        for number, kind in enumerate(_types(file, tokens))
        if kind in added
    )
    return codec


def _byte_pairs(file: GgufFile, tokens: Strings, whole_words: bool) -> _core.BytePairs:
    pieces, merges = tokens.decoded(), file.words(f"{KEY}merges").decoded()
    _check_distinct(file, pieces)
    for number, merge in enumerate(merges):
        if merge.count(" ") != 1:
            raise ModelError(f"{file.path}: entry {number} of '{KEY}merges' is not a pair of tokens")
    with LibraryCall(file.path, f"'{KEY}merges' disagree with '{KEY}tokens'"):
        return _core.BytePairs(pieces, merges, whole_words)
