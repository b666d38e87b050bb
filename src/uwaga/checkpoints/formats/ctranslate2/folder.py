"""Reader of CTranslate2's ``TransformerSpec`` folders (Klein et al. 2020), written by any converter.

Decoder-only models are read by :mod:`uwaga.checkpoints.formats.ctranslate2.decoder_only`.

Integer weights are dequantised. CTranslate2 needs no padding token and can start a decoder from a zero
embedding. uwaga needs a token for both, so ``<pad>``, with zero embeddings and probability 0, is added to the
vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from uwaga.checkpoints.card import read_card
from uwaga.checkpoints.checkpoint import Checkpoint, Memory
from uwaga.checkpoints.formats.ctranslate2.binary import read_model_file
from uwaga.checkpoints.formats.ctranslate2.decoder_only import DECODER_SPECIFICATIONS, read_decoder
from uwaga.checkpoints.formats.ctranslate2.variables import (
    Variables,
    activation_name,
    embedding_name,
    head_count,
    scales_embeddings,
    weight_summary,
)
from uwaga.checkpoints.formats.ctranslate2.vocabulary import (
    Vocabularies,
    read_epsilon,
    read_tokenisers,
    read_vocabularies,
)
from uwaga.checkpoints.languages import UNSTATED_LANGUAGES, Languages
from uwaga.checkpoints.size_checks import weight_shapes
from uwaga.checkpoints.storage.json_file import parse_stored
from uwaga.checkpoints.weight_map import RowPadding, Table, View, map_weights
from uwaga.errors import ModelError
from uwaga.search import SearchOptions
from uwaga.settings import TransformerSettings

Value = TypeVar("Value")

MODEL = "model.bin"
SPECIFICATIONS = {"TransformerSpec": 0, "TransformerBase": 8, "TransformerBig": 16, "": 8}
"""Names of the specifications of encoder–decoder Transformers, with the default number of heads."""
REVISIONS = range(1, 8)
MAX_POSITIONS = 1024
"""Maximum number of positions for models with computed sinusoids, whose files state no limit."""
EXCLUDED_LOGIT = -1e4
"""A logit bias that makes a probability exactly 0 in float32 and is finite in 16-bit formats."""

SEARCH_OPTIONS = SearchOptions(beam=2, max_length=256, max_ratio=math.inf, min_length=1)
"""CTranslate2's default search options, which exclude empty translations."""


NAME = "CTranslate2"


def read_folder(
    folder: Path,
    memory: Memory = "fast",
    *,
    pieces: Path | None = None,
    is_segmented: bool = False,
    options: SearchOptions = SEARCH_OPTIONS,
    languages: tuple[str, str] = UNSTATED_LANGUAGES,
) -> Checkpoint:
    """Read a CTranslate2 model folder.

    Args:
        folder: the folder, with ``model.bin`` and its vocabularies.
        memory: ``none`` to read no weights; see :class:`uwaga.checkpoints.registry.Format`.
        pieces: path of the SentencePiece model of both sides. If it is None, the folder's ``source.spm`` and
            ``target.spm`` (Marian's tokeniser, which ends every source with ``</s>``) or
            ``sentencepiece.model`` are used.
        is_segmented: True to read no tokeniser; texts must then be vocabulary tokens separated by spaces.
        options: default search options.
        languages: codes of the source and target languages.
    """
    with_weights = memory != "none"
    file = read_model_file(folder / MODEL, with_weights)
    if file.specification in DECODER_SPECIFICATIONS:
        return read_decoder(folder, file, with_weights, is_segmented)
    if file.specification not in SPECIFICATIONS or file.revision not in REVISIONS:
        raise ModelError(
            f"{file.path}: models of {file.specification or 'unnamed'!r}, revision {file.revision}, are not "
            f"supported; uwaga reads TransformerSpec of revisions {REVISIONS.start} to "
            f"{REVISIONS.stop - 1}"
        )
    variables = Variables(file)
    settings = _settings(variables, folder)
    vocabularies = read_vocabularies(
        folder,
        file,
        bool(variables.flag("decoder", "start_from_zero_embedding", False)),
        variables.special_token_flags(),
    )
    table = _weight_table(variables, settings, vocabularies)
    source, target = read_tokenisers(folder, vocabularies, pieces, is_segmented)
    card = read_card(folder)
    return Checkpoint(
        path=folder,
        format=NAME,
        family=file.specification,
        settings=settings,
        symbols=vocabularies.symbols,
        source_vocabulary=vocabularies.size,
        target_vocabulary=vocabularies.size,
        vocabulary=(len(vocabularies.source), len(vocabularies.target)),
        source=source,
        target=target,
        languages=Languages(source, target, languages, options.first, {}, card, str(folder)),
        decoding=options,
        card=card,
        weights=map_weights(
            weight_shapes(settings, vocabularies.size, vocabularies.size),
            table,
            variables.tensors(),
            str(file.path),
        )
        if with_weights
        else None,
        summary=None if with_weights else weight_summary(file),
        details={"format version": file.version},
    )


def _settings(variables: Variables, folder: Path) -> TransformerSettings:
    """Return the settings, inferred from the file's scalars and array shapes."""
    path = variables.file.path
    default = SPECIFICATIONS[variables.file.specification] or 8
    values = {
        "encoder_layers": variables.layer_count("encoder"),
        "decoder_layers": variables.layer_count("decoder"),
        "width": _shared_setting(
            variables, "width", lambda scope: variables.shape(embedding_name(variables, scope), 2)[1]
        ),
        "heads": head_count(variables, "encoder", default),
        "decoder_heads": head_count(variables, "decoder", default),
        "feed_forward": variables.shape("encoder/layer_0/ffn/linear_0/weight", 2)[0],
        "decoder_feed_forward": variables.shape("decoder/layer_0/ffn/linear_0/weight", 2)[0],
        "norm": _shared_setting(
            variables, "norm", lambda scope: "pre" if variables.flag(scope, "pre_norm", True) else "post"
        ),
        "activation": _shared_setting(
            variables, "activation", lambda scope: activation_name(variables, scope)
        ),
        "embedding_scale": _shared_setting(
            variables, "scale", lambda scope: scales_embeddings(variables, scope)
        ),
        "embedding_norm": _shared_setting(
            variables,
            "embedding norm",
            lambda scope: variables.has_variable(f"{scope}/layernorm_embedding/gamma"),
        ),
        "norm_epsilon": read_epsilon(folder),
        "output_bias": True,
        "tie": _weight_tying(variables),
        "dropout": 0.0,
    }
    rows = _shared_setting(variables, "positions", lambda scope: _position_count(variables, scope))
    if rows:
        values |= {"positions": "learned", "max_length": rows}
    else:
        values |= {"sinusoids": "tensor2tensor", "position_offset": 1, "max_length": MAX_POSITIONS}
    return parse_stored(TransformerSettings, values, str(path))


def _shared_setting(variables: Variables, name: str, read: Callable[[str], Value]) -> Value:
    """Return a setting that must be equal in the encoder and the decoder."""
    encoder, decoder = read("encoder"), read("decoder")
    if encoder != decoder:
        raise ModelError(
            f"{variables.file.path}: {name} is {encoder} in the encoder but {decoder} in the decoder, which "
            "uwaga does not support"
        )
    return encoder


def _position_count(variables: Variables, scope: str) -> int:
    """Return the number of rows of the position table, or 0 if the positions are computed."""
    name = f"{scope}/position_encodings/encodings"
    return variables.shape(name, 2)[0] if variables.has_variable(name) else 0


def _weight_tying(variables: Variables) -> str:
    """Return the setting ``tie``: which of the two embeddings and the output layer share weights."""
    source, target, output = (
        variables.variable(name)
        for name in (
            embedding_name(variables, "encoder"),
            embedding_name(variables, "decoder"),
            "decoder/projection/weight",
        )
    )
    if target is output:
        return "all" if source is target else "decoder"
    return "embeddings" if source is target else "none"


def _layer_views(settings: TransformerSettings) -> dict[str, View]:
    """Return, for the name of each linear layer in uwaga, the corresponding part of a CTranslate2 layer.

    CTranslate2 fuses the projections of the same input into one layer.
    """
    views: dict[str, View] = {}
    for stack, count in (("encoder", settings.encoder_layers), ("decoder", settings.decoder_layers)):
        attention = "attention" if stack == "encoder" else "self_attention"
        for layer in range(count):
            prefix, stored_prefix = f"{stack}.{layer}", f"{stack}/layer_{layer}"
            fused_projection = f"{stored_prefix}/self_attention/linear_0"
            views[f"{prefix}.{attention}.query"] = View(fused_projection, first=0, last=1, parts=3)
            views[f"{prefix}.{attention}.key_value"] = View(fused_projection, first=1, last=3, parts=3)
            views[f"{prefix}.{attention}.output"] = View(f"{stored_prefix}/self_attention/linear_1")
            views[f"{prefix}.feed_forward.inner"] = View(f"{stored_prefix}/ffn/linear_0")
            views[f"{prefix}.feed_forward.outer"] = View(f"{stored_prefix}/ffn/linear_1")
            if stack == "decoder":
                for index, projection in enumerate(("query", "key_value", "output")):
                    views[f"{prefix}.cross_attention.{projection}"] = View(
                        f"{stored_prefix}/attention/linear_{index}"
                    )
    return views


def _norm_names(settings: TransformerSettings) -> dict[str, str]:
    """Return CTranslate2's names of the layer norms, by uwaga's names."""
    norms: dict[str, str] = {}
    for stack, count in (("encoder", settings.encoder_layers), ("decoder", settings.decoder_layers)):
        attention = "attention" if stack == "encoder" else "self_attention"
        for layer in range(count):
            stored_prefix = f"{stack}/layer_{layer}"
            norms[f"{stack}.{layer}.{attention}_norm"] = f"{stored_prefix}/self_attention/layer_norm"
            norms[f"{stack}.{layer}.feed_forward_norm"] = f"{stored_prefix}/ffn/layer_norm"
            if stack == "decoder":
                norms[f"{stack}.{layer}.cross_attention_norm"] = f"{stored_prefix}/attention/layer_norm"
        side = "source" if stack == "encoder" else "target"
        if settings.norm == "pre":
            norms[f"{stack}_norm"] = f"{stack}/layer_norm"
        if settings.embedding_norm:
            norms[f"{side}_norm"] = f"{stack}/layernorm_embedding"
    return norms


def _weight_table(variables: Variables, settings: TransformerSettings, vocabularies: Vocabularies) -> Table:
    """Return the weight table; the embeddings and the output layer have an extra row for padding."""
    weights: dict[str, tuple[View, ...]] = {}
    for name, view in _layer_views(settings).items():
        for kind in ("weight", "bias"):
            weights[f"{name}.{kind}"] = (view._replace(name=f"{view.name}/{kind}"),)
    for name, stored_norm in _norm_names(settings).items():
        weights[f"{name}.weight"] = (View(f"{stored_norm}/gamma"),)
        weights[f"{name}.bias"] = (View(f"{stored_norm}/beta"),)
    tables = {"source_embedding.weight": "encoder", "target_embedding.weight": "decoder"}
    for name, stack in tables.items():
        weights[name] = (View(embedding_name(variables, stack)),)
    if settings.positions == "learned":
        for side, stack in (("source", "encoder"), ("target", "decoder")):
            weights[f"{side}_positions.weight"] = (View(f"{stack}/position_encodings/encodings"),)
    weights["output_weight"] = (View("decoder/projection/weight"),)
    weights["output_bias"] = (View("decoder/projection/bias"),)
    source, target = len(vocabularies.source), len(vocabularies.target)
    if settings.tie in ("all", "embeddings") and source != target:
        raise ModelError(
            f"{variables.file.path}: both sides share one embedding, but the vocabularies have {source} and "
            f"{target} tokens; the files belong to different models"
        )
    padding = {name: RowPadding(target) for name in ("target_embedding.weight", "output_weight")}
    padding |= {
        "source_embedding.weight": RowPadding(source),
        "output_bias": RowPadding(target, EXCLUDED_LOGIT),
    }
    used_names = {view.name for views in weights.values() for view in views}
    variables.reject_unsupported()
    scales = {name for name in variables.file.variables if name.removesuffix("_scale") in used_names}
    return Table(
        weights,
        aliases=_aliases(settings, weights),
        unused=(variables.used_names | scales) - used_names,
        optional={name for name in weights if name.endswith("bias")},
        padding=padding,
        origin="the rest of the file",
    )


def _aliases(settings: TransformerSettings, weights: Mapping[str, tuple[View, ...]]) -> dict[str, str]:
    """Return a mapping from the alias of each tied table to the name under which the table is stored."""
    target = "output_weight" if settings.tie in ("all", "decoder") else "target_embedding.weight"
    target = "source_embedding.weight" if settings.tie == "embeddings" else target
    owners = {
        "source_embedding.weight": target if settings.tie == "all" else "source_embedding.weight",
        "target_embedding.weight": target,
    }
    names = {weight: (weights[weight][0].name, weights[owner][0].name) for weight, owner in owners.items()}
    return {alias: original_name for alias, original_name in names.values() if alias != original_name}
