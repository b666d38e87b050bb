"""Alignment error rate (Och & Ney 2003 §6) of word links against links that a person has made."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from uwaga.errors import DataError

Link = tuple[int, int]
"""(source word, target word), counted from 0."""
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
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
    return [_parse(line, f"{path}, line {number}") for number, line in enumerate(lines, start=1)]


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


def _parse(line: str, where: str) -> HandAlignment:
    try:
        number, checksum, *links = line.split()
        sure, other = set[Link](), set[Link]()
        for link in links:
            mark = "-" if "-" in link else "?"
            source, target = link.split(mark)
            (sure if mark == "-" else other).add((int(source), int(target)))
        return HandAlignment(int(number), checksum, frozenset(sure), frozenset(sure | other))
    except ValueError:
        raise DataError(f"{where}: expected NUMBER CHECKSUM 0-0 1?1 ..., found {line[:60]!r}") from None
