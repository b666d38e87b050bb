"""Adapters (M34) and simulated int8 quantisation (M36) for models in training."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import cast

from torch import nn

from uwaga.errors import SettingsError, quoted
from uwaga.models.base import Seq2Seq
from uwaga.models.layers.lora import LoraLinear
from uwaga.models.layers.quantised import QuantisedEmbedding, QuantisedLinear
from uwaga.models.transformer import Transformer
from uwaga.settings import LoraSettings


def replace_layers(
    model: nn.Module, names: Collection[str], make_layer: Callable[[nn.Module], nn.Module]
) -> None:
    """Replace each named layer with the result of ``make_layer``.

    Args:
        model: model, changed in place.
        names: dotted names of layers.
        make_layer: function that returns the replacement of a layer, with the same interface. It is called
            only once for a layer with two names. Tied weights stay tied if the replacements share them.
    """
    replacements: dict[int, nn.Module] = {}
    layers = {name: model.get_submodule(name) for name in names}
    for name, layer in layers.items():
        if id(layer) not in replacements:
            replacements[id(layer)] = make_layer(layer)
        owner, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(owner), leaf, replacements[id(layer)])


MAX_SUGGESTIONS = 3
"""Maximum number of names suggested in a message."""


def match_names(pattern: str, names: Sequence[str], key: str, noun: str) -> list[str]:
    """Return the names that match a pattern; raise SettingsError if there are none.

    Args:
        pattern: pattern with ``*`` and ``?``, such as ``encoder.*``.
        names: names of all weights or layers.
        key: name of the setting that contains the pattern, for the message.
        noun: noun for what the names denote, such as ``weight``, for the message.
    """
    matching_names = [name for name in names if fnmatchcase(name, pattern)]
    if matching_names:
        return matching_names
    suggestions = difflib.get_close_matches(pattern.replace("*", ""), names, n=MAX_SUGGESTIONS, cutoff=0.3)
    suggestions = suggestions or [*names[:MAX_SUGGESTIONS]]
    examples = ", ".join(suggestions) if suggestions else "none"
    raise SettingsError(
        f"{key}: {quoted(pattern)} matches no {noun} of the model; choose for example from {examples}"
    )


def add_adapters(model: Seq2Seq, settings: LoraSettings) -> None:
    """Freeze the weights of a Transformer, and add adapters to its linear layers, in place."""
    if not isinstance(model, Transformer):
        raise SettingsError(
            f"adapt.lora: only Transformers support adapters, not {type(model).__name__}; "
            "omit lora to train all weights"
        )
    names = _linear_layers(model)
    selected_names = {
        name
        for pattern in settings.targets
        for name in match_names(pattern, names, "adapt.lora.targets", "linear layer")
    }
    model.requires_grad_(False)
    replace_layers(
        model,
        [name for name in names if name in selected_names],
        lambda layer: LoraLinear(cast(nn.Linear, layer), settings.rank, settings.alpha, settings.dropout),
    )


def adapted_layers(model: nn.Module) -> dict[str, LoraLinear]:
    """Return the layers that have an adapter, by name."""
    return {name: layer for name, layer in model.named_modules() if isinstance(layer, LoraLinear)}


def simulate_int8(model: Seq2Seq) -> None:
    """Change a Transformer in place so that it quantises weights and inputs as the int8 engine does.

    The stored weights are not changed.
    """
    if not isinstance(model, Transformer) or model.settings.self_attention == "aan":
        is_aan = isinstance(model, Transformer)
        unsupported = "those with self_attention: aan" if is_aan else type(model).__name__
        raise SettingsError(
            f"training.quantisation: int8 can be simulated only for Transformers, not for {unsupported}; set "
            "it to none"
        )
    for is_cached in (False, True):
        names = [name for name in _linear_layers(model) if name.endswith("key_value") == is_cached]
        replace_layers(model, names, partial(_quantise_layer, is_cached=is_cached))
    replace_layers(
        model,
        ("source_embedding", "target_embedding"),
        lambda layer: QuantisedEmbedding(cast(nn.Embedding, layer)),
    )
    model.simulates_int8 = True


def _quantise_layer(layer: nn.Module, is_cached: bool) -> QuantisedLinear:
    return QuantisedLinear(cast(nn.Linear, layer), is_cached)


def _linear_layers(model: nn.Module) -> list[str]:
    """Return the names of the linear layers."""
    return [name for name, layer in model.named_modules() if isinstance(layer, nn.Linear)]
