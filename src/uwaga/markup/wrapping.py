"""Layout of words in lines: within a width, or in lines of about equal length."""

from __future__ import annotations

from collections.abc import Sequence


def fill(words: Sequence[str], width: int) -> list[str]:
    """Return words joined into lines of at most ``width`` characters; a longer word gets its own line."""
    lines: list[list[str]] = []
    length = 0
    for word in words:
        if lines and length + 1 + len(word) <= width:
            lines[-1].append(word)
            length += 1 + len(word)
        else:
            lines.append([word])
            length = len(word)
    return [" ".join(line) for line in lines]


def balance(text: str, count: int) -> list[str]:
    """Return a text as at most ``count`` lines, the longest of which is as short as possible.

    A text without spaces, as in Chinese, is cut between characters.
    """
    words = text.split(" ")
    if count <= 1 or len(text) < count:
        return [text]
    if len(words) == 1 and len(text) > 12 and not text.isascii():
        size = -(-len(text) // count)
        return [text[start : start + size] for start in range(0, len(text), size)]
    longest = max(map(len, words))
    low, high = longest, min(len(text), -(-len(text) // count) + longest)
    while low < high:
        middle = (low + high) // 2
        if len(fill(words, middle)) <= count:
            high = middle
        else:
            low = middle + 1
    return fill(words, low)
