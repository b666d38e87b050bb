"""CTranslate2's model folders (Klein et al. 2020): its ``TransformerSpec``, from any converter.

Integer weights are dequantised. CTranslate2 pads without a token and can start a decoder from a zero
embedding; uwaga needs a token for both, so the vocabulary is extended by ``<pad>``, with zero embeddings
and probability 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from uwaga.checkpoints.card import read_card
from uwaga.checkpoints.checkpoint import Checkpoint, Memory, WeightSummary
from uwaga.checkpoints.formats.ctranslate2.binary import ModelFile, Variable, read_model_file
from uwaga.checkpoints.formats.ctranslate2.vocabulary import (
    Vocabularies,
    epsilon,
    read_vocabularies,
    tokenisers,
)
from uwaga.checkpoints.languages import UNKNOWN, Languages
from uwaga.checkpoints.size_checks import weight_shapes
from uwaga.checkpoints.storage.json_file import parse_stored
from uwaga.checkpoints.storage.tensors import FORMATS, StoredTensor
from uwaga.checkpoints.weight_map import Longer, Table, View, map_weights
from uwaga.engine.product import TABLES
from uwaga.errors import ModelError
from uwaga.results.attention import Floats
from uwaga.search import SearchOptions
from uwaga.settings import TransformerSettings

Value = TypeVar("Value")

MODEL = "model.bin"
SPECIFICATIONS = {"TransformerSpec": 0, "TransformerBase": 8, "TransformerBig": 16, "": 8}
"""Those that are encoder-decoder Transformers, with their heads where the file does not say them."""
REVISIONS = range(1, 8)
ACTIVATIONS = ("relu", "gelu_tanh", "silu", "gelu")
UNSUPPORTED = {4: "the sigmoid approximation of GELU", 5: "tanh", 6: "sigmoid"}
NEUTRAL = {
    "alibi": (0,),
    "multi_query_attention": (0,),
    "with_relative_position": (0,),
    "scale_outputs": (1,),
}
"""Features that we lack, with the values that switch them off."""
SILENT = (
    "alibi_use_positive_positions",
    "scale_alibi",
    "alignment_layer",
    "alignment_heads",
    "embeddings_merge",
)
"""What has no effect on translations where ``NEUTRAL`` is neutral and there is one source."""
FRAMING = ("with_source_bos", "with_source_eos", "with_target_bos", "num_heads", "pre_norm", "activation")
LONGEST = 1024
"""Positions where the model computes its own sinusoids, of which it knows no last one."""
NEVER = -1e4
"""A logit bias that makes a probability exactly 0 in float32, and is a number in 16 bits too."""

OPTIONS = SearchOptions(beam=2, max_length=256, max_ratio=math.inf, min_length=1)
"""CTranslate2's own defaults: it never gives an empty translation."""


NAME = "CTranslate2"


@dataclass(frozen=True)
class StoredVariable(StoredTensor):
    """A variable of the file; integers are dequantised by a scale."""

    variable: Variable

    @classmethod
    def of(cls, variable: Variable, path: Path) -> StoredVariable:
        """Return a variable as a stored tensor."""
        kind = "BF16" if variable.bfloat16 else FORMATS[variable.stored.dtype.name]
        return cls(variable.name, path, kind, variable.stored, variable)

    @property
    def floating(self) -> bool:
        """True: integers are dequantised to weights."""
        return True

    def floats(self) -> Floats:
        """Return a copy in float32; see :meth:`Variable.floats`."""
        return self.variable.floats(self.path)


def read_folder(
    folder: Path,
    memory: Memory = "fast",
    *,
    pieces: Path | None = None,
    options: SearchOptions = OPTIONS,
    languages: tuple[str, str] = UNKNOWN,
) -> Checkpoint:
    """Read a CTranslate2 model folder.

    Args:
        folder: the folder, with ``model.bin`` and its vocabularies.
        memory: ``none`` reads no weights, see :class:`uwaga.checkpoints.registry.Format`.
        pieces: the SentencePiece model of both sides; None for ``source.spm`` and ``target.spm`` (Marian's,
            which ends every source with ``</s>``) or ``sentencepiece.model`` in the folder.
        options: default search options.
        languages: codes of source and target.

    Raises:
        ModelError: a missing or damaged file, a kind of model or a feature that uwaga lacks, a vocabulary
            of another size.
    """
    opened = memory != "none"
    file = read_model_file(folder / MODEL, opened)
    if file.specification not in SPECIFICATIONS or file.revision not in REVISIONS:
        raise ModelError(
            f"{file.path}: unsupported kind of model {file.specification or 'unnamed'!r}, revision "
            f"{file.revision}; uwaga reads TransformerSpec of revisions {REVISIONS.start} to "
            f"{REVISIONS.stop - 1}"
        )
    stored = _Stored(file)
    settings = _settings(stored, folder)
    words = read_vocabularies(
        folder, file, bool(stored.flag("decoder", "start_from_zero_embedding", False)), stored.framing()
    )
    table = _table(stored, settings, words)
    source, target = tokenisers(folder, words, pieces)
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
        summary=None if opened else _summary(file),
        details={"format version": file.version},
    )


def _summary(file: ModelFile) -> WeightSummary:
    """Return the sizes of the weights, including integers with a scale."""
    distinct = {id(variable): variable for variable in file.variables.values()}.values()
    tensors = [
        StoredVariable.of(variable, file.path)
        for variable in distinct
        if variable.stored.ndim and not variable.name.endswith("_scale")
    ]
    return WeightSummary.of(tensors)


class _Stored:
    """The variables of a file; each must be used."""

    def __init__(self, file: ModelFile) -> None:
        self.file = file
        self._seen: set[str] = set()

    def has(self, name: str) -> bool:
        """Return True if the file has a variable of this name."""
        return name in self.file.variables

    def variable(self, name: str) -> Variable:
        """Return the variable of this name and mark it as used."""
        found = self.file.variables.get(name)
        if found is None:
            raise ModelError(f"{self.file.path}: {name!r} is missing, which a TransformerSpec holds")
        self._seen |= {name, f"{name}_scale"}
        return found

    def tensors(self) -> dict[str, StoredTensor]:
        """Return all variables as stored tensors."""
        return {name: StoredVariable.of(one, self.file.path) for name, one in self.file.variables.items()}

    def scalar(self, scope: str, name: str) -> float | None:
        """Return a scalar of this scope or of the whole file (before revision 5), None if it is missing."""
        for full in (f"{scope}/{name}", name):
            if full in self.file.variables:
                stored = self.variable(full).stored
                if stored.size != 1:
                    raise ModelError(f"{self.file.path}: {full!r} should be one number, not {stored.shape}")
                value = float(stored.reshape(()))
                if not math.isfinite(value):
                    raise ModelError(f"{self.file.path}: {full!r} is {value}, not a number")
                return value
        return None

    def flag(self, scope: str, name: str, default: bool) -> bool:
        """Return a boolean."""
        value = self.scalar(scope, name)
        return default if value is None else bool(value)

    def framing(self) -> dict[str, bool]:
        """Return the flags for special tokens that files before version 6 hold."""
        return {
            name: self.flag("", name, name == "with_target_bos")
            for name in ("with_source_bos", "with_source_eos", "with_target_bos")
        }

    def refuse_features(self) -> None:
        """Raise ModelError for a feature that the file enables and uwaga lacks."""
        for scope in ("encoder", "decoder", ""):
            for name, neutral in NEUTRAL.items():
                value = self.scalar(scope, name)
                if value is not None and value not in neutral:
                    raise ModelError(f"{self.file.path}: {name!r} = {value:g} is not supported by uwaga")
            for name in SILENT:
                self._seen.add(f"{scope}/{name}" if scope else name)
        for name in FRAMING:
            self._seen.add(name)

    @property
    def looked_at(self) -> frozenset[str]:
        """The variables that have been used or have no effect."""
        return frozenset(self._seen)

    def layers(self, scope: str) -> int:
        """Return the number of layers of a stack."""
        count = 0
        while self.has(f"{scope}/layer_{count}/ffn/linear_0/weight"):
            count += 1
        if not count:
            raise ModelError(f"{self.file.path}: the {scope} has no layers")
        return count

    def shape(self, name: str, axes: int) -> tuple[int, ...]:
        """Return the shape of a variable after checking its number of axes."""
        found = self.variable(name).stored.shape
        if len(found) != axes or not all(found):
            raise ModelError(f"{self.file.path}: {name!r} has shape {found}, not {axes} axes")
        return found


def _settings(stored: _Stored, folder: Path) -> TransformerSettings:
    """Infer the settings from the file's scalars and shapes."""
    path = stored.file.path
    values = {
        "encoder_layers": stored.layers("encoder"),
        "decoder_layers": stored.layers("decoder"),
        "width": _alike(stored, "width", lambda scope: stored.shape(_embedding(stored, scope), 2)[1]),
        "heads": _heads(stored, "encoder"),
        "decoder_heads": _heads(stored, "decoder"),
        "feed_forward": stored.shape("encoder/layer_0/ffn/linear_0/weight", 2)[0],
        "decoder_feed_forward": stored.shape("decoder/layer_0/ffn/linear_0/weight", 2)[0],
        "norm": _alike(
            stored, "norm", lambda scope: "pre" if stored.flag(scope, "pre_norm", True) else "post"
        ),
        "activation": _alike(stored, "activation", lambda scope: _activation(stored, scope)),
        "embedding_scale": _alike(stored, "scale", lambda scope: _scaled(stored, scope)),
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


def _alike(stored: _Stored, name: str, value: Callable[[str], Value]) -> Value:
    """Return a value that encoder and decoder must share."""
    ours, theirs = value("encoder"), value("decoder")
    if ours != theirs:
        raise ModelError(
            f"{stored.file.path}: {name} {ours} in the encoder and {theirs} in the decoder, which "
            "uwaga does not support"
        )
    return ours


def _heads(stored: _Stored, scope: str) -> int:
    default = SPECIFICATIONS[stored.file.specification] or 8
    heads = stored.scalar(scope, "num_heads")
    return default if heads is None else int(heads)


def _activation(stored: _Stored, scope: str) -> str:
    number = int(stored.scalar(scope, "activation") or 0)
    if not 0 <= number < len(ACTIVATIONS):
        raise ModelError(
            f"{stored.file.path}: activation {number} ({UNSUPPORTED.get(number, 'unknown')}) is not supported"
        )
    return ACTIVATIONS[number]


def _positions(stored: _Stored, scope: str) -> int:
    """Return the rows of the position table, 0 if the positions are computed."""
    name = f"{scope}/position_encodings/encodings"
    return stored.shape(name, 2)[0] if stored.has(name) else 0


def _embedding(stored: _Stored, scope: str) -> str:
    name = f"{scope}/embeddings_0/weight"
    return name if stored.has(name) else f"{scope}/embeddings/weight"


def _scaled(stored: _Stored, scope: str) -> bool:
    """Return True if embeddings are scaled by the square root of the width; other factors are rejected."""
    embedding = _embedding(stored, scope)
    older = f"{embedding.removesuffix('/weight')}/multiply_by_sqrt_depth"
    name = f"{scope}/scale_embeddings" if stored.has(f"{scope}/scale_embeddings") else older
    if not stored.has(name):
        return True
    variable = stored.variable(name)
    if variable.stored.size != 1:
        raise ModelError(f"{stored.file.path}: {name!r} should be one number, not {variable.stored.shape}")
    if not _is_float(variable):
        return bool(variable.stored.reshape(()))
    value = float(variable.floats(stored.file.path).reshape(()))
    root = math.sqrt(stored.shape(embedding, 2)[1])
    for known, answer in ((1.0, False), (root, True)):
        if math.isclose(value, known, rel_tol=1e-3):  # it may have been rounded to 16 bits
            return answer
    raise ModelError(
        f"{stored.file.path}: embeddings are multiplied by {value:g}, which uwaga does not support"
    )


def _is_float(variable: Variable) -> bool:
    return variable.bfloat16 or variable.stored.dtype.kind == "f"


def _tie(stored: _Stored) -> str:
    """Return the kind of weight tying between the two embeddings and the output layer."""
    source, target, output = (
        stored.variable(name)
        for name in (
            _embedding(stored, "encoder"),
            _embedding(stored, "decoder"),
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


def _table(stored: _Stored, settings: TransformerSettings, words: Vocabularies) -> Table:
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
        weights[ours] = (View(_embedding(stored, stack)),)
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
