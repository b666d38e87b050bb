"""CTranslate2's model folders (Klein et al. 2020): its ``TransformerSpec``, from any converter.

Decoder-only models are in :mod:`uwaga.checkpoints.formats.ctranslate2.decoder_only`.

Integer weights are dequantised. CTranslate2 pads without a token and can start a decoder from a zero
embedding; uwaga needs a token for both, so the vocabulary is extended by ``<pad>``, with zero embeddings
and probability 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from uwaga.checkpoints.card import read_card
from uwaga.checkpoints.checkpoint import Checkpoint, Memory
from uwaga.checkpoints.formats.ctranslate2.binary import read_model_file
from uwaga.checkpoints.formats.ctranslate2.decoder_only import DECODERS, read_decoder
from uwaga.checkpoints.formats.ctranslate2.variables import (
    Variables,
    activation,
    embedding,
    heads,
    scaled,
    summary,
)
from uwaga.checkpoints.formats.ctranslate2.vocabulary import (
    Vocabularies,
    epsilon,
    read_vocabularies,
    tokenisers,
)
from uwaga.checkpoints.languages import UNKNOWN, Languages
from uwaga.checkpoints.size_checks import weight_shapes
from uwaga.checkpoints.storage.json_file import parse_stored
from uwaga.checkpoints.weight_map import Longer, Table, View, map_weights
from uwaga.engine.product import TABLES
from uwaga.errors import ModelError
from uwaga.search import SearchOptions
from uwaga.settings import TransformerSettings

Value = TypeVar("Value")

MODEL = "model.bin"
SPECIFICATIONS = {"TransformerSpec": 0, "TransformerBase": 8, "TransformerBig": 16, "": 8}
"""Those that are encoder-decoder Transformers, with their heads where the file does not say them."""
REVISIONS = range(1, 8)
LONGEST = 1024
"""Positions where the model computes its own sinusoids, of which it knows no last one."""
NEVER = -1e4
"""A logit bias that makes a probability exactly 0 in float32, and is a number in 16 bits too."""

OPTIONS = SearchOptions(beam=2, max_length=256, max_ratio=math.inf, min_length=1)
"""CTranslate2's own defaults: it never gives an empty translation."""


NAME = "CTranslate2"


def read_folder(
    folder: Path,
    memory: Memory = "fast",
    *,
    pieces: Path | None = None,
    spaced: bool = False,
    options: SearchOptions = OPTIONS,
    languages: tuple[str, str] = UNKNOWN,
) -> Checkpoint:
    """Read a CTranslate2 model folder.

    Args:
        folder: the folder, with ``model.bin`` and its vocabularies.
        memory: ``none`` reads no weights, see :class:`uwaga.checkpoints.registry.Format`.
        pieces: the SentencePiece model of both sides; None for ``source.spm`` and ``target.spm`` (Marian's,
            which ends every source with ``</s>``) or ``sentencepiece.model`` in the folder.
        spaced: read no tokeniser: texts are pieces of the vocabulary with spaces between them.
        options: default search options.
        languages: codes of source and target.
    """
    opened = memory != "none"
    file = read_model_file(folder / MODEL, opened)
    if file.specification in DECODERS:
        return read_decoder(folder, file, opened, spaced)
    if file.specification not in SPECIFICATIONS or file.revision not in REVISIONS:
        raise ModelError(
            f"{file.path}: unsupported kind of model {file.specification or 'unnamed'!r}, revision "
            f"{file.revision}; uwaga reads TransformerSpec of revisions {REVISIONS.start} to "
            f"{REVISIONS.stop - 1}"
        )
    stored = Variables(file)
    settings = _settings(stored, folder)
    words = read_vocabularies(
        folder, file, bool(stored.flag("decoder", "start_from_zero_embedding", False)), stored.framing()
    )
    table = _table(stored, settings, words)
    source, target = tokenisers(folder, words, pieces, spaced)
    card = read_card(folder)
    return Checkpoint(
        place=folder,
        format=NAME,
        family=file.specification,
        settings=settings,
        symbols=words.symbols,
        source_vocabulary=words.size,
        target_vocabulary=words.size,
        vocabulary=(len(words.source), len(words.target)),
        source=source,
        target=target,
        languages=Languages(source, target, languages, options.first, {}, card, str(folder)),
        decoding=options,
        card=card,
        weights=map_weights(
            weight_shapes(settings, words.size, words.size), table, stored.tensors(), str(file.path)
        )
        if opened
        else None,
        summary=None if opened else summary(file),
        details={"format version": file.version},
    )


def _settings(stored: Variables, folder: Path) -> TransformerSettings:
    """Infer the settings from the file's scalars and shapes."""
    path = stored.file.path
    default = SPECIFICATIONS[stored.file.specification] or 8
    values = {
        "encoder_layers": stored.layers("encoder"),
        "decoder_layers": stored.layers("decoder"),
        "width": _alike(stored, "width", lambda scope: stored.shape(embedding(stored, scope), 2)[1]),
        "heads": heads(stored, "encoder", default),
        "decoder_heads": heads(stored, "decoder", default),
        "feed_forward": stored.shape("encoder/layer_0/ffn/linear_0/weight", 2)[0],
        "decoder_feed_forward": stored.shape("decoder/layer_0/ffn/linear_0/weight", 2)[0],
        "norm": _alike(
            stored, "norm", lambda scope: "pre" if stored.flag(scope, "pre_norm", True) else "post"
        ),
        "activation": _alike(stored, "activation", lambda scope: activation(stored, scope)),
        "embedding_scale": _alike(stored, "scale", lambda scope: scaled(stored, scope)),
        "embedding_norm": _alike(
            stored, "embedding norm", lambda scope: stored.has(f"{scope}/layernorm_embedding/gamma")
        ),
        "norm_epsilon": epsilon(folder),
        "output_bias": True,
        "tie": _tie(stored),
        "dropout": 0.0,
    }
    rows = _alike(stored, "positions", lambda scope: _positions(stored, scope))
    if rows:
        values |= {"positions": "learned", "max_length": rows}
    else:
        values |= {"sinusoids": "tensor2tensor", "position_offset": 1, "max_length": LONGEST}
    return parse_stored(TransformerSettings, values, str(path))


def _alike(stored: Variables, name: str, value: Callable[[str], Value]) -> Value:
    """Return a value that encoder and decoder must share."""
    ours, theirs = value("encoder"), value("decoder")
    if ours != theirs:
        raise ModelError(
            f"{stored.file.path}: {name} {ours} in the encoder and {theirs} in the decoder, which "
            "uwaga does not support"
        )
    return ours


def _positions(stored: Variables, scope: str) -> int:
    """Return the rows of the position table, 0 if the positions are computed."""
    name = f"{scope}/position_encodings/encodings"
    return stored.shape(name, 2)[0] if stored.has(name) else 0


def _tie(stored: Variables) -> str:
    """Return the kind of weight tying between the two embeddings and the output layer."""
    source, target, output = (
        stored.variable(name)
        for name in (
            embedding(stored, "encoder"),
            embedding(stored, "decoder"),
            "decoder/projection/weight",
        )
    )
    if target is output:
        return "all" if source is target else "decoder"
    return "embeddings" if source is target else "none"


def _layers(settings: TransformerSettings) -> dict[str, View]:
    """Yield our linear layers with CTranslate2's names, which join the projections of one input."""
    found: dict[str, View] = {}
    for stack, count in (("encoder", settings.encoder_layers), ("decoder", settings.decoder_layers)):
        own = "attention" if stack == "encoder" else "self_attention"
        for number in range(count):
            ours, theirs = f"{stack}.{number}", f"{stack}/layer_{number}"
            fused = f"{theirs}/self_attention/linear_0"
            found[f"{ours}.{own}.query"] = View(fused, first=0, last=1, of=3)
            found[f"{ours}.{own}.key_value"] = View(fused, first=1, last=3, of=3)
            found[f"{ours}.{own}.output"] = View(f"{theirs}/self_attention/linear_1")
            found[f"{ours}.feed_forward.inner"] = View(f"{theirs}/ffn/linear_0")
            found[f"{ours}.feed_forward.outer"] = View(f"{theirs}/ffn/linear_1")
            if stack == "decoder":
                for number_, part in enumerate(("query", "key_value", "output")):
                    found[f"{ours}.cross_attention.{part}"] = View(f"{theirs}/attention/linear_{number_}")
    return found


def _norms(settings: TransformerSettings) -> dict[str, str]:
    """Yield our norms with CTranslate2's names."""
    found: dict[str, str] = {}
    for stack, count in (("encoder", settings.encoder_layers), ("decoder", settings.decoder_layers)):
        own = "attention" if stack == "encoder" else "self_attention"
        for number in range(count):
            theirs = f"{stack}/layer_{number}"
            found[f"{stack}.{number}.{own}_norm"] = f"{theirs}/self_attention/layer_norm"
            found[f"{stack}.{number}.feed_forward_norm"] = f"{theirs}/ffn/layer_norm"
            if stack == "decoder":
                found[f"{stack}.{number}.cross_attention_norm"] = f"{theirs}/attention/layer_norm"
        side = "source" if stack == "encoder" else "target"
        if settings.norm == "pre":
            found[f"{stack}_norm"] = f"{stack}/layer_norm"
        if settings.embedding_norm:
            found[f"{side}_norm"] = f"{stack}/layernorm_embedding"
    return found


def _table(stored: Variables, settings: TransformerSettings, words: Vocabularies) -> Table:
    """Return the table of weights; embeddings and output include the row of the padding token."""
    weights: dict[str, tuple[View, ...]] = {}
    for ours, view in _layers(settings).items():
        for kind in ("weight", "bias"):
            weights[f"{ours}.{kind}"] = (replace(view, name=f"{view.name}/{kind}"),)
    for ours, theirs in _norms(settings).items():
        weights[f"{ours}.weight"] = (View(f"{theirs}/gamma"),)
        weights[f"{ours}.bias"] = (View(f"{theirs}/beta"),)
    tables = {"source_embedding.weight": "encoder", "target_embedding.weight": "decoder"}
    for ours, stack in tables.items():
        weights[ours] = (View(embedding(stored, stack)),)
    if settings.positions == "learned":
        for side, stack in (("source", "encoder"), ("target", "decoder")):
            weights[f"{side}_positions.weight"] = (View(f"{stack}/position_encodings/encodings"),)
    weights["output_weight"] = (View("decoder/projection/weight"),)
    weights["output_bias"] = (View("decoder/projection/bias"),)
    source, target = len(words.source), len(words.target)
    if settings.tie in ("all", "embeddings") and source != target:
        raise ModelError(
            f"{stored.file.path}: one embedding for vocabularies of {source} and {target} tokens; "
            "the files belong to different models"
        )
    longer = {name: Longer(target) for name in ("target_embedding.weight", "output_weight")}
    longer |= {"source_embedding.weight": Longer(source), "output_bias": Longer(target, NEVER)}
    used = {view.name for views in weights.values() for view in views}
    stored.refuse_features()
    scales = {name for name in stored.file.variables if name.removesuffix("_scale") in used}
    return Table(
        weights,
        same=_second_names(settings, weights),
        unused=(stored.looked_at | scales) - used,
        zero={name for name in weights if name.endswith("bias")},
        longer=longer,
        asked="what the rest of it says",
    )


def _second_names(settings: TransformerSettings, weights: Mapping[str, tuple[View, ...]]) -> dict[str, str]:
    """Return the aliases of tied tables."""
    first = TABLES[settings.tie]
    found: dict[str, str] = {}
    for side in ("source_embedding", "target_embedding"):
        ours, kept = weights[f"{side}.weight"][0].name, weights[first[side]][0].name
        if ours != kept:
            found[ours] = kept
    return found
