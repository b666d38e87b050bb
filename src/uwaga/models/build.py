"""From settings to a model."""

from __future__ import annotations

from uwaga.contracts import Symbols
from uwaga.models.bahdanau import Bahdanau
from uwaga.models.base import Seq2Seq
from uwaga.models.cho import Cho
from uwaga.models.gnmt import Gnmt
from uwaga.models.luong import Luong
from uwaga.models.sutskever import Sutskever
from uwaga.models.transformer import Transformer
from uwaga.settings import ModelSettings, TransformerSettings
from uwaga.settings.recurrent import (
    BahdanauSettings,
    ChoSettings,
    GnmtSettings,
    LuongSettings,
    SutskeverSettings,
)


def build_model(
    settings: ModelSettings, symbols: Symbols, source_vocabulary: int, target_vocabulary: int
) -> Seq2Seq:
    """The model that these settings describe, with random weights.

    Args:
        settings: of any family.
        symbols: the target side's special tokens.
        source_vocabulary: source tokens.
        target_vocabulary: target tokens.

    Raises:
        SettingsError: the settings do not fit the vocabularies.
    """
    sizes = (symbols, source_vocabulary, target_vocabulary)
    match settings:
        case TransformerSettings():
            return Transformer(settings, *sizes)
        case ChoSettings():
            return Cho(settings, *sizes)
        case SutskeverSettings():
            return Sutskever(settings, *sizes)
        case BahdanauSettings():
            return Bahdanau(settings, *sizes)
        case LuongSettings():
            return Luong(settings, *sizes)
        case GnmtSettings():
            return Gnmt(settings, *sizes)
