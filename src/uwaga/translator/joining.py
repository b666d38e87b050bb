"""Hypotheses of a passage's sentences put together to one translation."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from uwaga.contracts import Floats, Hypothesis, Translation
from uwaga.text.subwords import Subwords
from uwaga.translator.segmentation import Passage

BREAKS = re.compile(r"[\r\n]")


def assemble(
    passage: Passage, lists: Sequence[Sequence[Hypothesis]], nbest: int, source: Subwords, target: Subwords
) -> Translation:
    """One translation, with up to ``nbest - 1`` alternatives, from the n-best list of each sentence.

    Several sentences are put together so that a translation reads as if it were of one sentence:
    between the pieces of two sentences stands the end symbol's, ``token_scores`` and the rows and columns
    of ``attention`` (zero outside each sentence's own block) follow. ``log_prob`` is the sum and
    ``score`` the mean over the sentences. A text without sentences has score 0.
    """
    ways = [_together(passage, way, source, target) for way in best_ways(lists, nbest)]
    return replace(ways[0], alternatives=tuple(ways[1:]))


def best_ways(lists: Sequence[Sequence[Hypothesis]], nbest: int) -> list[tuple[Hypothesis, ...]]:
    """The ``nbest`` ways to take one hypothesis of each sentence whose scores sum highest, best first.

    Exact: a way among the best of all sentences is among the best of the sentences before its last.
    """
    ways: list[tuple[float, tuple[Hypothesis, ...]]] = [(0.0, ())]
    for hypotheses in lists:
        longer = [(score + one.score, (*way, one)) for score, way in ways for one in hypotheses]
        ways = sorted(longer, key=lambda scored: -scored[0])[:nbest]
    return [way for _, way in ways]


def sentence_text(tokens: Sequence[int], target: Subwords) -> str:
    """The text of one sentence's tokens; a line break that a model spelt in bytes becomes a space."""
    return BREAKS.sub(" ", target.decode(tokens))


def _together(passage: Passage, way: Sequence[Hypothesis], source: Subwords, target: Subwords) -> Translation:
    text = passage.before
    tokens: list[int] = []
    for number, (sentence, hypothesis) in enumerate(zip(passage.sentences, way, strict=True), start=1):
        text += sentence_text(hypothesis.tokens, target) + sentence.after
        tokens += hypothesis.tokens
        if number < len(way) and not hypothesis.truncated:
            tokens.append(target.symbols.end)
    source_ids = [token for sentence in passage.sentences for token in sentence.ids]
    if source_ids and source_ids[-1] == source.symbols.end:
        source_ids.pop()
    return Translation(
        text=text,
        score=math.fsum(one.score for one in way) / max(len(way), 1),
        tokens=tuple(target.pieces(tokens)),
        token_scores=tuple(score for one in way for score in one.token_scores),
        log_prob=math.fsum(one.log_prob for one in way),
        truncated=any(one.truncated for one in way),
        source_tokens=tuple(source.pieces(source_ids)),
        attention=_blocks([one.attention for one in way]),
        source=passage.text,
    )


def _blocks(parts: Sequence[Floats | None]) -> Floats | None:
    """Block-diagonal attention (target, source) from that of each sentence."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    if len(known) == 1:
        return known[0]
    whole = np.zeros((sum(len(part) for part in known), sum(part.shape[1] for part in known)), np.float32)
    row = column = 0
    for part in known:
        whole[row : row + part.shape[0], column : column + part.shape[1]] = part
        row, column = row + part.shape[0], column + part.shape[1]
    return whole
