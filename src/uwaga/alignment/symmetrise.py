"""Two directions of alignment made one (Och & Ney 2003 §5; Koehn 2003)."""

from __future__ import annotations

Links = frozenset[tuple[int, int]]
"""(source word, target word), counted from 0."""
AROUND = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def grow_diagonal(one: Links, other: Links) -> Links:
    """grow-diag-final-and: what both have, grown by neighbours that one has, then by what is left alone.

    A link of the union joins where it touches one that is in, diagonals too, and one of its two words has
    none yet; at the end links join whose words both have none.
    """
    union = one | other
    found = set(one & other)
    sources, targets = {source for source, _ in found}, {target for _, target in found}
    waiting = sorted(found)
    while waiting:
        grown = []
        for source, target in waiting:
            for down, right in AROUND:
                near = source + down, target + right
                if near in union and near not in found and not (near[0] in sources and near[1] in targets):
                    found.add(near)
                    sources.add(near[0])
                    targets.add(near[1])
                    grown.append(near)
        waiting = grown
    for direction in (one, other):
        for source, target in sorted(direction - found):
            if source not in sources and target not in targets:
                found.add((source, target))
                sources.add(source)
                targets.add(target)
    return frozenset(found)
