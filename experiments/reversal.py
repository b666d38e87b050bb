"""Reading the source backwards or not: deep LSTMs without attention that learn to copy words.

python experiments/reversal.py
"""

from __future__ import annotations

import torch
from sequences import SYMBOLS, VOCABULARY, accuracy, learn

from uwaga.models.build import build_model
from uwaga.settings import SutskeverSettings

LENGTHS = (4, 9)
STEPS, REPORT_STEPS, SEEDS = 800, (200, 400, 600, 800), (1,)


def identity(row: list[int]) -> list[int]:
    """Return the words in their order."""
    return row


def run(reverse: bool, seed: int, steps: int = STEPS) -> tuple[list[float], tuple[float, float]]:
    """Return the loss at each step, in nats per token, and the final accuracy (sentences, words)."""
    torch.manual_seed(seed)
    settings = SutskeverSettings(layers=2, embedding=64, hidden=96, reverse=reverse)
    model = build_model(settings, SYMBOLS, VOCABULARY, VOCABULARY)
    losses = list(learn(model, identity, LENGTHS, steps, seed=seed))
    return losses, accuracy(model, identity, LENGTHS)


def main() -> None:
    """Print losses during training and the final accuracy."""
    print("loss at step     ", *(f"{step:7}" for step in REPORT_STEPS), " sentences right, words right")
    for reverse in (False, True):
        for seed in SEEDS:
            losses, (sentence_share, word_share) = run(reverse, seed)
            means = [sum(losses[step - 50 : step]) / 50 for step in REPORT_STEPS]
            name = "backwards" if reverse else "forwards"
            cells = " ".join(f"{mean:7.3f}" for mean in means)
            print(f"{name:9} seed {seed}   {cells}   {sentence_share:.0%}, {word_share:.0%}", flush=True)


if __name__ == "__main__":
    main()
