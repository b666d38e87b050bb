"""Reading the source backwards, on and off: deep LSTMs without attention that learn to write words again.

python experiments/reversal.py
"""

from __future__ import annotations

import torch
from sequences import SYMBOLS, VOCABULARY, learn, share_right

from uwaga.models.build import build_model
from uwaga.settings import SutskeverSettings

LENGTHS = (4, 9)
STEPS, SHOWN, SEEDS = 800, (200, 400, 600, 800), (1,)


def same(row: list[int]) -> list[int]:
    """The words in their order."""
    return row


def run(reverse: bool, seed: int, steps: int = STEPS) -> tuple[list[float], tuple[float, float]]:
    """The loss at each step, in nats a token, and what is right at the end (sentences, words)."""
    torch.manual_seed(seed)
    settings = SutskeverSettings(layers=2, embedding=64, hidden=96, reverse=reverse)
    model = build_model(settings, SYMBOLS, VOCABULARY, VOCABULARY)
    losses = list(learn(model, same, LENGTHS, steps, seed=seed))
    return losses, share_right(model, same, LENGTHS)


def main() -> None:
    """Print losses on the way and what is right at the end."""
    print("loss at step     ", *(f"{step:7}" for step in SHOWN), " sentences right, words right")
    for reverse in (False, True):
        for seed in SEEDS:
            losses, (whole, places) = run(reverse, seed)
            means = [sum(losses[step - 50 : step]) / 50 for step in SHOWN]
            name = "backwards" if reverse else "forwards"
            shown = " ".join(f"{one:7.3f}" for one in means)
            print(f"{name:9} seed {seed}   {shown}   {whole:.0%}, {places:.0%}", flush=True)


if __name__ == "__main__":
    main()
