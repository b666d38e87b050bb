"""CTranslate2's decoder-only models: its ``TransformerDecoderSpec`` of GPT-2's kind, from any converter."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from uwaga.checkpoints.card import read_card
from uwaga.checkpoints.checkpoint import Checkpoint
from uwaga.checkpoints.formats.ctranslate2.binary import ModelFile
from uwaga.checkpoints.formats.ctranslate2.variables import Variables, activation, heads, scaled, summary
from uwaga.checkpoints.formats.ctranslate2.vocabulary import DECODER, DEFAULTS, config, epsilon, read_side
from uwaga.checkpoints.languages import UNKNOWN, Languages
from uwaga.checkpoints.size_checks import weight_shapes
from uwaga.checkpoints.storage.json_file import parse_stored
from uwaga.checkpoints.weight_map import Table, View, map_weights
from uwaga.decoder import Symbols
from uwaga.errors import ModelError, shown
from uwaga.search import SearchOptions
from uwaga.settings import DecoderOnlySettings
from uwaga.tokenizers.marian import SpacedPieces
from uwaga.tokenizers.pretrained import TokenIds, read_gpt2_tokeniser
from uwaga.tokenizers.subwords import Subwords

DECODERS = ("TransformerDecoderSpec",)
"""Specifications of decoder-only models."""
REVISIONS = range(3, 9)
OPTIONS = SearchOptions(beam=1, max_length=512, max_ratio=math.inf)
"""CTranslate2's own defaults."""
TOKENISERS = ("tokenizer.json", "vocab.json")
EMBEDDING, POSITIONS, OUTPUT = (
    "decoder/embeddings/weight",
    "decoder/position_encodings/encodings",
    "decoder/projection/weight",
)
BLOCK = (
    ("attention.query", View("self_attention/linear_0", first=0, last=1, of=3)),
    ("attention.key_value", View("self_attention/linear_0", first=1, last=3, of=3)),
    ("attention.output", View("self_attention/linear_1")),
    ("feed_forward.inner", View("ffn/linear_0")),
    ("feed_forward.outer", View("ffn/linear_1")),
)
NORMS = (("attention_norm", "self_attention/layer_norm"), ("feed_forward_norm", "ffn/layer_norm"))


def read_decoder(folder: Path, file: ModelFile, opened: bool, spaced: bool) -> Checkpoint:
    """Read the folder of a decoder-only model.

    Args:
        folder: the folder.
        file: its ``model.bin``.
        opened: False reads no weights.
        spaced: as of :func:`uwaga.checkpoints.formats.ctranslate2.folder.read_folder`.
    """
    if file.revision not in REVISIONS:
        raise ModelError(f"{file.path}: unsupported revision {file.revision} of {file.specification}")
    stored = Variables(file)
    settings = _settings(stored, folder)
    table = _table(stored, settings)
    pieces = read_side(folder, DECODER)
    symbols = _symbols(folder, pieces)
    tokeniser = _tokeniser(folder, pieces, symbols, spaced)
    size = stored.shape(EMBEDDING, 2)[0]
    if size < len(pieces):
        raise ModelError(
            f"{folder}: {len(pieces)} tokens in the vocabulary, and {size} in {file.path.name}; the files "
            "belong to different models"
        )
    card = read_card(folder)
    weights = None
    if opened:
        shapes = weight_shapes(settings, size, size)
        weights = map_weights(shapes, table, stored.tensors(), str(file.path))
    return Checkpoint(
        place=folder,
        format="CTranslate2",
        family=file.specification,
        settings=settings,
        symbols=symbols,
        source_vocabulary=size,
        target_vocabulary=size,
        vocabulary=(len(pieces), len(pieces)),
        source=tokeniser,
        target=tokeniser,
        languages=Languages(tokeniser, tokeniser, UNKNOWN, None, {}, card, str(folder)),
        decoding=replace(OPTIONS, banned=tuple(range(len(pieces), size))),
        card=card,
        weights=weights,
        summary=None if opened else summary(file),
        details={"format version": file.version},
    )


def _settings(stored: Variables, folder: Path) -> DecoderOnlySettings:
    layers = stored.layers("decoder")
    rows, width = stored.shape(POSITIONS, 2)
    values = {
        "layers": layers,
        "width": width,
        "heads": heads(stored, "decoder", 8),
        "feed_forward": stored.shape("decoder/layer_0/ffn/linear_0/weight", 2)[0],
        "activation": activation(stored, "decoder"),
        "norm": "pre" if stored.flag("decoder", "pre_norm", True) else "post",
        "norm_epsilon": epsilon(folder),
        "max_length": rows,
        "embedding_scale": scaled(stored, "decoder"),
        "tie_output": stored.variable(EMBEDDING) is stored.variable(OUTPUT),
        "dropout": 0.0,
    }
    return parse_stored(DecoderOnlySettings, values, str(stored.file.path))


def _table(stored: Variables, settings: DecoderOnlySettings) -> Table:
    tied = settings.tie_output
    weights = {
        "embedding.weight": (View(EMBEDDING),),
        "positions.weight": (View(POSITIONS),),
        "output_weight": (View(EMBEDDING if tied else OUTPUT),),
    }
    kinds = {"weight": "gamma", "bias": "beta"}
    for ours, theirs in kinds.items():
        weights[f"decoder_norm.{ours}"] = (View(f"decoder/layer_norm/{theirs}"),)
    for number in range(settings.layers):
        here, there = f"decoder.{number}", f"decoder/layer_{number}"
        for name, view in BLOCK:
            for kind in kinds:
                part = replace(view, name=f"{there}/{view.name}/{kind}")
                weights[f"{here}.{name}.{kind}"] = (part,)
        for name, norm in NORMS:
            for ours, theirs in kinds.items():
                weights[f"{here}.{name}.{ours}"] = (View(f"{there}/{norm}/{theirs}"),)
    used = {view.name for views in weights.values() for view in views}
    stored.refuse_features()
    stored.flag("decoder", "start_from_zero_embedding", False)
    scales = {name for name in stored.file.variables if name.removesuffix("_scale") in used}
    return Table(
        weights,
        same={OUTPUT: EMBEDDING} if tied else {},
        unused=(stored.looked_at | scales) - used,
        zero={name for name in weights if name.endswith("bias")},
        asked="what the rest of it says",
    )


def _symbols(folder: Path, pieces: tuple[str, ...]) -> Symbols:
    stated = config(folder)
    ids = []
    for name in ("bos_token", "eos_token", "unk_token"):
        token = stated.get(name, DEFAULTS[name])
        if token not in pieces:
            raise ModelError(f"{folder}: the vocabulary lacks the {name} {shown(token)}")
        ids.append(pieces.index(token))
    start, end, unknown = ids
    return Symbols(start=start, end=end, pad=end, unknown=unknown)


def _tokeniser(folder: Path, pieces: tuple[str, ...], symbols: Symbols, spaced: bool) -> Subwords:
    if spaced:
        ids: dict[str, int] = {}
        for number, piece in enumerate(pieces):
            ids[f"<unused{number}>" if piece in ids else piece] = number
        return SpacedPieces(ids, symbols, str(folder))
    if not any((folder / name).is_file() for name in TOKENISERS):
        raise ModelError(
            f"{folder}: contains no tokeniser; copy {TOKENISERS[0]} to it from the folder that the model was "
            "converted from"
        )
    return read_gpt2_tokeniser(folder, TokenIds(len(pieces), symbols.start, symbols.end, None)).target
