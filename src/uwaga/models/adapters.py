"""Models whose layers are adapted (M34) or rounded (M36) while they train."""

from __future__ import annotations

from functools import partial
from typing import cast

from torch import nn

from uwaga.errors import SettingsError
from uwaga.models.base import Seq2Seq
from uwaga.models.layers.lora import LoraLinear
from uwaga.models.layers.quantised import QuantisedEmbedding, QuantisedLinear
from uwaga.models.layers.replace import replace_layers
from uwaga.models.patterns import names_matching
from uwaga.models.transformer import Transformer
from uwaga.settings import LoraSettings


def add_adapters(model: Seq2Seq, settings: LoraSettings) -> None:
    """Freeze a Transformer and put adapters beside its linear layers, in place.

    Raises:
        SettingsError: a pattern of ``targets`` fits no linear layer, or the model is no Transformer.
    """
    if not isinstance(model, Transformer):
        raise SettingsError(
            f"adapt.lora: adapters are for Transformers, not a {type(model).__name__}; "
            "leave lora out to train all of its weights"
        )
    names = _linear(model)
    chosen = {
        name
        for pattern in settings.targets
        for name in names_matching(pattern, names, "adapt.lora.targets", "linear layer")
    }
    model.requires_grad_(False)
    replace_layers(
        model,
        [name for name in names if name in chosen],
        lambda layer: LoraLinear(cast(nn.Linear, layer), settings.rank, settings.alpha, settings.dropout),
    )


def adapters_of(model: nn.Module) -> dict[str, LoraLinear]:
    """The layers with an adapter, by name."""
    return {name: layer for name, layer in model.named_modules() if isinstance(layer, LoraLinear)}


def round_as_int8(model: Seq2Seq) -> None:
    """Make a Transformer compute as the engine does in int8, in place; its weights stay as they are.

    Raises:
        SettingsError: the engine does not run such a model.
    """
    if not isinstance(model, Transformer) or model.settings.self_attention == "aan":
        what = "self_attention: aan" if isinstance(model, Transformer) else type(model).__name__
        raise SettingsError(
            f"training.quantisation: int8 is how the native engine runs Transformers, not {what}"
        )
    for cached in (False, True):
        names = [name for name in _linear(model) if name.endswith("key_value") == cached]
        replace_layers(model, names, partial(_rounded, cached=cached))
    replace_layers(
        model,
        ("source_embedding", "target_embedding"),
        lambda layer: QuantisedEmbedding(cast(nn.Embedding, layer)),
    )
    model.rounded = True


def _rounded(layer: nn.Module, cached: bool) -> QuantisedLinear:
    return QuantisedLinear(cast(nn.Linear, layer), cached)


def _linear(model: nn.Module) -> list[str]:
    """Names of the linear layers."""
    return [name for name, layer in model.named_modules() if isinstance(layer, nn.Linear)]
