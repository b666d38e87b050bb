"""Reading of word alignment files, and conversion of word alignments to subword alignments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from uwaga.alignment.words import WordKind, split_words
from uwaga.data.mixture import Mixture
from uwaga.data.plans import BatchRows
from uwaga.decoder import Ids
from uwaga.errors import DataError
from uwaga.files.lines import read_lines
from uwaga.tokenizers.subwords import TrainingSubwords
from uwaga.tokenizers.text import surface

_LINK = re.compile(rb"([0-9]{1,6})-([0-9]{1,6})")
Links = tuple[tuple[int, int], ...]
"""Links of an alignment: pairs (source word, target word), both counted from 0."""


@dataclass(frozen=True)
class LinkFile:
    """A word alignment file, and the way it counts words; line n aligns line n of the corpus."""

    path: str
    kind: WordKind

    def lines(self) -> LinkLines:
        """Return a reader of the lines of the file."""
        return LinkLines(self)


class LinkLines:
    """Reads the lines of a word alignment file in order."""

    def __init__(self, file: LinkFile) -> None:
        self._file = file
        self._lines: Iterator[bytes | None] = read_lines(file.path)
        self._line_number = 0
        self._line = b""

    def advance(self, corpus: str) -> None:
        """Read the next line; ``corpus`` is the name of the corpus, for messages."""
        line = next(self._lines, b"\n")
        if line == b"\n":  # the end: no line contains a line feed
            raise DataError(
                f"{self._file.path}: ends after line {self._line_number}, but {corpus} is longer; line n of "
                "the alignments belongs to pair n of the corpus, and is empty if the pair has no links"
            )
        self._line_number += 1
        if line is None:
            raise DataError(f"{self._location}: the line is too long to be the alignment of a sentence")
        self._line = line

    def links(self, source: str, target: str) -> Links:
        """Return the links in the current line, which is the alignment of ``source`` and ``target``."""
        links = []
        for word in self._line.split():
            link = _LINK.fullmatch(word)
            if link is None:
                raise DataError(
                    f"{self._location}: {word[:30].decode('utf-8', 'replace')!r} is not a link; expected "
                    "SOURCE-TARGET, words counted from 0, such as 0-0 1-2"
                )
            links.append((int(link[1]), int(link[2])))
        if links:
            sizes = len(split_words(source, self._file.kind)), len(split_words(target, self._file.kind))
            for side, name in ((0, "source"), (1, "target")):
                if (max_word := max(link[side] for link in links)) >= sizes[side]:
                    self._reject_word(max_word, name, sizes[side])
        return tuple(sorted(set(links)))

    def finish(self, corpus: str) -> None:
        """Raise DataError if the file has more lines than the corpus."""
        if next(self._lines, b"\n") != b"\n":
            raise DataError(
                f"{self._file.path}: has more lines than {corpus}, which ends after line "
                f"{self._line_number}; check that both belong to the same corpus"
            )

    @property
    def _location(self) -> str:
        return f"{self._file.path}, line {self._line_number}"

    def _reject_word(self, word: int, side: str, word_count: int) -> None:
        unit = {"words": "words and punctuation marks", "spaces": "strings between spaces"}[self._file.kind]
        raise DataError(
            f"{self._location}: a link refers to {side} word {word}, but the {side} has only {word_count} "
            f"{unit}, counted from 0; check training.guided_alignment.words, which says how the file counts "
            "words (words or spaces)"
        )


SPACE_SYMBOLS = ("\u2581", "\u0120")
"""The symbols for a space in pieces of SentencePiece and of byte-level BPE (one character per byte)."""
CONTINUATION_PREFIX = "##"
BYTE_PIECE_AFFIXES = ("<0x", ">")


class LinkConverter:
    """Converts the word alignments of a corpus to subword alignments.

    A piece has the links of all words of which it contains letters. Letters are counted in UTF-8 bytes,
    without white space, so that any segmentation and surface form is supported. If a tokeniser's
    normalisation changes the number of bytes, positions are scaled.
    """

    def __init__(
        self, mixture: Mixture, tokenisers: tuple[TrainingSubwords, TrainingSubwords], forms: Sequence[str]
    ) -> None:
        """Create a converter; ``forms`` are the names of the surface forms of the sources."""
        self._mixture, self._forms = mixture, forms
        self._source = count_piece_bytes(tokenisers[0])
        self._target = self._source if tokenisers[0] is tokenisers[1] else count_piece_bytes(tokenisers[1])

    def links(self, rows: BatchRows) -> Ids:
        """Return the subword links of a batch, (links, 3).

        The columns are the index of the sentence, the target position and the source position.
        """
        triples: list[tuple[int, int, int]] = []
        texts = self._mixture.texts(rows.pairs)
        for row, ((links, kind), (source, target, tag)) in enumerate(
            zip(self._mixture.links(rows.pairs), texts, strict=True)
        ):
            if not len(links):
                continue
            form = int(rows.forms[row])
            form_text = source if form < 0 else surface(source, self._forms[form])
            source_tokens = rows.source.tokens[row, : rows.source.lengths[row]]
            target_tokens = rows.target.tokens[row, : rows.target.lengths[row]]
            source_ranges = word_piece_ranges(
                _count_word_bytes(form_text, kind), self._source[source_tokens[len(tag) :]], len(tag)
            )
            target_ranges = word_piece_ranges(_count_word_bytes(target, kind), self._target[target_tokens])
            piece_links = {
                (target_position, source_position)
                for source_word, target_word in links.tolist()
                if source_word < len(source_ranges)
                and target_word < len(target_ranges)  # a form may lack the last words
                for target_position, source_position in product(
                    target_ranges[target_word], source_ranges[source_word]
                )
            }
            triples.extend(
                (row, target_position, source_position)
                for target_position, source_position in sorted(piece_links)
            )
        return np.array(triples, dtype=np.int64).reshape(-1, 3)


def _count_word_bytes(text: str, kind: WordKind) -> list[int]:
    return [len(word.encode()) for word in split_words(text, kind)]


def word_piece_ranges(word_bytes: Sequence[int], piece_bytes: Ids, first: int = 0) -> list[range]:
    """Return, for each word, the range of positions of the pieces that contain letters of the word.

    Args:
        word_bytes: number of bytes of each word.
        piece_bytes: (pieces,) number of bytes of each piece; -1 for special tokens.
        first: position of the first piece.
    """
    ends = np.cumsum(np.maximum(piece_bytes, 0))  # (pieces,)
    starts = ends - np.maximum(piece_bytes, 0)
    total = sum(word_bytes)
    scale = total / int(ends[-1]) if len(ends) and ends[-1] else 1.0
    word_ends = np.cumsum(word_bytes)  # (words,)
    scaled_ends = np.maximum(ends * scale, starts * scale + 1e-3)  # a space belongs to the next word
    first_words = np.searchsorted(
        word_ends, starts * scale + 1e-6, side="right"
    )  # (pieces,) first word of each
    last_words = np.searchsorted(word_ends, scaled_ends - 1e-6, side="right")  # its last
    positions: list[list[int]] = [[] for _ in word_bytes]
    for index, (width, first_word, last_word) in enumerate(
        zip(piece_bytes.tolist(), first_words.tolist(), last_words.tolist(), strict=True)
    ):
        if width >= 0:
            for word in range(first_word, min(last_word, len(word_bytes) - 1) + 1):
                positions[word].append(first + index)
    return [range(indices[0], indices[-1] + 1) if indices else range(0) for indices in positions]


def count_piece_bytes(tokeniser: TrainingSubwords) -> Ids:
    """Return the number of bytes of each piece without spaces, (vocabulary,); -1 for special tokens."""
    pieces = tokeniser.pieces(range(tokeniser.size))
    is_byte_level = any(piece.startswith(SPACE_SYMBOLS[1]) for piece in pieces)
    widths = np.array([_count_piece_bytes(piece, is_byte_level) for piece in pieces], dtype=np.int64)
    symbols = tokeniser.symbols
    special_ids = {
        symbols.start,
        symbols.end,
        symbols.pad,
        *tokeniser.encode(""),
    }  # including those added around a text
    widths[[token for token in special_ids if 0 <= token < len(widths)]] = -1
    return widths


def _count_piece_bytes(piece: str, is_byte_level: bool) -> int:
    if piece.startswith(BYTE_PIECE_AFFIXES[0]) and piece.endswith(BYTE_PIECE_AFFIXES[1]) and len(piece) == 6:
        return 1
    for space in SPACE_SYMBOLS:
        piece = piece.replace(space, "")
    piece = piece.removeprefix(CONTINUATION_PREFIX)
    return len(piece) if is_byte_level else len(piece.encode("utf-8", "replace"))
