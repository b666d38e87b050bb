"""GPT-2 (Radford 2019)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uwaga.checkpoints.huggingface.config import ConfigReader
from uwaga.checkpoints.huggingface.recipe import Recipe
from uwaga.checkpoints.weight_map import Table
from uwaga.errors import ModelError, SettingsError
from uwaga.settings import DecoderOnlySettings, parse
from uwaga.text.pretrained import TokenIds, read_gpt2_tokeniser

if TYPE_CHECKING:
    from uwaga.checkpoints.files.torch_files import Tensors
    from uwaga.models.decoder_only import DecoderOnly

UNSUPPORTED = {
    "is_encoder_decoder": (False,),
    "add_cross_attention": (False,),
    "scale_attn_by_inverse_layer_idx": (False,),
}
LONGEST = 64
"""New tokens where the folder states no number."""

PREFIX = "transformer."
HEAD, EMBEDDING = "lm_head.weight", "wte.weight"
MASKS = re.compile(r"(?:transformer\.)?h\.\d+\.attn\.(bias|masked_bias)")
"""Stored with older checkpoints: the look-ahead mask and what it writes over scores."""

FUSED = "attn.c_attn"
"""Query, key and value one below the other."""

TURNED = ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")
"""Layers whose weights are stored (in, out)."""

BLOCK = (
    ("attention_norm", "ln_1"),
    ("attention.query", "attn.c_attn.query"),
    ("attention.key_value", "attn.c_attn.key_value"),
    ("attention.output", "attn.c_proj"),
    ("feed_forward_norm", "ln_2"),
    ("feed_forward.inner", "mlp.c_fc"),
    ("feed_forward.outer", "mlp.c_proj"),
)


def gpt2(folder: Path, config: Mapping[str, Any]) -> Recipe:
    """Understand a GPT-2 folder; see :data:`uwaga.checkpoints.huggingface.recipe.Family`."""
    reader = ConfigReader(folder, config)
    reader.refuse(UNSUPPORTED)
    size = reader.whole("vocab_size", 50257, least=4)
    width = reader.whole("n_embd", 768, least=1)
    values = {
        "layers": reader.whole("n_layer", 12, least=1),
        "width": width,
        "heads": reader.whole("n_head", 12, least=1),
        "feed_forward": reader.whole("n_inner", 4 * width, least=1),
        "activation": reader.activation("activation_function", "gelu_new"),
        "norm": "pre",
        "norm_epsilon": reader.number("layer_norm_epsilon", 1e-5),
        "max_length": reader.whole("n_positions", 1024, least=1),
        "embedding_scale": False,
        "attention_scale": reader.flag("scale_attn_weights", True),
        "tie_output": reader.flag("tie_word_embeddings", True),
        "dropout": 0.0,
    }
    try:
        settings = parse(DecoderOnlySettings, values, str(reader.path))
    except SettingsError as error:
        raise ModelError(str(error)) from None
    end = reader.whole("eos_token_id", size - 1)
    start = reader.whole("bos_token_id", end)
    pad = reader.whole("pad_token_id", end)
    reader.within(size, bos_token_id=start, eos_token_id=end, pad_token_id=pad)
    tokeniser = read_gpt2_tokeniser(folder, TokenIds(size, start, end, pad)).target
    unstated = {"max_length": LONGEST + 1}
    return Recipe(
        settings, size, size, tokeniser, tokeniser, table, build=build, prepare=prepare, unstated=unstated
    )


def build(recipe: Recipe, stored: Tensors) -> DecoderOnly:
    """The decoder of a recipe's settings."""
    from uwaga.models.decoder_only import DecoderOnly

    assert isinstance(recipe.settings, DecoderOnlySettings)
    return DecoderOnly(recipe.settings, recipe.target.symbols, recipe.target_vocabulary)


def prepare(stored: Tensors) -> Tensors:
    """One name for each weight whichever class was saved, each (out, in), fused projections apart.

    Nothing is copied: what is turned or cut is a view.

    Raises:
        ModelError: a fused projection cannot be cut in three.
    """
    values: dict[str, Any] = {}
    origin: dict[str, Path] = {}
    for name, tensor in stored.values.items():
        parts = parts_of(name, tensor, stored.origin[name])
        values |= parts
        origin |= dict.fromkeys(parts, stored.origin[name])
    return replace(stored, values=values, origin=origin, sums={})


def parts_of(name: str, tensor: Any, path: Path) -> dict[str, Any]:
    """What one stored tensor, of torch or numpy, becomes; see :func:`prepare`.

    Raises:
        ModelError: as there.
    """
    short = name.removeprefix(PREFIX)
    if MASKS.fullmatch(short):
        return {}
    layer, _, kind = short.rpartition(".")
    turned = tensor.T if layer.endswith(TURNED) and tensor.ndim == 2 else tensor
    if not layer.endswith(FUSED):
        return {short: turned}
    if turned.ndim == 0 or turned.shape[0] % 3:
        raise ModelError(
            f"{path}: {name!r} has shape {tuple(tensor.shape)}, which is not that of three projections"
        )
    third = turned.shape[0] // 3
    return {f"{layer}.query.{kind}": turned[:third], f"{layer}.key_value.{kind}": turned[third:]}


def table(model: DecoderOnly) -> Table:
    """Where each weight is stored, under the names that :func:`prepare` gives."""
    tied = model.settings.tie_output
    weights = {
        "embedding.weight": (EMBEDDING,),
        "positions.weight": ("wpe.weight",),
        "output_weight": (EMBEDDING if tied else HEAD,),
    }
    for kind in ("weight", "bias"):
        weights[f"decoder_norm.{kind}"] = (f"ln_f.{kind}",)
        for layer in range(model.settings.layers):
            for ours, theirs in BLOCK:
                weights[f"decoder.{layer}.{ours}.{kind}"] = (f"h.{layer}.{theirs}.{kind}",)
    return Table(weights, {HEAD: EMBEDDING} if tied else {})
