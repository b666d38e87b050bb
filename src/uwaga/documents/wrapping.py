"""Words laid into lines again: within a width, or so that lines are about equally long."""

from __future__ import annotations

from collections.abc import Sequence


def fill(words: Sequence[str], width: int) -> list[str]:
    """Lines of words with one space between them, none wider than ``width`` where words let it."""
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def balance(text: str, count: int) -> list[str]:
    """A text in at most ``count`` lines whose longest is as short as it can be.

    A text without spaces, as in Chinese, is cut between characters.
    """
    words = text.split(" ")
    if count <= 1 or len(text) < count:
        return [text]
    if len(words) == 1 and len(text) > 12 and not text.isascii():
        size = -(-len(text) // count)
        return [text[at : at + size] for at in range(0, len(text), size)]
    low, high = max(map(len, words)), len(text)
    while low < high:
        middle = (low + high) // 2
        if len(fill(words, middle)) <= count:
            high = middle
        else:
            low = middle + 1
    return fill(words, low)
