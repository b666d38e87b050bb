"""Small recurrent models of every family and variant, for law tests."""

from __future__ import annotations

import torch

from uwaga.decoder import Symbols
from uwaga.models.base import Seq2Seq
from uwaga.models.build import build_model
from uwaga.settings.recurrent import (
    BahdanauSettings,
    ChoSettings,
    GnmtSettings,
    LuongSettings,
    RecurrentSettings,
    SutskeverSettings,
)

SYMBOLS = Symbols(start=1, end=2, pad=0, unknown=3)
SMALL = {"embedding": 8, "hidden": 8, "max_length": 32, "dropout": 0.0}
ROOT = {**SMALL, "read_out": 8}
VARIANTS: dict[str, RecurrentSettings] = {
    "cho": ChoSettings(**ROOT),
    "cho-fused-reversed": ChoSettings(**ROOT, gru="fused", reverse=True, tie="all"),
    "sutskever": SutskeverSettings(**SMALL, layers=2),
    "bahdanau": BahdanauSettings(**ROOT),
    "bahdanau-conditional": BahdanauSettings(**ROOT, gru="fused", decoder="conditional", tie="decoder"),
    "luong": LuongSettings(**SMALL, layers=2),
    "luong-dot-unfed": LuongSettings(**SMALL, layers=2, score="dot", input_feeding=False),
    "luong-concat-bidirectional": LuongSettings(
        **SMALL, layers=2, score="concat", bidirectional=True, reverse=False
    ),
    "luong-location-local-m": LuongSettings(
        **SMALL, layers=1, score="location", attention="local-m", window=2
    ),
    "luong-local-p": LuongSettings(**SMALL, layers=1, attention="local-p", window=2),
    "luong-local-p-unfed": LuongSettings(
        **SMALL, layers=1, attention="local-p", window=2, input_feeding=False
    ),
    "gnmt": GnmtSettings(**SMALL, encoder_layers=3, decoder_layers=3),
}


def make(settings: RecurrentSettings, source: int = 23, target: int = 23, sharp: float = 3.0) -> Seq2Seq:
    """A random model with outputs sharp enough for beams to differ."""
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = build_model(settings, SYMBOLS, source, target).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() == 2:
                    parameter.normal_(std=sharp * parameter.shape[1] ** -0.5)
    return model
