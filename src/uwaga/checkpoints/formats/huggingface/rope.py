"""Rotary positions in ``config.json``, in the formats of ``transformers`` 4 and 5."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from uwaga.checkpoints.formats.huggingface.folder import ConfigReader
from uwaga.errors import ModelError, quoted

PARAMETERS, SCALING = "rope_parameters", "rope_scaling"
GLOBAL, LOCAL = "full_attention", "sliding_attention"
LENGTH_KEY, ORIGINAL_LENGTH_KEY = "max_position_embeddings", "original_max_position_embeddings"
KNOWN_KEYS = frozenset(
    (
        *(
            "rope_type",
            "type",
            "rope_theta",
            "partial_rotary_factor",
            "factor",
            ORIGINAL_LENGTH_KEY,
            "attention_factor",
        ),
        *("beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"),
        *("low_freq_factor", "high_freq_factor", "alpha"),
    )
)
"""Known keys; those that a type does not use are ignored, as in ``transformers``."""
SCALINGS: Mapping[str, Mapping[str, str]] = {
    "linear": {"factor": "factor"},
    "dynamic": {"factor": "factor"},
    "llama3": {
        "factor": "factor",
        "low_frequency_factor": "low_freq_factor",
        "high_frequency_factor": "high_freq_factor",
    },
    "yarn": {},
}
"""The required parameters of each type, by uwaga's names."""
MAX_LOG_BASE = 100.0
"""Maximum natural logarithm of a base."""


def read_rotary(reader: ConfigReader, head_width: int) -> dict[str, Any]:
    """Return the settings of rotary positions for all layers.

    Args:
        reader: the configuration; its ``rope_theta`` is the default base.
        head_width: width of a head.
    """
    name = SCALING if reader.values.get(SCALING) else PARAMETERS
    return _rotary(reader, name, _group(reader, name), reader.number("rope_theta", 10_000.0), head_width)


def read_layered_rotary(reader: ConfigReader, head_width: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings of rotary positions for the global and the local layers of Gemma 3.

    Since `transformers` 5 they are groups of ``rope_parameters``; before, ``rope_theta`` and ``rope_scaling``
    applied to the global layers and ``rope_local_base_freq`` to the local layers.
    """
    settings = []
    for kind, base, default in (
        (GLOBAL, "rope_theta", 1_000_000.0),
        (LOCAL, "rope_local_base_freq", 10_000.0),
    ):
        group = _group(reader, PARAMETERS)
        if group and not set(group) <= {GLOBAL, LOCAL}:
            raise ModelError(f"{reader.path}: {PARAMETERS!r} must have the groups {GLOBAL!r} and {LOCAL!r}")
        inner = group.get(kind) or {}
        if not isinstance(inner, dict):
            raise ModelError(f"{reader.path}: {PARAMETERS!r}: {kind!r} must be a group, not {quoted(inner)}")
        if kind == GLOBAL:
            inner = {**inner, **_group(reader, SCALING)}
        settings.append(
            _rotary(reader, f"{PARAMETERS}.{kind}", inner, reader.number(base, default), head_width)
        )
    return settings[0], settings[1]


def _group(reader: ConfigReader, name: str) -> dict[str, Any]:
    group = reader.values.get(name) or {}
    if not isinstance(group, dict):
        raise ModelError(f"{reader.path}: {name!r} must be a group of parameters, not {quoted(group)}")
    return group


def _rotary(
    reader: ConfigReader, name: str, group: Mapping[str, Any], base: float, head_width: int
) -> dict[str, Any]:
    """Return the settings from a group of parameters.

    The type ``dynamic`` with ``alpha``, as in Hunyuan, is a fixed base: ``base · alpha^(d/(d-2))`` for
    heads of width d. Without ``alpha`` the base grows for texts longer than ``max_position_embeddings``,
    which uwaga rejects.
    """
    unknown = sorted(key for key, value in group.items() if value is not None and key not in KNOWN_KEYS)
    if unknown:
        raise ModelError(f"{reader.path}: {name!r}: {quoted(unknown[0])} is unknown to uwaga")
    kind = group.get("rope_type") or group.get("type") or "default"
    inner = ConfigReader(reader.path.parent, group)
    inner.refuse({"partial_rotary_factor": (1, 1.0), "truncate": (True,)})
    base = inner.number("rope_theta", base)
    if kind == "dynamic" and group.get("alpha"):
        return {"base": _hunyuan_base(reader, inner, base, head_width)}
    if kind == "default":
        return {"base": base}
    if not isinstance(kind, str) or kind not in SCALINGS:
        raise ModelError(
            f"{reader.path}: {name!r}: the type {quoted(kind)} is unknown; uwaga has default, "
            f"{', '.join(SCALINGS)}"
        )
    length = reader.integer(LENGTH_KEY, minimum=1)
    original = reader.integer(
        ORIGINAL_LENGTH_KEY, inner.integer(ORIGINAL_LENGTH_KEY, length, minimum=1), minimum=1
    )
    settings: dict[str, Any] = {"base": base, "scaling": kind}
    settings |= {name: inner.number(key, 0.0) for name, key in SCALINGS[kind].items()}
    if kind == "yarn":
        settings |= _yarn_settings(inner, length / original)
    if kind != "linear":
        settings["original_length"] = length if kind == "dynamic" else original
    return settings


def _hunyuan_base(reader: ConfigReader, inner: ConfigReader, base: float, head_width: int) -> float:
    """Return the base of Hunyuan's rotary positions."""
    alpha = inner.number("alpha", 1.0)
    if reader.values["model_type"] != "hunyuan_v1_dense":
        raise ModelError(f"{reader.path}: 'alpha' of rotary positions is only for hunyuan_v1_dense")
    if head_width < 4:
        raise ModelError(f"{reader.path}: 'alpha' needs heads wider than 2, not {head_width}")
    power: float = head_width / (head_width - 2)
    if math.log(base) + power * math.log(alpha) > MAX_LOG_BASE:
        raise ModelError(f"{reader.path}: 'alpha' = {quoted(alpha)} is too large")
    return base * float(alpha**power)


def _yarn_settings(inner: ConfigReader, ratio: float) -> dict[str, float]:
    """Return the settings of YaRN; ``ratio`` is the default factor."""
    settings = {"factor": inner.number("factor", ratio)}
    for name in ("beta_fast", "beta_slow", "attention_factor"):
        if inner.values.get(name):
            settings[name] = inner.number(name, 0.0)
    scales = [inner.number(name, 0.0) for name in ("mscale", "mscale_all_dim") if inner.values.get(name)]
    if len(scales) == 2 and "attention_factor" not in settings:
        first, second = (1.0 + 0.1 * scale * max(math.log(settings["factor"]), 0.0) for scale in scales)
        settings["attention_factor"] = first / second
    return settings
