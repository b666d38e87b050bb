"""Glossaries: terms with their translations, found in texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from os import PathLike
from pathlib import Path
from typing import Any

from uwaga.errors import DataError, SettingsError, shown
from uwaga.settings.options import check_flag
from uwaga.terms.files import SEPARATOR, Term, forms, read_terms

UNSPACED = r"\u0e00-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Characters of scripts without spaces between words: each is a word."""
WORD = re.compile(rf"[{UNSPACED}]|(?:(?![{UNSPACED}])\w)+|[^\w\s]")
SENTENCE_BEGINS = re.compile(r"(?:^|[.!?…:]['\"»”’)]*\s)[\s'\"«„“‚‘(\[¿¡-]*$")
LONGEST_TERM = 1000
"""Characters of either side of a term."""


@dataclass(frozen=True)
class Match:
    """A term found in a text, from ``start`` up to ``end``, in characters.

    ``lowered``: the text writes its first letter as a capital, the glossary does not.
    """

    term: Term
    start: int
    end: int
    lowered: bool


class Glossary:
    """Terms that are found in texts at word boundaries, the longest first.

    A term is found as it is written, and at the beginning of a sentence with a capital too. White space
    within it may be any.

    Args:
        terms: in any number.
        ignore_case: find them however the text writes them.

    Raises:
        DataError: a term is empty or too long, or two contradict each other; names where both are.
    """

    def __init__(self, terms: Iterable[Term], ignore_case: bool = False) -> None:
        check_flag("ignore_case", ignore_case)
        self.ignore_case = ignore_case
        # A trie over words; under None stands the term that ends there.
        self._root: dict[str | None, object] = {}
        known: dict[tuple[str, ...], Term] = {}
        for term in terms:
            words = tuple(self._folded(word) for word in WORD.findall(term.source))
            _check(term, words)
            before = known.setdefault(words, term)
            if before is term:
                self._add(words, term)
            elif set(before.targets) != set(term.targets):
                raise DataError(
                    f"the glossary contradicts itself: {shown(term.source)} is {shown(_forms(before))} in "
                    f"{before.where} and {shown(_forms(term))} in {term.where}; leave one out, or give both "
                    f"as forms of one term with {SEPARATOR} between"
                )
        self.terms: tuple[Term, ...] = tuple(known.values())

    def __len__(self) -> int:
        return len(self.terms)

    def __repr__(self) -> str:
        return f"Glossary({len(self)} terms)"

    @classmethod
    def of(cls, given: object, languages: tuple[str, str] | None = None) -> Glossary:
        """Return a glossary from the argument of a call.

        Args:
            given: a glossary; a mapping from terms to a translation each, with ``|`` between its forms, or
                several in a list, or nothing or None for what stays as it is; or the name of a file.
            languages: codes of source and target, by which a TBX file is read.

        Raises:
            DataError: a file cannot be read or is damaged, or terms contradict each other.
            SettingsError: it is nothing of these.
        """
        if isinstance(given, Glossary):
            return given
        if isinstance(given, Mapping):
            return cls(_from_mapping(given))
        if isinstance(given, str | PathLike):
            return cls.read(given, languages)
        raise SettingsError(
            f"glossary must be a mapping from terms to translations, a file or a Glossary, not {shown(given)}"
        )

    @classmethod
    def read(
        cls,
        path: str | PathLike[str],
        languages: tuple[str, str] | None = None,
        ignore_case: bool = False,
    ) -> Glossary:
        """Read a file: ``.tsv``, ``.csv`` or ``.tbx``, packed or not; see :mod:`uwaga.terms.files`.

        Raises:
            DataError: missing, damaged, of another kind, or contradicting itself; names file and line.
        """
        return cls(read_terms(Path(path), languages), ignore_case)

    def find(self, text: str) -> list[Match]:
        """Return the terms in a text in order; no two overlap.

        Of those that overlap the one of most words is taken, of equals the first.
        """
        places = [(found.start(), found.end()) for found in WORD.finditer(text)]
        words = [self._folded(text[start:end]) for start, end in places]
        # Only the longest term at each word waits: a text may hold very many inside each other.
        longest = (self._longest(text, places, words, first, len(words)) for first in range(len(words)))
        waiting = [one for one in longest if one is not None]
        heapify(waiting)
        taken = bytearray(len(words))
        found = []
        while waiting:
            size, first, term, lowered = heappop(waiting)
            end = first - size
            free = taken.find(1, first, end) - first
            if free < 0:
                taken[first:end] = b"\1" * (end - first)
                found.append(Match(term, places[first][0], places[end - 1][1], lowered))
            elif free and (shorter := self._longest(text, places, words, first, free)) is not None:
                heappush(waiting, shorter)
        return sorted(found, key=lambda one: one.start)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the places of the terms in a text, in characters."""
        return [(one.start, one.end) for one in self.find(text)]

    def _longest(
        self, text: str, places: Sequence[tuple[int, int]], words: Sequence[str], first: int, most: int
    ) -> tuple[int, int, Term, bool] | None:
        """Return the longest term of at most so many words that begins at a word: its words, negative, the
        number of its first word, and the fields of a match.
        """
        longest, size = None, 0
        for variant in self._variants(text, places[first][0], words[first]):
            node, at = self._root.get(variant), first
            while isinstance(node, dict) and at < first + most:
                at += 1
                term = node.get(None)
                if isinstance(term, Term) and at - first > size:
                    longest, size = term, at - first
                node = node.get(words[at]) if at < len(words) else None
        if longest is None:
            return None
        written = text[places[first][0]]
        lowered = written.isupper() and longest.source[:1] == written.lower()
        return -size, first, longest, lowered

    def _variants(self, text: str, start: int, word: str) -> tuple[str, ...]:
        lower = word[:1].lower() + word[1:]
        if lower != word and lower in self._root and SENTENCE_BEGINS.search(text[max(0, start - 9) : start]):
            return word, lower
        return (word,)

    def _folded(self, word: str) -> str:
        return word.casefold() if self.ignore_case else word

    def _add(self, words: Sequence[str], term: Term) -> None:
        node = self._root
        for word in words:
            below = node.setdefault(word, {})
            assert isinstance(below, dict)
            node = below
        node[None] = term


def _from_mapping(given: Mapping[object, object]) -> Iterator[Term]:
    for number, (source, target) in enumerate(given.items(), start=1):
        where = f"entry {number}"
        listed = [target] if isinstance(target, str) else [] if target is None else target
        several: list[Any] = list(listed) if isinstance(listed, Iterable) else [listed]
        if not isinstance(source, str) or not all(isinstance(one, str) for one in several):
            raise SettingsError(f"glossary: {where}: {shown(source)} and {shown(target)} are not both texts")
        source = " ".join(source.split())
        found = tuple(dict.fromkeys(form for one in several for form in forms(one)))
        yield Term(source, found or (source,), where)


def _check(term: Term, words: Sequence[str]) -> None:
    if not words:
        raise DataError(f"{term.where}: a term without any word: {shown(term.source)}")
    if max(map(len, (term.source, *term.targets))) > LONGEST_TERM:
        raise DataError(f"{term.where}: longer than {LONGEST_TERM} characters: is this a glossary?")


def _forms(term: Term) -> str:
    return SEPARATOR.join(term.targets)
