"""Lines of a shard, translated in batches of like length, their results in the order of the lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from uwaga.jobs.corpora.job import Made
from uwaga.jobs.corpora.lines import JobLine
from uwaga.results.translation import Translation
from uwaga.search import SearchOptions
from uwaga.translator.segmentation import Split
from uwaga.translator.translator import Translator

WINDOW = 1024
"""Lines whose n-best lists are in memory together."""


class Way(NamedTuple):
    """A translator and how it is to translate."""

    translator: Translator
    options: SearchOptions
    split: Split = "auto"


def in_batches(
    ways: Sequence[Way],
    lines: Sequence[JobLine],
    make: Callable[[JobLine, Sequence[Translation]], Made],
    advance: Callable[[int], None],
) -> list[Made]:
    """Translate every line in each way, and make a pair of its translations.

    Args:
        ways: one translator or more.
        lines: of a shard.
        make: from a line and its translations, one of each way, those that failed with their ``error``.
        advance: called with how many lines are done.
    """
    made: list[Made | None] = [_without(line) for line in lines]
    left = [at for at, one in enumerate(made) if one is None]
    advance(len(lines) - len(left))
    left.sort(key=lambda at: -len(lines[at].text))
    for window in _windows(left):
        texts, names = [lines[at].text for at in window], [f"line {lines[at].number}" for at in window]
        found = [
            one.translator.between().pipeline(one.options, one.split).run(texts, None, names, "return")
            for one in ways
        ]
        for at, *translations in zip(window, *found, strict=True):
            made[at] = make(lines[at], translations)
        advance(len(window))
    return [one for one in made if one is not None]


def _without(line: JobLine) -> Made | None:
    """What a line becomes that is not translated: it is empty, or faulty."""
    if line.fault is not None:
        return Made("", "", f"line {line.number}: {line.fault}")
    return None if line.text.strip() else Made("", "")


def _windows(indices: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(indices), WINDOW):
        yield indices[start : start + WINDOW]
