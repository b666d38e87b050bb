"""Small recurrent models of every family and variant, for tests of their common properties."""

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
SMALL_SIZES = {"embedding": 8, "hidden": 8, "max_length": 32, "dropout": 0.0}
WITH_READ_OUT = {**SMALL_SIZES, "read_out": 8}
VARIANTS: dict[str, RecurrentSettings] = {
    "cho": ChoSettings(**WITH_READ_OUT),
    "cho-fused-reversed": ChoSettings(**WITH_READ_OUT, gru="fused", reverse=True, tie="all"),
    "sutskever": SutskeverSettings(**SMALL_SIZES, layers=2),
    "bahdanau": BahdanauSettings(**WITH_READ_OUT),
    "bahdanau-conditional":
        BahdanauSettings(**WITH_READ_OUT, gru="fused", decoder="conditional", tie="decoder"),
    "luong": LuongSettings(**SMALL_SIZES, layers=2),
    "luong-dot-unfed": LuongSettings(**SMALL_SIZES, layers=2, score="dot", input_feeding=False),
    "luong-concat-bidirectional":
        LuongSettings(**SMALL_SIZES, layers=2, score="concat", bidirectional=True, reverse=False),
    "luong-location-local-m":
        LuongSettings(**SMALL_SIZES, layers=1, score="location", attention="local-m", window=2),
    "luong-local-p": LuongSettings(**SMALL_SIZES, layers=1, attention="local-p", window=2),
    "luong-local-p-unfed":
        LuongSettings(**SMALL_SIZES, layers=1, attention="local-p", window=2, input_feeding=False),
    "gnmt": GnmtSettings(**SMALL_SIZES, encoder_layers=3, decoder_layers=3),
}  # fmt: skip


def make(settings: RecurrentSettings, source: int = 23, target: int = 23, sharp: float = 3.0) -> Seq2Seq:
    """Return a random model whose outputs are so sharp that beams differ."""
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = build_model(settings, SYMBOLS, source, target).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() == 2:
                    parameter.normal_(std=sharp * parameter.shape[1] ** -0.5)
    return model
