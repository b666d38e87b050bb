"""Glossaries: terms with their translations, and the search for them in texts."""

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
"""Characters of scripts without spaces between words; each counts as a word."""
WORD = re.compile(rf"[{UNSPACED}]|(?:(?![{UNSPACED}])\w)+|[^\w\s]")
SENTENCE_BEGINS = re.compile(r"(?:^|[.!?…:]['\"»”’)]*\s)[\s'\"«„“‚‘(\[¿¡-]*$")
LONGEST_TERM = 1000
"""Maximum characters of a term, and of each form of its translation."""


@dataclass(frozen=True)
class Match:
    """A term found in ``text[start:end]``.

    ``lowered``: its first letter is a capital in the text but not in the glossary.
    """

    term: Term
    start: int
    end: int
    lowered: bool


class Glossary:
    """Terms, which are found in texts at word boundaries; longer terms take precedence.

    A term matches as it is written and, at the beginning of a sentence, also with a capital letter. Any white
    space matches between its words.

    Args:
        terms: any number of terms.
        ignore_case: match upper and lower case alike.

    Raises:
        DataError: a term is empty or too long, or two terms contradict each other; names their locations.
    """

    def __init__(self, terms: Iterable[Term], ignore_case: bool = False) -> None:
        check_flag("ignore_case", ignore_case)
        self.ignore_case = ignore_case
        # A trie over words; the key None holds the term that ends there.
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
                    f"{before.where} and {shown(_forms(term))} in {term.where}; remove one, or give both as "
                    f"forms of one term, separated by {SEPARATOR}"
                )
        self.terms: tuple[Term, ...] = tuple(known.values())

    def __len__(self) -> int:
        return len(self.terms)

    def __repr__(self) -> str:
        return f"Glossary({len(self)} terms)"

    @classmethod
    def of(cls, given: object, languages: tuple[str, str] | None = None) -> Glossary:
        """Build a glossary from the argument of a call.

        Args:
            given: a glossary, the name of a file, or a mapping from terms to translations: a text with ``|``
                between its forms, or a list of forms; empty or None if the term is not translated.
            languages: codes of source and target, which a TBX file needs.

        Raises:
            DataError: a file cannot be read or is damaged, or terms contradict each other.
            SettingsError: ``given`` is of another type.
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
        """Read a ``.tsv``, ``.csv`` or ``.tbx`` file, which may be compressed; see :mod:`uwaga.terms.files`.

        Raises:
            DataError: the file is missing, damaged, contradictory or of another type; names file and line.
        """
        return cls(read_terms(Path(path), languages), ignore_case)

    def find(self, text: str) -> list[Match]:
        """Return the terms of a text in order, without overlaps.

        Of overlapping terms, the one with the most words is returned; of equally long ones, the first.
        """
        spans = [word.span() for word in WORD.finditer(text)]
        words = [self._folded(text[start:end]) for start, end in spans]
        # Only the longest term at each word is queued: a text may contain very many nested terms.
        longest = (self._longest(text, spans, words, first, len(words)) for first in range(len(words)))
        queue = [candidate for candidate in longest if candidate is not None]
        heapify(queue)
        taken = bytearray(len(words))
        matches = []
        while queue:
            negated_size, first, term, lowered = heappop(queue)
            end = first - negated_size
            free = taken.find(1, first, end) - first  # words before the first taken one
            if free < 0:
                taken[first:end] = b"\1" * (end - first)
                matches.append(Match(term, spans[first][0], spans[end - 1][1], lowered))
            elif free and (shorter := self._longest(text, spans, words, first, free)) is not None:
                heappush(queue, shorter)
        return sorted(matches, key=lambda match: match.start)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the spans of the terms in a text, in characters."""
        return [(match.start, match.end) for match in self.find(text)]

    def _longest(
        self, text: str, spans: Sequence[tuple[int, int]], words: Sequence[str], first: int, most: int
    ) -> tuple[int, int, Term, bool] | None:
        """Return the longest term of at most ``most`` words that begins at word ``first``, as the queue of
        :meth:`find` sorts it: its negated number of words, ``first``, the term and ``Match.lowered``.
        """
        longest, size = None, 0
        for variant in self._variants(text, spans[first][0], words[first]):
            node, at = self._root.get(variant), first
            while isinstance(node, dict) and at < first + most:
                at += 1
                term = node.get(None)
                if isinstance(term, Term) and at - first > size:
                    longest, size = term, at - first
                node = node.get(words[at]) if at < len(words) else None
        if longest is None:
            return None
        written = text[spans[first][0]]
        lowered = written.isupper() and longest.source[:1] == written.lower()
        return -size, first, longest, lowered

    def _variants(self, text: str, start: int, word: str) -> tuple[str, ...]:
        """Return a word and, if it begins a sentence, its form in lower case."""
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
            raise SettingsError(f"glossary: {where}: {shown(source)} and {shown(target)} must both be texts")
        source = " ".join(source.split())
        found = tuple(dict.fromkeys(form for one in several for form in forms(one)))
        yield Term(source, found or (source,), where)


def _check(term: Term, words: Sequence[str]) -> None:
    if not words:
        raise DataError(f"{term.where}: the term has no words: {shown(term.source)}")
    if max(map(len, (term.source, *term.targets))) > LONGEST_TERM:
        raise DataError(f"{term.where}: longer than {LONGEST_TERM} characters: is this a glossary?")


def _forms(term: Term) -> str:
    return SEPARATOR.join(term.targets)
