"""Construction of models from settings."""

from __future__ import annotations

from uwaga.decoder import Symbols
from uwaga.errors import SettingsError
from uwaga.models.bahdanau import Bahdanau
from uwaga.models.base import Seq2Seq
from uwaga.models.cho import Cho
from uwaga.models.decoder_only import DecoderOnly
from uwaga.models.gnmt import Gnmt
from uwaga.models.layers.scores import SCORES
from uwaga.models.luong import Luong
from uwaga.models.prophetnet import ProphetNet
from uwaga.models.speculative import SpeculativeTransformer
from uwaga.models.sutskever import Sutskever
from uwaga.settings import DecoderOnlySettings, ModelSettings, ProphetNetSettings, TransformerSettings
from uwaga.settings.recurrent import (
    BahdanauSettings,
    ChoSettings,
    GnmtSettings,
    LuongSettings,
    SutskeverSettings,
)


def check_model(settings: ModelSettings) -> None:
    """Check that the attention score named in the settings is registered; this imports torch."""
    if isinstance(settings, (BahdanauSettings, LuongSettings, GnmtSettings)):
        try:
            SCORES.check(settings.score)
        except SettingsError as error:
            raise SettingsError(f"model.score: {error}") from None


def build_model(
    settings: ModelSettings, symbols: Symbols, source_vocabulary: int, target_vocabulary: int
) -> Seq2Seq:
    """Return a model with random weights.

    Args:
        settings: settings of any family.
        symbols: special tokens of the target side.
        source_vocabulary: number of source tokens.
        target_vocabulary: number of target tokens.
    """
    check_model(settings)
    sizes = (symbols, source_vocabulary, target_vocabulary)
    match settings:
        case TransformerSettings():
            return SpeculativeTransformer(settings, *sizes)
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
        case ProphetNetSettings():
            return ProphetNet(settings, *sizes)
        case DecoderOnlySettings():
            if source_vocabulary != target_vocabulary:
                raise SettingsError(
                    "model.family: a decoder-only model has a single vocabulary, but there are two, of "
                    f"{source_vocabulary} and {target_vocabulary} tokens; set text.joint: true"
                )
            return DecoderOnly(settings, symbols, target_vocabulary)
