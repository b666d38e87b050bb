"""The layout that Marian, BART, mBART, Pegasus and M2M100 share: names of weights and common settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from uwaga.checkpoints.formats.huggingface.config import ConfigReader
from uwaga.checkpoints.storage.tensors import StoredTensor
from uwaga.checkpoints.weight_map import Table, View, is_constant
from uwaga.engine.layout import sinusoids
from uwaga.settings import TransformerSettings

ENCODER = (("attention", "self_attn"), ("attention_norm", "self_attn_layer_norm"))
DECODER = (
    ("self_attention", "self_attn"),
    ("self_attention_norm", "self_attn_layer_norm"),
    ("cross_attention", "encoder_attn"),
    ("cross_attention_norm", "encoder_attn_layer_norm"),
)
BOTH = (
    ("feed_forward.inner", "fc1"),
    ("feed_forward.outer", "fc2"),
    ("feed_forward_norm", "final_layer_norm"),
)
ATTENTION = (("query", ("q_proj",)), ("key_value", ("k_proj", "v_proj")), ("output", ("out_proj",)))
KINDS = ("weight", "bias")
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")


def common_settings(reader: ConfigReader, activation: str = "gelu", scaled: bool = False) -> dict[str, Any]:
    """The settings that all these families write alike.

    Args:
        reader: of ``config.json``.
        activation: the activation function where it names none.
        scaled: whether embeddings are scaled where it does not say so.
    """
    reader.refuse({"scale_attention": (False,), "layernorm_embedding": (True, False)})
    return {
        "encoder_layers": reader.whole("encoder_layers", least=1),
        "decoder_layers": reader.whole("decoder_layers", least=1),
        "width": reader.whole("d_model", least=1),
        "heads": reader.whole("encoder_attention_heads", least=1),
        "decoder_heads": reader.whole("decoder_attention_heads", least=1),
        "feed_forward": reader.whole("encoder_ffn_dim", least=1),
        "decoder_feed_forward": reader.whole("decoder_ffn_dim", least=1),
        "activation": reader.activation("activation_function", activation),
        "max_length": reader.whole("max_position_embeddings", least=1),
        "embedding_scale": reader.flag("scale_embedding", scaled),
        "output_bias": True,
        "dropout": 0.0,
    }


def with_own_positions(
    settings: TransformerSettings, tensors: Mapping[str, StoredTensor]
) -> TransformerSettings:
    """The settings, with learned positions where the stored ones are not the family's sinusoids.

    `transformers` and CTranslate2's converter take a stored table as it is, and so does this;
    :mod:`uwaga.checkpoints.formats.huggingface.export` writes such ones.
    """
    shape = (settings.max_length, settings.width)
    stored = [tensors[name] for name in POSITIONS if name in tensors and tensors[name].shape == shape]
    if all(is_constant(one, sinusoids(settings)) for one in stored):
        return settings
    return settings.model_copy(update={"positions": "learned"})


def table(settings: TransformerSettings, shared: bool) -> Table:
    """Where each weight of a model is stored; ``shared``: one embedding for both sides."""
    weights = dict(_blocks("encoder", settings.encoder_layers, (*ENCODER, *BOTH)))
    weights |= _blocks("decoder", settings.decoder_layers, (*DECODER, *BOTH))
    same = {"lm_head.weight": "model.decoder.embed_tokens.weight"}
    if shared:
        copies = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")
        same = dict.fromkeys((*copies, "lm_head.weight"), "model.shared.weight")
    sides = (("source", "encoder"), ("target", "decoder"))
    for side, stack in sides:
        name = f"model.{stack}.embed_tokens.weight"
        weights[f"{side}_embedding.weight"] = (View(same.get(name, name)),)
        if settings.positions == "learned":
            weights[f"{side}_positions.weight"] = (View(f"model.{stack}.embed_positions.weight"),)
        for kind in KINDS:
            if settings.norm == "pre":
                weights[f"{stack}_norm.{kind}"] = (View(f"model.{stack}.layer_norm.{kind}"),)
            if settings.embedding_norm:
                weights[f"{side}_norm.{kind}"] = (View(f"model.{stack}.layernorm_embedding.{kind}"),)
    if settings.tie == "none":
        same.pop("lm_head.weight")
        weights["output_weight"] = (View("lm_head.weight"),)
    else:
        weights["output_weight"] = (View(same["lm_head.weight"]),)
    zero = {"output_bias"} if settings.output_bias else set()
    if settings.output_bias:
        weights["output_bias"] = (View("final_logits_bias"),)
    computed = ((settings.max_length, settings.width), partial(sinusoids, settings))
    constant = dict.fromkeys(POSITIONS, computed) if settings.positions == "sinusoidal" else {}
    return Table(weights, same, constant, ("model.encoder.version", "model.decoder.version"), zero)


def _blocks(
    stack: str, layers: int, parts: tuple[tuple[str, str], ...]
) -> Iterator[tuple[str, tuple[View, ...]]]:
    for layer in range(layers):
        for ours, theirs in parts:
            inner = ATTENTION if ours.endswith("attention") else (("", ("",)),)
            for name, stored in inner:
                for kind in KINDS:
                    full = ".".join(filter(None, (stack, str(layer), ours, name, kind)))
                    names = (
                        ".".join(filter(None, ("model", stack, "layers", str(layer), theirs, one, kind)))
                        for one in stored
                    )
                    yield full, tuple(map(View, names))
