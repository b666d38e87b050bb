"""OPUS-MT's Marian models (Tiedemann 2020; Junczys-Dowmunt 2018) and Pegasus (Zhang et al. 2020)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from uwaga.checkpoints.formats.huggingface.bart import (
    Traits,
    common_settings,
    read_seq2seq,
    table,
    with_stored_positions,
)
from uwaga.checkpoints.formats.huggingface.folder import FamilyModel, HuggingFaceFolder
from uwaga.checkpoints.formats.uwaga.names import CONFIG, SOURCE, TARGET
from uwaga.checkpoints.languages import UNSTATED_LANGUAGES as UNSTATED
from uwaga.checkpoints.storage.json_file import read_optional
from uwaga.decoder import Symbols
from uwaga.errors import ModelError
from uwaga.settings import TransformerSettings
from uwaga.tokenizers.marian import END, PAD, UNKNOWN, MarianTokeniser, read_vocabulary
from uwaga.tokenizers.pretrained import TokenIds, TokeniserPair, read_pegasus_tokeniser
from uwaga.tokenizers.sentencepiece import read_sentencepiece

VOCABULARY, TARGET_VOCABULARY = "vocab.json", "target_vocab.json"
TOKENISER = "tokenizer_config.json"
UNSUPPORTED = {
    "normalize_before": (False,),
    "normalize_embedding": (False,),
    "add_final_layer_norm": (False,),
    "static_position_embeddings": (True,),
    "extra_pos_embeddings": (0,),
}


def read_marian(folder: HuggingFaceFolder) -> FamilyModel:
    """Interpret a Marian folder; see :data:`uwaga.checkpoints.formats.huggingface.folder.FamilyReader`."""
    reader, path = folder.reader, folder.path
    reader.refuse(UNSUPPORTED)
    is_shared = reader.flag("share_encoder_decoder_embeddings", True)
    is_tied = reader.flag("tie_word_embeddings", True)
    source_size = reader.integer("vocab_size", minimum=4)
    target_size = reader.integer("decoder_vocab_size", source_size, minimum=4)
    if is_shared and source_size != target_size:
        raise ModelError(
            f"{reader.path}: both sides share one embedding, but 'vocab_size' and 'decoder_vocab_size' differ"
        )
    values = common_settings(reader) | {
        "norm": "post",
        "positions": "sinusoidal",
        "sinusoids": "halves",
        "tie": ("all" if is_shared else "decoder") if is_tied else "none",
    }
    settings = folder.settings(TransformerSettings, values, max(source_size, target_size))
    start, end, pad = reader.start(), reader.integer("eos_token_id"), reader.integer("pad_token_id")
    reader.check_ids(target_size, decoder_start_token_id=start, eos_token_id=end, pad_token_id=pad)
    ids = read_vocabulary(path / VOCABULARY, source_size)
    source = _tokeniser(path, SOURCE, VOCABULARY, ids, start, end, pad)
    vocabulary = TARGET_VOCABULARY if not is_shared and (path / TARGET_VOCABULARY).exists() else VOCABULARY
    if (vocabulary, target_size) != (VOCABULARY, source_size):
        ids = read_vocabulary(path / vocabulary, target_size)
    target = _tokeniser(path, TARGET, vocabulary, ids, start, end, pad)
    settings = with_stored_positions(settings, folder.tensors)
    return FamilyModel(
        settings,
        (source_size, target_size),
        TokeniserPair(source, target),
        table(settings, is_shared),
        folder.tensors,
        read_languages(path),
    )


def marian_tokenisers(folder: Path, ids: TokenIds) -> TokeniserPair:
    """Return Marian tokenisers with a shared vocabulary, for a folder of any family."""
    if ids.start is None or ids.end is None or ids.pad is None:
        raise ModelError(f"{folder / CONFIG}: the id of the start, end or padding token is missing")
    piece_ids = read_vocabulary(folder / VOCABULARY, ids.vocabulary)
    source, target = (
        _tokeniser(folder, name, VOCABULARY, piece_ids, ids.start, ids.end, ids.pad)
        for name in (SOURCE, TARGET)
    )
    return TokeniserPair(source, target)


def has_marian_tokenisers(folder: Path) -> bool:
    """Return True if the folder states that its tokenisers are Marian's."""
    return read_optional(folder / TOKENISER).get("tokenizer_class") == "MarianTokenizer"


def _tokeniser(
    folder: Path, model: str, vocabulary: str, ids: Mapping[str, int], start: int, end: int, pad: int
) -> MarianTokeniser:
    for piece, token, name in ((END, end, "eos_token_id"), (PAD, pad, "pad_token_id")):
        if ids[piece] != token:
            raise ModelError(
                f"{folder / vocabulary}: {piece} is {ids[piece]}, but {name} in config.json is {token}; "
                "the files belong to different models"
            )
    symbols = Symbols(start=start, end=end, pad=pad, unknown=ids[UNKNOWN])
    return MarianTokeniser(read_sentencepiece(folder / model), ids, symbols, str(folder / vocabulary))


def read_languages(folder: Path) -> tuple[str, str]:
    """Return the codes of the source and target languages in ``tokenizer_config.json``."""
    values = read_optional(folder / TOKENISER)
    return str(values.get("source_lang") or UNSTATED[0]), str(values.get("target_lang") or UNSTATED[1])


PEGASUS_TRAITS = Traits(
    settings={"norm": "pre", "positions": "sinusoidal", "sinusoids": "halves"},
    unsupported={
        "normalize_before": (True,),
        "normalize_embedding": (False,),
        "add_final_layer_norm": (True,),
        "add_bias_logits": (False,),
        "static_position_embeddings": (True,),
    },
    tokenisers=read_pegasus_tokeniser,
    start=0,
    end=1,
    pad=0,
)


def read_pegasus(folder: HuggingFaceFolder) -> FamilyModel:
    """Interpret a Pegasus folder; see :data:`uwaga.checkpoints.formats.huggingface.folder.FamilyReader`."""
    if not has_marian_tokenisers(folder.path):
        return read_seq2seq(PEGASUS_TRAITS, folder)
    # As written by `uwaga convert --to pegasus`: Pegasus' layout with Marian's tokenisers.
    traits = replace(PEGASUS_TRAITS, tokenisers=marian_tokenisers, start=None, stored_positions=True)
    return replace(read_seq2seq(traits, folder), languages=read_languages(folder.path))
