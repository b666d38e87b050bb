"""Checks of a corpus while it is read: for shifted lines, and for texts in an unexpected language."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uwaga.languages.detection import other_language

SHIFT_THRESHOLD = 40.0
"""Evidence in nats above which a shift is reported.

On 320,000 aligned pairs of Multi30k and Tatoeba, the evidence stayed below 8.
"""
EVIDENCE_DECAY = 0.2
"""Amount subtracted from the evidence for each line, so that evidence does not accumulate by chance."""
LENGTH_DEVIATION = 0.35  # standard deviation of the log-ratio of the lengths of translations
# Maximum evidence of lengths, numbers and final punctuation marks, in nats.
MAX_LENGTH_EVIDENCE, NUMBER_EVIDENCE, MARK_EVIDENCE = 4.0, 2.0, 1.0
SAMPLE_LINES = 200  # lines from which the language is detected
_MARKS = np.zeros(256, np.int64)  # class of the final punctuation mark, by its last byte
for _mark, _ends in enumerate((".。", "?？", "!！", ":："), start=1):
    _MARKS[[end.encode()[-1] for end in _ends]] = _mark
_DIGITS = np.zeros(256)  # powers, so that a sum encodes the count of each digit
_DIGITS[ord("0") : ord("9") + 1] = 17.0 ** np.arange(10)
SIDES = ("sources", "targets")

Floats = NDArray[np.float64]


class CorpusChecks:
    """Accumulates evidence about a corpus from its pairs, in order.

    A shift by one line is detected by a cumulative sum test (Page 1954), which compares two scores: that of a
    line with its own translation, and that of the line with the next or the previous translation. Scores are
    based on the ratio of the lengths (Gale & Church 1993), the numbers and the final punctuation mark.

    Args:
        files: names of the corpus's files, for messages.
        languages: codes of source and target in the settings; None or empty if unknown.
    """

    def __init__(self, files: Sequence[str], languages: Sequence[str | None]) -> None:
        self.files, self.languages = files, languages
        self._ratio: float | None = None
        self._last_pair: list[list[Any]] = [[], [], []]
        self._cumulative_evidence = {1: 0.0, -1: 0.0}
        self._start_lines = {1: 0, -1: 0}
        self._shift: tuple[int, int] | None = None
        self._samples: tuple[list[str], list[str]] = ([], [])

    def add(self, lines: Sequence[int], sources: Sequence[bytes], targets: Sequence[bytes]) -> None:
        """Add pairs with their line numbers."""
        for sample, texts in zip(self._samples, (sources, targets), strict=True):
            sample += [text.decode("utf-8", "replace") for text in texts[: SAMPLE_LINES - len(sample)]]
        if self._shift is None and len(lines):
            columns = [
                [*last_values, *new_values]
                for last_values, new_values in zip(self._last_pair, (lines, sources, targets), strict=True)
            ]
            self._last_pair = [column[-1:] for column in columns]
            self._compare(*columns)

    def _compare(self, lines: list[int], sources: list[bytes], targets: list[bytes]) -> None:
        source, target = _features(sources), _features(targets)
        if self._ratio is None:
            self._ratio = float(np.median(target[0] - source[0]))
        aligned_score = _score(source, target, self._ratio)
        alarms = list[tuple[int, int, int]]()
        for shift in (1, -1):
            first, second = (slice(None, -1), slice(1, None))[::shift]
            shifted_score = _score(source[:, first], target[:, second], self._ratio)
            sums = np.cumsum(
                np.append(
                    self._cumulative_evidence[shift], shifted_score - aligned_score[first] - EVIDENCE_DECAY
                )
            )
            floors = np.minimum.accumulate(np.minimum(sums, 0.0))
            excess = sums - floors
            exceeding = np.flatnonzero(excess > SHIFT_THRESHOLD)
            excess = excess[: exceeding[0] + 1] if exceeding.size else excess
            restarts = np.flatnonzero(excess <= 0.0)
            if restarts.size:
                self._start_lines[shift] = lines[min(int(restarts[-1]) + (shift < 0), len(lines) - 1)]
            self._cumulative_evidence[shift] = float(excess[-1])
            if exceeding.size:
                alarms.append((int(exceeding[0]), self._start_lines[shift], shift))
        if alarms:
            self._shift = min(alarms)[1:]

    def warnings(self) -> list[str]:
        """Return the warnings about the corpus, one string per warning."""
        return [*self._shift_warning(), *self._language_warnings()]

    def _shift_warning(self) -> list[str]:
        if self._shift is None:
            return []
        line, shift = self._shift
        sides = self.files if len(self.files) == 2 else SIDES
        shorter_side, longer_side = sides[::shift]
        return [
            f"{' + '.join(self.files)}: shifted by one line from about line {line} on: line n of "
            f"{shorter_side} matches line n+1 of {longer_side}; delete the extra line of {longer_side} or "
            f"restore the missing line of {shorter_side}"
        ]

    def _language_warnings(self) -> list[str]:
        sides = self.files if len(self.files) == 2 else [f"{self.files[0]}, {side}" for side in SIDES]
        languages = map(other_language, self._samples, self.languages)
        return [
            f"{name}: the text is in {language}, not in {stated_language}; correct the language codes or "
            "the files"
            for name, language, stated_language in zip(sides, languages, self.languages, strict=True)
            if language
        ]


def _features(texts: Sequence[bytes]) -> Floats:
    """Return features of texts, (3, texts): log length, encoded digit counts, final punctuation class."""
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    codes = np.frombuffer(b"\n".join([*texts, b""]), np.uint8)
    ends = np.cumsum(lengths + 1)
    positions = np.flatnonzero(_DIGITS[codes])
    text_indices = np.searchsorted(ends, positions, side="right")
    digits = np.bincount(text_indices, _DIGITS[codes[positions]], len(texts))
    return np.stack([np.log1p(lengths), digits, _MARKS[codes[ends - 2]]])


def _score(source: Floats, target: Floats, ratio: float) -> Floats:
    """Return the log-likelihood that pairs are translations, up to a constant, (pairs,)."""
    deviation = (target[0] - source[0] - ratio) / LENGTH_DEVIATION
    numbers = np.where(
        source[1] == target[1], np.where(source[1] == 0, 0.0, NUMBER_EVIDENCE), -NUMBER_EVIDENCE
    )
    scores: Floats = (
        numbers - np.minimum(deviation**2 / 2, MAX_LENGTH_EVIDENCE) - MARK_EVIDENCE * (source[2] != target[2])
    )
    return scores
