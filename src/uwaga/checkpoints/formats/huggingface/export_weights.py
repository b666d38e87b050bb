"""Conversion of a Transformer's weights and vocabularies to the layout of Marian and Pegasus folders.

CTranslate2 starts Marian's decoder from a zero embedding instead of the start token's embedding. A start
embedding that is not zero is therefore added to the first row of the decoder's position table. Only the start
token uses this row, so the sum of embedding and position, and all later values, do not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import safetensors.torch
import torch
from torch import Tensor

from uwaga.checkpoints.formats.huggingface.bart import POSITIONS
from uwaga.checkpoints.formats.huggingface.bart import table as seq2seq_table
from uwaga.checkpoints.to_torch import SkipInit
from uwaga.decoder import Symbols
from uwaga.errors import ModelError
from uwaga.models.layers.positions import sinusoids
from uwaga.models.transformer import Transformer
from uwaga.settings import TransformerSettings
from uwaga.tokenizers.marian import END, PAD, UNKNOWN, MarianTokeniser
from uwaga.tokenizers.subwords import Subwords
from uwaga.tokenizers.tokeniser import Tokeniser

READING_LAYERS = frozenset(
    "source_embedding target_embedding source_positions target_positions query key_value inner gate".split()  # noqa: SIM905
)
"""Names of the layers that read the residual stream; the last axis of their weights has its width."""
WRITING_LAYERS = frozenset({"output", "outer"})
"""Names of the layers that write to the residual stream; the first axis of their parameters has its width."""


def deinterleave(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights with the residual stream's columns reordered: the even ones before the odd ones.

    Interleaved sinusoids then have Marian's order, with all sines first. The model computes the same
    function, because every weight that reads or writes the residual stream is permuted in the same way, and
    norms and residual additions do not depend on the order.

    Args:
        weights: ``state_dict()`` of a Transformer; tied weights may share a tensor.
    """
    return {name: _deinterleave_weight(name, weight) for name, weight in weights.items()}


def _deinterleave_weight(name: str, weight: Tensor) -> Tensor:
    axis = _width_axis(name)
    if axis is None:
        return weight
    width = weight.shape[axis]
    order = torch.cat([torch.arange(0, width, 2), torch.arange(1, width, 2)])
    return weight.index_select(axis, order.to(weight.device))


def _width_axis(name: str) -> int | None:
    """Return the axis of a weight that has the residual stream's width, or None if there is none."""
    if name in ("output_weight", "output_bias"):
        return -1 if name == "output_weight" else None
    owner, _, kind = name.rpartition(".")
    layer = owner.rpartition(".")[2]
    if layer in READING_LAYERS:
        return -1 if kind == "weight" else None
    if layer in WRITING_LAYERS or layer.endswith("norm"):
        return 0
    raise AssertionError(f"unknown weight {name!r}: it may read or write the residual stream")


EXCLUDED_LOGIT = -1e4
"""A logit bias that makes a probability exactly 0 in float32 and is finite in 16-bit formats."""


@dataclass(frozen=True)
class ExportedVocabulary:
    """The SentencePiece model and the vocabulary of one side; pieces are in the order of their ids."""

    model: bytes
    pieces: tuple[str, ...]

    def ids(self) -> dict[str, int]:
        """Return a mapping from pieces to ids."""
        return {piece: token_id for token_id, piece in enumerate(self.pieces)}


@dataclass(frozen=True)
class ExportedModel:
    """A model converted for export, whose weights still have uwaga's names.

    Attributes:
        weights: the weights by name.
        sides: vocabularies of the source and the target side.
        symbols: ids of the special tokens.
        unused: ids of tokens that have a row in the output layer but must never be generated.
    """

    weights: dict[str, Tensor]
    sides: tuple[ExportedVocabulary, ExportedVocabulary]
    symbols: Symbols
    unused: tuple[int, ...]

    @property
    def sizes(self) -> tuple[int, int]:
        """Numbers of source and target tokens."""
        return len(self.sides[0].pieces), len(self.sides[1].pieces)

    @property
    def has_separate_vocabularies(self) -> bool:
        """True if the two sides have different vocabularies."""
        return self.sides[0].pieces != self.sides[1].pieces


def exported_vocabulary(tokeniser: Subwords) -> ExportedVocabulary:
    """Return the SentencePiece model and the vocabulary of a tokeniser for export."""
    if isinstance(tokeniser, Tokeniser):
        return ExportedVocabulary(tokeniser.model_bytes, tuple(tokeniser.pieces(range(tokeniser.size))))
    if isinstance(tokeniser, MarianTokeniser):
        model, ids = tokeniser.files
        return ExportedVocabulary(model, tuple(sorted(ids, key=ids.__getitem__)))
    raise ModelError(
        f"a tokeniser of type {type(tokeniser).__name__} cannot be exported, because Marian's tokenisers are "
        "SentencePiece models with a vocabulary"
    )


def _rename_pieces(side: ExportedVocabulary, size: int, names: dict[int, str]) -> ExportedVocabulary:
    """Return a vocabulary resized to ``size`` pieces; the given ids, and no others, have the given names."""
    pieces = [*side.pieces, *(f"<unused{token_id}>" for token_id in range(len(side.pieces), size))]
    reserved_pieces = set(names.values())
    for token_id, piece in enumerate(pieces):
        if piece in reserved_pieces and names.get(token_id) != piece:
            pieces[token_id] = f"<unused{token_id}>"
    for token_id, piece in names.items():
        pieces[token_id] = piece
    return ExportedVocabulary(side.model, tuple(pieces))


def as_pegasus(model: Transformer, sides: tuple[ExportedVocabulary, ExportedVocabulary]) -> ExportedModel:
    """Convert a model to Pegasus' conventions: decoding starts from the padding token. Ids do not change."""
    symbols = model.symbols
    if symbols.start == symbols.end:
        raise ModelError(
            "pegasus: decoding must start from the padding token, but this model starts from its end token"
        )
    names = {symbols.start: PAD, symbols.end: END, symbols.unknown: UNKNOWN}
    renamed_sides = [_rename_pieces(side, len(side.pieces), names) for side in sides]
    unused = (symbols.start, symbols.pad)
    exported_symbols = Symbols(
        start=symbols.start, end=symbols.end, pad=symbols.start, unknown=symbols.unknown
    )
    return ExportedModel(
        _convert_weights(model), (renamed_sides[0], renamed_sides[1]), exported_symbols, unused
    )


def as_marian(model: Transformer, sides: tuple[ExportedVocabulary, ExportedVocabulary]) -> ExportedModel:
    """Convert a model to Marian's conventions.

    The last token has a zero embedding and serves both as the padding token and as the start token.
    """
    symbols, weights = model.symbols, _convert_weights(model)
    size = max(len(side.pieces) for side in sides)
    pad = symbols.pad
    start_embedding = weights["target_embedding.weight"][symbols.start].clone()  # (width,)
    if not (symbols.start == pad == size - 1 and not start_embedding.any() and len(sides[0].pieces) == size):
        pad, size = size, size + 1
        _extend_vocabulary(weights, size)
        weights["target_positions.weight"][0] += start_embedding * model.scale
    names = {pad: PAD, symbols.end: END, symbols.unknown: UNKNOWN}
    renamed_sides = [_rename_pieces(side, size, names) for side in sides]
    exported_symbols = Symbols(start=pad, end=symbols.end, pad=pad, unknown=symbols.unknown)
    return ExportedModel(
        weights,
        (renamed_sides[0], renamed_sides[1]),
        exported_symbols,
        tuple({symbols.start, symbols.pad, pad}),
    )


def _extend_vocabulary(weights: dict[str, Tensor], size: int) -> None:
    """Extend the weights in place to ``size`` tokens; new tokens have zero embeddings and probability 0."""
    tables = ("source_embedding.weight", "target_embedding.weight", "output_weight")
    extended_weights: dict[int, Tensor] = {}
    for name in tables:
        old_weight = weights[name]
        padding = torch.zeros(size - old_weight.shape[0], old_weight.shape[1])
        weights[name] = extended_weights.setdefault(id(old_weight), torch.cat([old_weight, padding]))
    bias = weights["output_bias"]
    weights["output_bias"] = torch.cat([bias, torch.full((size - len(bias),), EXCLUDED_LOGIT)])


def _convert_weights(model: Transformer) -> dict[str, Tensor]:
    """Return the weights in float32 with Marian's column order, position tables and an output bias."""
    settings = model.settings
    stored_tensors = dict(model.state_dict(keep_vars=True))
    if settings.positions == "sinusoidal":
        for side, positions in (("source", model.source_positions), ("target", model.target_positions)):
            stored_tensors[f"{side}_positions.weight"] = positions.get_buffer("table")
    else:
        for side in ("source", "target"):
            rows = stored_tensors[f"{side}_positions.weight"]
            stored_tensors[f"{side}_positions.weight"] = rows[settings.position_offset :]
    converted: dict[int, Tensor] = {}
    needs_deinterleaving = settings.positions == "sinusoidal" and settings.sinusoids == "interleaved"
    weights: dict[str, Tensor] = {}
    for name, tensor in stored_tensors.items():
        if id(tensor) not in converted:
            single_precision = tensor.detach().to("cpu", torch.float32)
            converted[id(tensor)] = (
                deinterleave({name: single_precision})[name] if needs_deinterleaving else single_precision
            )
        weights[name] = converted[id(tensor)]
    weights["target_positions.weight"] = weights["target_positions.weight"].clone()
    weights.setdefault("output_bias", torch.zeros(model.vocabulary))
    return weights


def _export_settings(model: Transformer) -> TransformerSettings:
    """Return the settings of the exported model."""
    overrides = {
        "positions": "learned",
        "position_offset": 0,
        "attention_bias": True,
        "feed_forward_bias": True,
        "output_bias": True,
    }
    return model.settings.model_copy(update=overrides)


def weight_bytes(model: Transformer, exported_model: ExportedModel, *, drop_sinusoids: bool) -> bytes:
    """Return the contents of the safetensors file, with the weight names of Marian and Pegasus.

    Args:
        model: the model that was converted.
        exported_model: the converted weights.
        drop_sinusoids: True to omit position tables that equal Marian's sinusoids, because Marian folders do
            not contain any.
    """
    settings = _export_settings(model)
    with torch.device("meta"), SkipInit():
        skeleton = Transformer(settings, model.symbols, *exported_model.sizes)
    table = seq2seq_table(settings, settings.tie == "all")
    stored_tensors: dict[str, Tensor] = {}
    for name, template in skeleton.state_dict().items():
        weight = _checked_weight(name, exported_model.weights.get(name), template.shape)
        names = [view.name for view in table.weights[name]]
        for stored_name, part in zip(names, weight.chunk(len(names)), strict=True):
            stored_tensors[stored_name] = part.contiguous()
    stored_tensors["final_logits_bias"] = stored_tensors["final_logits_bias"][None]  # (1, vocabulary)
    if drop_sinusoids:
        _drop_default_positions(stored_tensors, settings)
    return safetensors.torch.save(stored_tensors, metadata={"format": "pt"})


def _checked_weight(name: str, weight: Tensor | None, shape: torch.Size) -> Tensor:
    """Return a weight after checking its shape and values, or zeros for a bias that the model lacks."""
    if weight is None:
        assert name.endswith(".bias"), name
        return torch.zeros(shape)
    if weight.shape != shape:
        raise ModelError(
            f"weight {name!r} has shape {tuple(weight.shape)}, but the model's settings and tokenisers "
            f"require {tuple(shape)}; the model was not written"
        )
    if not bool(torch.isfinite(weight).all()):
        raise ModelError(f"weight {name!r} contains numbers that are not finite; the model was not written")
    return weight


def _drop_default_positions(stored_tensors: dict[str, Tensor], settings: TransformerSettings) -> None:
    """Remove the position tables if both are Marian's sinusoids."""
    default = sinusoids(settings.max_length, settings.width, "halves")
    if all(torch.equal(stored_tensors[name], default) for name in POSITIONS):
        for name in POSITIONS:
            del stored_tensors[name]
