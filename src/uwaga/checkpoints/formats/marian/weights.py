"""Settings and weights of Marian models: the embedded YAML, ``.npz`` arrays, the table of names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uwaga.checkpoints.storage.tensors import FORMATS, StoredTensor, read_npz
from uwaga.checkpoints.weight_map import Longer, Table, View
from uwaga.errors import ModelError, SettingsError, shown
from uwaga.settings import AlignmentHead, TransformerSettings, parse
from uwaga.settings.yaml_text import load_yaml

SETTINGS = "special:model.yml"
LARGEST = 1 << 20
"""Bytes of the settings."""
EPSILON = 1e-6
"""What ``layerNorm`` of marian-dev's src/layers/generic.h adds to the variance."""
LONGEST = 1024
"""Positions; Marian computes any."""
ACTIVATIONS = {"relu": "relu", "swish": "silu"}
UNSUPPORTED: dict[str, tuple[object, ...]] = {
    "type": ("transformer",),
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


SELF_ATTENTION = {"self-attention": "attention", "rnn": "ssru", "average-attention": "aan"}
"""What a decoder's layers read earlier tokens with, by ``transformer-decoder-autoreg``."""
RECURRENT: tuple[tuple[str, object, object], ...] = (
    ("dec-cell", "gru", "ssru"),
    ("transformer-rnn-projection", False, False),
    ("layer-normalization", False, False),
)
"""Of recurrent decoders: settings with Marian's default and the one value that there is here."""


def embedded_settings(path: Path, content: NDArray[Any] | None) -> Mapping[str, Any]:
    """Parse the settings in the bytes of a tensor.

    Args:
        path: the file, for messages.
        content: the tensor, None where the file has none.
    """
    if content is None or content.itemsize != 1 or content.size > LARGEST:
        raise ModelError(f"{path}: has no {SETTINGS!r}, so it was not saved by Marian")
    try:
        values = load_yaml(np.ascontiguousarray(content).tobytes().rstrip(b"\0").decode("utf-8"))
    except ValueError as error:
        raise ModelError(f"{path}: {SETTINGS!r} is not YAML: {error}") from None
    if not isinstance(values, dict) or not values:
        raise ModelError(f"{path}: {SETTINGS!r} is not a mapping")
    return values


def model_settings(path: Path, options: Mapping[str, Any]) -> TransformerSettings:
    """Convert Marian's settings of a model."""

    def stated(name: str, default: object) -> Any:
        value = options.get(name)
        return default if value is None else value

    for name, neutral in UNSUPPORTED.items():
        if stated(name, neutral[0]) not in neutral:
            raise ModelError(f"{path}: {name} = {shown(options[name])} is not supported by uwaga")
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
        raise ModelError(f"{path}: transformer-ffn-activation {shown(activation)} is not supported by uwaga")
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
        **_self_attention(path, options),
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


def guided_head(path: Path, options: Mapping[str, Any], settings: TransformerSettings) -> AlignmentHead:
    """Return the head that Marian aligns words with: the first of the layer that guided alignment trains."""
    layer = options.get("transformer-guided-alignment-layer")
    number = settings.decoder_layers if layer in (None, "last") else layer
    if isinstance(number, str) and number.isdecimal():
        number = int(number)
    if type(number) is not int or not 1 <= number <= settings.decoder_layers:
        raise ModelError(
            f"{path}: transformer-guided-alignment-layer {shown(layer)} is not one of the decoder's "
            f"{settings.decoder_layers} layers"
        )
    return AlignmentHead(layer=number, head=1)


def _tie(options: Mapping[str, Any]) -> str:
    if options.get("tied-embeddings-all"):
        return "all"
    source, output = bool(options.get("tied-embeddings-src")), bool(options.get("tied-embeddings"))
    return {(True, True): "all", (True, False): "embeddings", (False, True): "decoder"}.get(
        (source, output), "none"
    )


def _self_attention(path: Path, options: Mapping[str, Any]) -> dict[str, object]:
    """Return the settings of the decoder's self-attention, or of the recurrence that replaces it."""
    kind = options.get("transformer-decoder-autoreg") or "self-attention"
    if kind not in SELF_ATTENTION:
        raise ModelError(
            f"{path}: transformer-decoder-autoreg = {shown(kind)} is not supported; supported: "
            + ", ".join(SELF_ATTENTION)
        )
    made: dict[str, object] = {"self_attention": SELF_ATTENTION[kind]}
    if kind == "rnn":
        for name, default, value in RECURRENT:
            found = options.get(name, default)
            if found != value:
                raise ModelError(
                    f"{path}: {name} = {shown(found)} is not supported; supported: {shown(value)}"
                )
    elif kind == "average-attention":
        activation = options.get("transformer-aan-activation", "swish")
        if activation not in ACTIVATIONS:
            raise ModelError(
                f"{path}: transformer-aan-activation {shown(activation)} is not supported by uwaga"
            )
        made |= {
            "aan_layers": options.get("transformer-aan-depth", 2),
            "aan_feed_forward": options.get("transformer-dim-aan", 2048),
            "aan_activation": ACTIVATIONS[activation],
            "aan_gate": not options.get("transformer-aan-nogate", False),
        }
    return made


def read_arrays(path: Path, contents: bool = True) -> tuple[dict[str, StoredTensor], dict[str, NDArray[Any]]]:
    """Return the weights, and the settings by name."""
    arrays = read_npz(path, None if contents else SETTINGS)
    others = {SETTINGS: arrays.pop(SETTINGS)} if SETTINGS in arrays else {}
    return {name: _stored(path, name, array) for name, array in arrays.items()}, others


def _stored(path: Path, name: str, array: NDArray[Any]) -> StoredTensor:
    kind = FORMATS.get(array.dtype.name)
    if kind is None:
        raise ModelError(f"{path}: {name!r} is of {array.dtype}, not numbers that are read here")
    return StoredTensor(name, path, kind, array)


NEVER = -1e4
"""The logit of tokens that Marian does not have."""
OUTPUT, TURNED_OUTPUT, OUTPUT_BIAS = (f"decoder_ff_logit_out_{name}" for name in ("W", "Wt", "b"))


def weight_table(
    path: Path, sizes: tuple[int, int], settings: TransformerSettings, turned_output: bool
) -> Table:
    """Return the table of weights: matrices are stored (inputs, outputs), vectors as rows or columns.

    Args:
        path: the file, for messages.
        sizes: pieces of source and target as Marian counts them.
        settings: of the model.
        turned_output: True if the output matrix is stored (outputs, inputs).
    """
    weights: dict[str, tuple[View, ...]] = {}
    before = settings.norm == "pre"
    for stack, layers in (("encoder", settings.encoder_layers), ("decoder", settings.decoder_layers)):
        own = "attention" if stack == "encoder" else "self_attention"
        for number in range(layers):
            ours, theirs = f"{stack}.{number}", f"{stack}_l{number + 1}"
            if stack == "decoder" and settings.self_attention == "ssru":
                weights |= _ssru(ours, theirs, before)
            elif stack == "decoder" and settings.self_attention == "aan":
                weights |= _average(ours, f"{theirs}_aan", settings)
            else:
                weights |= _attention(f"{ours}.{own}", f"{theirs}_self", before)
            if stack == "decoder":
                weights |= _attention(f"{ours}.cross_attention", f"{theirs}_context", before)
            for layer, suffix in (("inner", "1"), ("outer", "2")):
                weights |= _linear(f"{ours}.feed_forward.{layer}", f"{theirs}_ffn_", suffix)
            weights |= _norm(f"{ours}.feed_forward_norm", f"{theirs}_ffn_ffn", before)
        weights |= _norm(f"{stack}_norm", f"{stack}_top", False)
        side = "source" if stack == "encoder" else "target"
        weights |= _norm(f"{side}_norm", f"{stack}_emb", True)
        weights[f"{side}_positions.weight"] = (View("Wpos"),)
    shared = settings.tie in ("all", "embeddings")
    source, target = ("Wemb", "Wemb") if shared else ("encoder_Wemb", "decoder_Wemb")
    weights["source_embedding.weight"], weights["target_embedding.weight"] = (View(source),), (View(target),)
    output = View(TURNED_OUTPUT) if turned_output else View(OUTPUT, turned=True)
    weights["output_weight"] = (View(target) if settings.tie in ("all", "decoder") else output,)
    weights["output_bias"] = (View(OUTPUT_BIAS),)
    if shared and sizes[0] != sizes[1]:
        raise ModelError(f"{path}: one embedding for vocabularies of {sizes[0]} and {sizes[1]} tokens")
    longer = {name: Longer(sizes[1]) for name in ("target_embedding.weight", "output_weight")}
    longer |= {"source_embedding.weight": Longer(sizes[0]), "output_bias": Longer(sizes[1], NEVER)}
    return Table(weights, zero=("output_bias",), longer=longer, asked=SETTINGS)  # not with --output-omit-bias


def _attention(ours: str, theirs: str, before: bool) -> dict[str, tuple[View, ...]]:
    key = [View(f"{theirs}_{kind}{name}", turned=kind == "W") for kind in "Wb" for name in "kv"]
    return {
        **_linear(f"{ours}.query", f"{theirs}_", "q"),
        f"{ours}.key_value.weight": (key[0], key[1]),
        f"{ours}.key_value.bias": (key[2], key[3]),
        **_linear(f"{ours}.output", f"{theirs}_", "o"),
        **_norm(f"{ours}_norm", f"{theirs}_Wo", before),
    }


def _ssru(ours: str, theirs: str, before: bool) -> dict[str, tuple[View, ...]]:
    norm = f"{theirs}_rnn" if before else f"{theirs}_rnn_ffn"
    return {
        f"{ours}.ssru.input.weight": (View(f"{theirs}_rnn_W", turned=True),),
        **_linear(f"{ours}.ssru.forget", f"{theirs}_rnn_", "f"),
        **_norm(f"{ours}.self_attention_norm", norm, before),
    }


def _average(ours: str, theirs: str, settings: TransformerSettings) -> dict[str, tuple[View, ...]]:
    linears = {f"aan.layers.{number}": str(number + 1) for number in range(len(settings.aan_sizes))}
    if settings.aan_gate:
        linears |= {"aan.input_gate": "i", "aan.forget_gate": "f"}
    found: dict[str, tuple[View, ...]] = {}
    for name, suffix in linears.items():
        found |= _linear(f"{ours}.{name}", f"{theirs}_", suffix)
    before = settings.norm == "pre"
    return found | _norm(f"{ours}.self_attention_norm", theirs if before else f"{theirs}_ffn", before)


def _linear(ours: str, theirs: str, suffix: str) -> dict[str, tuple[View, ...]]:
    return {
        f"{ours}.weight": (View(f"{theirs}W{suffix}", turned=True),),
        f"{ours}.bias": (View(f"{theirs}b{suffix}"),),
    }


def _norm(ours: str, theirs: str, before: bool) -> dict[str, tuple[View, ...]]:
    suffix = "_pre" if before else ""
    return {
        f"{ours}.weight": (View(f"{theirs}_ln_scale{suffix}"),),
        f"{ours}.bias": (View(f"{theirs}_ln_bias{suffix}"),),
    }
