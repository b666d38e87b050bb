"""Glossaries of terms with their translations, and the search for terms in texts."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import accumulate
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from uwaga.errors import DataError, SettingsError, quoted
from uwaga.settings.options import check_flag
from uwaga.terms.files import SEPARATOR, Term, read_terms, split_forms

UNSPACED = r"\u0e00-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Characters of scripts without spaces between words; each of these characters counts as a word."""
WORD = re.compile(rf"[{UNSPACED}]|(?:(?![{UNSPACED}])\w)+|[^\w\s]")
SENTENCE_START = re.compile(r"(?:^|[.!?…:]['\"»”’)]*\s)[\s'\"«„“‚‘(\[¿¡-]*$")
MAX_TERM_CHARACTERS = 1000
"""Maximum number of characters of a term, and of each form of its translation."""
WORD_END = "\n"
"""The character that ends each word of a key; no word contains it."""


@dataclass(frozen=True)
class Match:
    """A term found in ``text[start:end]``.

    ``capitalised`` is True if its first letter is a capital letter in the text but not in the glossary.
    """

    term: Term
    start: int
    end: int
    capitalised: bool


class _Words(NamedTuple):
    """The words of a text: the span of each word, all keys in one string, and the offset of each key."""

    text: str
    spans: Sequence[tuple[int, int]]
    keys: str
    offsets: Sequence[int]


class Glossary:
    """Terms that are found in texts at word boundaries; longer terms take precedence.

    A term matches as it is written and, at the beginning of a sentence, also with a capital letter. Between
    the words of a term, any white space matches.

    Args:
        terms: any number of terms.
        ignore_case: whether to ignore the case of letters.
        keep_first: whether to use the first of contradictory terms instead of raising an error.

    Raises:
        DataError: a term is empty or too long, or two terms contradict each other; the message names their
            locations.
    """

    def __init__(self, terms: Iterable[Term], ignore_case: bool = False, keep_first: bool = False) -> None:
        check_flag("ignore_case", ignore_case)
        self.ignore_case = ignore_case
        terms_by_key: dict[str, Term] = {}
        for term in terms:
            key = "".join(self._key(word) for word in WORD.findall(term.source))
            _check(term, key)
            previous_term = terms_by_key.setdefault(key, term)
            if (
                not keep_first
                and previous_term is not term
                and set(previous_term.targets) != set(term.targets)
            ):
                raise DataError(
                    f"the glossary contradicts itself: {quoted(term.source)} is "
                    f"{quoted(_join_forms(previous_term))} in {previous_term.location} and "
                    f"{quoted(_join_forms(term))} in {term.location}; remove one, or give both as forms of "
                    f"one term, separated by {SEPARATOR}"
                )
        self.terms: tuple[Term, ...] = tuple(terms_by_key.values())
        # Sorted keys take a fifth of the memory of a trie; keys that begin with a key follow it.
        self._keys = sorted(terms_by_key)
        self._sorted_terms = [terms_by_key[key] for key in self._keys]
        self._prefixes = _longest_prefixes(self._keys)
        self._max_key_length = max(map(len, self._keys), default=0)

    def __len__(self) -> int:
        return len(self.terms)

    def __repr__(self) -> str:
        return f"Glossary({len(self)} terms)"

    @classmethod
    def from_argument(cls, value: object, languages: tuple[str, str] | None = None) -> Glossary:
        """Return a glossary from the argument ``glossary`` of a call.

        Args:
            value: a glossary, the path of a file, or a mapping from terms to translations. A translation is
                a string of forms separated by ``|``, or a list of forms; it is empty or None if the term
                stays untranslated.
            languages: codes of the source and target language; required for a TBX file.

        Raises:
            DataError: a file cannot be read or is damaged, or terms contradict each other.
            SettingsError: ``value`` is of another type.
        """
        if isinstance(value, Glossary):
            return value
        if isinstance(value, Mapping):
            return cls(_from_mapping(value))
        if isinstance(value, str | PathLike):
            return cls.read(value, languages)
        raise SettingsError(
            "glossary must be a mapping from terms to translations, the path of a file, or a Glossary, not "
            f"{quoted(value)}"
        )

    @classmethod
    def read(
        cls, path: str | PathLike[str], languages: tuple[str, str] | None = None, ignore_case: bool = False
    ) -> Glossary:
        """Read a ``.tsv``, ``.csv`` or ``.tbx`` file, which may be compressed; see :mod:`uwaga.terms.files`.

        Raises:
            DataError: the file is missing, damaged or of an unknown type, or its terms contradict each
                other; the message names the file and line.
        """
        return cls(read_terms(Path(path), languages), ignore_case)

    def find(self, text: str) -> list[Match]:
        """Return the matches of terms in a text in order, without overlaps.

        If terms overlap, only the term with the most words is returned or, if several have as many words,
        the first of them.
        """
        spans = [word.span() for word in WORD.finditer(text)]
        keys = [self._key(text[start:end]) for start, end in spans]
        words = _Words(text, spans, "".join(keys), [0, *accumulate(map(len, keys))])
        # Only the longest term at each word is queued, as a text may contain very many nested terms.
        longest = (self._longest_match(words, start, len(spans)) for start in range(len(spans)))
        queue = [candidate for candidate in longest if candidate is not None]
        heapify(queue)
        occupied = bytearray(len(spans))
        matches = []
        while queue:
            negated_size, start, term, capitalised = heappop(queue)
            end = start - negated_size
            unoccupied = occupied.find(1, start, end) - start  # words before the first occupied one
            if unoccupied < 0:
                occupied[start:end] = b"\1" * (end - start)
                matches.append(Match(term, spans[start][0], spans[end - 1][1], capitalised))
            elif (
                unoccupied
                and (shorter_match := self._longest_match(words, start, start + unoccupied)) is not None
            ):
                heappush(queue, shorter_match)
        return sorted(matches, key=lambda match: match.start)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the spans of the terms in a text, in characters."""
        return [(match.start, match.end) for match in self.find(text)]

    def _longest_match(self, words: _Words, start_index: int, end: int) -> tuple[int, int, Term, bool] | None:
        """Return the longest term that begins at word ``start_index`` and ends before word ``end``.

        The result is an item of the queue of :meth:`find`: the negated number of words, ``start_index``, the
        term, and whether it is capitalised.
        """
        start = words.spans[start_index][0]
        offset, limit = words.offsets[start_index], words.offsets[end]
        keys = words.keys[offset : min(limit, offset + self._max_key_length)]
        index = self._index(keys)
        lower = keys[:1].lower() + keys[1:]
        if lower != keys:
            lower_index = self._index(lower)
            is_longer = lower_index >= 0 and (index < 0 or self._size(lower_index) > self._size(index))
            if is_longer and SENTENCE_START.search(words.text[max(0, start - 9) : start]):
                index = lower_index
        if index < 0:
            return None
        first_letter, longest = words.text[start], self._sorted_terms[index]
        capitalised = first_letter.isupper() and longest.source[:1] == first_letter.lower()
        return -self._size(index), start_index, longest, capitalised

    def _index(self, keys: str) -> int:
        """Return the index of the longest term key that is a prefix of ``keys``, or -1 if there is none."""
        index = bisect_right(self._keys, keys) - 1
        while index >= 0 and not keys.startswith(self._keys[index]):
            index = self._prefixes[index]
        return index

    def _size(self, index: int) -> int:
        return self._keys[index].count(WORD_END)

    def _key(self, word: str) -> str:
        return (word.casefold() if self.ignore_case else word) + WORD_END


def _longest_prefixes(keys: Sequence[str]) -> array[int]:
    """Return, for each sorted key, the index of the longest other key that is a prefix of it, or -1."""
    prefixes, open_keys = array("i"), list[int]()
    for index, key in enumerate(keys):
        while open_keys and not key.startswith(keys[open_keys[-1]]):
            open_keys.pop()
        prefixes.append(open_keys[-1] if open_keys else -1)
        open_keys.append(index)
    return prefixes


def _from_mapping(mapping: Mapping[object, object]) -> Iterator[Term]:
    for number, (source, target) in enumerate(mapping.items(), start=1):
        location = f"entry {number}"
        targets = [target] if isinstance(target, str) else [] if target is None else target
        texts: list[Any] = list(targets) if isinstance(targets, Iterable) else [targets]
        if not isinstance(source, str) or not all(isinstance(text, str) for text in texts):
            raise SettingsError(
                f"glossary: {location}: {quoted(source)} and {quoted(target)} must both be strings"
            )
        source = " ".join(source.split())
        target_forms = tuple(dict.fromkeys(form for text in texts for form in split_forms(text)))
        yield Term(source, target_forms or (source,), location)


def _check(term: Term, key: str) -> None:
    if not key:
        raise DataError(f"{term.location}: the term has no words: {quoted(term.source)}")
    if max(map(len, (term.source, *term.targets))) > MAX_TERM_CHARACTERS:
        raise DataError(
            f"{term.location}: the term or its translation is longer than {MAX_TERM_CHARACTERS} characters; "
            "check that this is a glossary"
        )


def _join_forms(term: Term) -> str:
    return SEPARATOR.join(term.targets)
