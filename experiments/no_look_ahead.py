"""A Transformer trained without the look-ahead mask: it copies the answer, and fails when it must write.

python experiments/no_look_ahead.py
"""

from __future__ import annotations

from unittest.mock import patch

import torch
from sequences import SYMBOLS, VOCABULARY, learn, share_right
from torch import Tensor

from uwaga.models.transformer import Transformer
from uwaga.settings import TransformerSettings

LENGTHS, STEPS = (3, 8), 500


def backwards(row: list[int]) -> list[int]:
    """The words from the last to the first."""
    return row[::-1]


def everything(target: int, source: int, device: torch.device | None = None) -> Tensor:
    """In the place of the look-ahead mask: (target, source), all True."""
    return torch.ones(target, source, dtype=torch.bool, device=device)


def run(masked: bool, steps: int = STEPS, seed: int = 1) -> tuple[float, tuple[float, float]]:
    """The mean loss of the last 50 steps, in nats a token, and what decoding gets right: sentences, words."""
    torch.manual_seed(seed)
    settings = TransformerSettings(
        encoder_layers=2, decoder_layers=2, width=64, heads=4, feed_forward=128, dropout=0.0, norm="pre"
    )
    model = Transformer(settings, SYMBOLS, VOCABULARY, VOCABULARY)
    if masked:
        losses = list(learn(model, backwards, LENGTHS, steps, seed=seed))
    else:
        with patch("uwaga.models.transformer.causal_mask", everything):
            losses = list(learn(model, backwards, LENGTHS, steps, seed=seed))
    return sum(losses[-50:]) / len(losses[-50:]), share_right(model, backwards, LENGTHS)


def main() -> None:
    """Print a line with the mask and one without."""
    for masked in (True, False):
        loss, (whole, places) = run(masked)
        name = "with the mask" if masked else "without it"
        print(
            f"{name:14} training loss {loss:.4f} nats a token; decoding: {whole:.0%} of the sentences and",
            end="",
        )
        print(f" {places:.0%} of the words right", flush=True)


if __name__ == "__main__":
    main()
