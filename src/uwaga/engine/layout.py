"""The names and shapes of a model's weights in ``model.safetensors``, from its settings.

The engine runs encoder-decoder models (M16), decoder-only models (M18), whose only vocabulary is used for
source and target, and recurrent models (:mod:`uwaga.engine.layout_recurrent`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from uwaga.engine import _core
from uwaga.engine.layout_recurrent import recurrent_products, recurrent_refusal, recurrent_vectors
from uwaga.engine.product import Product, embedding_tables
from uwaga.results.attention import Floats
from uwaga.settings import DecoderOnlySettings, TransformerSettings
from uwaga.settings.recurrent import RecurrentSettings

TransformerLike = TransformerSettings | DecoderOnlySettings
"""Settings of models made of Transformer layers."""
EngineSettings = TransformerLike | RecurrentSettings
"""Settings of the models that the engine runs."""


def engine_refusal(settings: object) -> str | None:
    """Return the end of a message that the engine cannot run a model with these settings; None if it can."""
    if isinstance(settings, RecurrentSettings):
        return recurrent_refusal(settings)
    if not isinstance(settings, TransformerLike):
        return f"Transformers and recurrent models, not the family {getattr(settings, 'family', None)!r}"
    if isinstance(settings, TransformerSettings) and settings.self_attention == "aan":
        return "decoders with self-attention or SSRU, not self_attention: aan"
    return None


@dataclass(frozen=True)
class Sizes:
    """Sizes of a Transformer derived from its settings."""

    encoder_layers: int
    encoder_head_width: int
    decoder_layers: int
    decoder_heads: int
    decoder_head_width: int
    decoder_feed_forward: int

    @classmethod
    def from_settings(cls, settings: TransformerLike) -> Sizes:
        """Return the sizes of a model with these settings."""
        heads, feed_forward = settings.heads, settings.feed_forward
        if isinstance(settings, DecoderOnlySettings):
            encoder_layers, decoder_layers = 0, settings.layers
        else:
            encoder_layers, decoder_layers = settings.encoder_layers, settings.decoder_layers
            heads = settings.decoder_heads or heads
            feed_forward = settings.decoder_feed_forward or feed_forward
        return cls(
            encoder_layers=encoder_layers,
            encoder_head_width=settings.head_width or settings.width // settings.heads,
            decoder_layers=decoder_layers,
            decoder_heads=heads,
            decoder_head_width=settings.head_width or settings.width // heads,
            decoder_feed_forward=feed_forward,
        )


def products(settings: EngineSettings, source: int, target: int) -> Iterator[Product]:
    """Yield the matrices of a model with these vocabulary sizes."""
    if isinstance(settings, RecurrentSettings):
        yield from recurrent_products(settings, source, target)
        return
    if isinstance(settings, DecoderOnlySettings):
        yield from _decoder_only_products(settings, target)
        return
    sizes, width = Sizes.from_settings(settings), settings.width
    inner = settings.heads * sizes.encoder_head_width
    for layer in range(settings.encoder_layers):
        yield from _attention(f"encoder.{layer}.attention", width, inner, settings.attention_bias)
        yield from _feed_forward(f"encoder.{layer}.feed_forward", settings, settings.feed_forward)
    inner = sizes.decoder_heads * sizes.decoder_head_width
    for layer in range(settings.decoder_layers):
        bias = settings.attention_bias
        yield from _self_attention(f"decoder.{layer}", settings, inner)
        cross = f"decoder.{layer}.cross_attention"
        yield Product(f"{cross}.query", (f"{cross}.query",), (inner,), width, bias)
        yield Product(f"{cross}.key_value", (f"{cross}.key_value",), (2 * inner,), width, bias)
        yield Product(f"{cross}.output", (f"{cross}.output",), (width,), inner, bias)
        yield from _feed_forward(f"decoder.{layer}.feed_forward", settings, sizes.decoder_feed_forward)
    yield Product("output", ("output_weight",), (target,), width, False)
    yield from embedding_tables(settings.tie, {"source_embedding": source, "target_embedding": target}, width)


def vectors(settings: EngineSettings, target: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the stored tensors that are not matrices, including positions, by name."""
    if isinstance(settings, RecurrentSettings):
        return recurrent_vectors(settings, target)
    shapes = _positions(settings)
    kinds = ("weight", "bias") if settings.norm_kind == "layer" else ("weight",)
    shapes |= {f"{name}.{kind}": (settings.width,) for name in _norms(settings) for kind in kinds}
    if isinstance(settings, DecoderOnlySettings) and settings.query_key_norm != "none":
        for layer in range(settings.layers):
            for part in ("query", "key"):
                shapes[f"decoder.{layer}.attention.{part}_norm.weight"] = (settings.head_size,)
    if settings.output_bias:
        shapes["output_bias"] = (target,)
    return shapes


def _norms(settings: TransformerLike) -> list[str]:
    sizes = Sizes.from_settings(settings)
    if isinstance(settings, DecoderOnlySettings):
        blocks: tuple[str, ...] = ("attention_norm", "feed_forward_norm")
        if settings.norm == "both":
            blocks += ("attention_after_norm", "feed_forward_after_norm")
        embedding_norms = ["embedding_norm"]
    else:
        blocks = ("self_attention_norm", "cross_attention_norm", "feed_forward_norm")
        embedding_norms = ["source_norm", "target_norm"]
    stacks = (
        ("encoder", sizes.encoder_layers, ("attention_norm", "feed_forward_norm")),
        ("decoder", sizes.decoder_layers, blocks),
    )
    names = [
        f"{stack}.{layer}.{block}"
        for stack, layers, kinds in stacks
        for layer in range(layers)
        for block in kinds
    ]
    if settings.norm != "post":
        names += [f"{stack}_norm" for stack, layers, _ in stacks if layers]
    return names + (embedding_norms if settings.embedding_norm else [])


def _positions(settings: TransformerLike) -> dict[str, tuple[int, ...]]:
    rows = settings.max_length + settings.position_offset
    if isinstance(settings, DecoderOnlySettings):
        return {"positions.weight": (rows, settings.width)} if settings.positions == "learned" else {}
    shapes: dict[str, tuple[int, ...]] = {}
    heads = (settings.heads, settings.decoder_heads or settings.heads)
    for side, count in zip(("source", "target"), heads, strict=True):
        if settings.positions == "learned":
            shapes[f"{side}_positions.weight"] = (rows, settings.width)
        elif settings.positions == "relative":
            shapes[f"{side}_positions.weight"] = (settings.relative_buckets, count)
    return shapes


def stored_shapes(settings: EngineSettings, source: int, target: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all stored tensors of a model with these vocabulary sizes, by name."""
    shapes = vectors(settings, target)
    for product in products(settings, source, target):
        shapes |= product.stored
    return shapes


def _decoder_only_products(settings: DecoderOnlySettings, vocabulary: int) -> Iterator[Product]:
    width, inner, bias = settings.width, settings.heads * settings.head_size, settings.attention_bias
    stored = 2 * settings.groups * settings.head_size  # keys, then values
    output_bias = bias if settings.output_projection_bias is None else settings.output_projection_bias
    for layer in range(settings.layers):
        name = f"decoder.{layer}.attention"
        parts = (f"{name}.query", f"{name}.key_value")
        yield Product(f"{name}.query_key_value", parts, (inner, stored), width, bias)
        yield Product(f"{name}.output", (f"{name}.output",), (width,), inner, output_bias)
        yield from _feed_forward(f"decoder.{layer}.feed_forward", settings, settings.feed_forward)
    yield Product("output", ("output_weight",), (vocabulary,), width, False)
    if not settings.tie_output:
        yield Product("target_embedding", ("embedding.weight",), (vocabulary,), width, False)


def _self_attention(name: str, settings: TransformerSettings, inner: int) -> Iterator[Product]:
    """Yield the matrices of a decoder layer's self-attention or its replacement."""
    width, kind = settings.width, settings.self_attention
    if kind == "attention":
        yield from _attention(f"{name}.self_attention", width, inner, settings.attention_bias)
        return
    if kind == "ssru":
        parts = [("ssru.forget", width, width, True), ("ssru.input", width, width, False)]
    else:
        sizes = settings.aan_sizes
        parts = [(f"aan.layers.{number}", *size, True) for number, size in enumerate(sizes)]
        gates = ("aan.input_gate", "aan.forget_gate") if settings.aan_gate else ()
        parts += [(gate, width, width, True) for gate in gates]
    for part, inputs, outputs, bias in parts:
        yield Product(f"{name}.{part}", (f"{name}.{part}",), (outputs,), inputs, bias)


def _attention(name: str, width: int, inner: int, bias: bool) -> Iterator[Product]:
    parts = (f"{name}.query", f"{name}.key_value")
    yield Product(f"{name}.query_key_value", parts, (inner, 2 * inner), width, bias)
    yield Product(f"{name}.output", (f"{name}.output",), (width,), inner, bias)


def _feed_forward(name: str, settings: TransformerLike, inner: int) -> Iterator[Product]:
    bias, width = settings.feed_forward_bias, settings.width
    for part in ("inner", "gate") if settings.gated else ("inner",):
        yield Product(f"{name}.{part}", (f"{name}.{part}",), (inner,), width, bias)
    yield Product(f"{name}.outer", (f"{name}.outer",), (width,), inner, bias)


SINUSOIDS = {"interleaved": 0, "halves": 1, "tensor2tensor": 2}
"""Values of ``Sinusoids`` in native/transformer/positions.h."""


def sinusoids(settings: TransformerSettings) -> Floats:
    """Return the sinusoids (max_length, width) in the settings' order (Vaswani 2017 §3.5)."""
    order = SINUSOIDS[settings.sinusoids]
    return _core.sinusoids(order, settings.width, settings.position_offset, settings.max_length)


def distances(weight: Floats, settings: TransformerSettings, both_ways: bool) -> Floats:
    """Return the score biases (heads, 2 * reach + 1) for ``key - query`` from ``-reach`` to ``reach``.

    The reach is ``relative_distance``; all larger distances share a bucket (Raffel 2020 §2.1).

    Args:
        weight: (buckets, heads).
        settings: the settings of the model.
        both_ways: True if later keys have separate buckets.
    """
    return _core.distances(
        np.ascontiguousarray(weight, dtype=np.float32), settings.relative_distance, both_ways
    )
