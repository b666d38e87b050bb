"""Word links from attention: each target piece to the source piece that it looks at most (Garg 2019 §4.1)."""

from __future__ import annotations

from collections.abc import Sequence

from uwaga.errors import SettingsError
from uwaga.results.attention import Floats

Link = tuple[int, int]
"""(source word, target word), counted from 0."""


def attention_links(
    weights: Floats, source: Sequence[range], target: Sequence[range], *, reading: bool = False
) -> frozenset[Link]:
    """The links of a pair: a target word to every word that holds the favourite of one of its pieces.

    A piece whose favourite belongs to no word, such as the end of the sentence, adds no link.

    Args:
        weights: (target, source) attention, a row per step that predicts a piece or the end.
        source: of each source word the places of its pieces, from :func:`uwaga.data.guide.word_places`.
        target: of each target word likewise.
        reading: take for a piece the row of the next step, which reads it, not that which predicts it.

    Raises:
        SettingsError: the weights do not have a row or column for every piece.
    """
    later = int(reading)
    rows = max((places.stop for places in target), default=0) + later
    columns = max((places.stop for places in source), default=0)
    if weights.ndim != 2 or weights.shape[0] < rows or weights.shape[1] < columns:
        raise SettingsError(
            f"weights of shape {weights.shape} do not fit {rows} target and {columns} source pieces"
        )
    best = weights.argmax(axis=1).tolist()  # (target,)
    owners: dict[int, list[int]] = {}
    for word, places in enumerate(source):
        for place in places:
            owners.setdefault(place, []).append(word)
    return frozenset(
        (one, word)
        for word, places in enumerate(target)
        for place in places
        for one in owners.get(best[place + later], ())
    )
