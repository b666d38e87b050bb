"""Texts of a spreadsheet that formulas, lists and filters compare with cells; they must not be translated."""

from __future__ import annotations

import re
from collections.abc import Iterable

STRING = re.compile(r"\"((?>(?:[^\"]++|\"\")*))\"")
COMPARED_REASON = "named by a formula, list or filter"
"""The reason why a cell whose text is compared by formulas, lists or filters is copied."""
MAX_PATTERNS = 1000
"""Maximum number of strings with wildcards; every cell is compared with each of them."""


class ComparedTexts:
    """The strings with which formulas, lists and filters compare cells; a cell with such a string is copied.

    Attributes:
        names: the names of table columns, which the header cells of the tables must repeat exactly.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()
        self._texts: set[str] = set()
        self._patterns: dict[tuple[str, ...], None] = {}

    def add_formula(self, formula: str, is_list: bool = False) -> None:
        """Add the strings of a formula.

        Args:
            formula: the formula, unescaped.
            is_list: whether the formula is the list of a data validation, whose entries are separated by
                commas.
        """
        for string in STRING.findall(formula):
            self.add(string.replace('""', '"'))
            if is_list:
                for entry in string.split(","):
                    self.add(entry)

    def add(self, string: str) -> None:
        """Add a string, which may begin with a comparison operator; ``*`` and ``?`` in it are wildcards."""
        words = string.lstrip("<>=").strip().casefold()
        if not any(map(str.isalpha, words)):
            return
        self._texts.add(words)
        parts = tuple(re.split(r"[*?]+", words))
        if len(parts) > 1 and len(self._patterns) < MAX_PATTERNS:
            self._patterns[parts] = None

    def __bool__(self) -> bool:
        """Return whether there are any strings."""
        return bool(self._texts)

    def contains(self, text: str) -> bool:
        """Return whether a text is one of the strings."""
        words = text.strip().casefold()
        return words in self._texts or any(_matches(words, parts) for parts in self._patterns)

    @classmethod
    def from_formulas(cls, formulas: Iterable[str]) -> ComparedTexts:
        """Return the strings in formulas."""
        texts = cls()
        for formula in formulas:
            texts.add_formula(formula)
        return texts


def _matches(text: str, parts: tuple[str, ...]) -> bool:
    """Return whether a text starts with the first part, ends with the last part, and contains the remaining
    parts in between.
    """
    first_part, *middle_parts, last_part = parts
    if (
        len(text) < len(first_part) + len(last_part)
        or not text.startswith(first_part)
        or not text.endswith(last_part)
    ):
        return False
    position, end = len(first_part), len(text) - len(last_part)
    for part in middle_parts:
        position = text.find(part, position, end)
        if position < 0:
            return False
        position += len(part)
    return True
