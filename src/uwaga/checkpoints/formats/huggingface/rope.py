"""Settings of rotary position embeddings (RoPE) in ``config.json``, as in ``transformers`` 4 and 5."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from uwaga.checkpoints.formats.huggingface.folder import ConfigReader
from uwaga.errors import ModelError, quoted

PARAMETERS_KEY, SCALING_KEY = "rope_parameters", "rope_scaling"
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
"""All known keys; a key that the scaling type does not use is ignored, as in ``transformers``."""
REQUIRED_PARAMETERS: Mapping[str, Mapping[str, str]] = {
    "linear": {"factor": "factor"},
    "dynamic": {"factor": "factor"},
    "llama3": {
        "factor": "factor",
        "low_frequency_factor": "low_freq_factor",
        "high_frequency_factor": "high_freq_factor",
    },
    "yarn": {},
}
"""For each scaling type, the keys of its required parameters by the parameters' names in uwaga."""
MAX_LOG_BASE = 100.0
"""Maximum natural logarithm of the base of rotary positions."""


def read_rotary(reader: ConfigReader, head_width: int) -> dict[str, Any]:
    """Return the settings of rotary positions for all layers.

    Args:
        reader: reader of the configuration, whose ``rope_theta`` is the default base.
        head_width: width of a head.
    """
    name = SCALING_KEY if reader.values.get(SCALING_KEY) else PARAMETERS_KEY
    return _rotary_settings(
        reader, name, _group(reader, name), reader.number("rope_theta", 10_000.0), head_width
    )


def read_layered_rotary(reader: ConfigReader, head_width: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings of rotary positions for Gemma 3's global and local layers.

    Since `transformers` 5, ``rope_parameters`` has a group for each kind of layer. In earlier versions,
    ``rope_theta`` and ``rope_scaling`` are for global layers, and ``rope_local_base_freq`` for local layers.
    """
    settings = []
    for kind, base, default in (
        (GLOBAL, "rope_theta", 1_000_000.0),
        (LOCAL, "rope_local_base_freq", 10_000.0),
    ):
        group = _group(reader, PARAMETERS_KEY)
        if group and not set(group) <= {GLOBAL, LOCAL}:
            raise ModelError(
                f"{reader.path}: {PARAMETERS_KEY!r} must contain only the groups {GLOBAL!r} and {LOCAL!r}"
            )
        group_reader = group.get(kind) or {}
        if not isinstance(group_reader, dict):
            raise ModelError(
                f"{reader.path}: {PARAMETERS_KEY!r}: {kind!r} must be a group, not {quoted(group_reader)}"
            )
        if kind == GLOBAL:
            group_reader = {**group_reader, **_group(reader, SCALING_KEY)}
        settings.append(
            _rotary_settings(
                reader, f"{PARAMETERS_KEY}.{kind}", group_reader, reader.number(base, default), head_width
            )
        )
    return settings[0], settings[1]


def _group(reader: ConfigReader, name: str) -> dict[str, Any]:
    group = reader.values.get(name) or {}
    if not isinstance(group, dict):
        raise ModelError(f"{reader.path}: {name!r} must be a group of parameters, not {quoted(group)}")
    return group


def _rotary_settings(
    reader: ConfigReader, name: str, group: Mapping[str, Any], base: float, head_width: int
) -> dict[str, Any]:
    """Return the settings of rotary positions that a group of parameters describes.

    The scaling type ``dynamic`` with ``alpha``, as in Hunyuan, means a fixed base, ``base · alpha^(d/(d-2))``
    for heads of width d. Without ``alpha``, the base would grow for texts longer than
    ``max_position_embeddings``, which uwaga rejects.
    """
    unknown_keys = sorted(key for key, value in group.items() if value is not None and key not in KNOWN_KEYS)
    if unknown_keys:
        raise ModelError(
            f"{reader.path}: {name!r} contains {quoted(unknown_keys[0])}, which is not supported"
        )
    kind = group.get("rope_type") or group.get("type") or "default"
    group_reader = ConfigReader(reader.path.parent, group)
    group_reader.refuse({"partial_rotary_factor": (1, 1.0), "truncate": (True,)})
    base = group_reader.number("rope_theta", base)
    if kind == "dynamic" and group.get("alpha"):
        return {"base": _hunyuan_base(reader, group_reader, base, head_width)}
    if kind == "default":
        return {"base": base}
    if not isinstance(kind, str) or kind not in REQUIRED_PARAMETERS:
        raise ModelError(
            f"{reader.path}: {name!r}: the type {quoted(kind)} is not supported; uwaga supports default, "
            f"{', '.join(REQUIRED_PARAMETERS)}"
        )
    length = reader.integer(LENGTH_KEY, minimum=1)
    original_length = reader.integer(
        ORIGINAL_LENGTH_KEY, group_reader.integer(ORIGINAL_LENGTH_KEY, length, minimum=1), minimum=1
    )
    settings: dict[str, Any] = {"base": base, "scaling": kind}
    settings |= {name: group_reader.number(key, 0.0) for name, key in REQUIRED_PARAMETERS[kind].items()}
    if kind == "yarn":
        settings |= _yarn_settings(group_reader, length / original_length)
    if kind != "linear":
        settings["original_length"] = length if kind == "dynamic" else original_length
    return settings


def _hunyuan_base(reader: ConfigReader, group_reader: ConfigReader, base: float, head_width: int) -> float:
    """Return the base of Hunyuan's rotary positions."""
    alpha = group_reader.number("alpha", 1.0)
    if reader.values["model_type"] != "hunyuan_v1_dense":
        raise ModelError(f"{reader.path}: 'alpha' of rotary positions is supported only for hunyuan_v1_dense")
    if head_width < 4:
        raise ModelError(f"{reader.path}: 'alpha' requires a head width of at least 4, not {head_width}")
    power: float = head_width / (head_width - 2)
    if math.log(base) + power * math.log(alpha) > MAX_LOG_BASE:
        raise ModelError(f"{reader.path}: 'alpha' = {quoted(alpha)} is too large")
    return base * float(alpha**power)


def _yarn_settings(group_reader: ConfigReader, ratio: float) -> dict[str, float]:
    """Return the settings of YaRN; ``ratio`` is used if no factor is stated."""
    settings = {"factor": group_reader.number("factor", ratio)}
    for name in ("beta_fast", "beta_slow", "attention_factor"):
        if group_reader.values.get(name):
            settings[name] = group_reader.number(name, 0.0)
    scales = [
        group_reader.number(name, 0.0)
        for name in ("mscale", "mscale_all_dim")
        if group_reader.values.get(name)
    ]
    if len(scales) == 2 and "attention_factor" not in settings:
        numerator, denominator = (
            1.0 + 0.1 * scale * max(math.log(settings["factor"]), 0.0) for scale in scales
        )
        settings["attention_factor"] = numerator / denominator
    return settings
