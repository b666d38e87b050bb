"""Quantisation-aware training (M36) reduces the loss of quality by conversion to int8."""

from pathlib import Path

import numpy as np
import pytest
from toy import toy_values, write_reversal_corpus

from uwaga.checkpoints import registry as formats
from uwaga.checkpoints.to_engine import to_engine
from uwaga.settings import Settings, parse
from uwaga.training.train import train
from uwaga.translator.score import step_scorer
from uwaga.translator.text import TokenPair


def int8_error(model: Path, dev: Path) -> tuple[float, float]:
    """Return the increase in loss per token due to int8, and the mean change of the log-probabilities."""
    checkpoint = formats.read(model)
    pairs = [line.split("\t") for line in dev.read_text().splitlines()]
    sides = checkpoint.source, checkpoint.target
    ids = [
        TokenPair(*([*side.encode(text), side.symbols.end] for side, text in zip(sides, pair, strict=True)))
        for pair in pairs
    ]
    exact, rounded = (
        np.concatenate(step_scorer(to_engine(checkpoint, precision))(ids))
        for precision in ("float32", "int8")
    )
    return float((exact - rounded).mean()), float(np.abs(exact - rounded).mean())


@pytest.mark.slow
def test_M36_quantisation_aware_training_reduces_the_loss_of_the_int8_model(tmp_path: Path) -> None:
    write_reversal_corpus(tmp_path, pairs=2000, max_length=4)
    training = {
        **{"batch_tokens": 500, "validate_every": 400, "validation_sentences": 0, "save_every": 400},
        **{"label_smoothing": 0.0, "average": 0, "keep_best": 0},
    }
    schedule = {"kind": "cosine", "peak": 0.008, "warmup": 30}
    values = toy_values(tmp_path, steps=400, **training, schedule=schedule)
    values["model"] |= {"width": 32, "heads": 4, "feed_forward": 64, "dropout": 0.0, "tie": "all"}
    plain = train(parse(Settings, values, "toy"))
    assert plain is not None
    losses = {}
    for kind in ("none", "int8"):
        settings = {
            "run": str(tmp_path / kind),
            "init": str(plain),
            "data": {**values["data"], "max_tokens": 30},
            "training": {**values["training"], "steps": 150, "quantisation": kind}
            | {"schedule": {"kind": "linear", "peak": 0.002, "warmup": 0}, "validate_every": 150}
            | {"save_every": 150},
        }
        folder = train(parse(Settings, settings, "toy"))
        assert folder is not None
        losses[kind] = int8_error(folder, tmp_path / "dev.tsv")
    assert losses["int8"][0] < max(0.5 * losses["none"][0], 5e-4), losses  # or negligible
