"""Tokenisers of decoder-only families: Llama, Mistral, Qwen, Gemma, Hunyuan, and models derived from them.

A folder describes the tokeniser in ``tokenizer.json`` (byte-level BPE, or BPE over characters with a fallback
to bytes), or contains a SentencePiece model with a fallback to bytes, ``tokenizer.model``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from uwaga.decoder import Symbols
from uwaga.errors import ModelError
from uwaga.tokenizers.codecs import SentencePieceCodec, TokenizersCodec, read_tokenizer_json
from uwaga.tokenizers.framed import FramedTokeniser, needed_rows
from uwaga.tokenizers.pretrained import MAX_UNUSED_ROWS, TokenIds
from uwaga.tokenizers.pretrained_files import (
    TOKENIZER_FILE,
    AddedToken,
    TokeniserConfig,
    missing_files_error,
    read_tokeniser_config,
)
from uwaga.tokenizers.sentencepiece import read_sentencepiece

SENTENCEPIECE_FILE = "tokenizer.model"


def read_decoder_tokeniser(
    folder: Path, ids: TokenIds, ends: Sequence[int] = (), declared: TokeniserConfig | None = None
) -> FramedTokeniser:
    """Read a tokeniser of a decoder-only family.

    Special tokens are added around a text as in ``tokenizer.json`` or, with only a SentencePiece model,
    according to ``add_bos_token`` (by default true) and ``add_eos_token`` (false) of
    ``tokenizer_config.json``.

    Args:
        folder: the model folder.
        ids: the vocabulary in the model's configuration, without an end symbol.
        ends: ids of the tokens that may end a text; chat models have a token for the end of a turn. The
            tokeniser's end symbol is used if ``ends`` contains it or is empty, otherwise the first of
            ``ends``.
        declared: the configuration of the folder's tokeniser, if already read.
    """
    declared = declared or read_tokeniser_config(folder)
    if (folder / TOKENIZER_FILE).exists():
        codec: TokenizersCodec | SentencePieceCodec = read_tokenizer_json(folder, declared)
    elif (folder / SENTENCEPIECE_FILE).exists():
        codec = _read_pieces(folder / SENTENCEPIECE_FILE, declared)
    else:
        raise missing_files_error(folder, TOKENIZER_FILE, SENTENCEPIECE_FILE)
    size = needed_rows(codec, ids.vocabulary)
    if not size <= ids.vocabulary < size + MAX_UNUSED_ROWS:
        raise ModelError(
            f"{folder}: the tokeniser has {codec.size} pieces, but the weights are for {ids.vocabulary} "
            "tokens; the files belong to different models"
        )
    eos = codec.number(declared.special_tokens["eos"].content) if "eos" in declared.special_tokens else None
    preferred = eos if eos is not None and eos < ids.vocabulary and (eos in ends or not ends) else None
    end = next((token for token in (preferred, *ends) if token is not None), ids.vocabulary - 1)
    unknown = codec.unknown
    symbols = Symbols(
        start=end if ids.start is None else ids.start,
        end=end,
        pad=end if ids.pad is None else ids.pad,
        unknown=end if unknown is None or unknown >= ids.vocabulary else unknown,
        other_ends=tuple(token for token in dict.fromkeys(ends) if token != end),
    )
    tokeniser = FramedTokeniser(codec, symbols, ids.vocabulary, str(folder))
    if isinstance(codec, TokenizersCodec):
        prefix, suffix = codec.special_token_frame()
    else:
        prefix, suffix = _declared_frame(codec, declared)
    for number in (*prefix, *suffix):
        if number >= ids.vocabulary:
            raise ModelError(
                f"{folder}: the tokeniser adds {codec.piece(number)}, but the weights have no embedding for "
                "this token"
            )
    return replace(tokeniser, prefix=prefix, suffix=suffix)


def _declared_frame(
    codec: SentencePieceCodec, declared: TokeniserConfig
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the special tokens before and after a text according to ``tokenizer_config.json``."""
    frame: list[tuple[int, ...]] = []
    for key, role, default in (("add_bos_token", "bos", True), ("add_eos_token", "eos", False)):
        token = declared.special_tokens.get(role)
        number = codec.number(token.content) if token is not None and declared.flag(key, default) else None
        frame.append(() if number is None else (number,))
    return frame[0], frame[1]


def _read_pieces(path: Path, declared: TokeniserConfig) -> SentencePieceCodec:
    """Read a SentencePiece model, whose ids are those of the weights, and the tokens added to it.

    With ``legacy``, the default, each part of a text between special tokens begins with a word; without
    ``legacy``, only the first part does.
    """
    model = read_sentencepiece(path)
    size = len(model)
    start, end, _, unknown = model.symbols
    added = dict(declared.added_tokens)
    for number in (unknown, start, end):
        if number >= 0:
            added.setdefault(number, AddedToken(model.piece(number)))
    for token in declared.special_tokens.values():
        number = model.number(token.content)
        if model.piece(number) == token.content:
            added[number] = token
        elif all(existing.content != token.content for existing in added.values()):
            added[max(size - 1, *added) + 1] = token
    if any(number >= size + MAX_UNUSED_ROWS for number in added):
        raise ModelError(
            f"{path.parent}: an added token has the id {max(added)}, but {path.name} has only {size} pieces"
        )
    legacy = declared.flag("legacy", True)
    if legacy and all(n < size and (model.is_control(n) or n == unknown) for n in added):
        return SentencePieceCodec.from_piece_types(model.content, str(path))
    return SentencePieceCodec(model, range(size), added, unknown, words=legacy)
