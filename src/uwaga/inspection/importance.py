"""Which heads matter: what silencing each of them costs (Michel 2019), as a table and a figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from uwaga.errors import SettingsError
from uwaga.inspection.interventions import head_importance
from uwaga.inspection.pictures import new_figure
from uwaga.results.attention import Floats
from uwaga.results.translation import JsonRecord, json_number
from uwaga.translator import Translator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from uwaga.models.interventions import Kind

CELL = 0.5  # inches
TITLE = 0.5


@dataclass(frozen=True, eq=False)
class HeadImportance(JsonRecord):
    """What a model loses without one of its heads.

    ``lost`` holds for each kind of attention (layers, heads) float32: nats of log-probability per target
    token, below 0 where the model does better without that head. ``pairs`` is the number of sentence pairs.
    """

    lost: Mapping[str, Floats]
    pairs: int

    def to_dict(self) -> dict[str, object]:
        """What JSON can hold of it, under the same names; layers and heads as lists of lists."""
        tables = {
            kind: [[json_number(x) for x in row] for row in table.tolist()]
            for kind, table in self.lost.items()
        }
        return {"pairs": self.pairs, "lost": tables}


def measure_heads(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    kinds: Sequence[Kind],
    on_head: Callable[[int], None] = lambda done: None,
) -> HeadImportance:
    """Silence each head of a Transformer, one after the other, and score known translations.

    Args:
        translator: of a Transformer in torch.
        pairs: sources and targets.
        kinds: of attention.
        on_head: called with how many heads are done.

    Raises:
        SettingsError: the model is no Transformer in torch; or there is no pair.
    """
    if not pairs:
        raise SettingsError("no sentence pair to score: every line of the files is empty")
    done = count(1)
    lost: dict[str, Floats] = {
        kind: head_importance(translator, pairs, kind, lambda: on_head(next(done))) for kind in kinds
    }
    return HeadImportance(lost, len(pairs))


def draw_importance(found: HeadImportance) -> Figure:
    """A panel for each kind of attention, a row a layer and a column a head; the darker, the more is lost.

    Red is gained: the model does better without the head.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    tables = list(found.lost.items())
    widths = [CELL * table.shape[1] + TITLE for _, table in tables]
    height = CELL * max(len(table) for _, table in tables) + 2 * TITLE
    figure = new_figure(sum(widths) + TITLE, height)
    panels = figure.subplots(1, len(tables), squeeze=False, width_ratios=widths)[0]
    most = max(float(abs(table).max()) for _, table in tables) or 1.0
    for axes, (kind, table) in zip(panels, tables, strict=True):
        axes.pcolormesh(table, cmap="RdGy", vmin=-most, vmax=most, edgecolors="#dddddd", linewidth=0.4)
        axes.invert_yaxis()
        axes.set_aspect("equal")
        axes.set_title(kind, fontsize=9)
        layers, heads = table.shape
        axes.set_xticks([at + 0.5 for at in range(heads)], list(map(str, range(1, heads + 1))))
        axes.set_yticks([at + 0.5 for at in range(layers)], list(map(str, range(1, layers + 1))))
        axes.set_xlabel("head", fontsize=8)
        axes.set_ylabel("layer", fontsize=8)
        axes.tick_params(length=0, labelsize=8)
        for (layer, head), nats in np.ndenumerate(table):
            dark = "white" if abs(nats) > 0.6 * most else "black"
            axes.text(
                head + 0.5, layer + 0.5, f"{nats:.2f}", ha="center", va="center", fontsize=6, color=dark
            )
    return figure
