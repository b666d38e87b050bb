"""Draw the README's picture: where the bundled model looks while it writes each German piece.

python docs/figures/attention.py        writes docs/figures/attention.png
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

import uwaga

SENTENCE = "I thought it would be a good concert, but it wasn't."


def main() -> None:
    """Translate one sentence and draw its cross-attention, (target, source)."""
    translation = uwaga.load().translate(SENTENCE, attention=True)
    assert translation.attention is not None
    source = [piece.replace("▁", "") or "␣" for piece in translation.source_tokens]
    target = [piece.replace("▁", "") or "␣" for piece in translation.tokens]
    source += ["</s>"] * (translation.attention.shape[1] - len(source))
    target += ["</s>"] * (translation.attention.shape[0] - len(target))

    figure, axes = pyplot.subplots(figsize=(7.2, 5.6), layout="constrained")
    axes.imshow(translation.attention, cmap="magma_r", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(source)), source, rotation=45, ha="left", rotation_mode="anchor")
    axes.set_yticks(range(len(target)), target)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_xticks([x - 0.5 for x in range(1, len(source))], minor=True)
    axes.set_yticks([y - 0.5 for y in range(1, len(target))], minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5)
    axes.tick_params(which="minor", length=0)
    path = Path(__file__).with_suffix(".png")
    figure.savefig(path, dpi=110)
    print(f"wrote {path}: {translation.text}")  # noqa: T201


if __name__ == "__main__":
    main()
