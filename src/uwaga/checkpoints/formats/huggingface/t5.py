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
from uwaga.errors import ModelError, shown
from uwaga.settings import TransformerSettings
from uwaga.tokenizers.pretrained import TokenIds, read_t5_tokeniser

UNSUPPORTED = {"is_decoder": (False,)}
LONGEST = 256
"""Target tokens where the folder states no limit: the other library's 20 would cut most translations."""

SHARED = "shared.weight"
COPIES = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
HEAD = "lm_head.weight"
UNUSED = ("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",)
"""Stored with the first checkpoints, read by nothing."""

ATTENTION = (("query", ("q",)), ("key_value", ("k", "v")), ("output", ("o",)))
ENCODER = (("attention", "SelfAttention"), ("feed_forward", "DenseReluDense"))
DECODER = (
    ("self_attention", "SelfAttention"),
    ("cross_attention", "EncDecAttention"),
    ("feed_forward", "DenseReluDense"),
)
PLAIN = (("inner", ("wi",)), ("outer", ("wo",)))
GATED = (("inner", ("wi_0",)), ("gate", ("wi_1",)), ("outer", ("wo",)))


def read_t5(folder: HuggingFaceFolder) -> FamilyModel:
    """Read a T5 or mT5 folder; a :data:`~uwaga.checkpoints.formats.huggingface.folder.FamilyReader`."""
    reader = folder.reader
    reader.refuse(UNSUPPORTED)
    size = reader.whole("vocab_size", least=4)
    activation, gated = _activation(reader)
    layers = reader.whole("num_layers", least=1)
    values = {
        "encoder_layers": layers,
        "decoder_layers": reader.whole("num_decoder_layers", layers, least=1),
        "width": reader.whole("d_model", least=1),
        "heads": reader.whole("num_heads", least=1),
        "head_width": reader.whole("d_kv", least=1),
        "feed_forward": reader.whole("d_ff", least=1),
        "activation": activation,
        "gated": gated,
        "norm": "pre",
        "norm_kind": "rms",
        "norm_epsilon": reader.number("layer_norm_epsilon", 1e-6),
        "positions": "relative",
        "relative_buckets": reader.whole("relative_attention_num_buckets", 32, least=4),
        "relative_distance": reader.whole("relative_attention_max_distance", 128, least=4),
        "embedding_scale": False,
        "attention_bias": False,
        "feed_forward_bias": False,
        "attention_scale": False,
        "output_scale": _output_scale(reader),
        "tie": "all",
        "dropout": 0.0,
    }
    settings = folder.settings(TransformerSettings, values, size)
    pad, end = reader.whole("pad_token_id", 0), reader.whole("eos_token_id", 1)
    stated = reader.stated_start()
    start = pad if stated is None else stated
    reader.within(size, decoder_start_token_id=start, eos_token_id=end, pad_token_id=pad)
    sides = read_t5_tokeniser(folder.path, TokenIds(size, start, end, pad))
    settings = _with_own_output(settings, folder)
    unstated = {"max_length": LONGEST + 1}
    return FamilyModel(settings, (size, size), sides, table(settings), folder.tensors, unstated=unstated)


def _with_own_output(settings: TransformerSettings, folder: HuggingFaceFolder) -> TransformerSettings:
    """Return the settings, with an untied output layer if one is stored that differs from the embeddings.

    Versions 1.1 and later have one; their ``tie_word_embeddings`` concerns the scale of the output.
    """
    tensors, head = folder.tensors, folder.tensors.get(HEAD)
    embeddings = [tensors[name] for name in (SHARED, *COPIES) if name in tensors]
    if head is None or (folder.weighed and any(head.equals(one) for one in embeddings)):
        return settings
    return settings.model_copy(update={"tie": "embeddings"})


def table(settings: TransformerSettings) -> Table:
    """Return the table of weights."""
    weights = dict(_blocks("encoder", settings.encoder_layers, ENCODER, settings.gated))
    weights |= _blocks("decoder", settings.decoder_layers, DECODER, settings.gated)
    for side, stack in (("source", "encoder"), ("target", "decoder")):
        bias = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        weights[f"{side}_positions.weight"] = (View(bias),)
        weights[f"{side}_embedding.weight"] = (View(SHARED),)
        weights[f"{stack}_norm.weight"] = (View(f"{stack}.final_layer_norm.weight"),)
    same = dict.fromkeys(COPIES, SHARED)
    weights["output_weight"] = (View(SHARED),)
    if settings.tie == "all":
        same[HEAD] = SHARED
    else:
        weights["output_weight"] = (View(HEAD),)
    return Table(weights, same, unused=UNUSED)


def _blocks(
    stack: str, layers: int, parts: tuple[tuple[str, str], ...], gated: bool
) -> Iterator[tuple[str, tuple[View, ...]]]:
    for layer in range(layers):
        for place, (ours, theirs) in enumerate(parts):
            there = f"{stack}.block.{layer}.layer.{place}"
            yield f"{stack}.{layer}.{ours}_norm.weight", (View(f"{there}.layer_norm.weight"),)
            inner = (GATED if gated else PLAIN) if ours == "feed_forward" else ATTENTION
            for name, stored in inner:
                names = tuple(View(f"{there}.{theirs}.{one}.weight") for one in stored)
                yield f"{stack}.{layer}.{ours}.{name}.weight", names


def _activation(reader: ConfigReader) -> tuple[str, bool]:
    """Return the activation of the feed-forward layers, and True if it is gated."""
    name = reader.values.get("feed_forward_proj") or "relu"
    gate, _, inner = str(name).rpartition("-")
    inner = "gelu_new" if name == "gated-gelu" else inner
    if gate not in ("", "gated") or inner not in ACTIVATIONS:
        known = ", ".join(f"{one}, gated-{one}" for one in ACTIVATIONS)
        raise ModelError(
            f"{reader.path}: 'feed_forward_proj' = {shown(name)} is not supported; uwaga has {known}"
        )
    return ACTIVATIONS[inner], gate == "gated"


def _output_scale(reader: ConfigReader) -> bool:
    """Return True if features are scaled before the output layer: as in T5 1.0, never in mT5."""
    if reader.values["model_type"] != "t5":
        return False
    return reader.flag("scale_decoder_outputs", reader.flag("tie_word_embeddings", True))
