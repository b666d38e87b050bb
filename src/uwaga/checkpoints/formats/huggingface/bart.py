"""BART (Lewis et al. 2019), mBART (Liu et al. 2020; Tang et al. 2020) and M2M-100 (Fan et al. 2020)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from uwaga.checkpoints.formats.huggingface.folder import (
    GENERATION,
    ConfigReader,
    FamilyModel,
    HuggingFaceFolder,
)
from uwaga.checkpoints.storage.json_file import read_optional
from uwaga.checkpoints.storage.tensors import StoredTensor
from uwaga.checkpoints.weight_map import Table, View, is_constant
from uwaga.engine.layout import sinusoids
from uwaga.results.attention import Floats
from uwaga.settings import TransformerSettings
from uwaga.tokenizers.multilingual import read_m2m100_tokeniser, read_mbart_tokeniser, read_nllb_tokeniser
from uwaga.tokenizers.pretrained import TokenIds, TokeniserPair, read_bart_tokeniser

ENCODER_PARTS = (("attention", "self_attn"), ("attention_norm", "self_attn_layer_norm"))
DECODER_PARTS = (
    ("self_attention", "self_attn"),
    ("self_attention_norm", "self_attn_layer_norm"),
    ("cross_attention", "encoder_attn"),
    ("cross_attention_norm", "encoder_attn_layer_norm"),
)
COMMON_PARTS = (
    ("feed_forward.inner", "fc1"),
    ("feed_forward.outer", "fc2"),
    ("feed_forward_norm", "final_layer_norm"),
)
ATTENTION_MATRICES = (("query", ("q_proj",)), ("key_value", ("k_proj", "v_proj")), ("output", ("out_proj",)))
PARAMETERS = ("weight", "bias")
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")


def common_settings(
    reader: ConfigReader, activation: str = "gelu", scales_embedding: bool = False
) -> dict[str, Any]:
    """Return the settings that all families in this module store under the same keys.

    Args:
        reader: reader of ``config.json``.
        activation: name of the default activation function.
        scales_embedding: the default of ``scale_embedding``.
    """
    reader.refuse({"scale_attention": (False,), "layernorm_embedding": (True, False)})
    return {
        "encoder_layers": reader.integer("encoder_layers", minimum=1),
        "decoder_layers": reader.integer("decoder_layers", minimum=1),
        "width": reader.integer("d_model", minimum=1),
        "heads": reader.integer("encoder_attention_heads", minimum=1),
        "decoder_heads": reader.integer("decoder_attention_heads", minimum=1),
        "feed_forward": reader.integer("encoder_ffn_dim", minimum=1),
        "decoder_feed_forward": reader.integer("decoder_ffn_dim", minimum=1),
        "activation": reader.activation("activation_function", activation),
        "max_length": reader.integer("max_position_embeddings", minimum=1),
        "embedding_scale": reader.flag("scale_embedding", scales_embedding),
        "output_bias": True,
        "dropout": 0.0,
    }


def with_stored_positions(
    settings: TransformerSettings, tensors: Mapping[str, StoredTensor]
) -> TransformerSettings:
    """Return the settings, with learned positions if the stored tables are not the family's sinusoids.

    `transformers` and CTranslate2's converter also use stored tables unchanged.
    :mod:`uwaga.checkpoints.formats.huggingface.export` writes such tables.
    """
    shape = (settings.max_length, settings.width)
    stored_tables = [tensors[name] for name in POSITIONS if name in tensors and tensors[name].shape == shape]
    if all(is_constant(tensor, sinusoids(settings)) for tensor in stored_tables):
        return settings
    return settings.model_copy(update={"positions": "learned"})


def table(settings: TransformerSettings, is_shared: bool) -> Table:
    """Return the table of a model's weights; ``is_shared`` is True if both sides share one embedding."""
    weights = dict(_blocks("encoder", settings.encoder_layers, (*ENCODER_PARTS, *COMMON_PARTS)))
    weights |= _blocks("decoder", settings.decoder_layers, (*DECODER_PARTS, *COMMON_PARTS))
    aliases = {"lm_head.weight": "model.decoder.embed_tokens.weight"}
    if is_shared:
        copies = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")
        aliases = dict.fromkeys((*copies, "lm_head.weight"), "model.shared.weight")
    sides = (("source", "encoder"), ("target", "decoder"))
    for side, stack in sides:
        name = f"model.{stack}.embed_tokens.weight"
        weights[f"{side}_embedding.weight"] = (View(aliases.get(name, name)),)
        if settings.positions == "learned":
            weights[f"{side}_positions.weight"] = (View(f"model.{stack}.embed_positions.weight"),)
        for kind in PARAMETERS:
            if settings.norm == "pre":
                weights[f"{stack}_norm.{kind}"] = (View(f"model.{stack}.layer_norm.{kind}"),)
            if settings.embedding_norm:
                weights[f"{side}_norm.{kind}"] = (View(f"model.{stack}.layernorm_embedding.{kind}"),)
    if settings.tie == "none":
        aliases.pop("lm_head.weight")
        weights["output_weight"] = (View("lm_head.weight"),)
    else:
        weights["output_weight"] = (View(aliases["lm_head.weight"]),)
    optional_weights = {"output_bias"} if settings.output_bias else set()
    if settings.output_bias:
        weights["output_bias"] = (View("final_logits_bias"),)
    position_table = ((settings.max_length, settings.width), partial(sinusoids, settings))
    constant = dict.fromkeys(POSITIONS, position_table) if settings.positions == "sinusoidal" else {}
    return Table(
        weights, aliases, constant, ("model.encoder.version", "model.decoder.version"), optional_weights
    )


def _blocks(
    stack: str, layers: int, parts: tuple[tuple[str, str], ...]
) -> Iterator[tuple[str, tuple[View, ...]]]:
    for layer in range(layers):
        for part, stored_part in parts:
            matrices = ATTENTION_MATRICES if part.endswith("attention") else (("", ("",)),)
            for name, stored_matrices in matrices:
                for kind in PARAMETERS:
                    weight_name = ".".join(filter(None, (stack, str(layer), part, name, kind)))
                    names = (
                        ".".join(
                            filter(
                                None, ("model", stack, "layers", str(layer), stored_part, stored_name, kind)
                            )
                        )
                        for stored_name in stored_matrices
                    )
                    yield weight_name, tuple(map(View, names))


MAX_TARGET_TOKENS = 256
"""Default maximum number of target tokens; the 20 of ``transformers`` would truncate most texts."""

HEADLESS_PREFIXES = ("shared.", "encoder.", "decoder.")
"""Prefixes of the weight names of a model without an output layer, such as ``BartModel``."""

SHARED_EMBEDDING = "model.shared.weight"
EMBEDDINGS = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")


@dataclass(frozen=True)
class Traits:
    """The properties that distinguish a family.

    Attributes:
        settings: settings of the Transformer that ``config.json`` does not state.
        unsupported: keys of features that uwaga does not support, with the values that disable them.
        tokenisers: function that reads the tokenisers.
        activation: name of the default activation function.
        scales_embedding: the default of ``scale_embedding``.
        start: the default of ``decoder_start_token_id``.
        end, pad: the defaults of ``eos_token_id`` and ``pad_token_id``.
        forces_end: True if a target of maximum length is by default forced to end with the end symbol.
        stored_positions: True if stored position tables that are not sinusoids are read as learned positions.
        table: function that returns the table of a model's weights.
    """

    settings: Mapping[str, Any]
    unsupported: Mapping[str, tuple[object, ...]]
    tokenisers: Callable[[Path, TokenIds], TokeniserPair]
    activation: str = "gelu"
    scales_embedding: bool = False
    start: int | None = None
    end: int = 2
    pad: int = 1
    forces_end: bool = True
    stored_positions: bool = False
    table: Callable[[TransformerSettings, bool], Table] = field(default=table)


def read_seq2seq(traits: Traits, folder: HuggingFaceFolder) -> FamilyModel:
    """Interpret a folder of a sequence-to-sequence family with the given traits."""
    reader = folder.reader
    reader.refuse(traits.unsupported)
    size = reader.integer("vocab_size", minimum=4)
    is_tied = reader.flag("tie_word_embeddings", True)
    values = common_settings(reader, traits.activation, traits.scales_embedding)
    values |= {**traits.settings, "tie": "all" if is_tied else "none"}
    settings = folder.settings(TransformerSettings, values, size)
    end, pad = reader.integer("eos_token_id", traits.end), reader.integer("pad_token_id", traits.pad)
    start = reader.decoder_start_token()
    start = traits.start if start is None else start
    token_ids = {"eos_token_id": end, "pad_token_id": pad}
    reader.check_ids(size, **token_ids, **({} if start is None else {"decoder_start_token_id": start}))
    sides = traits.tokenisers(folder.path, TokenIds(size, start, end, pad))
    tensors = with_full_names(folder.tensors, is_tied)
    if traits.stored_positions:
        settings = with_stored_positions(settings, tensors)
    return FamilyModel(
        settings,
        (size, size),
        sides,
        traits.table(settings, is_tied),
        tensors,
        generation_defaults=_generation_defaults(traits, reader, end),
    )


def with_full_names(stored_tensors: Mapping[str, StoredTensor], is_shared: bool) -> dict[str, StoredTensor]:
    """Return the tensors under the names that they have in a model with an output layer.

    Args:
        stored_tensors: the stored tensors by name.
        is_shared: True if both sides share one embedding. If it is False, an embedding that is stored only
            once is used for both sides.
    """
    values = {
        f"model.{name}" if name.startswith(HEADLESS_PREFIXES) else name: tensor
        for name, tensor in stored_tensors.items()
    }
    if not is_shared and SHARED_EMBEDDING in values:
        shared_tensor = values.pop(SHARED_EMBEDDING)
        for name in EMBEDDINGS:
            values.setdefault(name, shared_tensor)
    return values


def _generation_defaults(traits: Traits, reader: ConfigReader, end: int) -> dict[str, Any]:
    """Return the generation settings that the folder leaves to the defaults of `transformers`."""
    defaults: dict[str, Any] = {"max_length": MAX_TARGET_TOKENS + 1}
    if (reader.path.parent / GENERATION).exists():
        return defaults
    if traits.forces_end:
        defaults["forced_eos_token_id"] = end
    # Until 2021, this key was used instead of forced_bos_token_id.
    if reader.flag("force_bos_token_to_be_generated", False):
        defaults["forced_bos_token_id"] = reader.integer("bos_token_id", 0)
    return defaults


OFFSET = 2
"""Number of unused rows at the beginning of the position table."""

BART_TRAITS = Traits(
    settings={"norm": "post", "positions": "learned", "position_offset": OFFSET, "embedding_norm": True},
    unsupported={
        "normalize_before": (False,),
        "normalize_embedding": (True,),
        "add_final_layer_norm": (False,),
        "add_bias_logits": (False,),
        "static_position_embeddings": (False,),
    },
    tokenisers=read_bart_tokeniser,
    start=2,
)


def read_bart(folder: HuggingFaceFolder) -> FamilyModel:
    """Interpret a BART folder; see :data:`uwaga.checkpoints.formats.huggingface.folder.FamilyReader`."""
    return read_seq2seq(BART_TRAITS, folder)


MBART_TRAITS = Traits(
    settings={"norm": "pre", "positions": "learned", "position_offset": OFFSET, "embedding_norm": True},
    unsupported={
        "normalize_before": (True,),
        "normalize_embedding": (True,),
        "add_final_layer_norm": (True,),
        "add_bias_logits": (False,),
        "static_position_embeddings": (False,),
    },
    tokenisers=read_mbart_tokeniser,
)


def read_mbart(folder: HuggingFaceFolder) -> FamilyModel:
    """Interpret an mBART folder; see :data:`uwaga.checkpoints.formats.huggingface.folder.FamilyReader`.

    In models of 25 languages, decoding starts from the target language's token. In models of 50 languages it
    starts from the end symbol, and the first token is forced to be the target language's.
    """
    return read_seq2seq(MBART_TRAITS, folder)


M2M100_START, M2M100_PAD = 2, 1
SPARE_ROWS = 2
"""Number of rows of a stored position table beyond the maximum length."""


def read_m2m100(folder: HuggingFaceFolder) -> FamilyModel:
    """Interpret an M2M-100 or NLLB folder; see :data:`.FamilyReader`.

    Positions start after the padding symbol's id: the first token has position ``pad + 1``.
    """
    traits = Traits(
        settings={
            "norm": "pre",
            "positions": "sinusoidal",
            "sinusoids": "tensor2tensor",
            "position_offset": folder.reader.integer("pad_token_id", M2M100_PAD) + 1,
            "output_bias": False,
        },
        unsupported={},
        tokenisers=read_nllb_tokeniser if is_nllb(folder) else read_m2m100_tokeniser,
        activation="relu",
        scales_embedding=True,
        start=M2M100_START,
        pad=M2M100_PAD,
        forces_end=False,
        table=m2m100_table,
    )
    return read_seq2seq(traits, folder)


def is_nllb(folder: HuggingFaceFolder) -> bool:
    """Return True if the folder has NLLB's tokeniser, judging by the stated class or else by its files."""
    for values in (read_optional(folder.path / "tokenizer_config.json"), folder.config):
        name = str(values.get("tokenizer_class") or "").lower()
        if name.startswith(("nllb", "m2m100")):
            return name.startswith("nllb")
    return not (folder.path / "vocab.json").exists()


def m2m100_table(settings: TransformerSettings, is_shared: bool) -> Table:
    """Return the table of weights; early files also contain the positions, under another name."""

    def padded_sinusoids() -> Floats:
        overrides = {"max_length": settings.max_length + SPARE_ROWS, "position_offset": 0}
        positions = sinusoids(settings.model_copy(update=overrides))
        positions[settings.position_offset - 1] = 0.0  # the row of the padding symbol
        return positions

    shape = (settings.max_length + SPARE_ROWS, settings.width)
    constant = {f"{name}s": (shape, padded_sinusoids) for name in POSITIONS}
    return replace(table(settings, is_shared), constant=constant)
