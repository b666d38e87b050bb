"""The matrices of the engine and the stored tensors that they consist of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

EMBEDDING_TABLES: Mapping[str, Mapping[str, str]] = {
    "all": {"source_embedding": "output_weight", "target_embedding": "output_weight"},
    "decoder": {"source_embedding": "source_embedding.weight", "target_embedding": "output_weight"},
    "embeddings": {
        "source_embedding": "source_embedding.weight",
        "target_embedding": "source_embedding.weight",
    },
    "none": {"source_embedding": "source_embedding.weight", "target_embedding": "target_embedding.weight"},
}
"""Stored name of each embedding table, by ``settings.tie``; tied tables are stored once."""


@dataclass(frozen=True)
class Product:
    """A matrix of the engine: stored weights (outputs, inputs) stacked along the outputs, with their biases.

    ``parts`` are the stored names without ``.weight``; names that end in ``weight`` or ``_l0`` are complete.
    A product with a ``shape`` is a block of its only part, which has that shape, starting at output ``first``
    and input ``column``.
    """

    name: str
    parts: tuple[str, ...]
    outputs: tuple[int, ...]
    inputs: int
    bias: bool
    shape: tuple[int, int] | None = None
    first: int = 0
    column: int = 0

    @property
    def rows(self) -> slice:
        """The block's outputs."""
        return slice(self.first, self.first + sum(self.outputs))

    @property
    def columns(self) -> slice:
        """The block's inputs."""
        return slice(self.column, self.column + self.inputs)

    @property
    def stored(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the stored tensors by name."""
        shapes: dict[str, tuple[int, ...]] = {}
        for part, outputs in zip(self.parts, self.outputs, strict=True):
            shape = self.shape or (outputs, self.inputs)
            shapes[weight_name(part)] = shape
            if self.bias:
                shapes[bias_name(part)] = shape[:1]
        return shapes


def weight_name(part: str) -> str:
    """Return the stored name of a part's weight."""
    return part if part.endswith(("weight", "_l0")) else f"{part}.weight"


def bias_name(part: str) -> str:
    """Return the stored name of a part's bias."""
    stem, dot, leaf = part.rpartition(".")
    return f"{stem}{dot}{leaf.replace('weight', 'bias')}" if leaf.endswith("_l0") else f"{part}.bias"


def embedding_tables(tie: str, sizes: Mapping[str, int], width: int) -> list[Product]:
    """Return the embedding tables that are stored separately from the output layer.

    Args:
        tie: the shared tables, a key of :data:`EMBEDDING_TABLES`.
        sizes: vocabulary of ``source_embedding`` and ``target_embedding``.
        width: of the embeddings.
    """
    products: dict[str, Product] = {}
    for name, size in sizes.items():
        stored = EMBEDDING_TABLES[tie][name]
        if stored != "output_weight" and stored not in products:
            products[stored] = Product(name, (stored,), (size,), width, False)
    return list(products.values())
