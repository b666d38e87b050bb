"""Tokenisers of pretrained model families, read from a folder in Hugging Face format.

Each ``read_..._tokeniser`` takes the folder and the vocabulary of its ``config.json``, and returns a
:class:`TokeniserPair`. It reads ``tokenizer.json`` if present, otherwise the older files. These functions
raise ModelError if files are missing, damaged, or inconsistent with the weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from uwaga.decoder import Symbols
from uwaga.errors import ModelError
from uwaga.tokenizers.codecs import (
    SentencePieceCodec,
    TokenizersCodec,
    read_byte_level,
    read_tokenizer_json,
    read_word_piece,
)
from uwaga.tokenizers.framed import Codec, FramedTokeniser
from uwaga.tokenizers.pretrained_files import (
    TOKENIZER_FILE,
    AddedToken,
    TokeniserConfig,
    missing_files_error,
    read_tokeniser_config,
)
from uwaga.tokenizers.sentencepiece import read_sentencepiece
from uwaga.tokenizers.subwords import Subwords

MAX_UNUSED_ROWS = 1024
"""Maximum number of unused embeddings after the last piece, which round up the number of rows."""

PEGASUS_OFFSET = 103
T5_SENTINELS = 100
SENTENCEPIECE_FILES = ("spiece.model", "sentencepiece.bpe.model", "sentencepiece.model")

BART_SPECIAL = {
    "bos": AddedToken("<s>"),
    "pad": AddedToken("<pad>"),
    "eos": AddedToken("</s>"),
    "unk": AddedToken("<unk>"),
    "mask": AddedToken("<mask>", lstrip=True),
}
BERT_SPECIAL = {
    "pad": AddedToken("[PAD]"),
    "unk": AddedToken("[UNK]"),
    "cls": AddedToken("[CLS]"),
    "sep": AddedToken("[SEP]"),
    "mask": AddedToken("[MASK]"),
}
PROPHETNET_SPECIAL = {
    "pad": AddedToken("[PAD]"),
    "unk": AddedToken("[UNK]"),
    "sep": AddedToken("[SEP]"),
    "mask": AddedToken("[MASK]"),
}
PROPHETNET_PIECES = "prophetnet.tokenizer"
GPT2_SPECIAL = {role: AddedToken("<|endoftext|>") for role in ("bos", "eos", "unk")}
T5_SPECIAL = {"pad": AddedToken("<pad>"), "eos": AddedToken("</s>"), "unk": AddedToken("<unk>")}
PEGASUS_SPECIAL = {**T5_SPECIAL, "mask": AddedToken("<mask_2>")}


@dataclass(frozen=True)
class TokenIds:
    """The vocabulary in ``config.json``; ids that it does not declare are None.

    Attributes:
        vocabulary: number of rows of the embeddings.
        start: id of the first decoder input.
        end: id of the end symbol.
        pad: id of the padding symbol.
    """

    vocabulary: int
    start: int | None = None
    end: int | None = None
    pad: int | None = None


@dataclass(frozen=True)
class TokeniserPair:
    """The tokenisers of source and target; multilingual tokenisers may still need a language."""

    source: Subwords
    target: Subwords


def read_bart_tokeniser(folder: Path, ids: TokenIds) -> TokeniserPair:
    """Read a tokeniser of BART (Lewis et al. 2020): byte-level BPE in ``<s> ... </s>``."""
    config = read_tokeniser_config(folder)
    codec = _byte_level(folder, config, BART_SPECIAL)
    special_tokens = {**BART_SPECIAL, **config.special_tokens}
    tokeniser = build_tokeniser(codec, ids, special_tokens, config, folder)
    if (folder / TOKENIZER_FILE).exists():
        return _same_pair(tokeniser, *codec.special_token_frame())
    start = _required_id(codec, special_tokens["cls" if "cls" in special_tokens else "bos"], folder)
    return _same_pair(
        tokeniser,
        (start,),
        (_required_id(codec, special_tokens["sep" if "sep" in special_tokens else "eos"], folder),),
    )


def read_gpt2_tokeniser(folder: Path, ids: TokenIds) -> TokeniserPair:
    """Read a tokeniser of GPT-2 (Radford et al. 2019): byte-level BPE, by default without special tokens."""
    config = read_tokeniser_config(folder)
    codec = _byte_level(folder, config, GPT2_SPECIAL)
    special_tokens = {**GPT2_SPECIAL, **config.special_tokens}
    tokeniser = build_tokeniser(codec, ids, special_tokens, config, folder)
    if (folder / TOKENIZER_FILE).exists() and not {"add_bos_token", "add_eos_token"} & set(config.settings):
        return _same_pair(tokeniser, *codec.special_token_frame())
    prefix = (
        (_required_id(codec, special_tokens["bos"], folder),) if config.flag("add_bos_token", False) else ()
    )
    suffix = (
        (_required_id(codec, special_tokens["eos"], folder),) if config.flag("add_eos_token", False) else ()
    )
    return _same_pair(tokeniser, prefix, suffix)


def read_bert_tokeniser(folder: Path, ids: TokenIds) -> TokeniserPair:
    """Read a tokeniser of BERT (Devlin et al. 2019): WordPiece in ``[CLS] ... [SEP]``."""
    config = read_tokeniser_config(folder)
    special_tokens = {**BERT_SPECIAL, **config.special_tokens}
    if (folder / TOKENIZER_FILE).exists():
        codec = read_tokenizer_json(folder, config)
        frame = codec.special_token_frame()
    elif (folder / "vocab.txt").exists():
        codec = read_word_piece(folder / "vocab.txt", config, BERT_SPECIAL)
        frame = (
            (_required_id(codec, special_tokens["cls"], folder),),
            (_required_id(codec, special_tokens["sep"], folder),),
        )
    else:
        raise missing_files_error(folder, TOKENIZER_FILE, "vocab.txt")
    special_tokens.setdefault("bos", special_tokens["cls"])
    special_tokens.setdefault("eos", special_tokens["sep"])
    return _same_pair(build_tokeniser(codec, ids, special_tokens, config, folder), *frame)


def read_prophetnet_tokeniser(folder: Path, ids: TokenIds) -> TokeniserPair:
    """Read a tokeniser of ProphetNet (Qi et al. 2020): WordPiece.

    A text is encoded as ``... [SEP]``, and targets begin with ``[SEP]``.
    """
    config = read_tokeniser_config(folder)
    special_tokens = {**PROPHETNET_SPECIAL, **config.special_tokens}
    codec: Codec
    if (folder / TOKENIZER_FILE).exists():
        codec = read_tokenizer_json(folder, config)
    elif (folder / PROPHETNET_PIECES).exists():
        codec = read_word_piece(folder / PROPHETNET_PIECES, config, PROPHETNET_SPECIAL)
    else:
        raise missing_files_error(folder, TOKENIZER_FILE, PROPHETNET_PIECES)
    special_tokens.setdefault("bos", special_tokens["sep"])
    special_tokens.setdefault("eos", special_tokens["sep"])
    tokeniser = build_tokeniser(codec, ids, special_tokens, config, folder)
    return _same_pair(tokeniser, (), (_required_id(codec, special_tokens["sep"], folder),))


def read_t5_tokeniser(folder: Path, ids: TokenIds) -> TokeniserPair:
    """Read a tokeniser of T5 (Raffel et al. 2020): SentencePiece with sentinels ``<extra_id_N>``.

    A text is encoded as ``... </s>``.
    """
    config = read_tokeniser_config(folder)
    special_tokens = {**T5_SPECIAL, **config.special_tokens}
    codec: Codec
    if (folder / TOKENIZER_FILE).exists():
        codec = read_tokenizer_json(folder, config)
        return _same_pair(
            build_tokeniser(codec, ids, special_tokens, config, folder), *codec.special_token_frame()
        )
    model = read_sentencepiece(sentencepiece_file(folder))
    size = len(model)
    count = config.settings.get("extra_ids", T5_SENTINELS)
    if type(count) is not int or not 0 <= count <= ids.vocabulary:
        raise ModelError(
            f"{folder / 'tokenizer_config.json'}: 'extra_ids' must be a whole number from 0 to "
            f"{ids.vocabulary}, not {count!r}"
        )
    added_tokens = {size + count - 1 - number: AddedToken(f"<extra_id_{number}>") for number in range(count)}
    for role in ("pad", "eos", "unk"):
        token_id = model.number(special_tokens[role].content)
        if model.piece(token_id) != special_tokens[role].content:
            raise ModelError(
                f"{sentencepiece_file(folder)}: the model has no piece {special_tokens[role].content}"
            )
        added_tokens[token_id] = special_tokens[role]
    codec = SentencePieceCodec(model, range(size), added_tokens | config.added_tokens, model.unknown)
    tokeniser = build_tokeniser(codec, ids, special_tokens, config, folder)
    return _same_pair(tokeniser, (), (tokeniser.symbols.end,))


def read_pegasus_tokeniser(folder: Path, ids: TokenIds) -> TokeniserPair:
    """Read a tokeniser of Pegasus (Zhang et al. 2020): SentencePiece after 103 special tokens.

    A text is encoded as ``... </s>``.
    """
    config = read_tokeniser_config(folder)
    special_tokens = {**PEGASUS_SPECIAL, **config.special_tokens}
    codec: Codec
    if (folder / TOKENIZER_FILE).exists():
        codec = read_tokenizer_json(folder, config)
        return _same_pair(
            build_tokeniser(codec, ids, special_tokens, config, folder), *codec.special_token_frame()
        )
    model = read_sentencepiece(sentencepiece_file(folder))
    offset = config.settings.get("offset", PEGASUS_OFFSET)
    if type(offset) is not int or not 3 <= offset < ids.vocabulary:
        raise ModelError(
            f"{folder / 'tokenizer_config.json'}: 'offset' must be a whole number from 3 to "
            f"{ids.vocabulary - 1}, not {offset!r}"
        )
    added_tokens = {
        0: special_tokens["pad"],
        1: special_tokens["eos"],
        2: AddedToken("<mask_1>"),
        3: AddedToken("<mask_2>"),
    }
    added_tokens |= {number + 2: AddedToken(f"<unk_{number}>") for number in range(2, offset)}
    unknown = model.unknown + offset
    added_tokens[unknown] = special_tokens["unk"]
    ids_by_piece = [-1, -1, *(number + offset for number in range(2, len(model)))]
    codec = SentencePieceCodec(model, ids_by_piece, added_tokens | config.added_tokens, unknown)
    tokeniser = build_tokeniser(codec, ids, special_tokens, config, folder)
    return _same_pair(tokeniser, (), (tokeniser.symbols.end,))


def build_tokeniser(
    codec: TokenizersCodec | SentencePieceCodec,
    ids: TokenIds,
    special_tokens: Mapping[str, AddedToken],
    config: TokeniserConfig,
    folder: Path,
) -> FramedTokeniser:
    """Return a tokeniser without prefix and suffix, after comparing its ids with ``config.json``."""
    size = codec.size
    if "mask" in special_tokens and codec.token_id(special_tokens["mask"].content) == ids.vocabulary:
        size -= 1  # models such as bart-large-cnn have no row for the mask, the last token
    if not size <= ids.vocabulary < size + MAX_UNUSED_ROWS:
        raise ModelError(
            f"{folder}: the tokeniser has {codec.size} pieces, but the weights are for {ids.vocabulary} "
            "tokens; the files belong to different models"
        )
    end = _consistent_id(codec, special_tokens.get("eos"), ids.end, "eos_token_id", folder)
    pad = _consistent_id(codec, special_tokens.get("pad"), ids.pad, "pad_token_id", folder, end)
    bos = codec.token_id(special_tokens["bos"].content) if "bos" in special_tokens else None
    start = next(token for token in (ids.start, bos, pad) if token is not None)
    if start >= ids.vocabulary:
        raise ModelError(
            f"{folder / 'config.json'}: decoding starts from token {start}, but there are only "
            f"{ids.vocabulary} tokens"
        )
    unknown = codec.unknown
    if unknown is None and "unk" in special_tokens:
        unknown = codec.token_id(special_tokens["unk"].content)
    symbols = Symbols(start=start, end=end, pad=pad, unknown=end if unknown is None else unknown)
    return FramedTokeniser(
        codec=codec,
        symbols=symbols,
        vocabulary=ids.vocabulary,
        name=str(folder),
        clean=config.flag("clean_up_tokenization_spaces", False) and not _is_bpe(codec),
    )


def has_sentencepiece(folder: Path) -> bool:
    """Return True if the folder has a SentencePiece model; its ``tokenizer.json`` is then only a copy."""
    return any((folder / name).exists() for name in SENTENCEPIECE_FILES)


def sentencepiece_file(folder: Path) -> Path:
    """Return the path of the folder's SentencePiece model."""
    for name in SENTENCEPIECE_FILES:
        if (folder / name).exists():
            return folder / name
    raise missing_files_error(folder, TOKENIZER_FILE, " or ".join(SENTENCEPIECE_FILES))


def _byte_level(
    folder: Path, config: TokeniserConfig, special_tokens: Mapping[str, AddedToken]
) -> TokenizersCodec:
    if (folder / TOKENIZER_FILE).exists():
        return read_tokenizer_json(folder, config)
    vocabulary, merges = folder / "vocab.json", folder / "merges.txt"
    if not vocabulary.exists() and not merges.exists():
        raise missing_files_error(folder, TOKENIZER_FILE, "vocab.json with merges.txt")
    return read_byte_level(vocabulary, merges, config, special_tokens)


def _same_pair(tokeniser: FramedTokeniser, prefix: tuple[int, ...], suffix: tuple[int, ...]) -> TokeniserPair:
    shared_tokeniser = replace(tokeniser, prefix=prefix, suffix=suffix)
    return TokeniserPair(shared_tokeniser, shared_tokeniser)


def _required_id(codec: Codec, token: AddedToken, folder: Path) -> int:
    token_id = codec.token_id(token.content)
    if token_id is None:
        raise ModelError(f"{folder}: the vocabulary lacks the special token {token.content}")
    return token_id


def _consistent_id(
    codec: Codec, token: AddedToken | None, declared_id: int | None, key: str, folder: Path, default: int = 0
) -> int:
    """Return the id of a special token, which must be consistent with ``config.json``."""
    token_id = None if token is None else codec.token_id(token.content)
    if token is not None and token_id is not None and declared_id not in (None, token_id):
        raise ModelError(
            f"{folder}: {token.content} is {token_id} in the tokeniser, but {key} in config.json is "
            f"{declared_id}; the files belong to different models"
        )
    return next(token_id for token_id in (declared_id, token_id, default) if token_id is not None)


def _is_bpe(codec: Codec) -> bool:
    """Return True for byte-level BPE, which preserves spaces, so that removing spaces would corrupt the
    text.
    """
    return isinstance(codec, TokenizersCodec) and codec.kind == "BPE"
