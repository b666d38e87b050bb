"""The combined coverage of several parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from uwaga.results.translation import Coverage


def combine_coverage(parts: Iterable[Coverage | None], starts: Sequence[int] = ()) -> Coverage | None:
    """Return the concatenated coverage of the parts whose coverage is known; None if there are none.

    Args:
        parts: the coverage of each part; None for a part that is not compared, such as one from a memory.
        starts: the position of each part in the source. Without it, or if the spans of a part are unknown,
            ``omitted_spans`` is empty.
    """
    parts = list(parts)
    known_parts = [part for part in parts if part is not None]
    if not known_parts:
        return None
    spans = [
        (span_start + start, end + start)
        for part, start in zip(parts, starts, strict=False)
        if part is not None
        for span_start, end in part.omitted_spans
    ]
    omitted_words = tuple(chain.from_iterable(part.omitted for part in known_parts))
    return Coverage(
        omitted_words,
        tuple(chain.from_iterable(part.missing_numbers for part in known_parts)),
        tuple(chain.from_iterable(part.added_numbers for part in known_parts)),
        tuple(spans) if len(spans) == len(omitted_words) else (),
    )
