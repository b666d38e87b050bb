"""The settings that Marian keeps among a model's weights, as ours."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uwaga.errors import ModelError, SettingsError, shown
from uwaga.settings import TransformerSettings, parse
from uwaga.settings.parsing import load_yaml

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
    """The settings in the bytes of a tensor.

    Args:
        path: the file, for messages.
        content: the tensor, None where the file has none.

    Raises:
        ModelError: there are none, or they are not YAML.
    """
    if content is None or content.itemsize != 1 or content.size > LARGEST:
        raise ModelError(f"{path}: holds no {SETTINGS!r}, so it is not a model that Marian saved")
    try:
        values = load_yaml(np.ascontiguousarray(content).tobytes().rstrip(b"\0").decode("utf-8"))
    except ValueError as error:
        raise ModelError(f"{path}: {SETTINGS!r} is not YAML: {error}") from None
    if not isinstance(values, dict) or not values:
        raise ModelError(f"{path}: {SETTINGS!r} is not a mapping")
    return values


def model_settings(path: Path, options: Mapping[str, Any]) -> TransformerSettings:
    """A model's settings from Marian's.

    Raises:
        ModelError: a feature that uwaga lacks, by its name and value, or an impossible size.
    """

    def stated(name: str, usual: object) -> Any:
        value = options.get(name)
        return usual if value is None else value

    for name, neutral in UNSUPPORTED.items():
        if stated(name, neutral[0]) not in neutral:
            raise ModelError(f"{path}: {name} = {shown(options[name])} is a feature that uwaga lacks")
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
        raise ModelError(
            f"{path}: transformer-ffn-activation {shown(activation)} is a feature that uwaga lacks"
        )
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


def _tie(options: Mapping[str, Any]) -> str:
    if options.get("tied-embeddings-all"):
        return "all"
    source, output = bool(options.get("tied-embeddings-src")), bool(options.get("tied-embeddings"))
    return {(True, True): "all", (True, False): "embeddings", (False, True): "decoder"}.get(
        (source, output), "none"
    )


def _self_attention(path: Path, options: Mapping[str, Any]) -> dict[str, object]:
    """What the decoder sees earlier tokens with, and the settings of that."""
    kind = options.get("transformer-decoder-autoreg") or "self-attention"
    if kind not in SELF_ATTENTION:
        raise ModelError(
            f"{path}: transformer-decoder-autoreg = {shown(kind)} is a feature that uwaga lacks; it has "
            + ", ".join(SELF_ATTENTION)
        )
    made: dict[str, object] = {"self_attention": SELF_ATTENTION[kind]}
    if kind == "rnn":
        for name, usual, value in RECURRENT:
            found = options.get(name, usual)
            if found != value:
                raise ModelError(
                    f"{path}: {name} = {shown(found)} is a feature that uwaga lacks; it has {shown(value)}"
                )
    elif kind == "average-attention":
        activation = options.get("transformer-aan-activation", "swish")
        if activation not in ACTIVATIONS:
            raise ModelError(
                f"{path}: transformer-aan-activation {shown(activation)} is a feature that uwaga lacks"
            )
        made |= {
            "aan_layers": options.get("transformer-aan-depth", 2),
            "aan_feed_forward": options.get("transformer-dim-aan", 2048),
            "aan_activation": ACTIVATIONS[activation],
            "aan_gate": not options.get("transformer-aan-nogate", False),
        }
    return made
