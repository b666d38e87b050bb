"""Alignment error rate (Och & Ney 2003 §6) of word links against links that a person has made."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from uwaga.errors import DataError

Link = tuple[int, int]
"""(source word, target word), counted from 0."""
Chosen = TypeVar("Chosen")
CHECKSUM = 16
"""Hexadecimal digits of the SHA-256 of a pair's texts."""


@dataclass(frozen=True)
class HandAlignment:
    """The links of one pair of sentences.

    ``sure`` are those that must be there, ``possible`` those that may, the sure ones among them; ``line`` is
    the pair's number in the corpus, from 1, and ``checksum`` as :func:`pair_checksum` makes it.
    """

    line: int
    checksum: str
    sure: frozenset[Link]
    possible: frozenset[Link]


@dataclass(frozen=True)
class AlignmentReport:
    """How links agree with those that a person has made (Och & Ney 2003 §6), over ``pairs`` pairs.

    ``error`` is the alignment error rate; ``precision`` is the share of the links that are possible,
    ``recall`` the share of the sure links that were found.
    """

    error: float
    precision: float
    recall: float
    pairs: int


def alignment_report(found: Sequence[Set[Link]], gold: Sequence[HandAlignment]) -> AlignmentReport:
    """Error, precision and recall; arguments and errors are those of :func:`alignment_error_rate`."""
    error = alignment_error_rate(found, gold)
    links, sure = sum(map(len, found)), sum(len(one.sure) for one in gold)
    possible = sum(len(a & one.possible) for a, one in zip(found, gold, strict=True))
    hits = sum(len(a & one.sure) for a, one in zip(found, gold, strict=True))
    return AlignmentReport(error, possible / links if links else 1.0, hits / sure if sure else 1.0, len(gold))


def alignment_error_rate(found: Sequence[Set[Link]], gold: Sequence[HandAlignment]) -> float:
    """``1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|)`` over all pairs: 0 is best, 1 worst.

    Args:
        found: A, the links of each pair.
        gold: sure links S and possible ones P of the same pairs.

    Raises:
        DataError: they are not as many.
    """
    if len(found) != len(gold):
        raise DataError(f"links of {len(found)} pairs are to be judged by those of {len(gold)}")
    hits = sum(len(a & one.sure) + len(a & one.possible) for a, one in zip(found, gold, strict=True))
    links = sum(len(a) + len(one.sure) for a, one in zip(found, gold, strict=True))
    return 1.0 - hits / links if links else 0.0


def pair_checksum(source: str, target: str) -> str:
    """What tells whether a pair is the one that was aligned: of both texts, with a tab between."""
    return hashlib.sha256(f"{source}\t{target}".encode()).hexdigest()[:CHECKSUM]


def read_hand_alignments(path: Path) -> list[HandAlignment]:
    """Read a file of hand-made links.

    A line is the number of the pair in its corpus, its checksum, and links ``i-j`` that are sure or ``i?j``
    that are possible, of source word i and target word j.

    Raises:
        DataError: missing, or a line is not of that form.
    """
    lines = _lines(path)
    return [_parse(line, f"{path}, line {number}") for number, line in enumerate(lines, start=1)]


def read_gold(path: Path) -> list[HandAlignment]:
    """Read hand-made links in either form: as :func:`read_hand_alignments`, or as Moses writes them.

    Of Moses' form line n is of pair n, with links ``i-j`` that are sure or ``i?j`` that are possible; pairs
    then have no checksum.

    Raises:
        DataError: missing, or a line is not of that form.
    """
    if any(re.fullmatch(rf"\d+ [0-9a-f]{{{CHECKSUM}}}( .*)?", line) for line in _lines(path)[:1]):
        return read_hand_alignments(path)
    return [
        HandAlignment(number, "", *_links(line.split(), line, f"{path}, line {number}", "0-0 1?1 ..."))
        for number, line in enumerate(_lines(path), start=1)
    ]


def moses_links(lines: Iterable[str], name: str) -> list[frozenset[Link]]:
    """Links as Moses writes them: line n says ``0-0 1-2`` of pair n.

    Raises:
        DataError: a line is not of that form; names it by ``name``, what the lines are of.
    """
    return [
        _links(line.split(), line, f"{name}, line {number}", "0-0 1-2 ...")[1]
        for number, line in enumerate(lines, start=1)
    ]


def chosen_lines(found: Sequence[Chosen], gold: Sequence[HandAlignment], name: str) -> list[Chosen]:
    """What belongs to the pairs that were aligned by hand: the lines of a corpus that ``gold`` numbers.

    Raises:
        DataError: there is no such line; ``name`` is what the lines are of.
    """
    for one in gold:
        if not 1 <= one.line <= len(found):
            raise DataError(
                f"{name} has {len(found)} lines, and the links made by hand are of line {one.line} too: they "
                "must be of the same corpus"
            )
    return [found[one.line - 1] for one in gold]


def check_pairs(gold: Iterable[HandAlignment], sources: Sequence[str], targets: Sequence[str]) -> None:
    """Refuse texts that are not those that were aligned: ``sources`` and ``targets`` are a whole corpus.

    Raises:
        DataError: a pair is missing or another; names its line.
    """
    for one in gold:
        if one.line > min(len(sources), len(targets)):
            raise DataError(f"the corpus has no line {one.line}, which was aligned by hand")
        if pair_checksum(sources[one.line - 1], targets[one.line - 1]) != one.checksum:
            raise DataError(
                f"line {one.line} of the corpus is not the pair that was aligned by hand: it must be the "
                "same release of it, as it was published"
            )


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None


def _parse(line: str, where: str) -> HandAlignment:
    form = "NUMBER CHECKSUM 0-0 1?1 ..."
    number, checksum, *links = [*line.split(), "", ""][: max(2, len(line.split()))]
    if not number.isdecimal() or not checksum:
        raise _malformed(line, where, form)
    return HandAlignment(int(number), checksum, *_links(links, line, where, form))


def _links(links: Sequence[str], line: str, where: str, form: str) -> tuple[frozenset[Link], frozenset[Link]]:
    """Sure links, and possible ones, the sure ones among them."""
    sure, other = set[Link](), set[Link]()
    for link in links:
        found = re.fullmatch(r"(\d{1,9})([-?])(\d{1,9})", link)
        if found is None:
            raise _malformed(line, where, form)
        (sure if found[2] == "-" else other).add((int(found[1]), int(found[3])))
    return frozenset(sure), frozenset(sure | other)


def _malformed(line: str, where: str, form: str) -> DataError:
    return DataError(f"{where}: expected {form}, found {line[:60]!r}")
