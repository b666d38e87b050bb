"""Which weights a Transformer of given settings has, under the names of ``model.safetensors``.

A source vocabulary of 0 tokens means a decoder without a source (M18): no encoder, no cross-attention.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from uwaga.settings import TransformerSettings

TABLES: Mapping[str, Mapping[str, str]] = {
    "all": {"source_embedding": "output_weight", "target_embedding": "output_weight"},
    "decoder": {"source_embedding": "source_embedding.weight", "target_embedding": "output_weight"},
    "embeddings": {
        "source_embedding": "source_embedding.weight",
        "target_embedding": "source_embedding.weight",
    },
    "none": {"source_embedding": "source_embedding.weight", "target_embedding": "target_embedding.weight"},
}
"""By ``settings.tie``: where each side's embeddings are stored, a tied table once."""
TIED = ("all", "decoder")
"""Of ``settings.tie``: what shares the decoder's embeddings with the output."""


@dataclass(frozen=True)
class Sizes:
    """What the engine must know of a Transformer beside its settings, worked out."""

    encoder_head_width: int
    decoder_heads: int
    decoder_head_width: int
    decoder_feed_forward: int

    @classmethod
    def of(cls, settings: TransformerSettings) -> Sizes:
        """The sizes that the settings leave to be inferred."""
        heads = settings.decoder_heads or settings.heads
        return cls(
            encoder_head_width=settings.head_width or settings.width // settings.heads,
            decoder_heads=heads,
            decoder_head_width=settings.head_width or settings.width // heads,
            decoder_feed_forward=settings.decoder_feed_forward or settings.feed_forward,
        )


@dataclass(frozen=True)
class Product:
    """A matrix of the engine: stored weights (outputs, inputs) put one below the other, with their biases.

    ``parts`` are the stored names without ``.weight``; those in :data:`TABLES` are whole names.
    """

    name: str
    parts: tuple[str, ...]
    outputs: tuple[int, ...]
    inputs: int
    bias: bool

    @property
    def stored(self) -> dict[str, tuple[int, ...]]:
        """The stored tensors that make it, with their shapes."""
        shapes: dict[str, tuple[int, ...]] = {}
        for part, outputs in zip(self.parts, self.outputs, strict=True):
            shapes[weight_name(part)] = (outputs, self.inputs)
            if self.bias:
                shapes[f"{part}.bias"] = (outputs,)
        return shapes


def weight_name(part: str) -> str:
    """The stored name of a part's matrix."""
    return part if part.endswith("weight") else f"{part}.weight"


def products(settings: TransformerSettings, source: int, target: int) -> Iterator[Product]:
    """The matrices of a model with these vocabularies."""
    if not source:
        yield from _products_alone(settings, target)
        return
    sizes, width = Sizes.of(settings), settings.width
    inner = settings.heads * sizes.encoder_head_width
    for layer in range(settings.encoder_layers):
        yield from _attention(f"encoder.{layer}.attention", width, inner, settings.attention_bias)
        yield from _feed_forward(f"encoder.{layer}.feed_forward", settings, settings.feed_forward)
    inner = sizes.decoder_heads * sizes.decoder_head_width
    for layer in range(settings.decoder_layers):
        bias = settings.attention_bias
        yield from _attention(f"decoder.{layer}.self_attention", width, inner, bias)
        cross = f"decoder.{layer}.cross_attention"
        yield Product(f"{cross}.query", (f"{cross}.query",), (inner,), width, bias)
        yield Product(f"{cross}.key_value", (f"{cross}.key_value",), (2 * inner,), width, bias)
        yield Product(f"{cross}.output", (f"{cross}.output",), (width,), inner, bias)
        yield from _feed_forward(f"decoder.{layer}.feed_forward", settings, sizes.decoder_feed_forward)
    yield Product("output", ("output_weight",), (target,), width, False)
    seen = {"output_weight"}
    for name, size in (("source_embedding", source), ("target_embedding", target)):
        stored = TABLES[settings.tie][name]
        if stored not in seen:
            seen.add(stored)
            yield Product(name, (stored,), (size,), width, False)


def vectors(settings: TransformerSettings, source: int, target: int) -> dict[str, tuple[int, ...]]:
    """The stored tensors that are no matrices, with their shapes; positions too."""
    shapes = _positions(settings, source)
    kinds = ("weight", "bias") if settings.norm_kind == "layer" else ("weight",)
    names = _norms(settings) if source else _norms_alone(settings)
    shapes |= {f"{name}.{kind}": (settings.width,) for name in names for kind in kinds}
    if settings.output_bias:
        shapes["output_bias"] = (target,)
    return shapes


def _norms(settings: TransformerSettings) -> list[str]:
    names = []
    for stack, layers, blocks in (
        ("encoder", settings.encoder_layers, ("attention_norm", "feed_forward_norm")),
        (
            "decoder",
            settings.decoder_layers,
            ("self_attention_norm", "cross_attention_norm", "feed_forward_norm"),
        ),
    ):
        names += [f"{stack}.{layer}.{block}" for layer in range(layers) for block in blocks]
    if settings.norm == "pre":
        names += ["encoder_norm", "decoder_norm"]
    if settings.embedding_norm:
        names += ["source_norm", "target_norm"]
    return names


def _norms_alone(settings: TransformerSettings) -> list[str]:
    blocks = ("attention_norm", "feed_forward_norm")
    names = [f"decoder.{layer}.{block}" for layer in range(settings.decoder_layers) for block in blocks]
    names += ["decoder_norm"] if settings.norm == "pre" else []
    return names + (["embedding_norm"] if settings.embedding_norm else [])


def _positions(settings: TransformerSettings, source: int) -> dict[str, tuple[int, ...]]:
    rows = settings.max_length + settings.position_offset
    if not source:
        return {"positions.weight": (rows, settings.width)}
    shapes: dict[str, tuple[int, ...]] = {}
    heads = (settings.heads, settings.decoder_heads or settings.heads)
    for side, count in zip(("source", "target"), heads, strict=True):
        if settings.positions == "learned":
            shapes[f"{side}_positions.weight"] = (rows, settings.width)
        elif settings.positions == "relative":
            shapes[f"{side}_positions.weight"] = (settings.relative_buckets, count)
    return shapes


def stored_shapes(settings: TransformerSettings, source: int, target: int) -> dict[str, tuple[int, ...]]:
    """Every stored tensor of a model with these vocabularies and its shape."""
    shapes = vectors(settings, source, target)
    for product in products(settings, source, target):
        shapes |= product.stored
    return shapes


def _products_alone(settings: TransformerSettings, target: int) -> Iterator[Product]:
    settings.check_alone()
    width = settings.width
    inner = settings.heads * (settings.head_width or width // settings.heads)
    for layer in range(settings.decoder_layers):
        yield from _attention(f"decoder.{layer}.attention", width, inner, settings.attention_bias)
        yield from _feed_forward(f"decoder.{layer}.feed_forward", settings, settings.feed_forward)
    yield Product("output", ("output_weight",), (target,), width, False)
    if settings.tie not in TIED:
        yield Product("target_embedding", ("embedding.weight",), (target,), width, False)


def _attention(name: str, width: int, inner: int, bias: bool) -> Iterator[Product]:
    parts = (f"{name}.query", f"{name}.key_value")
    yield Product(f"{name}.query_key_value", parts, (inner, 2 * inner), width, bias)
    yield Product(f"{name}.output", (f"{name}.output",), (width,), inner, bias)


def _feed_forward(name: str, settings: TransformerSettings, inner: int) -> Iterator[Product]:
    bias, width = settings.feed_forward_bias, settings.width
    for part in ("inner", "gate") if settings.gated else ("inner",):
        yield Product(f"{name}.{part}", (f"{name}.{part}",), (inner,), width, bias)
    yield Product(f"{name}.outer", (f"{name}.outer",), (width,), inner, bias)
