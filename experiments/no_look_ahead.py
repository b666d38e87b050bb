"""A Transformer trained without the look-ahead mask copies the target, and fails at decoding.

python experiments/no_look_ahead.py
"""

from __future__ import annotations

from unittest.mock import patch

import torch
from sequences import SYMBOLS, VOCABULARY, accuracy, learn
from torch import Tensor

from uwaga.models.transformer import Transformer
from uwaga.settings import TransformerSettings

LENGTHS, STEPS = (3, 8), 500


def backwards(row: list[int]) -> list[int]:
    """Return the words in reverse order."""
    return row[::-1]


def all_visible(target: int, source: int, device: torch.device | None = None) -> Tensor:
    """Return a mask (target, source) of True, in place of the look-ahead mask."""
    return torch.ones(target, source, dtype=torch.bool, device=device)


def run(masked: bool, steps: int = STEPS, seed: int = 1) -> tuple[float, tuple[float, float]]:
    """Return the mean loss of the last 50 steps, in nats per token, and the accuracy of decoding."""
    torch.manual_seed(seed)
    settings = TransformerSettings(
        encoder_layers=2, decoder_layers=2, width=64, heads=4, feed_forward=128, dropout=0.0, norm="pre"
    )
    model = Transformer(settings, SYMBOLS, VOCABULARY, VOCABULARY)
    if masked:
        losses = list(learn(model, backwards, LENGTHS, steps, seed=seed))
    else:
        with patch("uwaga.models.transformer.causal_mask", all_visible):
            losses = list(learn(model, backwards, LENGTHS, steps, seed=seed))
    return sum(losses[-50:]) / len(losses[-50:]), accuracy(model, backwards, LENGTHS)


def main() -> None:
    """Print results with the mask and without it."""
    for masked in (True, False):
        loss, (exact, words) = run(masked)
        name = "with the mask" if masked else "without it"
        print(
            f"{name:14} training loss {loss:.4f} nats a token; decoding: {exact:.0%} of the sentences and",
            end="",
        )
        print(f" {words:.0%} of the words right", flush=True)


if __name__ == "__main__":
    main()
