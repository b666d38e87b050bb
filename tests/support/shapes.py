"""Comparison of JSON with an expected structure."""

from collections.abc import Mapping
from typing import Any


def fits(value: Any, shape: Any) -> bool:
    """Return True if JSON matches a structure of types, values, predicates, lists and objects."""
    if isinstance(shape, type):
        return isinstance(value, shape)
    if callable(shape):
        return bool(shape(value))
    if isinstance(shape, Mapping):
        return set(value) == set(shape) and all(fits(value[key], part) for key, part in shape.items())
    if isinstance(shape, list):
        return len(value) == len(shape) and all(map(fits, value, shape))
    return bool(value == shape)
