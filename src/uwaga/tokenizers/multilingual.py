"""Tokenisers of multilingual model families: SentencePiece with a token for each language.

The languages are those that the folder declares; if it declares none, select one with
:meth:`uwaga.tokenizers.framed.FramedTokeniser.with_language`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from uwaga.errors import ModelError
from uwaga.languages.codes import M2M100, MBART, MBART50, NLLB200, WMT21
from uwaga.tokenizers.codecs import SentencePieceCodec, TokenizersCodec, read_tokenizer_json, read_vocabulary
from uwaga.tokenizers.framed import FramedTokeniser, TokenPosition
from uwaga.tokenizers.pretrained import (
    TokenIds,
    TokeniserPair,
    build_tokeniser,
    has_sentencepiece,
    sentencepiece_file,
)
from uwaga.tokenizers.pretrained_files import (
    TOKENIZER_FILE,
    AddedToken,
    TokeniserConfig,
    missing_files_error,
    read_json,
    read_tokeniser_config,
)
from uwaga.tokenizers.sentencepiece import SentencePieceModel, read_sentencepiece

SPECIAL_TOKENS = {
    "bos": AddedToken("<s>"),
    "pad": AddedToken("<pad>"),
    "eos": AddedToken("</s>"),
    "unk": AddedToken("<unk>"),
}
MASK_TOKEN = AddedToken("<mask>", lstrip=True)
LANGUAGE_TOKEN = re.compile(r"([a-z]{2,3}_[A-Za-z]{2,4})|__([a-z]{2,3})__")
"""Pattern of a language token: ``en_XX``, ``eng_Latn`` or ``__en__``."""


def read_mbart_tokeniser(folder: Path, ids: TokenIds) -> TokeniserPair:
    """Read a tokeniser of mBART (Liu et al. 2020): source ``... </s> en_XX``, decoder start ``ro_RO``.

    mBART-50 (Tang et al. 2020): source ``en_XX ... </s>``, target ``ro_RO ... </s>``.
    """
    config = read_tokeniser_config(folder)
    if not has_sentencepiece(folder) and (folder / TOKENIZER_FILE).exists():
        codec: TokenizersCodec | SentencePieceCodec = read_tokenizer_json(folder, config)
        is_mbart50 = _is_mbart50(folder, config, codec.token_id(MBART50[-1]) is not None)
    else:
        model = read_sentencepiece(sentencepiece_file(folder))
        extra_rows = ids.vocabulary - len(model)
        is_mbart50 = _is_mbart50(folder, config, extra_rows >= len(MBART50) + 2)
        codec = _fairseq_codec(model, MBART50 if is_mbart50 else MBART, config)
    positions: tuple[TokenPosition, TokenPosition] = (
        ("before", "before") if is_mbart50 else ("behind", "start")
    )
    return _build_pair(codec, ids, config, folder, MBART50 if is_mbart50 else MBART, positions)


def read_nllb_tokeniser(folder: Path, ids: TokenIds) -> TokeniserPair:
    """Read a tokeniser of NLLB (Costa-jussà et al. 2022): ``eng_Latn ... </s>``.

    The first release of NLLB encoded sources as ``... </s> eng_Latn``.
    """
    config = read_tokeniser_config(folder)
    if not has_sentencepiece(folder) and (folder / TOKENIZER_FILE).exists():
        codec: TokenizersCodec | SentencePieceCodec = read_tokenizer_json(folder, config)
    else:
        codec = _fairseq_codec(read_sentencepiece(sentencepiece_file(folder)), NLLB200, config)
    first_released = config.flag("legacy_behaviour", False)
    positions: tuple[TokenPosition, TokenPosition] = (
        ("behind", "before") if first_released else ("before", "before")
    )
    return _build_pair(codec, ids, config, folder, NLLB200, positions)


def read_m2m100_tokeniser(folder: Path, ids: TokenIds) -> TokeniserPair:
    """Read a tokeniser of M2M-100 (Fan et al. 2020): ids from ``vocab.json``, ``__en__ ... </s>``."""
    config = read_tokeniser_config(folder)
    codes = WMT21 if config.text("language_codes") == "wmt21" else M2M100
    if not (folder / "vocab.json").exists():
        raise missing_files_error(folder, "vocab.json with sentencepiece.bpe.model")
    vocabulary = read_vocabulary(folder / "vocab.json")
    special_tokens = {**SPECIAL_TOKENS, **config.special_tokens}
    missing_tokens = [token.content for token in special_tokens.values() if token.content not in vocabulary]
    if missing_tokens:
        raise ModelError(f"{folder / 'vocab.json'}: the vocabulary lacks {', '.join(missing_tokens)}")
    added_tokens = {vocabulary[token.content]: token for token in special_tokens.values()}
    added_tokens |= {len(vocabulary) + index: AddedToken(f"__{code}__") for index, code in enumerate(codes)}
    model = read_sentencepiece(sentencepiece_file(folder))
    codec = SentencePieceCodec.from_vocabulary(
        model,
        vocabulary,
        added_tokens | config.added_tokens,
        vocabulary[special_tokens["unk"].content],
        strip=True,
    )
    return _build_pair(codec, ids, config, folder, codes, ("before", "before"))


def _fairseq_codec(
    model: SentencePieceModel, codes: Sequence[str], config: TokeniserConfig
) -> SentencePieceCodec:
    """Return a codec with fairseq's ids: first four special tokens, then the model's pieces without the first
    three, then the language tokens.
    """
    special_tokens = {**SPECIAL_TOKENS, **config.special_tokens}
    size = len(model)
    tokens = [special_tokens["bos"], special_tokens["pad"], special_tokens["eos"], special_tokens["unk"]]
    added_tokens = dict(enumerate(tokens)) | {
        size + 1 + index: AddedToken(code) for index, code in enumerate(codes)
    }
    added_tokens[size + 1 + len(codes)] = special_tokens.get("mask", MASK_TOKEN)
    ids_by_piece = [-1, -1, -1, *range(4, size + 1)]
    return SentencePieceCodec(model, ids_by_piece, added_tokens | config.added_tokens, unknown=3)


def _is_mbart50(folder: Path, tokeniser_config: TokeniserConfig, default: bool) -> bool:
    """Return whether the declared tokeniser class is mBART-50's, or ``default`` if no class is declared."""
    name = tokeniser_config.text("tokenizer_class")
    config = folder / "config.json"
    if name is None and config.exists():
        value = read_json(config).get("tokenizer_class")
        name = value if isinstance(value, str) else None
    if name is None or not name.startswith("MBart"):
        return default
    return name.startswith("MBart50")


def _build_pair(
    codec: TokenizersCodec | SentencePieceCodec,
    ids: TokenIds,
    config: TokeniserConfig,
    folder: Path,
    codes: Sequence[str],
    positions: tuple[TokenPosition, TokenPosition],
) -> TokeniserPair:
    special_tokens = {**SPECIAL_TOKENS, **config.special_tokens}
    tokeniser = build_tokeniser(codec, ids, special_tokens, config, folder)
    languages = _languages(codec, codes)
    if not languages:
        raise ModelError(f"{folder}: the vocabulary has no language tokens; fetch the model again")
    tokeniser = replace(tokeniser, suffix=(tokeniser.symbols.end,), languages=languages)
    source, target = (replace(tokeniser, language_position=position) for position in positions)
    start = {token_id: code for code, token_id in languages.items()}.get(tokeniser.symbols.start)
    if positions[1] == "start" and start is not None:
        target = target.with_language(start)
    return TokeniserPair(
        _with_declared_language(source, config, "src_lang"),
        _with_declared_language(target, config, "tgt_lang"),
    )


def _languages(codec: TokenizersCodec | SentencePieceCodec, codes: Sequence[str]) -> Mapping[str, int]:
    """Return the ids of the language tokens, by language code.

    Special tokens that look like a language token are included.
    """
    ids = {code: codec.token_id(code if "_" in code else f"__{code}__") for code in codes}
    for piece, token_id in codec.added_tokens.items():
        if match := LANGUAGE_TOKEN.fullmatch(piece):
            ids[match[1] or match[2]] = token_id
    return {code: token_id for code, token_id in ids.items() if token_id is not None}


def _with_declared_language(tokeniser: FramedTokeniser, config: TokeniserConfig, key: str) -> FramedTokeniser:
    code = config.text(key)
    return tokeniser.with_language(code) if code in tokeniser.languages and code is not None else tokeniser
