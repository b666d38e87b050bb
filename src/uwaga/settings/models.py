"""Settings of models, given by family or preset, and of decoding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, NonNegativeInt, PositiveInt, model_validator

from uwaga.decoder import MAX_BEAM, MAX_LENGTH_PENALTY, MAX_TOKENS
from uwaga.errors import suggestion
from uwaga.settings.parsing import StrictModel
from uwaga.settings.recurrent import (
    PRESETS,
    BahdanauSettings,
    ChoSettings,
    GnmtSettings,
    LuongSettings,
    SutskeverSettings,
)
from uwaga.settings.rotary import RotarySettings
from uwaga.settings.transformer import DecoderOnlySettings, ProphetNetSettings, TransformerSettings


def transformer_small() -> TransformerSettings:
    """Return the settings of a Transformer for about a hundred thousand pairs."""
    return TransformerSettings(
        encoder_layers=4, decoder_layers=4, width=256, heads=4, feed_forward=1024, norm="pre"
    )


def transformer_tiny() -> TransformerSettings:
    """Return the settings of the Transformer-Tiny of Wu 2021, for about ten thousand pairs."""
    return TransformerSettings(
        encoder_layers=4, decoder_layers=4, width=128, heads=4, feed_forward=256, dropout=0.3
    )


def tiny_student() -> TransformerSettings:
    """Return the settings of a fast Transformer for CPUs, as large as Firefox Translations' tiny models.

    Such models are trained on millions of machine translations (Kim 2019).
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
    """Return the settings of the large model of Qi 2020 §4.1."""
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
    """Return the settings of a ProphetNet of the size of transformer-tiny, for about ten thousand pairs."""
    return ProphetNetSettings(
        encoder_layers=4, decoder_layers=4, width=128, heads=4, feed_forward=256, dropout=0.3
    )


def llama_tiny() -> DecoderOnlySettings:
    """Return the settings of a Llama (Touvron 2023) of the size of transformer-tiny."""
    return DecoderOnlySettings(
        layers=8,
        width=128,
        heads=4,
        key_value_heads=2,
        feed_forward=256,
        activation="silu",
        gated=True,
        norm="pre",
        norm_kind="rms",
        max_length=1024,
        positions="rotary",
        rotary=RotarySettings(),
        embedding_scale=False,
        attention_bias=False,
        feed_forward_bias=False,
        dropout=0.3,
    )


MODEL_PRESETS: Mapping[str, Callable[[], StrictModel]] = {
    "transformer": TransformerSettings,
    "transformer-small": transformer_small,
    "transformer-tiny": transformer_tiny,
    "tiny-student": tiny_student,
    "prophetnet": prophetnet,
    "prophetnet-tiny": prophetnet_tiny,
    "llama-tiny": llama_tiny,
    **PRESETS,
}
"""Functions that return the settings of a model, by name of the preset."""
_ALIASES = {"small": "transformer-small", "tiny": "transformer-tiny"}

_TRAINING_BY_PRESET: Mapping[str, dict[str, Any]] = {
    "transformer": {},
    "transformer-small": {"steps": 20_000, "schedule": {"peak": 1e-3, "warmup": 2000}},
    "transformer-tiny": {"steps": 10_000, "schedule": {"peak": 2e-3, "warmup": 1000}},
    "prophetnet": {},
    "prophetnet-tiny": {"steps": 10_000, "schedule": {"peak": 2e-3, "warmup": 1000}},
    "llama-tiny": {"steps": 10_000, "schedule": {"peak": 2e-3, "warmup": 1000}},
    "tiny-student": {
        "steps": 200_000,
        "batch_tokens": 16_384,
        "label_smoothing": 0.0,
        "schedule": {"peak": 1e-3, "warmup": 8000},
    },
}
_RECURRENT_TRAINING = {
    "clip": 1.0,
    "schedule": {"kind": "cosine", "peak": 1e-3, "warmup": 1000, "floor": 1e-5},
}
_SMALL_RECURRENT_TRAINING = {
    "steps": 4000,
    "batch_tokens": 2048,
    "clip": 1.0,
    "schedule": {"kind": "cosine", "peak": 1.5e-3, "warmup": 300, "floor": 1e-5},
}


def preset_name(name: str) -> str:
    """Return the full name of a preset: ``small`` stands for ``transformer-small``, and ``_`` for ``-``.

    Raises:
        ValueError: there is no such preset; the message suggests the most similar name, or lists all.
    """
    full_name = name.replace("_", "-")
    full_name = _ALIASES.get(full_name, full_name)
    if full_name not in MODEL_PRESETS:
        hint = suggestion(full_name, MODEL_PRESETS, f"the presets are {', '.join(MODEL_PRESETS)}")
        raise ValueError(f"no model preset is named {name!r}; {hint}")
    return full_name


def preset_training(name: str) -> dict[str, Any]:
    """Return the ``training`` settings of a preset, as raw values.

    Raises:
        ValueError: as in :func:`preset_name`.
    """
    full_name = preset_name(name)
    if full_name in _TRAINING_BY_PRESET:
        return _TRAINING_BY_PRESET[full_name]
    return _SMALL_RECURRENT_TRAINING if full_name.endswith("-small") else _RECURRENT_TRAINING


def expand_model(values: object) -> object:
    """Convert the raw value of the key ``model`` to the settings of a family, which pydantic checks.

    The value is a preset's name or a group. The other keys of a group with ``preset`` change that preset; a
    group with neither ``preset`` nor ``family`` is a Transformer.

    Raises:
        ValueError: there is no such preset, or its family differs from the group's.
    """
    if isinstance(values, str):
        return MODEL_PRESETS[preset_name(values)]()
    if not isinstance(values, dict):
        return values
    if "preset" not in values:
        return values if "family" in values else {"family": "transformer", **values}
    name = values["preset"]
    if not isinstance(name, str):
        raise ValueError(f"preset must be a name, not {name!r}; the presets are {', '.join(MODEL_PRESETS)}")
    base = MODEL_PRESETS[preset_name(name)]().model_dump()
    changes = {key: value for key, value in values.items() if key != "preset"}
    if changes.get("family", base["family"]) != base["family"]:
        raise ValueError(
            f"preset {name!r} is of family {base['family']}, not {changes['family']!r}; omit family"
        )
    return {**base, **changes}


Family = (
    TransformerSettings
    | ChoSettings
    | SutskeverSettings
    | BahdanauSettings
    | LuongSettings
    | GnmtSettings
    | ProphetNetSettings
    | DecoderOnlySettings
)
FAMILIES: dict[str, type[StrictModel]] = {
    kind.model_fields["family"].default: kind for kind in get_args(Family)
}
ModelSettings = Annotated[Annotated[Family, Field(discriminator="family")], BeforeValidator(expand_model)]


class SourceSettings(StrictModel):
    """Form in which a model expects its source texts."""

    split_above: NonNegativeInt = Field(
        1,
        le=MAX_TOKENS,
        description="number of source tokens above which a line is split into sentences; 1: any line, 0: "
        "only above the model's limit",
    )
    lower_capitals: bool = Field(
        False, description="lower-case source sentences of two or more words that are all in capitals"
    )


class DecodingSettings(SourceSettings):
    """Search settings that a trained model uses by default."""

    beam: PositiveInt = Field(
        5, le=MAX_BEAM, description="number of hypotheses kept at each step, 1 for greedy"
    )
    length_penalty: float = Field(
        1.0,
        ge=-MAX_LENGTH_PENALTY,
        le=MAX_LENGTH_PENALTY,
        description="alpha, the exponent in the length formula",
    )
    length_formula: Literal["average", "gnmt", "none"] = Field(
        "average",
        description="divisor of scores: length**alpha (average), ((5 + length) / 6)**alpha (gnmt), or 1 "
        "(none)",
    )
    early_stopping: bool = Field(
        True, description="stop when `beam` hypotheses are finished, not only when no other can be better"
    )
    min_length: NonNegativeInt = Field(0, le=MAX_TOKENS, description="minimum number of target tokens")
    max_length: PositiveInt = Field(256, le=MAX_TOKENS, description="maximum number of target tokens")
    max_ratio: float = Field(
        3.0,
        gt=0.0,
        description="maximum number of target tokens, as a multiple of the number of source tokens",
    )
    max_extra: NonNegativeInt = Field(
        20, le=MAX_TOKENS, description="number of tokens added to the multiple in max_ratio"
    )
    no_repeat_ngram: NonNegativeInt = Field(
        0, le=MAX_TOKENS, description="size of n-grams that must not be repeated, 0 for no restriction"
    )

    @model_validator(mode="after")
    def _check_lengths(self) -> DecodingSettings:
        if self.min_length > self.max_length:
            raise ValueError(f"min_length {self.min_length} is more than max_length {self.max_length}")
        return self
