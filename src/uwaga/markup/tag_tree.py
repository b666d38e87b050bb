"""Tags of a text as a tree: what stands inside what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from uwaga.markup.strip_tags import Mark


@dataclass
class Node:
    """A pair of tags, or one that stands alone; ``opens`` and ``closes`` are numbers of marks.

    Of a tag alone both are the same. ``children`` are in their order. ``low`` and ``high``: the target words
    that it is put around, once that is known.
    """

    opens: int
    closes: int
    children: list[Node] = field(default_factory=list)
    low: int = 0
    high: int = 0

    @property
    def paired(self) -> bool:
        """Whether it is a pair."""
        return self.closes > self.opens


def tag_tree(marks: Sequence[Mark]) -> Node:
    """The tree of all tags, below a root that is none (``opens`` -1).

    A close ends the nearest open before it that nothing has ended. An open that nothing ends, and a close
    that ends nothing, stand alone.
    """
    mates: dict[int, int] = {}
    waiting: list[int] = []
    for number, mark in enumerate(marks):
        if mark.tag.kind == "open":
            waiting.append(number)
        elif mark.tag.kind == "close" and waiting:
            mates[waiting.pop()] = number
    closing = set(mates.values())
    root = Node(-1, len(marks))
    path = [root]
    for number in range(len(marks)):
        if number in closing:
            path.pop()
            continue
        node = Node(number, mates.get(number, number))
        path[-1].children.append(node)
        if node.paired:
            path.append(node)
    return root


def in_order(root: Node) -> list[tuple[int, int]]:
    """Every mark with the number of target words before it, in the order of the translation.

    Pairs side by side share no word: by their first word and then their last, such as stand before a word
    come before those around it.
    """
    placed: list[tuple[int, int]] = []
    waiting: list[tuple[int, int] | Node] = [root]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Node):
            if one.opens >= 0:
                placed.append((one.opens, one.low))
            if one.paired and one is not root:
                waiting.append((one.closes, one.high))
            inside = sorted(one.children, key=lambda child: (child.low, child.high, child.opens))
            waiting += reversed(inside)
        else:
            placed.append(one)
    return placed
