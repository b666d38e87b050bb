"""Which of Marian's tensors make our weights."""

from __future__ import annotations

from pathlib import Path

from uwaga.checkpoints.formats.marian.options import SETTINGS
from uwaga.checkpoints.weight_map import Longer, Table, View
from uwaga.errors import ModelError
from uwaga.settings import TransformerSettings

NEVER = -1e4
"""The logit of tokens that Marian does not have."""
OUTPUT, TURNED_OUTPUT, OUTPUT_BIAS = (f"decoder_ff_logit_out_{name}" for name in ("W", "Wt", "b"))


def weight_table(
    path: Path, sizes: tuple[int, int], settings: TransformerSettings, turned_output: bool
) -> Table:
    """Where each weight is stored: (in, out), and arrays of one axis as rows or columns.

    Args:
        path: the file, for messages.
        sizes: pieces of source and target as Marian counts them.
        settings: of the model.
        turned_output: whether the output's matrix is stored (out, in).

    Raises:
        ModelError: one table of embeddings for vocabularies of two sizes.
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
