"""Word links of a corpus, one line a pair, as Moses, fast_align and eflomal write them: ``0-0 1-2 2-1``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from uwaga.alignment.words import WordKind, split_words
from uwaga.errors import DataError
from uwaga.files.lines import read_lines

_LINK = re.compile(rb"([0-9]{1,6})-([0-9]{1,6})")
Links = tuple[tuple[int, int], ...]
"""(source word, target word), counted from 0."""


@dataclass(frozen=True)
class LinkFile:
    """A file of links, and by which words it counts; line n belongs to pair n of the corpus, sound or not."""

    path: str
    kind: WordKind

    def lines(self) -> LinkLines:
        """Its lines, to be read beside the corpus."""
        return LinkLines(self)


class LinkLines:
    """The lines of a file of links, one after the other."""

    def __init__(self, file: LinkFile) -> None:
        self._file = file
        self._lines: Iterator[bytes | None] = read_lines(file.path)
        self._number = 0
        self._line = b""

    def advance(self, corpus: str) -> None:
        """Go to the next line; ``corpus`` is what it belongs to, for the message.

        Raises:
            DataError: there is none, or it is no line of links' length.
        """
        line = next(self._lines, b"\n")
        if line == b"\n":  # which no line holds
            raise DataError(
                f"{self._file.path}: ends after line {self._number}, but {corpus} goes on; line n of the "
                "links belongs to pair n of the corpus, an empty line to a pair without links"
            )
        self._number += 1
        if line is None:
            raise DataError(f"{self._place}: longer than the links of any sentence")
        self._line = line

    def links(self, source: str, target: str) -> Links:
        """What the line says of a pair.

        Raises:
            DataError: it is not of the form ``0-0 1-2``, or names a word that the pair does not have.
        """
        found = []
        for word in self._line.split():
            link = _LINK.fullmatch(word)
            if link is None:
                raise DataError(
                    f"{self._place}: {word[:30].decode('utf-8', 'replace')!r} is no link; expected "
                    "SOURCE-TARGET, words counted from 0, such as 0-0 1-2"
                )
            found.append((int(link[1]), int(link[2])))
        if found:
            sizes = len(split_words(source, self._file.kind)), len(split_words(target, self._file.kind))
            for side, name in ((0, "source"), (1, "target")):
                if (most := max(link[side] for link in found)) >= sizes[side]:
                    self._refuse(most, name, sizes[side])
        return tuple(sorted(set(found)))

    def finish(self, corpus: str) -> None:
        """Refuse lines beyond the end of the corpus (DataError)."""
        if next(self._lines, b"\n") != b"\n":
            raise DataError(
                f"{self._file.path}: goes on after line {self._number}, where {corpus} ends; are they of the "
                "same corpus?"
            )

    @property
    def _place(self) -> str:
        return f"{self._file.path}, line {self._number}"

    def _refuse(self, word: int, side: str, words: int) -> None:
        counted = {
            "words": "words and punctuation marks, each of its own",
            "spaces": "stretches between spaces",
        }[self._file.kind]
        raise DataError(
            f"{self._place}: {side} word {word}, but the {side} has {words} ({counted}, counted from 0); "
            "training.guided_alignment.words says how they are counted: words or spaces"
        )
