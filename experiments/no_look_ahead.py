"""A Transformer trained without the look-ahead mask: it copies the answer, and fails when it must write.

python experiments/no_look_ahead.py
"""

from __future__ import annotations

from contextlib import nullcontext
from unittest.mock import patch

import torch
from sequences import SYMBOLS, VOCABULARY, learn, loss_of, sentences, share_right
from torch import Tensor

from uwaga.models.transformer import Transformer
from uwaga.settings import TransformerSettings

LENGTHS, STEPS, SHOWN = (3, 8), 500, (50, 100, 200, 500)


def backwards(row: list[int]) -> list[int]:
    """The words from the last to the first."""
    return row[::-1]


def everything(target: int, source: int, device: torch.device | None = None) -> Tensor:
    """In the place of the look-ahead mask: (target, source), all True."""
    return torch.ones(target, source, dtype=torch.bool, device=device)


def run(masked: bool, steps: int = STEPS, seed: int = 1) -> tuple[list[float], float, tuple[float, float]]:
    """Train one.

    Returns:
        the loss at each step, in nats a token; that of new targets beside the sources of others; and what
        decoding gets right (sentences, words).
    """
    torch.manual_seed(seed)
    settings = TransformerSettings(
        encoder_layers=2, decoder_layers=2, width=64, heads=4, feed_forward=128, dropout=0.0, norm="pre"
    )
    model = Transformer(settings, SYMBOLS, VOCABULARY, VOCABULARY)
    with nullcontext() if masked else patch("uwaga.models.transformer.causal_mask", everything):
        losses = list(learn(model, backwards, LENGTHS, steps, seed=seed))
        rows = sentences(200, LENGTHS[1], LENGTHS[1], torch.Generator().manual_seed(98))
        with torch.inference_mode():
            exchanged = loss_of(model, rows, [backwards(row) for row in [*rows[1:], rows[0]]])
    return losses, float(exchanged), share_right(model, backwards, LENGTHS)


def main() -> None:
    """Print a line with the mask and one without."""
    heads = "  with another's source   decoded right: sentences, words"
    print("loss at step  ", *(f"{step:6}" for step in SHOWN), heads)
    for masked in (True, False):
        losses, exchanged, (whole, places) = run(masked)
        means = " ".join(f"{sum(losses[step - 20 : step]) / 20:6.3f}" for step in SHOWN)
        name = "with the mask" if masked else "without it"
        print(f"{name:14} {means} {exchanged:23.3f} {whole:25.0%}, {places:.0%}", flush=True)


if __name__ == "__main__":
    main()
