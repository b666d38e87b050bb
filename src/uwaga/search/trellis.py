"""Every token that a batch has tried, as back-pointers, and the way back from a last token."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from uwaga.decoder import Ids
from uwaga.results.attention import Floats
from uwaga.search.rank import Scores


@dataclass(frozen=True)
class Layer:
    """The nodes of one step, each a token that extends a node of the step before.

    ``tokens``, ``parents``, ``log_probs``, ``rows``: (nodes,); ``rows`` are the decoder's rows that
    proposed them, at which ``attention`` (rows, source) is to be read.
    """

    tokens: Ids
    parents: Ids
    log_probs: Scores
    rows: Ids
    attention: Floats | None


@dataclass(frozen=True)
class Path:
    """One hypothesis read back: a row per token, end symbol included."""

    tokens: Ids
    log_probs: Scores
    attention: Floats | None


class Trellis:
    """Layers of nodes, one per step of a batch; a node is its index within its layer.

    A sentence that joined the batch after ``start`` steps has its first token in the layer after them.
    """

    def __init__(self) -> None:
        self._layers: list[Layer] = []

    def append(self, layer: Layer) -> None:
        """Add the nodes of the next step."""
        self._layers.append(layer)

    def paths(self, nodes: Ids, starts: Ids, depths: Ids, sources: Ids) -> list[Path]:
        """Walk back from nodes, all together.

        Args:
            nodes: (paths,) last nodes.
            starts: (paths,) layers before the sentence's first.
            depths: (paths,) tokens of each path; 0 is the empty path.
            sources: (paths,) source tokens of each sentence, to which attention is trimmed.
        """
        deepest, ends = int(depths.max(initial=0)), starts + depths
        here = nodes.copy()
        tokens = np.zeros((len(nodes), deepest), dtype=np.int64)
        log_probs = np.zeros((len(nodes), deepest), dtype=np.float64)
        rows = np.zeros((len(nodes), deepest), dtype=np.int64)
        for index in range(int(ends.max(initial=0)) - 1, int(starts.min(initial=0)) - 1, -1):
            layer = self._layers[index]
            reached = np.nonzero((starts <= index) & (index < ends))[0]
            at, column = here[reached], index - starts[reached]
            tokens[reached, column] = layer.tokens[at]
            log_probs[reached, column] = layer.log_probs[at]
            rows[reached, column] = layer.rows[at]
            here[reached] = layer.parents[at]
        return [
            Path(
                tokens[i, :depth],
                log_probs[i, :depth],
                self._attention(rows[i, :depth], int(starts[i]), int(sources[i])),
            )
            for i, depth in enumerate(depths.tolist())
        ]

    def _attention(self, rows: Ids, start: int, source: int) -> Floats | None:
        """The attention rows of a path, (target, source)."""
        weights = []
        for layer, row in zip(self._layers[start:], rows.tolist(), strict=False):
            if layer.attention is None:
                return None
            weights.append(layer.attention[row, :source])
        if not weights:
            known = self._layers and self._layers[0].attention is not None
            return np.zeros((0, source), dtype=np.float32) if known else None
        return np.stack(weights)
