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
    folder: Path, ids: TokenIds, end_tokens: Sequence[int] = (), config: TokeniserConfig | None = None
) -> FramedTokeniser:
    """Read a tokeniser of a decoder-only family.

    Special tokens are added around a text as in ``tokenizer.json`` or, with only a SentencePiece model,
    according to ``add_bos_token`` (by default true) and ``add_eos_token`` (false) of
    ``tokenizer_config.json``.

    Args:
        folder: the model folder.
        ids: the vocabulary in the model's configuration, without an end symbol.
        end_tokens: ids of the tokens that may end a text; chat models have a token for the end of a turn. The
            tokeniser's end symbol is used if ``end_tokens`` contains it or is empty, otherwise the first of
            ``end_tokens``.
        config: the configuration of the folder's tokeniser, if already read.
    """
    config = config or read_tokeniser_config(folder)
    if (folder / TOKENIZER_FILE).exists():
        codec: TokenizersCodec | SentencePieceCodec = read_tokenizer_json(folder, config)
    elif (folder / SENTENCEPIECE_FILE).exists():
        codec = _read_pieces(folder / SENTENCEPIECE_FILE, config)
    else:
        raise missing_files_error(folder, TOKENIZER_FILE, SENTENCEPIECE_FILE)
    size = needed_rows(codec, ids.vocabulary)
    if not size <= ids.vocabulary < size + MAX_UNUSED_ROWS:
        raise ModelError(
            f"{folder}: the tokeniser has {codec.size} pieces, but the weights are for {ids.vocabulary} "
            "tokens; the files belong to different models"
        )
    eos = codec.token_id(config.special_tokens["eos"].content) if "eos" in config.special_tokens else None
    preferred_end = (
        eos if eos is not None and eos < ids.vocabulary and (eos in end_tokens or not end_tokens) else None
    )
    end = next((token for token in (preferred_end, *end_tokens) if token is not None), ids.vocabulary - 1)
    unknown = codec.unknown
    symbols = Symbols(
        start=end if ids.start is None else ids.start,
        end=end,
        pad=end if ids.pad is None else ids.pad,
        unknown=end if unknown is None or unknown >= ids.vocabulary else unknown,
        other_ends=tuple(token for token in dict.fromkeys(end_tokens) if token != end),
    )
    tokeniser = FramedTokeniser(codec, symbols, ids.vocabulary, str(folder))
    if isinstance(codec, TokenizersCodec):
        prefix, suffix = codec.special_token_frame()
    else:
        prefix, suffix = _declared_frame(codec, config)
    for token_id in (*prefix, *suffix):
        if token_id >= ids.vocabulary:
            raise ModelError(
                f"{folder}: the tokeniser adds {codec.piece(token_id)}, but the weights have no embedding "
                "for this token"
            )
    return replace(tokeniser, prefix=prefix, suffix=suffix)


def _declared_frame(
    codec: SentencePieceCodec, config: TokeniserConfig
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the special tokens before and after a text according to ``tokenizer_config.json``."""
    frame: list[tuple[int, ...]] = []
    for key, role, default in (("add_bos_token", "bos", True), ("add_eos_token", "eos", False)):
        token = config.special_tokens.get(role)
        token_id = codec.token_id(token.content) if token is not None and config.flag(key, default) else None
        frame.append(() if token_id is None else (token_id,))
    return frame[0], frame[1]


def _read_pieces(path: Path, config: TokeniserConfig) -> SentencePieceCodec:
    """Read a SentencePiece model, whose ids are those of the weights, and the tokens added to it.

    With ``is_legacy``, the default, each part of a text between special tokens begins with a word; without
    ``is_legacy``, only the first part does.
    """
    model = read_sentencepiece(path)
    size = len(model)
    start, end, _, unknown = model.symbols
    added_tokens = dict(config.added_tokens)
    for token_id in (unknown, start, end):
        if token_id >= 0:
            added_tokens.setdefault(token_id, AddedToken(model.piece(token_id)))
    for token in config.special_tokens.values():
        token_id = model.number(token.content)
        if model.piece(token_id) == token.content:
            added_tokens[token_id] = token
        elif all(added_token.content != token.content for added_token in added_tokens.values()):
            added_tokens[max(size - 1, *added_tokens) + 1] = token
    if any(token_id >= size + MAX_UNUSED_ROWS for token_id in added_tokens):
        raise ModelError(
            f"{path.parent}: an added token has the id {max(added_tokens)}, but {path.name} has only {size} "
            "pieces"
        )
    is_legacy = config.flag("legacy", True)
    if is_legacy and all(n < size and (model.is_control(n) or n == unknown) for n in added_tokens):
        return SentencePieceCodec.from_piece_types(model.content, str(path))
    return SentencePieceCodec(model, range(size), added_tokens, unknown, words=is_legacy)
