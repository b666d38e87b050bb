"""Reader of CTranslate2's decoder-only models (``TransformerDecoderSpec``), such as GPT-2."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from uwaga.checkpoints.card import read_card
from uwaga.checkpoints.checkpoint import Checkpoint
from uwaga.checkpoints.formats.ctranslate2.binary import ModelFile
from uwaga.checkpoints.formats.ctranslate2.variables import (
    Variables,
    activation_name,
    head_count,
    scales_embeddings,
    weight_summary,
)
from uwaga.checkpoints.formats.ctranslate2.vocabulary import (
    DECODER_VOCABULARY,
    DEFAULT_TOKENS,
    read_config,
    read_epsilon,
    read_vocabulary,
)
from uwaga.checkpoints.languages import UNSTATED_LANGUAGES, Languages
from uwaga.checkpoints.size_checks import weight_shapes
from uwaga.checkpoints.storage.json_file import parse_stored
from uwaga.checkpoints.weight_map import Table, View, map_weights
from uwaga.decoder import Symbols
from uwaga.errors import ModelError, quoted
from uwaga.search import SearchOptions
from uwaga.settings import DecoderOnlySettings
from uwaga.tokenizers.marian import SegmentedTextTokeniser
from uwaga.tokenizers.pretrained import TokenIds, read_gpt2_tokeniser
from uwaga.tokenizers.subwords import Subwords

DECODER_SPECIFICATIONS = ("TransformerDecoderSpec",)
"""Names of the specifications of decoder-only models."""
REVISIONS = range(3, 9)
SEARCH_OPTIONS = SearchOptions(beam=1, max_length=512, max_ratio=math.inf)
"""CTranslate2's default search options."""
TOKENISER_FILES = ("tokenizer.json", "vocab.json")
EMBEDDING = "decoder/embeddings/weight"
POSITIONS = "decoder/position_encodings/encodings"
OUTPUT = "decoder/projection/weight"
LAYER_MATRICES = (
    ("attention.query", View("self_attention/linear_0", first=0, last=1, parts=3)),
    ("attention.key_value", View("self_attention/linear_0", first=1, last=3, parts=3)),
    ("attention.output", View("self_attention/linear_1")),
    ("feed_forward.inner", View("ffn/linear_0")),
    ("feed_forward.outer", View("ffn/linear_1")),
)
LAYER_NORMS = (("attention_norm", "self_attention/layer_norm"), ("feed_forward_norm", "ffn/layer_norm"))


def read_decoder(folder: Path, file: ModelFile, with_weights: bool, is_segmented: bool) -> Checkpoint:
    """Read the folder of a decoder-only model.

    Args:
        folder: the model folder.
        file: the contents of its ``model.bin``.
        with_weights: False to read no weights.
        is_segmented: see :func:`uwaga.checkpoints.formats.ctranslate2.folder.read_folder`.
    """
    if file.revision not in REVISIONS:
        raise ModelError(f"{file.path}: revision {file.revision} of {file.specification} is not supported")
    variables = Variables(file)
    settings = _settings(variables, folder)
    table = _weight_table(variables, settings)
    pieces = read_vocabulary(folder, DECODER_VOCABULARY)
    symbols = _symbols(folder, pieces)
    tokeniser = _tokeniser(folder, pieces, symbols, is_segmented)
    size = variables.shape(EMBEDDING, 2)[0]
    if size < len(pieces):
        raise ModelError(
            f"{folder}: the vocabulary has {len(pieces)} tokens, but {file.path.name} has {size}; the files "
            "belong to different models"
        )
    card = read_card(folder)
    weights = None
    if with_weights:
        shapes = weight_shapes(settings, size, size)
        weights = map_weights(shapes, table, variables.tensors(), str(file.path))
    return Checkpoint(
        path=folder,
        format="CTranslate2",
        family=file.specification,
        settings=settings,
        symbols=symbols,
        source_vocabulary=size,
        target_vocabulary=size,
        vocabulary=(len(pieces), len(pieces)),
        source=tokeniser,
        target=tokeniser,
        languages=Languages(tokeniser, tokeniser, UNSTATED_LANGUAGES, None, {}, card, str(folder)),
        decoding=replace(SEARCH_OPTIONS, banned=tuple(range(len(pieces), size))),
        card=card,
        weights=weights,
        summary=None if with_weights else weight_summary(file),
        details={"format version": file.version},
    )


def _settings(variables: Variables, folder: Path) -> DecoderOnlySettings:
    layers = variables.layer_count("decoder")
    rows, width = variables.shape(POSITIONS, 2)
    values = {
        "layers": layers,
        "width": width,
        "heads": head_count(variables, "decoder", 8),
        "feed_forward": variables.shape("decoder/layer_0/ffn/linear_0/weight", 2)[0],
        "activation": activation_name(variables, "decoder"),
        "norm": "pre" if variables.flag("decoder", "pre_norm", True) else "post",
        "norm_epsilon": read_epsilon(folder),
        "max_length": rows,
        "embedding_scale": scales_embeddings(variables, "decoder"),
        "tie_output": variables.variable(EMBEDDING) is variables.variable(OUTPUT),
        "dropout": 0.0,
    }
    return parse_stored(DecoderOnlySettings, values, str(variables.file.path))


def _weight_table(variables: Variables, settings: DecoderOnlySettings) -> Table:
    is_tied = settings.tie_output
    weights = {
        "embedding.weight": (View(EMBEDDING),),
        "positions.weight": (View(POSITIONS),),
        "output_weight": (View(EMBEDDING if is_tied else OUTPUT),),
    }
    kinds = {"weight": "gamma", "bias": "beta"}
    for kind, parameter in kinds.items():
        weights[f"decoder_norm.{kind}"] = (View(f"decoder/layer_norm/{parameter}"),)
    for layer in range(settings.layers):
        prefix, stored_prefix = f"decoder.{layer}", f"decoder/layer_{layer}"
        for name, view in LAYER_MATRICES:
            for kind in kinds:
                stored_view = view._replace(name=f"{stored_prefix}/{view.name}/{kind}")
                weights[f"{prefix}.{name}.{kind}"] = (stored_view,)
        for name, norm in LAYER_NORMS:
            for kind, parameter in kinds.items():
                weights[f"{prefix}.{name}.{kind}"] = (View(f"{stored_prefix}/{norm}/{parameter}"),)
    used_names = {view.name for views in weights.values() for view in views}
    variables.reject_unsupported()
    variables.flag("decoder", "start_from_zero_embedding", False)
    scales = {name for name in variables.file.variables if name.removesuffix("_scale") in used_names}
    return Table(
        weights,
        aliases={OUTPUT: EMBEDDING} if is_tied else {},
        unused=(variables.used_names | scales) - used_names,
        optional={name for name in weights if name.endswith("bias")},
        origin="the rest of the file",
    )


def _symbols(folder: Path, pieces: tuple[str, ...]) -> Symbols:
    config_values = read_config(folder)
    ids = []
    for name in ("bos_token", "eos_token", "unk_token"):
        token = config_values.get(name, DEFAULT_TOKENS[name])
        if token not in pieces:
            raise ModelError(f"{folder}: the vocabulary lacks the {name} {quoted(token)}")
        ids.append(pieces.index(token))
    start, end, unknown = ids
    return Symbols(start=start, end=end, pad=end, unknown=unknown)


def _tokeniser(folder: Path, pieces: tuple[str, ...], symbols: Symbols, is_segmented: bool) -> Subwords:
    if is_segmented:
        ids: dict[str, int] = {}
        for token_id, piece in enumerate(pieces):
            ids[f"<unused{token_id}>" if piece in ids else piece] = token_id
        return SegmentedTextTokeniser(ids, symbols, str(folder))
    if not any((folder / name).is_file() for name in TOKENISER_FILES):
        raise ModelError(
            f"{folder}: contains no tokeniser; copy {TOKENISER_FILES[0]} to it from the folder that the "
            "model was converted from"
        )
    return read_gpt2_tokeniser(folder, TokenIds(len(pieces), symbols.start, symbols.end, None)).target
