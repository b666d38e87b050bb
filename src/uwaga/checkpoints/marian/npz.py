"""Marian's own ``.npz`` (Junczys-Dowmunt et al. 2018): weights, with the model's settings as YAML in them.

Two things are as Marian computes them, where conversions of its models to other libraries differ a little:
the rates of its sinusoids are ``10000^(-i / (width/2 - 1))``, and its norms add 1e-9 to the variance.
The decoder starts from a zero embedding; that is ``<pad>``, which becomes the last token of the vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import yaml
from numpy.typing import NDArray
from torch import Tensor

from uwaga.checkpoints.files.npz import read_npz
from uwaga.checkpoints.files.torch_files import Tensors
from uwaga.checkpoints.huggingface.registry import Pretrained
from uwaga.checkpoints.marian.vocabulary import Texts, read_texts
from uwaga.checkpoints.skip_init import SkipInit
from uwaga.checkpoints.uwaga.schema import CONFIG, Dtype
from uwaga.checkpoints.uwaga.weights import DTYPES
from uwaga.checkpoints.weight_map import Table, fill
from uwaga.errors import ModelError, SettingsError
from uwaga.models.transformer import Transformer
from uwaga.settings import TransformerSettings, parse

SUFFIX = ".npz"
SETTINGS = "special:model.yml"
LARGEST = 1 << 20
"""Bytes of the settings."""
EPSILON = 1e-9
LONGEST = 1024
"""Positions; Marian computes any."""
NEVER = -1e4
ACTIVATIONS = {"relu": "relu", "swish": "silu"}
UNSUPPORTED: dict[str, tuple[object, ...]] = {
    "type": ("transformer",),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-no-projection": (False,),
    "transformer-tied-layers": ([],),
    "transformer-pool": (False,),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "right-left": (False,),
    "lemma-dim-emb": (0,),
    "ulr": (False,),
    "input-types": ([], ["sequence", "sequence"]),
}
"""Features that we lack, with the values that switch them off; one that is not stated is off."""
PLACES: dict[tuple[str, str, str], Literal["post", "pre"]] = {("", "an", ""): "post", ("n", "a", "n"): "pre"}
"""Operations before and behind a block and behind the last (a: add, n: norm), dropout left out."""


def is_marian_npz(path: Path) -> bool:
    """Whether the path is a ``.npz`` file, or a folder with one and without a ``config.json``."""
    if path.is_dir():
        return not (path / CONFIG).exists() and bool(list(path.glob(f"*{SUFFIX}")))
    return path.suffix == SUFFIX


def load_marian_npz(path: Path, device: str = "cpu", dtype: Dtype = "float32") -> Pretrained:
    """Load a model of Marian's, with ``decoder.yml`` and the vocabularies that stand beside it.

    Args:
        path: the ``.npz`` file, or a folder with one (that which ``decoder.yml`` names, if several).
        device: ``cpu``, ``cuda`` or ``cuda:N``.
        dtype: number format to compute in.

    Raises:
        ModelError: a missing or damaged file, a feature that uwaga lacks, a weight that is missing,
            unknown or of another shape, a vocabulary of another size.
    """
    texts = read_texts(path)
    stored = read_npz(texts.model)
    options = _embedded(texts.model, stored)
    settings = _settings(texts.model, options)
    weights = _weights(texts, stored, settings)
    with SkipInit():
        model = Transformer(settings, texts.symbols, texts.size, texts.size)
    names = tuple(model.state_dict())
    fill(
        model, Table({name: (name,) for name in names}), Tensors(weights, dict.fromkeys(weights, texts.model))
    )
    model.eval()
    try:
        model.to(device=device, dtype=DTYPES[dtype])
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"{texts.model}: cannot be put on device {device!r}: {error}") from None
    return Pretrained(model, texts.source, texts.target, texts.options, texts.languages)


def _embedded(path: Path, stored: dict[str, NDArray[Any]]) -> Mapping[str, Any]:
    """The settings among the weights."""
    content = stored.pop(SETTINGS, None)
    if content is None or content.itemsize != 1 or content.size > LARGEST:
        raise ModelError(f"{path}: holds no {SETTINGS!r}, so it is not a model that Marian saved")
    try:
        values = yaml.safe_load(content.tobytes().rstrip(b"\0").decode("utf-8"))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: {SETTINGS!r} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise ModelError(f"{path}: {SETTINGS!r} is not a mapping")
    return values


def _settings(path: Path, options: Mapping[str, Any]) -> TransformerSettings:
    def stated(name: str, usual: object) -> Any:
        value = options.get(name)
        return usual if value is None else value

    for name, neutral in UNSUPPORTED.items():
        if stated(name, neutral[0]) not in neutral:
            raise ModelError(f"{path}: {name} = {options[name]!r} is a feature that uwaga lacks")
    operations = ("preprocess", "postprocess", "postprocess-top")
    place = tuple(str(stated(f"transformer-{name}", "")).replace("d", "") for name in operations)
    embedded = str(stated("transformer-postprocess-emb", "d")).replace("d", "")
    if place not in PLACES or embedded not in ("", "n"):
        said = ", ".join(f"transformer-{name} {stated(f'transformer-{name}', '')!r}" for name in operations)
        raise ModelError(
            f"{path}: {said}, transformer-postprocess-emb {embedded!r}: uwaga has norms behind the blocks "
            "('', 'dan', '') or before them ('n', 'da', 'n')"
        )
    activation = stated("transformer-ffn-activation", "swish")
    if activation not in ACTIVATIONS:
        raise ModelError(f"{path}: transformer-ffn-activation {activation!r} is a feature that uwaga lacks")
    learned = bool(
        stated("transformer-train-positions", stated("transformer-train-position-embeddings", False))
    )
    values = {
        "encoder_layers": options.get("enc-depth"),
        "decoder_layers": options.get("dec-depth"),
        "width": options.get("dim-emb"),
        "heads": options.get("transformer-heads"),
        "feed_forward": options.get("transformer-dim-ffn"),
        "decoder_feed_forward": stated("transformer-decoder-dim-ffn", 0) or None,
        "activation": ACTIVATIONS[activation],
        "norm": PLACES[place],
        "norm_epsilon": EPSILON,
        "positions": "learned" if learned else "sinusoidal",
        "sinusoids": "tensor2tensor",
        "max_length": stated("max-length", LONGEST) if learned else LONGEST,
        "embedding_scale": not learned,
        "embedding_norm": embedded == "n",
        "output_bias": True,
        "tie": _tie(options),
        "dropout": 0.0,
    }
    try:
        return parse(TransformerSettings, values, f"{path} ({SETTINGS})")
    except SettingsError as error:
        raise ModelError(str(error)) from None


def _tie(options: Mapping[str, Any]) -> str:
    if options.get("tied-embeddings-all"):
        return "all"
    source, output = bool(options.get("tied-embeddings-src")), bool(options.get("tied-embeddings"))
    return {(True, True): "all", (True, False): "embeddings", (False, True): "decoder"}.get(
        (source, output), "none"
    )


class _Stored:
    """The arrays of a file, each of which is taken once."""

    def __init__(self, path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._path, self._arrays = path, arrays
        self._taken: set[str] = set()

    def get(self, name: str, axes: int = 1) -> Tensor:
        """Its numbers in float32; an array of one axis is stored as a row or column."""
        found = self._arrays.get(name)
        if found is None:
            raise ModelError(f"{self._path}: weight {name!r} is missing, which its settings ask for")
        if found.dtype.kind != "f":
            raise ModelError(f"{self._path}: {name!r} is of {found.dtype}, not floating-point numbers")
        self._taken.add(name)
        if axes == 1 and found.size == max(found.shape, default=0):
            found = found.reshape(-1)
        if found.ndim != axes:
            raise ModelError(f"{self._path}: {name!r} has shape {found.shape}, not {axes} axes")
        return torch.from_numpy(np.array(found, dtype=np.float32, order="C"))

    def has(self, name: str) -> bool:
        """Whether there is an array of this name."""
        return name in self._arrays

    def refuse_the_rest(self) -> None:
        """Name an array that nothing has asked for."""
        rest = sorted(set(self._arrays) - self._taken)
        if rest:
            more = f" and {len(rest) - 1} more" if rest[1:] else ""
            raise ModelError(f"{self._path}: weight {rest[0]!r}{more}: of a feature that uwaga lacks")


def _weights(
    texts: Texts, arrays: Mapping[str, NDArray[Any]], settings: TransformerSettings
) -> dict[str, Tensor]:
    """All weights by our names."""
    stored = _Stored(texts.model, arrays)
    found: dict[str, Tensor] = {}
    for stack, layers in (("encoder", settings.encoder_layers), ("decoder", settings.decoder_layers)):
        own = "attention" if stack == "encoder" else "self_attention"
        for number in range(layers):
            ours, theirs = f"{stack}.{number}", f"{stack}_l{number + 1}"
            found |= _attention(stored, f"{ours}.{own}", f"{theirs}_self", settings)
            if stack == "decoder":
                found |= _attention(stored, f"{ours}.cross_attention", f"{theirs}_context", settings)
            for layer, suffix in (("inner", "1"), ("outer", "2")):
                found[f"{ours}.feed_forward.{layer}.weight"] = stored.get(f"{theirs}_ffn_W{suffix}", 2).T
                found[f"{ours}.feed_forward.{layer}.bias"] = stored.get(f"{theirs}_ffn_b{suffix}")
            found |= _norm(stored, f"{ours}.feed_forward_norm", f"{theirs}_ffn_ffn", settings.norm == "pre")
        if settings.norm == "pre":
            found |= _norm(stored, f"{stack}_norm", f"{stack}_top", False)
        if settings.embedding_norm:
            side = "source" if stack == "encoder" else "target"
            found |= _norm(stored, f"{side}_norm", f"{stack}_emb", True)
    if settings.positions == "learned":
        found["source_positions.weight"] = found["target_positions.weight"] = stored.get("Wpos", 2)
    found |= _tables(stored, texts, settings.tie)
    stored.refuse_the_rest()
    return found


def _attention(stored: _Stored, ours: str, theirs: str, settings: TransformerSettings) -> dict[str, Tensor]:
    query, key, value, output = (stored.get(f"{theirs}_W{name}", 2).T for name in "qkvo")
    biases = {name: stored.get(f"{theirs}_b{name}") for name in "qkvo"}
    return {
        f"{ours}.query.weight": query,
        f"{ours}.query.bias": biases["q"],
        f"{ours}.key_value.weight": torch.cat([key, value]),
        f"{ours}.key_value.bias": torch.cat([biases["k"], biases["v"]]),
        f"{ours}.output.weight": output,
        f"{ours}.output.bias": biases["o"],
    } | _norm(stored, f"{ours}_norm", f"{theirs}_Wo", settings.norm == "pre")


def _norm(stored: _Stored, ours: str, theirs: str, before: bool) -> dict[str, Tensor]:
    suffix = "_pre" if before else ""
    return {
        f"{ours}.weight": stored.get(f"{theirs}_ln_scale{suffix}"),
        f"{ours}.bias": stored.get(f"{theirs}_ln_bias{suffix}"),
    }


def _tables(stored: _Stored, texts: Texts, tie: str) -> dict[str, Tensor]:
    """Embeddings and output layer, as long as the vocabulary with its padding token."""
    sizes = texts.sizes

    def longer(table: Tensor, size: int, name: str) -> Tensor:
        if table.shape[0] != size:
            raise ModelError(
                f"{texts.model}: {name!r} is for {table.shape[0]} tokens, but the vocabulary has {size}; the "
                "files are of different models"
            )
        return torch.cat([table, torch.zeros(texts.size - size, *table.shape[1:])])

    shared = tie in ("all", "embeddings")
    names = ("Wemb", "Wemb") if shared else ("encoder_Wemb", "decoder_Wemb")
    source = longer(stored.get(names[0], 2), sizes[0], names[0])
    target = source if shared else longer(stored.get(names[1], 2), sizes[1], names[1])
    output = target
    if tie in ("none", "embeddings"):
        plain, turned = "decoder_ff_logit_out_W", "decoder_ff_logit_out_Wt"
        table = stored.get(turned, 2) if stored.has(turned) else stored.get(plain, 2).T
        output = longer(table, sizes[1], plain)
    bias = torch.full((texts.size,), NEVER)
    bias[: sizes[1]] = 0.0
    name = "decoder_ff_logit_out_b"
    if stored.has(name):  # not with --output-omit-bias
        given = stored.get(name)
        bias[: sizes[1]] = longer(given, sizes[1], name)[: sizes[1]]
    if shared and sizes[0] != sizes[1]:
        raise ModelError(f"{texts.model}: one embedding for vocabularies of {sizes[0]} and {sizes[1]} tokens")
    if not math.isfinite(float(bias.sum())):
        raise ModelError(f"{texts.model}: {name!r} holds what are not finite numbers")
    return {
        "source_embedding.weight": source,
        "target_embedding.weight": target,
        "output_weight": output,
        "output_bias": bias,
    }
