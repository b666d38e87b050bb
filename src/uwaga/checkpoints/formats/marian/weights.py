"""Settings and weights of Marian models: the embedded YAML, ``.npz`` arrays, the table of names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uwaga.checkpoints.storage.tensors import FORMAT_NAMES, StoredTensor, read_npz
from uwaga.checkpoints.weight_map import RowPadding, Table, View
from uwaga.errors import ModelError, SettingsError, quoted
from uwaga.settings import AlignmentHead, TransformerSettings, parse
from uwaga.settings.yaml_text import load_yaml

SETTINGS = "special:model.yml"
MAX_SETTINGS_BYTES = 1 << 20
"""Maximum bytes of the settings."""
EPSILON = 1e-6
"""Epsilon of the variance in ``layerNorm`` of marian-dev's src/layers/generic.h."""
MAX_POSITIONS = 1024
"""Default maximum of positions; Marian has no limit."""
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
"""Features that uwaga lacks, with the values that disable them; unstated features are disabled."""
NORM_POSITIONS: dict[tuple[str, str, str], Literal["post", "pre"]] = {
    ("", "an", ""): "post",
    ("n", "a", "n"): "pre",
}
"""Operations before and after a block and after the last block (a: add, n: norm), without dropout."""


SELF_ATTENTION = {"self-attention": "attention", "rnn": "ssru", "average-attention": "aan"}
"""Kinds of a decoder's self-attention by ``transformer-decoder-autoreg``."""
RECURRENT_SETTINGS: tuple[tuple[str, object, object], ...] = (
    ("dec-cell", "gru", "ssru"),
    ("transformer-rnn-projection", False, False),
    ("layer-normalization", False, False),
)
"""Settings of recurrent decoders, with Marian's default and the only supported value."""


def embedded_settings(path: Path, content: NDArray[Any] | None) -> Mapping[str, Any]:
    """Parse the settings in the bytes of a tensor.

    Args:
        path: the file, for messages.
        content: the tensor, None if the file has none.
    """
    if content is None or content.itemsize != 1 or content.size > MAX_SETTINGS_BYTES:
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

    def setting(name: str, default: object) -> Any:
        value = options.get(name)
        return default if value is None else value

    for name, neutral in UNSUPPORTED.items():
        if setting(name, neutral[0]) not in neutral:
            raise ModelError(f"{path}: {name} = {quoted(options[name])} is not supported by uwaga")
    operations = ("preprocess", "postprocess", "postprocess-top")
    norms = tuple(str(setting(f"transformer-{name}", "")).replace("d", "") for name in operations)
    embedded = str(setting("transformer-postprocess-emb", "d")).replace("d", "")
    if norms not in NORM_POSITIONS or embedded not in ("", "n"):
        description = ", ".join(
            f"transformer-{name} {setting(f'transformer-{name}', '')!r}" for name in operations
        )
        raise ModelError(
            f"{path}: {description}, transformer-postprocess-emb {embedded!r}: uwaga has norms behind the "
            "blocks ('', 'dan', '') or before them ('n', 'da', 'n')"
        )
    activation = setting("transformer-ffn-activation", "swish")
    if activation not in ACTIVATIONS:
        raise ModelError(f"{path}: transformer-ffn-activation {quoted(activation)} is not supported by uwaga")
    learned = bool(
        setting("transformer-train-positions", setting("transformer-train-position-embeddings", False))
    )
    values = {
        "encoder_layers": options.get("enc-depth"),
        "decoder_layers": options.get("dec-depth"),
        "width": options.get("dim-emb"),
        "heads": options.get("transformer-heads"),
        "feed_forward": options.get("transformer-dim-ffn"),
        "decoder_feed_forward": setting("transformer-decoder-dim-ffn", 0) or None,
        "activation": ACTIVATIONS[activation],
        **_self_attention(path, options),
        "norm": NORM_POSITIONS[norms],
        "norm_epsilon": EPSILON,
        "positions": "learned" if learned else "sinusoidal",
        "sinusoids": "tensor2tensor",
        "max_length": setting("max-length", MAX_POSITIONS) if learned else MAX_POSITIONS,
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
    """Return Marian's alignment head: the first head of the layer trained by guided alignment."""
    layer = options.get("transformer-guided-alignment-layer")
    number = settings.decoder_layers if layer in (None, "last") else layer
    if isinstance(number, str) and number.isdecimal():
        number = int(number)
    if type(number) is not int or not 1 <= number <= settings.decoder_layers:
        raise ModelError(
            f"{path}: transformer-guided-alignment-layer {quoted(layer)} is not one of the decoder's "
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
    """Return the settings of the decoder's self-attention or of its replacement."""
    kind = options.get("transformer-decoder-autoreg") or "self-attention"
    if kind not in SELF_ATTENTION:
        raise ModelError(
            f"{path}: transformer-decoder-autoreg = {quoted(kind)} is not supported; supported: "
            + ", ".join(SELF_ATTENTION)
        )
    settings: dict[str, object] = {"self_attention": SELF_ATTENTION[kind]}
    if kind == "rnn":
        for name, default, value in RECURRENT_SETTINGS:
            actual = options.get(name, default)
            if actual != value:
                raise ModelError(
                    f"{path}: {name} = {quoted(actual)} is not supported; supported: {quoted(value)}"
                )
    elif kind == "average-attention":
        activation = options.get("transformer-aan-activation", "swish")
        if activation not in ACTIVATIONS:
            raise ModelError(
                f"{path}: transformer-aan-activation {quoted(activation)} is not supported by uwaga"
            )
        settings |= {
            "aan_layers": options.get("transformer-aan-depth", 2),
            "aan_feed_forward": options.get("transformer-dim-aan", 2048),
            "aan_activation": ACTIVATIONS[activation],
            "aan_gate": not options.get("transformer-aan-nogate", False),
        }
    return settings


def read_arrays(path: Path, contents: bool = True) -> tuple[dict[str, StoredTensor], dict[str, NDArray[Any]]]:
    """Return the weights, and the settings by name."""
    arrays = read_npz(path, None if contents else SETTINGS)
    other_tensors = {SETTINGS: arrays.pop(SETTINGS)} if SETTINGS in arrays else {}
    return {name: _stored(path, name, array) for name, array in arrays.items()}, other_tensors


def _stored(path: Path, name: str, array: NDArray[Any]) -> StoredTensor:
    kind = FORMAT_NAMES.get(array.dtype.name)
    if kind is None:
        raise ModelError(f"{path}: {name!r} is of {array.dtype}, not a supported number format")
    return StoredTensor(name, path, kind, array)


EXCLUDED_LOGIT = -1e4
"""The logit of tokens that Marian lacks."""
OUTPUT, TRANSPOSED_OUTPUT, OUTPUT_BIAS = (f"decoder_ff_logit_out_{name}" for name in ("W", "Wt", "b"))


def weight_table(
    path: Path, sizes: tuple[int, int], settings: TransformerSettings, transposed_output: bool
) -> Table:
    """Return the table of weights: matrices are stored (inputs, outputs), vectors as rows or columns.

    Args:
        path: the file, for messages.
        sizes: pieces of source and target as Marian counts them.
        settings: settings of the model.
        transposed_output: True if the output matrix is stored (outputs, inputs).
    """
    weights: dict[str, tuple[View, ...]] = {}
    pre_norm = settings.norm == "pre"
    for stack, layers in (("encoder", settings.encoder_layers), ("decoder", settings.decoder_layers)):
        attention = "attention" if stack == "encoder" else "self_attention"
        for index in range(layers):
            prefix, stored_prefix = f"{stack}.{index}", f"{stack}_l{index + 1}"
            if stack == "decoder" and settings.self_attention == "ssru":
                weights |= _ssru(prefix, stored_prefix, pre_norm)
            elif stack == "decoder" and settings.self_attention == "aan":
                weights |= _average(prefix, f"{stored_prefix}_aan", settings)
            else:
                weights |= _attention(f"{prefix}.{attention}", f"{stored_prefix}_self", pre_norm)
            if stack == "decoder":
                weights |= _attention(f"{prefix}.cross_attention", f"{stored_prefix}_context", pre_norm)
            for layer, suffix in (("inner", "1"), ("outer", "2")):
                weights |= _linear(f"{prefix}.feed_forward.{layer}", f"{stored_prefix}_ffn_", suffix)
            weights |= _norm(f"{prefix}.feed_forward_norm", f"{stored_prefix}_ffn_ffn", pre_norm)
        weights |= _norm(f"{stack}_norm", f"{stack}_top", False)
        side = "source" if stack == "encoder" else "target"
        weights |= _norm(f"{side}_norm", f"{stack}_emb", True)
        weights[f"{side}_positions.weight"] = (View("Wpos"),)
    shared = settings.tie in ("all", "embeddings")
    source, target = ("Wemb", "Wemb") if shared else ("encoder_Wemb", "decoder_Wemb")
    weights["source_embedding.weight"], weights["target_embedding.weight"] = (View(source),), (View(target),)
    output = View(TRANSPOSED_OUTPUT) if transposed_output else View(OUTPUT, transposed=True)
    weights["output_weight"] = (View(target) if settings.tie in ("all", "decoder") else output,)
    weights["output_bias"] = (View(OUTPUT_BIAS),)
    if shared and sizes[0] != sizes[1]:
        raise ModelError(f"{path}: one embedding for vocabularies of {sizes[0]} and {sizes[1]} tokens")
    padding = {name: RowPadding(sizes[1]) for name in ("target_embedding.weight", "output_weight")}
    padding |= {
        "source_embedding.weight": RowPadding(sizes[0]),
        "output_bias": RowPadding(sizes[1], EXCLUDED_LOGIT),
    }
    return Table(
        weights, optional=("output_bias",), padding=padding, origin=SETTINGS
    )  # not with --output-omit-bias


def _attention(prefix: str, stored_prefix: str, pre_norm: bool) -> dict[str, tuple[View, ...]]:
    key = [View(f"{stored_prefix}_{kind}{name}", transposed=kind == "W") for kind in "Wb" for name in "kv"]
    return {
        **_linear(f"{prefix}.query", f"{stored_prefix}_", "q"),
        f"{prefix}.key_value.weight": (key[0], key[1]),
        f"{prefix}.key_value.bias": (key[2], key[3]),
        **_linear(f"{prefix}.output", f"{stored_prefix}_", "o"),
        **_norm(f"{prefix}_norm", f"{stored_prefix}_Wo", pre_norm),
    }


def _ssru(prefix: str, stored_prefix: str, pre_norm: bool) -> dict[str, tuple[View, ...]]:
    norm = f"{stored_prefix}_rnn" if pre_norm else f"{stored_prefix}_rnn_ffn"
    return {
        f"{prefix}.ssru.input.weight": (View(f"{stored_prefix}_rnn_W", transposed=True),),
        **_linear(f"{prefix}.ssru.forget", f"{stored_prefix}_rnn_", "f"),
        **_norm(f"{prefix}.self_attention_norm", norm, pre_norm),
    }


def _average(prefix: str, stored_prefix: str, settings: TransformerSettings) -> dict[str, tuple[View, ...]]:
    linears = {f"aan.layers.{number}": str(number + 1) for number in range(len(settings.aan_sizes))}
    if settings.aan_gate:
        linears |= {"aan.input_gate": "i", "aan.forget_gate": "f"}
    weights: dict[str, tuple[View, ...]] = {}
    for name, suffix in linears.items():
        weights |= _linear(f"{prefix}.{name}", f"{stored_prefix}_", suffix)
    pre_norm = settings.norm == "pre"
    return weights | _norm(
        f"{prefix}.self_attention_norm", stored_prefix if pre_norm else f"{stored_prefix}_ffn", pre_norm
    )


def _linear(prefix: str, stored_prefix: str, suffix: str) -> dict[str, tuple[View, ...]]:
    return {
        f"{prefix}.weight": (View(f"{stored_prefix}W{suffix}", transposed=True),),
        f"{prefix}.bias": (View(f"{stored_prefix}b{suffix}"),),
    }


def _norm(prefix: str, stored_prefix: str, pre: bool) -> dict[str, tuple[View, ...]]:
    suffix = "_pre" if pre else ""
    return {
        f"{prefix}.weight": (View(f"{stored_prefix}_ln_scale{suffix}"),),
        f"{prefix}.bias": (View(f"{stored_prefix}_ln_bias{suffix}"),),
    }
