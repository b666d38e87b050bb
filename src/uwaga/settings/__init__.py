"""Typed, closed settings. An unknown key is an error that names the nearest known key."""

from uwaga.settings.adapt import AdaptSettings, LoraSettings
from uwaga.settings.base import Probability, StrictModel
from uwaga.settings.corpora import TAG, CorpusSettings, DataSettings, FilterSettings
from uwaga.settings.parse import change_setting, load_settings, parse, read_yaml
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
from uwaga.settings.training import (
    FAMILIES,
    DecodingSettings,
    Family,
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
    "LoraSettings",
    "LuongSettings",
    "ModelSettings",
    "Probability",
    "ProphetNetSettings",
    "RecurrentSettings",
    "ScheduleSettings",
    "Settings",
    "StrictModel",
    "SutskeverSettings",
    "TextSettings",
    "TrainingSettings",
    "TransformerSettings",
    "change_setting",
    "load_settings",
    "parse",
    "preset_name",
    "preset_training",
    "read_yaml",
]
