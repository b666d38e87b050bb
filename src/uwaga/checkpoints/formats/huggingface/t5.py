"""T5, T5 1.1, FLAN-T5 and mT5 (Raffel 2020; Chung 2022; Xue 2021)."""

from __future__ import annotations

from collections.abc import Iterator

from uwaga.checkpoints.formats.huggingface.folder import (
    ACTIVATIONS,
    ConfigReader,
    FamilyModel,
    HuggingFaceFolder,
)
from uwaga.checkpoints.weight_map import Table, View
from uwaga.errors import ModelError, quoted
from uwaga.settings import TransformerSettings
from uwaga.tokenizers.pretrained import TokenIds, read_t5_tokeniser

UNSUPPORTED = {"is_decoder": (False,)}
MAX_TARGET_TOKENS = 256
"""Default maximum number of target tokens; the 20 of ``transformers`` would truncate most translations."""

SHARED_EMBEDDING = "shared.weight"
EMBEDDING_COPIES = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
HEAD = "lm_head.weight"
UNUSED_WEIGHTS = ("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",)
"""Names of weights that the first checkpoints contain but the models do not use."""

ATTENTION_MATRICES = (("query", ("q",)), ("key_value", ("k", "v")), ("output", ("o",)))
ENCODER_PARTS = (("attention", "SelfAttention"), ("feed_forward", "DenseReluDense"))
DECODER_PARTS = (
    ("self_attention", "SelfAttention"),
    ("cross_attention", "EncDecAttention"),
    ("feed_forward", "DenseReluDense"),
)
PLAIN_MATRICES = (("inner", ("wi",)), ("outer", ("wo",)))
GATED_MATRICES = (("inner", ("wi_0",)), ("gate", ("wi_1",)), ("outer", ("wo",)))


def read_t5(folder: HuggingFaceFolder) -> FamilyModel:
    """Interpret a T5 or mT5 folder; see :data:`uwaga.checkpoints.formats.huggingface.folder.FamilyReader`."""
    reader = folder.reader
    reader.refuse(UNSUPPORTED)
    size = reader.integer("vocab_size", minimum=4)
    activation, is_gated = _activation(reader)
    layers = reader.integer("num_layers", minimum=1)
    values = {
        "encoder_layers": layers,
        "decoder_layers": reader.integer("num_decoder_layers", layers, minimum=1),
        "width": reader.integer("d_model", minimum=1),
        "heads": reader.integer("num_heads", minimum=1),
        "head_width": reader.integer("d_kv", minimum=1),
        "feed_forward": reader.integer("d_ff", minimum=1),
        "activation": activation,
        "gated": is_gated,
        "norm": "pre",
        "norm_kind": "rms",
        "norm_epsilon": reader.number("layer_norm_epsilon", 1e-6),
        "positions": "relative",
        "relative_buckets": reader.integer("relative_attention_num_buckets", 32, minimum=4),
        "relative_distance": reader.integer("relative_attention_max_distance", 128, minimum=4),
        "embedding_scale": False,
        "attention_bias": False,
        "feed_forward_bias": False,
        "attention_scale": False,
        "output_scale": _scales_output(reader),
        "tie": "all",
        "dropout": 0.0,
    }
    settings = folder.settings(TransformerSettings, values, size)
    pad, end = reader.integer("pad_token_id", 0), reader.integer("eos_token_id", 1)
    start_token = reader.decoder_start_token()
    start = pad if start_token is None else start_token
    reader.check_ids(size, decoder_start_token_id=start, eos_token_id=end, pad_token_id=pad)
    sides = read_t5_tokeniser(folder.path, TokenIds(size, start, end, pad))
    settings = _with_stored_output(settings, folder)
    generation_defaults = {"max_length": MAX_TARGET_TOKENS + 1}
    return FamilyModel(
        settings,
        (size, size),
        sides,
        table(settings),
        folder.tensors,
        generation_defaults=generation_defaults,
    )


def _with_stored_output(settings: TransformerSettings, folder: HuggingFaceFolder) -> TransformerSettings:
    """Return the settings, with an untied output layer if the stored one differs from the embeddings.

    The two differ since version 1.1, in which ``tie_word_embeddings`` controls only the scale of the output.
    """
    tensors, head = folder.tensors, folder.tensors.get(HEAD)
    embeddings = [tensors[name] for name in (SHARED_EMBEDDING, *EMBEDDING_COPIES) if name in tensors]
    if head is None or (folder.with_weights and any(head.equals(embedding) for embedding in embeddings)):
        return settings
    return settings.model_copy(update={"tie": "embeddings"})


def table(settings: TransformerSettings) -> Table:
    """Return the table that maps weights to the tensors of a folder."""
    weights = dict(_blocks("encoder", settings.encoder_layers, ENCODER_PARTS, settings.gated))
    weights |= _blocks("decoder", settings.decoder_layers, DECODER_PARTS, settings.gated)
    for side, stack in (("source", "encoder"), ("target", "decoder")):
        bias = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        weights[f"{side}_positions.weight"] = (View(bias),)
        weights[f"{side}_embedding.weight"] = (View(SHARED_EMBEDDING),)
        weights[f"{stack}_norm.weight"] = (View(f"{stack}.final_layer_norm.weight"),)
    aliases = dict.fromkeys(EMBEDDING_COPIES, SHARED_EMBEDDING)
    weights["output_weight"] = (View(SHARED_EMBEDDING),)
    if settings.tie == "all":
        aliases[HEAD] = SHARED_EMBEDDING
    else:
        weights["output_weight"] = (View(HEAD),)
    return Table(weights, aliases, unused=UNUSED_WEIGHTS)


def _blocks(
    stack: str, layers: int, parts: tuple[tuple[str, str], ...], is_gated: bool
) -> Iterator[tuple[str, tuple[View, ...]]]:
    for layer in range(layers):
        for index, (part, stored_part) in enumerate(parts):
            stored_prefix = f"{stack}.block.{layer}.layer.{index}"
            yield f"{stack}.{layer}.{part}_norm.weight", (View(f"{stored_prefix}.layer_norm.weight"),)
            matrices = (
                (GATED_MATRICES if is_gated else PLAIN_MATRICES)
                if part == "feed_forward"
                else ATTENTION_MATRICES
            )
            for name, stored_matrices in matrices:
                names = tuple(
                    View(f"{stored_prefix}.{stored_part}.{stored_name}.weight")
                    for stored_name in stored_matrices
                )
                yield f"{stack}.{layer}.{part}.{name}.weight", names


def _activation(reader: ConfigReader) -> tuple[str, bool]:
    """Return the activation of the feed-forward layers, and a flag that is True if the layers are gated."""
    name = reader.values.get("feed_forward_proj") or "relu"
    gating, _, inner = str(name).rpartition("-")
    inner = "gelu_new" if name == "gated-gelu" else inner
    if gating not in ("", "gated") or inner not in ACTIVATIONS:
        supported = ", ".join(f"{activation}, gated-{activation}" for activation in ACTIVATIONS)
        raise ModelError(
            f"{reader.path}: 'feed_forward_proj' = {quoted(name)} is not supported; uwaga supports "
            f"{supported}"
        )
    return ACTIVATIONS[inner], gating == "gated"


def _scales_output(reader: ConfigReader) -> bool:
    """Return True if decoder outputs are scaled before the output layer, as in T5 1.0 but never in mT5."""
    if reader.values["model_type"] != "t5":
        return False
    return reader.flag("scale_decoder_outputs", reader.flag("tie_word_embeddings", True))
