"""Write the bundled model as an installed package of Argos Translate, so that LibreTranslate serves its
weights.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import ctranslate2
import numpy as np
from safetensors.numpy import load_file

from uwaga.checkpoints.formats.uwaga.names import BUNDLED

METADATA = {
    "package_version": "1.0",
    "argos_version": "1.9.0",
    "from_code": "en",
    "from_name": "English",
    "to_code": "de",
    "to_name": "German",
}


def write_package(folder: Path) -> Path:
    """Write the package ``en_de`` into a folder of packages, unless it exists; return its path."""
    package = folder / "en_de"
    if (package / "metadata.json").exists():
        return package
    config = json.loads((BUNDLED / "config.json").read_text())
    spec = _specification(config["model"], load_file(BUNDLED / "model.safetensors"))
    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor(model_file=str(BUNDLED / "source.spm"))
    tokens = [pieces.id_to_piece(number) for number in range(pieces.get_piece_size())]
    symbols = {name: tokens[number] for name, number in config["symbols"].items()}
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.config.add_source_eos = True
    spec.config.bos_token = spec.config.decoder_start_token = symbols["start"]
    spec.config.eos_token, spec.config.unk_token = symbols["end"], symbols["unknown"]
    spec.validate()
    spec.optimize(quantization="float16")
    (package / "model").mkdir(parents=True, exist_ok=True)
    spec.save(str(package / "model"))
    shutil.copy(BUNDLED / "source.spm", package / "sentencepiece.model")
    (package / "metadata.json").write_text(json.dumps(METADATA))
    return package


def _specification(
    model: dict[str, int], weights: dict[str, np.ndarray]
) -> ctranslate2.specs.TransformerSpec:
    layers = model["encoder_layers"], model["decoder_layers"]
    spec = ctranslate2.specs.TransformerSpec.from_config(layers, model["heads"], pre_norm=True)
    weights = {name: array.astype(np.float32) for name, array in weights.items()}
    table = _sinusoids(model["max_length"], model["width"])
    embeddings = weights["output_weight"]
    for side in (spec.encoder, spec.decoder):
        side.position_encodings.encodings = table
        (side.embeddings[0] if isinstance(side.embeddings, list) else side.embeddings).weight = embeddings
    spec.decoder.projection.weight = embeddings
    spec.decoder.projection.bias = np.zeros(len(embeddings), np.float32)
    for number, layer in enumerate(spec.encoder.layer):
        _self_attention(layer, weights, f"encoder.{number}.attention", f"encoder.{number}.attention_norm")
        _feed_forward(layer, weights, f"encoder.{number}")
    for number, layer in enumerate(spec.decoder.layer):
        decoder_layer = f"decoder.{number}"
        _self_attention(
            layer, weights, f"{decoder_layer}.self_attention", f"{decoder_layer}.self_attention_norm"
        )
        cross = f"{decoder_layer}.cross_attention"
        for linear, name in zip(layer.attention.linear, ("query", "key_value", "output"), strict=True):
            _linear(linear, weights, f"{cross}.{name}")
        _norm(layer.attention.layer_norm, weights, f"{decoder_layer}.cross_attention_norm")
        _feed_forward(layer, weights, decoder_layer)
    _norm(spec.encoder.layer_norm, weights, "encoder_norm")
    _norm(spec.decoder.layer_norm, weights, "decoder_norm")
    return spec


def _self_attention(layer, weights, name: str, norm: str) -> None:  # type: ignore[no-untyped-def]
    fused, output = layer.self_attention.linear
    for part in ("weight", "bias"):
        parts = [weights[f"{name}.query.{part}"], weights[f"{name}.key_value.{part}"]]
        setattr(fused, part, np.concatenate(parts))
    _linear(output, weights, f"{name}.output")
    _norm(layer.self_attention.layer_norm, weights, norm)


def _feed_forward(layer, weights, name: str) -> None:  # type: ignore[no-untyped-def]
    _linear(layer.ffn.linear_0, weights, f"{name}.feed_forward.inner")
    _linear(layer.ffn.linear_1, weights, f"{name}.feed_forward.outer")
    _norm(layer.ffn.layer_norm, weights, f"{name}.feed_forward_norm")


def _linear(linear, weights, name: str) -> None:  # type: ignore[no-untyped-def]
    linear.weight, linear.bias = weights[f"{name}.weight"], weights[f"{name}.bias"]


def _norm(norm, weights, name: str) -> None:  # type: ignore[no-untyped-def]
    norm.gamma, norm.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]


def _sinusoids(positions: int, width: int) -> np.ndarray:
    """Return the sinusoidal position encodings (positions, width): sines in even columns, cosines in odd
    ones.
    """
    rates = np.exp(np.arange(0, width, 2) * (-np.log(10000.0) / width))
    angles = np.arange(positions)[:, None] * rates
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(positions, width).astype(np.float32)
