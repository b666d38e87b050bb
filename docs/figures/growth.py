"""Draw the figure of the guide: the cost of a sentence on the native engine by its length.

python benchmarks/engine.py --only growth --rounds 9 --json growth.json
python docs/figures/growth.py growth.json        writes docs/figures/growth.svg
"""

import json
import sys
from pathlib import Path

import numpy as np

from uwaga.inspection.figures import new_figure, save_figure

SHORT = 100
"""Maximum number of tokens to which the straight line is fitted."""
TITLES = {"source": "source length (target 16)", "target": "target length (source 15)"}


def main() -> None:
    """Draw the measured points, a straight line through the short ones, and a parabola through all."""
    growth = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["growth"]
    figure = new_figure(7.2, 3.2)
    for axes, (kind, title) in zip(figure.subplots(1, 2), TITLES.items(), strict=True):
        lengths = np.array([int(length) for length in growth[kind]])
        costs = np.array(list(growth[kind].values())) * 1e3
        short = lengths <= SHORT
        line = np.polyfit(lengths[short], costs[short], 1, w=1 / costs[short])
        curve = np.polyfit(lengths, costs, 2, w=1 / costs)
        grid = np.linspace(0, lengths[-1], 100)
        axes.plot(grid, np.polyval(line, grid), ":", color="grey", label=f"straight line, to {SHORT} tokens")
        axes.plot(grid, np.polyval(curve, grid), "-", linewidth=1, label="with a square term")
        axes.plot(lengths, costs, "o", markersize=4, color="C0", label="measured")
        axes.set_xlabel(f"tokens: {title}")
        axes.set_ylabel("milliseconds a sentence")
        axes.set_ylim(bottom=0)
        axes.grid(linewidth=0.4, alpha=0.6)
        axes.legend(frameon=False, fontsize=8)
        last, cost = lengths[-1], costs[-1]
        square = curve[0] * last**2 / np.polyval(curve, last)
        print(  # noqa: T201
            f"{kind}: {line[1]:.2f} ms + {line[0] * 1e3:.1f} µs a token up to {SHORT}; at {last} tokens "
            f"{cost:.1f} ms, {cost / np.polyval(line, last):.2f} of the line; square term {square:.0%}"
        )
    path = Path(__file__).with_suffix(".svg")
    save_figure(figure, path)
    print(f"wrote {path}")  # noqa: T201


if __name__ == "__main__":
    main()
