"""Export of Transformers as Hugging Face folders: Marian for post-norm models, Pegasus for pre-norm models.

The two formats differ only in the position of the norms, and neither can express the other's models. Both
have sinusoidal positions, and both are exported with Marian's tokeniser files. ``transformers`` loads the
folders as ``MarianMTModel`` or ``PegasusForConditionalGeneration`` with ``MarianTokenizer``, and
CTranslate2's converter reads them too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from uwaga.checkpoints.formats.huggingface.export_weights import (
    ExportedModel,
    as_marian,
    as_pegasus,
    exported_vocabulary,
    weight_bytes,
)
from uwaga.checkpoints.formats.huggingface.folder import GENERATION
from uwaga.checkpoints.formats.uwaga.names import CONFIG, SOURCE, TARGET, WEIGHTS
from uwaga.decoder import Symbols
from uwaga.errors import ModelError, SettingsError
from uwaga.files.atomic import write_folder
from uwaga.models.transformer import Transformer
from uwaga.search import SearchOptions, to_generation_config
from uwaga.settings import TransformerSettings
from uwaga.settings.text_options import TextOptions
from uwaga.tokenizers.marian import END, PAD, UNKNOWN
from uwaga.tokenizers.subwords import Subwords

ExportFormat = Literal["marian", "pegasus"]
"""``model_type`` of the exported model."""
MODEL_CLASSES = {"marian": "MarianMTModel", "pegasus": "PegasusForConditionalGeneration"}
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new", "silu": "swish"}


def model_config(
    to: ExportFormat,
    settings: TransformerSettings,
    symbols: Symbols,
    sizes: tuple[int, int],
    generation: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the contents of ``config.json``; ``sizes`` are the numbers of source and target tokens."""
    values: dict[str, Any] = {
        "architectures": [MODEL_CLASSES[to]],
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


def tokeniser_config(
    languages: tuple[str, str], max_length: int, *, has_separate_vocabularies: bool
) -> dict[str, Any]:
    """Return the contents of ``tokenizer_config.json``.

    Args:
        languages: codes of the source and target languages.
        max_length: maximum number of tokens.
        has_separate_vocabularies: True if the two sides have different vocabularies.
    """
    return {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": languages[0],
        "target_lang": languages[1],
        "separate_vocabs": has_separate_vocabularies,
        "eos_token": END,
        "unk_token": UNKNOWN,
        "pad_token": PAD,
        "model_max_length": max_length,
        "clean_up_tokenization_spaces": False,
    }


NORM_POSITIONS = {"marian": "post", "pegasus": "pre"}
VOCABULARY, TARGET_VOCABULARY, TOKENISER = "vocab.json", "target_vocab.json", "tokenizer_config.json"
EPSILON = 1e-5
"""Epsilon of the norms, which is fixed in both formats."""


class TranslationModel(Protocol):
    """A model with its tokenisers and its settings, such as :class:`uwaga.translator.Model`."""

    @property
    def decoder(self) -> object:
        """The model, a :class:`Transformer`."""

    @property
    def source(self) -> Subwords:
        """Tokeniser of the source side."""

    @property
    def target(self) -> Subwords:
        """Tokeniser of the target side."""

    @property
    def decoding(self) -> SearchOptions:
        """Default search options, for ``generation_config.json``."""

    @property
    def text(self) -> TextOptions:
        """Options of text preprocessing, which the formats cannot express."""

    @property
    def languages(self) -> tuple[str, str]:
        """Codes of the source and target languages."""


def write_hugging_face(folder: Path, to: ExportFormat, model: TranslationModel) -> list[str]:
    """Write a translation model as a Hugging Face folder, atomically.

    Args:
        folder: the folder to create.
        to: ``marian`` or ``pegasus``.
        model: the model.

    Returns:
        descriptions of how uwaga's translations differ from those of programs that load the folder, one
        sentence each.
    """
    transformer = _checked_model(folder, to, model.decoder)
    sides = (exported_vocabulary(model.source), exported_vocabulary(model.target))
    if transformer.settings.tie == "all" and sides[0].pieces != sides[1].pieces:
        raise ModelError(f"{to}: source and target share an embedding, but their vocabularies differ")
    options = replace(model.decoding, nbest=1)
    exported_model = as_marian(transformer, sides) if to == "marian" else as_pegasus(transformer, sides)
    write_folder(folder, _file_contents(to, transformer, exported_model, options, model.languages))
    return _differences(
        transformer.settings, model.source, model.text, options, to, exported_model.has_separate_vocabularies
    )


def _file_contents(
    to: ExportFormat,
    model: Transformer,
    exported_model: ExportedModel,
    options: SearchOptions,
    languages: tuple[str, str],
) -> dict[str, bytes]:
    """Return the contents of the folder's files by file name."""
    source, target = exported_model.sides
    generation = to_generation_config(
        options, exported_model.symbols, model.max_target, exported_model.unused
    )
    limit = model.settings.max_length
    files = {
        CONFIG: _json_bytes(
            model_config(to, model.settings, exported_model.symbols, exported_model.sizes, generation)
        ),
        GENERATION: _json_bytes(generation),
        SOURCE: source.model,
        TARGET: target.model,
        VOCABULARY: _json_bytes(source.ids()),
        TOKENISER: _json_bytes(
            tokeniser_config(
                languages, limit, has_separate_vocabularies=exported_model.has_separate_vocabularies
            )
        ),
        WEIGHTS: weight_bytes(model, exported_model, drop_sinusoids=to == "marian"),
    }
    if exported_model.has_separate_vocabularies:
        files[TARGET_VOCABULARY] = _json_bytes(target.ids())
    return files


def _checked_model(folder: Path, to: ExportFormat, model: object) -> Transformer:
    """Return the model after checking that the format can express it."""
    if to not in get_args(ExportFormat):
        raise SettingsError(f"unknown format {to!r}; choose from {', '.join(get_args(ExportFormat))}")
    if os.path.lexists(folder) and (not folder.is_dir() or any(folder.iterdir())):
        raise ModelError(f"{folder}: exists and is not empty, so it is not overwritten; give another folder")
    if not isinstance(model, Transformer):
        raise ModelError(
            f"a model of type {type(model).__name__} cannot be written as {to}; only encoder-decoder "
            "Transformers can be"
        )
    _check_supported(model.settings, to)
    return model


def _check_supported(settings: TransformerSettings, to: ExportFormat) -> None:
    """Raise ModelError if the model has a feature that the format cannot express."""
    if settings.norm != NORM_POSITIONS[to]:
        other = "pegasus" if to == "marian" else "marian"
        raise ModelError(
            f"the model has {settings.norm}-norm blocks, but {to} has {NORM_POSITIONS[to]}-norm blocks, "
            f"which compute a different function; use `--to {other}`, the same layout with "
            f"{settings.norm}-norm blocks, which transformers and CTranslate2 load too"
        )
    supported: dict[str, tuple[object, ...]] = {
        "self_attention": ("attention",),
        "gated": (False,),
        "positions": ("sinusoidal", "learned"),
        "embedding_norm": (False,),
        "norm_kind": ("layer",),
        "norm_epsilon": (EPSILON,),
        "attention_scale": (True,),
        "output_scale": (False,),
        "head_width": (None, settings.width // settings.heads),
        "tie": ("none", "decoder", "all") if to == "marian" else ("all",),
    }
    for name, allowed_values in supported.items():
        value = getattr(settings, name)
        if value not in allowed_values:
            raise ModelError(
                f"the model's setting {name} = {value!r} is not supported by {to} (supported: "
                f"{' or '.join(map(repr, allowed_values))}); its weights cannot be exported"
            )


def _json_bytes(values: dict[str, Any]) -> bytes:
    return (json.dumps(values, indent=2, ensure_ascii=False) + "\n").encode()


def _differences(
    settings: TransformerSettings,
    source: Subwords,
    text: TextOptions,
    options: SearchOptions,
    to: ExportFormat,
    has_separate_vocabularies: bool,
) -> list[str]:
    notes: list[str] = []
    if source.encode("a  b ") != source.encode("a b"):
        notes.append("uwaga strips spaces at both ends of a line and collapses repeated spaces")
    if text.split_above:
        notes.append(
            f"uwaga splits a line of more than {text.split_above} tokens into sentences and translates "
            "them separately (split_above)"
        )
    if text.lower_capitals:
        notes.append("uwaga lower-cases a sentence written in capitals (lower_capitals)")
    limit = min(options.max_length or settings.max_length, settings.max_length)
    if options.max_extra + options.max_ratio < limit:
        notes.append(
            f"uwaga limits a target to {options.max_ratio:g} times the number of source tokens plus "
            f"{options.max_extra}; the folder states only the limit of {limit} tokens"
        )
    if to == "marian" and has_separate_vocabularies:
        notes.append(
            "CTranslate2's converter supports only one vocabulary, so it cannot convert this folder, which "
            "has two"
        )
    if (settings.decoder_heads or settings.heads) != settings.heads:
        notes.append("CTranslate2's converter assumes that encoder and decoder have the same number of heads")
    return notes
