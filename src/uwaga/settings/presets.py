"""Models by name: what ``model: luong-small`` and ``uwaga train --init --preset luong-small`` stand for."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

from uwaga.settings.base import StrictModel
from uwaga.settings.prophetnet import ProphetNetSettings
from uwaga.settings.recurrent import PRESETS
from uwaga.settings.transformer import TransformerSettings


def transformer_small() -> TransformerSettings:
    """For some hundred thousand pairs."""
    return TransformerSettings(
        encoder_layers=4, decoder_layers=4, width=256, heads=4, feed_forward=1024, norm="pre"
    )


def transformer_tiny() -> TransformerSettings:
    """For some ten thousand pairs: the Transformer-Tiny of Wu 2021."""
    return TransformerSettings(
        encoder_layers=4, decoder_layers=4, width=128, heads=4, feed_forward=256, dropout=0.3
    )


def tiny_student() -> TransformerSettings:
    """For millions of sentences that a larger model has translated, and machines without a GPU (Kim 2019).

    The shape of Firefox Translations' tiny models.
    """
    return TransformerSettings(
        encoder_layers=6,
        decoder_layers=2,
        width=256,
        feed_forward=1536,
        self_attention="ssru",
        output_bias=True,
        dropout=0.0,
    )


def prophetnet() -> ProphetNetSettings:
    """The large model of Qi 2020 §4.1, as it is published."""
    return ProphetNetSettings(
        encoder_layers=12,
        decoder_layers=12,
        width=1024,
        heads=16,
        feed_forward=4096,
        activation="gelu",
        attention_dropout=0.1,
        activation_dropout=0.1,
    )


def prophetnet_tiny() -> ProphetNetSettings:
    """For some ten thousand pairs: the size of transformer-tiny."""
    return ProphetNetSettings(
        encoder_layers=4, decoder_layers=4, width=128, heads=4, feed_forward=256, dropout=0.3
    )


MODEL_PRESETS: Mapping[str, Callable[[], StrictModel]] = {
    "transformer": TransformerSettings,
    "transformer-small": transformer_small,
    "transformer-tiny": transformer_tiny,
    "tiny-student": tiny_student,
    "prophetnet": prophetnet,
    "prophetnet-tiny": prophetnet_tiny,
    **PRESETS,
}
"""Settings of a model by the name that a settings file may give."""
_SHORT = {"small": "transformer-small", "tiny": "transformer-tiny"}

_SCHEDULES: Mapping[str, dict[str, Any]] = {
    "transformer": {},
    "transformer-small": {"steps": 20_000, "schedule": {"peak": 1e-3, "warmup": 2000}},
    "transformer-tiny": {"steps": 10_000, "schedule": {"peak": 2e-3, "warmup": 1000}},
    "prophetnet": {},
    "prophetnet-tiny": {"steps": 10_000, "schedule": {"peak": 2e-3, "warmup": 1000}},
    "tiny-student": {
        "steps": 200_000,
        "batch_tokens": 16_384,
        "label_smoothing": 0.0,
        "schedule": {"peak": 1e-3, "warmup": 8000},
    },
}
_RECURRENT = {"clip": 1.0, "schedule": {"kind": "cosine", "peak": 1e-3, "warmup": 1000, "floor": 1e-5}}
_RECURRENT_SMALL = {
    "steps": 4000,
    "batch_tokens": 2048,
    "clip": 1.0,
    "schedule": {"kind": "cosine", "peak": 1.5e-3, "warmup": 300, "floor": 1e-5},
}


def preset_name(name: str) -> str:
    """The full name of a preset: ``small`` is ``transformer-small``, and ``_`` may stand for ``-``.

    Raises:
        ValueError: no preset is called so; the message has the nearest, or all that there are.
    """
    plain = name.replace("_", "-")
    plain = _SHORT.get(plain, plain)
    if plain not in MODEL_PRESETS:
        near = difflib.get_close_matches(plain, MODEL_PRESETS, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(MODEL_PRESETS)}"
        raise ValueError(f"no model preset is called {name!r}; {hint}")
    return plain


def preset_training(name: str) -> dict[str, Any]:
    """Raw settings of ``training`` that suit a preset, to start from.

    Raises:
        ValueError: as :func:`preset_name`.
    """
    plain = preset_name(name)
    if plain in _SCHEDULES:
        return _SCHEDULES[plain]
    return _RECURRENT_SMALL if plain.endswith("-small") else _RECURRENT


def model_values(values: object) -> object:
    """What stands under ``model``, as the settings of a family.

    A name is that preset. In a group ``preset`` names what the rest of it changes; a group that names neither
    a preset nor a family is a Transformer's.

    Raises:
        ValueError: there is no such preset, or it is of another family than the group says.
    """
    if isinstance(values, str):
        return MODEL_PRESETS[preset_name(values)]()
    if not isinstance(values, dict):
        return values
    if "preset" not in values:
        return values if "family" in values else {"family": "transformer", **values}
    name = values["preset"]
    if not isinstance(name, str):
        raise ValueError(f"preset {name!r} is no name; there are: {', '.join(MODEL_PRESETS)}")
    base = MODEL_PRESETS[preset_name(name)]().model_dump()
    changes = {key: value for key, value in values.items() if key != "preset"}
    if changes.get("family", base["family"]) != base["family"]:
        raise ValueError(
            f"preset {name!r} is of family {base['family']}, not {changes['family']!r}; name one of the two"
        )
    return {**base, **changes}
