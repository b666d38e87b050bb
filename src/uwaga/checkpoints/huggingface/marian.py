"""Marian, as OPUS-MT publishes it (Tiedemann 2020; Junczys-Dowmunt 2018)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uwaga.checkpoints.huggingface import seq2seq_layout as fairseq
from uwaga.checkpoints.huggingface.config import ConfigReader, read_mapping
from uwaga.checkpoints.huggingface.recipe import Recipe, encoder_decoder
from uwaga.checkpoints.uwaga.schema import CONFIG, SOURCE, TARGET
from uwaga.checkpoints.weight_map import CLOSE
from uwaga.contracts import Symbols
from uwaga.errors import ModelError, SettingsError
from uwaga.settings import TransformerSettings, parse
from uwaga.text.marian import END, PAD, UNKNOWN, MarianTokeniser, read_sentencepiece, read_vocabulary
from uwaga.text.pretrained import Sides, TokenIds

if TYPE_CHECKING:
    from torch import nn

    from uwaga.checkpoints.files.torch_files import Tensors


VOCABULARY, TARGET_VOCABULARY = "vocab.json", "target_vocab.json"
UNSUPPORTED = {
    "normalize_before": (False,),
    "normalize_embedding": (False,),
    "add_final_layer_norm": (False,),
    "static_position_embeddings": (True,),
    "extra_pos_embeddings": (0,),
}


def marian(folder: Path, config: Mapping[str, Any]) -> Recipe:
    """Understand a Marian folder; see :data:`uwaga.checkpoints.huggingface.recipe.Family`."""
    reader = ConfigReader(folder, config)
    reader.refuse(UNSUPPORTED)
    shared = reader.flag("share_encoder_decoder_embeddings", True)
    tied = reader.flag("tie_word_embeddings", True)
    source_size = reader.whole("vocab_size", least=4)
    target_size = reader.whole("decoder_vocab_size", source_size, least=4)
    if shared and source_size != target_size:
        raise ModelError(
            f"{reader.path}: embeddings are shared, but 'vocab_size' and 'decoder_vocab_size' differ"
        )
    values = fairseq.common_settings(reader) | {
        "norm": "post",
        "positions": "sinusoidal",
        "sinusoids": "halves",
        "tie": ("all" if shared else "decoder") if tied else "none",
    }
    try:
        settings = parse(TransformerSettings, values, str(reader.path))
    except SettingsError as error:
        raise ModelError(str(error)) from None
    start, end, pad = reader.start(), reader.whole("eos_token_id"), reader.whole("pad_token_id")
    reader.within(target_size, decoder_start_token_id=start, eos_token_id=end, pad_token_id=pad)
    ids = read_vocabulary(folder / VOCABULARY, source_size)
    source = _tokeniser(folder, SOURCE, VOCABULARY, ids, start, end, pad)
    vocabulary = TARGET_VOCABULARY if not shared and (folder / TARGET_VOCABULARY).exists() else VOCABULARY
    if (vocabulary, target_size) != (VOCABULARY, source_size):
        ids = read_vocabulary(folder / vocabulary, target_size)
    target = _tokeniser(folder, TARGET, vocabulary, ids, start, end, pad)
    table = partial(fairseq.table, shared=shared)
    languages = languages_of(folder)
    return Recipe(
        settings, source_size, target_size, source, target, table, languages, build=with_own_positions
    )


def with_own_positions(recipe: Recipe, stored: Tensors) -> nn.Module:
    """The Transformer, with position tables of its own where the stored ones are not Marian's sinusoids.

    `transformers` and CTranslate2's converter take a stored table as it is, and so does this;
    :mod:`uwaga.checkpoints.huggingface.export` writes such ones.
    """
    import torch

    from uwaga.nn.positions import sinusoids

    settings = recipe.settings
    for name in fairseq.POSITIONS:
        table = stored.values.get(name)
        if table is None or tuple(table.shape) != (settings.max_length, settings.width):
            continue
        if not torch.allclose(
            table.float(), sinusoids(settings.max_length, settings.width, "halves"), atol=CLOSE
        ):
            settings = settings.model_copy(update={"positions": "learned"})
    return encoder_decoder(replace(recipe, settings=settings), stored)


def marian_tokenisers(folder: Path, ids: TokenIds) -> Sides:
    """Marian's tokenisers with one vocabulary, in a folder of whichever family.

    Raises:
        ModelError: a file is missing or damaged, or a special token is not where the folder says it is.
    """
    if ids.start is None or ids.end is None or ids.pad is None:
        raise ModelError(f"{folder / CONFIG}: the start, end or padding token is not stated")
    numbers = read_vocabulary(folder / VOCABULARY, ids.vocabulary)
    source, target = (
        _tokeniser(folder, name, VOCABULARY, numbers, ids.start, ids.end, ids.pad)
        for name in (SOURCE, TARGET)
    )
    return Sides(source, target)


def has_marian_tokenisers(folder: Path) -> bool:
    """Whether the folder says that its tokenisers are Marian's."""
    path = folder / "tokenizer_config.json"
    return path.exists() and read_mapping(path).get("tokenizer_class") == "MarianTokenizer"


def _tokeniser(
    folder: Path, model: str, vocabulary: str, ids: Mapping[str, int], start: int, end: int, pad: int
) -> MarianTokeniser:
    for piece, token, name in ((END, end, "eos_token_id"), (PAD, pad, "pad_token_id")):
        if ids[piece] != token:
            raise ModelError(
                f"{folder / vocabulary}: {piece} is {ids[piece]}, but {name} in config.json is {token}; "
                "the files are of different models"
            )
    symbols = Symbols(start=start, end=end, pad=pad, unknown=ids[UNKNOWN])
    return MarianTokeniser(read_sentencepiece(folder / model), ids, symbols, str(folder / vocabulary))


def languages_of(folder: Path) -> tuple[str, str]:
    """The languages that ``tokenizer_config.json`` names."""
    path = folder / "tokenizer_config.json"
    values = read_mapping(path) if path.exists() else {}
    return str(values.get("source_lang") or "src"), str(values.get("target_lang") or "tgt")
