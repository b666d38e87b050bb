"""A spool that stores blocks on disk until all pairs have a score, to keep the best share of them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from uwaga.data.report import Fault
from uwaga.errors import DataError
from uwaga_corpora.cleaning.blocks import LineBlock, Verdicts
from uwaga_corpora.cleaning.pairs import Mask

CHUNK_SCORES = 1 << 20
_HALF_BITS = 16

Scores = NDArray[np.float32]


class _StoredBlock(NamedTuple):
    """A block in the files: number of its first line, number of lines, bytes of each column, and faults."""

    first: int
    lines: int
    sizes: tuple[int, ...]
    faults: dict[int, Fault]


class Spool:
    """A context manager that stores blocks with verdicts and scores in temporary files."""

    def __init__(self) -> None:
        self._texts, self._scores = (
            tempfile.TemporaryFile(prefix=f"uwaga-{name}-")  # noqa: SIM115 (closed by __exit__)
            for name in ("lines", "scores")
        )
        self._blocks: list[_StoredBlock] = []
        self._pairs = 0

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *exception: object) -> None:
        self._texts.close()
        self._scores.close()

    def add(self, block: LineBlock, verdicts: Verdicts, scores: Scores) -> None:
        """Append a block; ``scores`` (pairs,) are the scores of its remaining pairs, each at least 0."""
        packed_block = block.pack()
        try:
            for content in (*packed_block.columns, verdicts.astype("<i2").tobytes()):
                self._texts.write(content)
            self._scores.write(scores.astype("<f4").tobytes())
            self._texts.flush()
            self._scores.flush()
        except OSError as error:
            raise DataError(
                f"{tempfile.gettempdir()}: the pairs cannot be written while they are scored: "
                f"{error.strerror}; free some space, set TMPDIR to another folder, or use score.max"
            ) from None
        self._blocks.append(
            _StoredBlock(block.first, len(block), tuple(map(len, packed_block.columns)), block.faults)
        )
        self._pairs += len(scores)

    def best(self, share: float) -> Iterator[tuple[LineBlock, Verdicts, Mask]]:
        """Yield the blocks in order, with the mask (pairs,) of scored pairs that are not in the best share.

        Of pairs with equal scores, the first are kept.
        """
        count = round(share * self._pairs)
        limit, equals = self._threshold(count)
        self._texts.seek(0)
        self._scores.seek(0)
        for stored_block in self._blocks:
            columns = tuple(self._texts.read(size).split(b"\n") for size in stored_block.sizes)
            verdicts = np.frombuffer(self._texts.read(2 * stored_block.lines), "<i2").astype(np.int16)
            scores = np.frombuffer(self._scores.read(4 * int((verdicts == 0).sum())), "<f4")
            ties = scores == limit
            is_rejected = (scores > limit) | (ties & (np.cumsum(ties) > equals))
            equals -= min(equals, int(ties.sum()))
            yield LineBlock(stored_block.first, columns, stored_block.faults), verdicts, is_rejected

    def _threshold(self, count: int) -> tuple[np.float32, int]:
        if not count:
            return np.float32(-1.0), 0
        return smallest_threshold(np.memmap(self._scores, "<f4", "r", 0, (self._pairs,)), count)


def smallest_threshold(scores: Scores, count: int) -> tuple[np.float32, int]:
    """Return the ``count``-th smallest score, and how many of the ``count`` smallest scores equal it.

    The scores are at least 0. Two histograms of their bits avoid sorting an array on disk.
    """
    high_counts = _histogram(scores, None)
    upper = int(np.searchsorted(np.cumsum(high_counts), count))
    count_above = int(high_counts[:upper].sum())
    low_counts = _histogram(scores, upper)
    lower = int(np.searchsorted(np.cumsum(low_counts), count - count_above))
    needed_count = count - count_above - int(low_counts[:lower].sum())
    return np.array([upper << _HALF_BITS | lower], np.uint32).view(np.float32)[0], needed_count


def _histogram(scores: Scores, upper: int | None) -> NDArray[np.int64]:
    """Count scores by their upper 16 bits.

    If ``upper`` is not None, count only the scores with these upper bits, by their lower bits.
    """
    counts = np.zeros(1 << _HALF_BITS, np.int64)
    for start in range(0, len(scores), CHUNK_SCORES):
        bits = np.ascontiguousarray(scores[start : start + CHUNK_SCORES]).view(np.uint32)
        halves = bits >> _HALF_BITS
        if upper is not None:
            halves = bits[halves == upper] & ((1 << _HALF_BITS) - 1)
        counts += np.bincount(halves, minlength=1 << _HALF_BITS)
    return counts
