"""The alignment error rate of word alignments against manual alignments (Och & Ney 2003 §6)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from uwaga.errors import DataError

Link = tuple[int, int]
"""The indices of a source word and of a target word, from 0."""
Line = TypeVar("Line")
CHECKSUM_DIGITS = 16
"""Number of hexadecimal digits of a checksum, which is the beginning of a SHA-256."""


@dataclass(frozen=True)
class HandAlignment:
    """The manual alignment of one sentence pair.

    Attributes:
        line: number of the pair in the corpus, from 1.
        checksum: the checksum of the pair, by :func:`pair_checksum`.
        sure: links that must be present.
        possible: links that may be present, including the sure ones.
    """

    line: int
    checksum: str
    sure: frozenset[Link]
    possible: frozenset[Link]


@dataclass(frozen=True)
class AlignmentReport:
    """The agreement of alignments with manual alignments (Och & Ney 2003 §6).

    Attributes:
        error: alignment error rate.
        precision: proportion of the evaluated links that are possible links.
        recall: proportion of the sure links that are among the evaluated links.
        pairs: number of sentence pairs.
    """

    error: float
    precision: float
    recall: float
    pairs: int


def alignment_report(links: Sequence[Set[Link]], gold: Sequence[HandAlignment]) -> AlignmentReport:
    """Return the error rate, precision and recall of alignments.

    Arguments and errors are those of :func:`alignment_error_rate`.
    """
    error = alignment_error_rate(links, gold)
    count, sure_count = sum(map(len, links)), sum(len(gold_pair.sure) for gold_pair in gold)
    possible_count = sum(len(pair & gold_pair.possible) for pair, gold_pair in zip(links, gold, strict=True))
    hit_count = sum(len(pair & gold_pair.sure) for pair, gold_pair in zip(links, gold, strict=True))
    return AlignmentReport(
        error,
        possible_count / count if count else 1.0,
        hit_count / sure_count if sure_count else 1.0,
        len(gold),
    )


def alignment_error_rate(links: Sequence[Set[Link]], gold: Sequence[HandAlignment]) -> float:
    """Return ``1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|)`` over all pairs: 0 is best, 1 worst.

    Args:
        links: the links A of each pair.
        gold: the manual alignments of the same pairs, with sure links S and possible links P.

    Raises:
        DataError: the numbers of pairs differ.
    """
    if len(links) != len(gold):
        raise DataError(
            f"alignments of {len(links)} pairs cannot be compared with manual alignments of {len(gold)}"
        )
    pairs = list(zip(links, gold, strict=True))
    hit_count = sum(len(pair & gold_pair.sure) + len(pair & gold_pair.possible) for pair, gold_pair in pairs)
    total = sum(len(pair) + len(gold_pair.sure) for pair, gold_pair in pairs)
    return 1.0 - hit_count / total if total else 0.0


def pair_checksum(source: str, target: str) -> str:
    """Return the checksum of the source and target of a pair, joined by a tab."""
    return hashlib.sha256(f"{source}\t{target}".encode()).hexdigest()[:CHECKSUM_DIGITS]


def read_hand_alignments(path: Path) -> list[HandAlignment]:
    """Read a file of manual alignments.

    A line has the number of the pair in its corpus, its checksum, and the links of source word i with target
    word j: ``i-j`` for a sure link and ``i?j`` for a possible link.

    Raises:
        DataError: the file cannot be read, or a line does not have this form.
    """
    lines = _lines(path)
    return [
        _parse_line(line, f"{path}, line {line_number}") for line_number, line in enumerate(lines, start=1)
    ]


def read_gold(path: Path) -> list[HandAlignment]:
    """Read manual alignments in the format of :func:`read_hand_alignments` or of Moses.

    In the format of Moses, line n has the links of pair n without a checksum, ``i-j`` for a sure link and
    ``i?j`` for a possible link.

    Raises:
        DataError: the file cannot be read, or a line has neither format.
    """
    if any(re.fullmatch(rf"\d+ [0-9a-f]{{{CHECKSUM_DIGITS}}}( .*)?", line) for line in _lines(path)[:1]):
        return read_hand_alignments(path)
    return [
        HandAlignment(
            line_number, "", *_links(line.split(), line, f"{path}, line {line_number}", "0-0 1?1 ...")
        )
        for line_number, line in enumerate(_lines(path), start=1)
    ]


def moses_links(lines: Iterable[str], name: str) -> list[frozenset[Link]]:
    """Return the links of each line in the format of Moses, such as ``0-0 1-2``.

    Raises:
        DataError: a line does not have this form; the message begins with ``name``.
    """
    return [
        _links(line.split(), line, f"{name}, line {line_number}", "0-0 1-2 ...")[1]
        for line_number, line in enumerate(lines, start=1)
    ]


def select_lines(lines: Sequence[Line], gold: Sequence[HandAlignment], name: str) -> list[Line]:
    """Return the lines of a corpus that have manual alignments.

    Raises:
        DataError: a manual alignment is for a line that the corpus does not have; the message begins with
            ``name``.
    """
    for gold_pair in gold:
        if not 1 <= gold_pair.line <= len(lines):
            raise DataError(
                f"{name} has {len(lines)} lines, but there is a manual alignment of line {gold_pair.line}: "
                f"they must belong to the same corpus"
            )
    return [lines[gold_pair.line - 1] for gold_pair in gold]


def check_pairs(gold: Iterable[HandAlignment], sources: Sequence[str], targets: Sequence[str]) -> None:
    """Check that the manually aligned pairs are in a corpus.

    Args:
        gold: the manual alignments.
        sources: all sources of the corpus.
        targets: all targets of the corpus.

    Raises:
        DataError: a pair is missing or differs; the message gives its line number.
    """
    for gold_pair in gold:
        if gold_pair.line > min(len(sources), len(targets)):
            raise DataError(f"the corpus has no line {gold_pair.line}, which was aligned by hand")
        if pair_checksum(sources[gold_pair.line - 1], targets[gold_pair.line - 1]) != gold_pair.checksum:
            raise DataError(
                f"line {gold_pair.line} of the corpus is not the pair that was aligned by hand: use "
                "the same, unmodified release of the corpus"
            )


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None


def _parse_line(line: str, location: str) -> HandAlignment:
    form = "NUMBER CHECKSUM 0-0 1?1 ..."
    line_number, checksum, *links = [*line.split(), "", ""][: max(2, len(line.split()))]
    if not line_number.isdecimal() or len(line_number) > 9 or not checksum:
        raise _malformed_error(line, location, form)
    return HandAlignment(int(line_number), checksum, *_links(links, line, location, form))


def _links(
    links: Sequence[str], line: str, location: str, form: str
) -> tuple[frozenset[Link], frozenset[Link]]:
    """Return the sure links, and the possible links, which include the sure links."""
    sure_links, possible_only = set[Link](), set[Link]()
    for link in links:
        match = re.fullmatch(r"(\d{1,9})([-?])(\d{1,9})", link)
        if match is None:
            raise _malformed_error(line, location, form)
        (sure_links if match[2] == "-" else possible_only).add((int(match[1]), int(match[3])))
    return frozenset(sure_links), frozenset(sure_links | possible_only)


def _malformed_error(line: str, location: str, form: str) -> DataError:
    return DataError(f"{location}: expected {form}, found {line[:60]!r}")
