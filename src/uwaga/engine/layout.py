"""The sizes of a model on the engine, and the names and shapes of its weights, derived from its settings.

The engine runs encoder-decoder models (M16), decoder-only models (M18), whose only vocabulary is used for
source and target, and recurrent models (M11 to M15). The core lists the weights of all of them, for the C
library too (``native/checkpoints/settings.h``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from uwaga.engine import _core
from uwaga.results.attention import Floats
from uwaga.settings import DecoderOnlySettings, TransformerSettings
from uwaga.settings.recurrent import BahdanauSettings, GnmtSettings, LuongSettings, RecurrentSettings

Precision = Literal["float32", "bfloat16", "int8", "int4"]
TransformerLike = TransformerSettings | DecoderOnlySettings
"""Settings of models made of Transformer layers."""
EngineSettings = TransformerLike | RecurrentSettings
"""Settings of the models that the engine runs."""
AttentionSettings = BahdanauSettings | LuongSettings | GnmtSettings
"""Settings of recurrent models with attention."""


def unsupported_reason(settings: object) -> str | None:
    """Return the end of the message "the native engine runs …" for settings that it cannot run.

    The result is None if the engine can run them.
    """
    if isinstance(settings, RecurrentSettings):
        if isinstance(settings, AttentionSettings) and settings.score not in _core.SCORES:
            return f"attention with the scores {', '.join(_core.SCORES)}, not {settings.score!r}"
        return None
    if not isinstance(settings, TransformerLike):
        return f"Transformers and recurrent models, not the family {getattr(settings, 'family', None)!r}"
    if isinstance(settings, TransformerSettings) and settings.self_attention == "aan":
        return "decoders with self-attention or SSRU, not with average attention (self_attention: aan)"
    return None


class Sizes(NamedTuple):
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


class Product(NamedTuple):
    """A matrix of the engine: stored weights (outputs, inputs) stacked along the outputs, with their biases.

    Attributes:
        name: the name of the matrix.
        weights: the names of the stored weights.
        biases: the names of the stored biases; empty if there are none.
        outputs: the number of outputs of each weight.
        inputs: the number of inputs.
        shape: for a block of a larger weight, the shape of that weight, otherwise None.
        first: the first row (output) of the stored weight that the block occupies.
        column: the first column (input) of the stored weight that the block occupies.
    """

    name: str
    weights: list[str]
    biases: list[str]
    outputs: tuple[int, ...]
    inputs: int
    shape: tuple[int, int] | None = None
    first: int = 0
    column: int = 0

    @property
    def rows(self) -> slice:
        """The slice of the stored weight's rows (outputs) that the block occupies."""
        return slice(self.first, self.first + sum(self.outputs))

    @property
    def columns(self) -> slice:
        """The slice of the stored weight's columns (inputs) that the block occupies."""
        return slice(self.column, self.column + self.inputs)


def products(settings: EngineSettings, source: int, target: int, location: str = "settings") -> list[Product]:
    """Return the matrices of a model.

    Args:
        settings: settings of the model.
        source: size of the source vocabulary.
        target: size of the target vocabulary.
        location: the file of the settings, for messages.
    """
    matrices = _core.matrices(settings.model_dump_json(), source, target, location)
    return [Product(*values) for values in matrices]


def vectors(settings: EngineSettings, target: int, location: str = "settings") -> dict[str, tuple[int, ...]]:
    """Return the shapes of the stored tensors that are not matrices, including positions, by name.

    Args:
        settings: settings of the model.
        target: size of the target vocabulary.
        location: the file of the settings, for messages.
    """
    return _core.vectors(settings.model_dump_json(), target, location)


def stored_shapes(
    settings: EngineSettings, source: int, target: int, location: str = "settings"
) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all stored tensors of a model by name; arguments are those of :func:`products`."""
    shapes = vectors(settings, target, location)
    for product in products(settings, source, target, location):
        for weight, outputs in zip(product.weights, product.outputs, strict=True):
            shapes[weight] = product.shape or (outputs, product.inputs)
        for bias, weight in zip(product.biases, product.weights, strict=False):
            shapes[bias] = shapes[weight][:1]
    return shapes


class MatrixLayout(NamedTuple):
    """A matrix in an int8 or int4 folder.

    ``arrays`` are the names of the tensors of its panels and, if they are integers, of its scales and sums.
    """

    precision: Precision
    outputs: int
    inputs: int
    arrays: tuple[str, ...]


class TensorLayout(NamedTuple):
    """A tensor in an int8 or int4 folder: the name of its number format, and its shape."""

    number_format: str
    shape: tuple[int, ...]


class PackedLayout(NamedTuple):
    """The matrices and tensors of an int8 or int4 folder by name; a matrix is stored as several tensors."""

    matrices: dict[str, MatrixLayout]
    tensors: dict[str, TensorLayout]

    @classmethod
    def for_settings(
        cls,
        settings: EngineSettings,
        source: int,
        target: int,
        precision: Precision,
        unquantised_names: Sequence[str],
        location: str = "settings",
    ) -> PackedLayout:
        """Return the layout of a model.

        Args:
            settings: settings of the model.
            source: size of the source vocabulary.
            target: size of the target vocabulary.
            precision: number format of the matrices, int8 or int4.
            unquantised_names: names of the matrices that are kept at a higher precision.
            location: the file of the settings, for messages.
        """
        matrices, other_tensors = _core.packed_layout(
            settings.model_dump_json(), source, target, precision == "int8", list(unquantised_names), location
        )
        arrays = [array for *_, matrix_arrays in matrices for array in matrix_arrays]
        return cls(
            {
                name: MatrixLayout(matrix_precision, outputs, inputs, tuple(array for array, *_ in names))
                for name, matrix_precision, outputs, inputs, names in matrices
            },
            {
                name: TensorLayout(number_format, shape)
                for name, number_format, shape in [*arrays, *other_tensors]
            },
        )


def memory_width(settings: RecurrentSettings) -> int:
    """Return the number of values in the memory of a recurrent model per source token."""
    if not isinstance(settings, AttentionSettings):
        return 0
    annotations = 2 * settings.hidden if isinstance(settings, BahdanauSettings) else settings.hidden
    has_no_projected_keys = settings.score in ("dot", "scaled_dot", "location")
    return annotations + (0 if has_no_projected_keys else settings.hidden)


SINUSOID_CODES = {"interleaved": 0, "halves": 1, "tensor2tensor": 2}
"""Values of ``Sinusoids`` in native/transformer/positions.h."""


def sinusoids(settings: TransformerSettings) -> Floats:
    """Return the sinusoids (max_length, width) in the order that the settings specify (Vaswani 2017 §3.5)."""
    order = SINUSOID_CODES[settings.sinusoids]
    return _core.sinusoids(order, settings.width, settings.position_offset, settings.max_length)


def distances(weight: Floats, settings: TransformerSettings, bidirectional: bool) -> Floats:
    """Return the score biases (heads, 2 * reach + 1) for distances ``key - query`` from ``-reach`` to
    ``reach``.

    The reach is ``relative_distance``; all larger distances share a bucket (Raffel 2020 §2.1).

    Args:
        weight: stored biases (buckets, heads).
        settings: the settings of the model.
        bidirectional: whether keys after the query have separate buckets.
    """
    return _core.distances(
        np.ascontiguousarray(weight, dtype=np.float32), settings.relative_distance, bidirectional
    )
