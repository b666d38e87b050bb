"""The settings files of Marian's and Pegasus' folders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from uwaga.decoder import Symbols
from uwaga.settings import TransformerSettings
from uwaga.tokenizers.marian import END, PAD, UNKNOWN

ExportFormat = Literal["marian", "pegasus"]
"""``model_type`` of what is written."""
CLASSES = {"marian": "MarianMTModel", "pegasus": "PegasusForConditionalGeneration"}
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new", "silu": "swish"}


def model_config(
    to: ExportFormat,
    settings: TransformerSettings,
    symbols: Symbols,
    sizes: tuple[int, int],
    generation: Mapping[str, Any],
) -> dict[str, Any]:
    """``config.json`` of a model with ``sizes`` source and target tokens, beside this generation config."""
    values: dict[str, Any] = {
        "architectures": [CLASSES[to]],
        "model_type": to,
        "is_encoder_decoder": True,
        "vocab_size": sizes[0],
        "d_model": settings.width,
        "encoder_layers": settings.encoder_layers,
        "decoder_layers": settings.decoder_layers,
        "encoder_attention_heads": settings.heads,
        "decoder_attention_heads": settings.decoder_heads or settings.heads,
        "encoder_ffn_dim": settings.feed_forward,
        "decoder_ffn_dim": settings.decoder_feed_forward or settings.feed_forward,
        "max_position_embeddings": settings.max_length,
        "activation_function": ACTIVATIONS[settings.activation],
        "scale_embedding": settings.embedding_scale,
        "normalize_before": to == "pegasus",  # CTranslate2's converter reads these three
        "normalize_embedding": False,
        "add_final_layer_norm": to == "pegasus",
        "static_position_embeddings": True,
        "tie_word_embeddings": settings.tie != "none",
        "decoder_start_token_id": symbols.start,
        "bos_token_id": None,
        "eos_token_id": symbols.end,
        "pad_token_id": symbols.pad,
        "forced_eos_token_id": generation["forced_eos_token_id"],
        "dropout": settings.dropout,
        "attention_dropout": settings.attention_dropout,
        "activation_dropout": settings.activation_dropout,
        "use_cache": True,
        "dtype": "float32",
        "torch_dtype": "float32",
    }
    if to == "marian":
        values["decoder_vocab_size"] = sizes[1]
        values["share_encoder_decoder_embeddings"] = settings.tie == "all"
    return values


def tokeniser_config(languages: tuple[str, str], max_length: int, *, separate: bool) -> dict[str, Any]:
    """``tokenizer_config.json``; ``separate`` where each side has a vocabulary of its own."""
    return {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": languages[0],
        "target_lang": languages[1],
        "separate_vocabs": separate,
        "eos_token": END,
        "unk_token": UNKNOWN,
        "pad_token": PAD,
        "model_max_length": max_length,
        "clean_up_tokenization_spaces": False,
    }
