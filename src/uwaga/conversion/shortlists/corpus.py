"""The parallel corpus that a shortlist is learnt from, and the pairs kept apart to try it on."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path

from uwaga.errors import DataError
from uwaga.files.lines import text_lines

Pair = tuple[str, str]

MOST_HELD_OUT = 10
"""At most one pair in so many is held out."""


@dataclass(frozen=True)
class Corpus:
    """Pairs of source and target texts: no source of ``tried`` is in ``learnt``."""

    learnt: list[Pair]
    tried: list[Pair]


def read_corpus(
    source: Path,
    target: Path,
    sentences: int = 100_000,
    held_out: int = 500,
    dev: tuple[Path, Path] | None = None,
) -> Corpus:
    """The pairs to learn from and those to try the shortlist on.

    Args:
        source: source sentences, one per line.
        target: their translations, line by line.
        sentences: most pairs to learn from.
        held_out: pairs kept apart, evenly from the whole; at most a tenth of all.
        dev: files of source and target to try it on instead of held-out pairs.

    Raises:
        DataError: a file cannot be read, the two sides differ in length, or there are too few pairs.
    """
    if dev is not None:
        tried, read = read_pairs(*dev), read_pairs(source, target, sentences)
    else:
        read = read_pairs(source, target, sentences + held_out)
        count = min(held_out, len(read) // MOST_HELD_OUT)
        if not count:
            raise DataError(
                f"{source}: {len(read)} pairs are too few to hold any out; give --dev-source and --dev-target"
            )
        tried = read[:: len(read) // count][:count]
    apart = {text for text, _ in tried}
    learnt = [pair for pair in read if pair[0] not in apart]
    if not learnt or not tried:
        raise DataError(f"{source}: no pairs are left to {'learn from' if tried else 'try the shortlist on'}")
    return Corpus(learnt, tried)


def read_pairs(source: Path, target: Path, most: int | None = None) -> list[Pair]:
    """The first pairs of two aligned files, all if ``most`` is None.

    Raises:
        DataError: a file cannot be read, or ends before the other.
    """
    pairs: list[Pair] = []
    for ours, theirs in islice(zip_longest(text_lines(source), text_lines(target)), most):
        if ours is None or theirs is None:
            shorter, longer = (source, target) if ours is None else (target, source)
            raise DataError(f"{shorter} has {len(pairs)} lines and {longer} more: they must be aligned")
        pairs.append((ours, theirs))
    return pairs
