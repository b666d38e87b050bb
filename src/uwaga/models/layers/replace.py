"""Putting other layers in the places of a model's."""

from __future__ import annotations

from collections.abc import Callable, Collection

from torch import nn


def replace_layers(model: nn.Module, names: Collection[str], make: Callable[[nn.Module], nn.Module]) -> None:
    """Put what ``make`` makes of each named layer in its place.

    Args:
        model: changed in place.
        names: of layers, with dots.
        make: from the layer to another of the same face; the weights of tied layers stay tied if it shares
            them. A layer that stands in two places is replaced by one.
    """
    made: dict[int, nn.Module] = {}
    found = {name: model.get_submodule(name) for name in names}
    for name, old in found.items():
        if id(old) not in made:
            made[id(old)] = make(old)
        owner, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(owner), leaf, made[id(old)])
