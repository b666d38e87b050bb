"""Typed, closed settings. An unknown key is an error that names the nearest known key."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uwaga.settings.adapt import AdaptSettings, LoraSettings
    from uwaga.settings.alignment import AlignmentHead, LinkModel, WordLexicon
    from uwaga.settings.base import Probability, StrictModel
    from uwaga.settings.corpora import CorpusSettings, DataSettings, FilterSettings
    from uwaga.settings.parsing import change_setting, load_settings, parse, read_yaml
    from uwaga.settings.presets import MODEL_PRESETS, preset_name, preset_training
    from uwaga.settings.prophetnet import ProphetNetSettings
    from uwaga.settings.recurrent import (
        PRESETS,
        BahdanauSettings,
        ChoSettings,
        GnmtSettings,
        LuongSettings,
        RecurrentSettings,
        SutskeverSettings,
    )
    from uwaga.settings.sweep import ParameterSettings, SweepSettings
    from uwaga.settings.tag import TAG
    from uwaga.settings.training import (
        FAMILIES,
        DecodingSettings,
        Family,
        GuidedAlignmentSettings,
        ModelSettings,
        ScheduleSettings,
        Settings,
        TextSettings,
        TrainingSettings,
    )
    from uwaga.settings.transformer import (
        BlockSettings,
        DecoderOnlySettings,
        EncoderOnlySettings,
        TransformerSettings,
    )

__all__ = [
    "FAMILIES",
    "MODEL_PRESETS",
    "PRESETS",
    "TAG",
    "AdaptSettings",
    "AlignmentHead",
    "BahdanauSettings",
    "BlockSettings",
    "ChoSettings",
    "CorpusSettings",
    "DataSettings",
    "DecoderOnlySettings",
    "DecodingSettings",
    "EncoderOnlySettings",
    "Family",
    "FilterSettings",
    "GnmtSettings",
    "GuidedAlignmentSettings",
    "LinkModel",
    "LoraSettings",
    "LuongSettings",
    "ModelSettings",
    "ParameterSettings",
    "Probability",
    "ProphetNetSettings",
    "RecurrentSettings",
    "ScheduleSettings",
    "Settings",
    "StrictModel",
    "SutskeverSettings",
    "SweepSettings",
    "TextSettings",
    "TrainingSettings",
    "TransformerSettings",
    "WordLexicon",
    "change_setting",
    "load_settings",
    "parse",
    "preset_name",
    "preset_training",
    "read_yaml",
]

_HOMES = {
    "adapt": (
        "AdaptSettings",
        "LoraSettings",
    ),
    "alignment": ("AlignmentHead", "LinkModel", "WordLexicon"),
    "base": (
        "ParameterSettings",
        "Probability",
        "StrictModel",
    ),
    "corpora": (
        "CorpusSettings",
        "DataSettings",
        "FilterSettings",
    ),
    "parsing": (
        "change_setting",
        "load_settings",
        "parse",
        "read_yaml",
    ),
    "presets": (
        "MODEL_PRESETS",
        "preset_name",
        "preset_training",
    ),
    "prophetnet": ("ProphetNetSettings",),
    "recurrent": (
        "PRESETS",
        "BahdanauSettings",
        "ChoSettings",
        "GnmtSettings",
        "LuongSettings",
        "RecurrentSettings",
        "SutskeverSettings",
        "SweepSettings",
    ),
    "training": (
        "FAMILIES",
        "DecodingSettings",
        "Family",
        "GuidedAlignmentSettings",
        "ModelSettings",
        "ScheduleSettings",
        "Settings",
        "TextSettings",
        "TrainingSettings",
    ),
    "transformer": (
        "BlockSettings",
        "DecoderOnlySettings",
        "EncoderOnlySettings",
        "TransformerSettings",
    ),
    "sweep": ("ParameterSettings", "SweepSettings"),
    "tag": ("TAG",),
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import settings only when they are asked for: a translation starts without those of a training."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'uwaga.settings' has no attribute {name!r}")
    found = getattr(import_module(f"uwaga.settings.{_MODULE_OF[name]}"), name)
    globals()[name] = found
    return found
