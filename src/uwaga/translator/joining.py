"""Hypotheses of a passage's sentences put together to one translation."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from uwaga.results.attention import Attentions, Floats
from uwaga.results.translation import Hypothesis, Translation
from uwaga.tokenizers.subwords import Subwords
from uwaga.translator.segmentation import Passage

COPIED = Hypothesis((), 0.0, 0.0, ())
"""Stands for the translation of a sentence that is copied."""

BREAKS = re.compile(r"[\r\n]")


def assemble(
    passage: Passage, lists: Sequence[Sequence[Hypothesis]], nbest: int, source: Subwords, target: Subwords
) -> Translation:
    """One translation, with up to ``nbest - 1`` alternatives, from the n-best list of each sentence.

    Several sentences are put together so that a translation reads as if it were of one sentence:
    between the pieces of two sentences stands the end symbol's, ``token_scores`` and the rows and columns
    of ``attention`` and ``attentions`` (zero outside each sentence's own block) follow. ``log_prob`` is the
    sum and ``score`` the mean over the sentences. Sentences that are copied, for which a list holds
    :data:`COPIED`, have no tokens and do not count. A text without others has score 0.
    """
    ways = [_together(passage, way, source, target) for way in best_ways(lists, nbest)]
    return replace(ways[0], alternatives=tuple(ways[1:])) if len(ways) > 1 else ways[0]


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
    for sentence, hypothesis in zip(passage.sentences, way, strict=True):
        copied = hypothesis is COPIED
        text += (sentence.copy or "") if copied else sentence_text(hypothesis.tokens, target)
        text += sentence.after
    made = [one for one in zip(passage.sentences, way, strict=True) if one[1] is not COPIED]
    tokens: list[int] = []
    for number, (_, hypothesis) in enumerate(made, start=1):
        tokens += hypothesis.tokens
        if number < len(made) and not hypothesis.truncated:
            tokens.append(target.symbols.end)
    source_ids = [token for sentence, _ in made for token in sentence.ids]
    if source_ids and source_ids[-1] == source.symbols.end:
        source_ids.pop()
    found = [hypothesis for _, hypothesis in made]
    return Translation(
        text=text,
        score=math.fsum(one.score for one in found) / max(len(found), 1),
        tokens=tuple(target.pieces(tokens)),
        token_scores=tuple(score for one in found for score in one.token_scores),
        log_prob=math.fsum(one.log_prob for one in found),
        truncated=any(one.truncated for one in found),
        source_tokens=tuple(source.pieces(source_ids)),
        attention=_blocks([one.attention for one in found]),
        attentions=_all_blocks([one.attentions for one in found]),
        source=passage.text,
        warnings=passage.warnings,
        entropies=tuple(entropy for one in found for entropy in one.entropies),
    )


def _all_blocks(parts: Sequence[Attentions | None]) -> Attentions | None:
    """Every matrix of a whole text from those of its sentences, which do not see each other."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    kinds = [
        [part.encoder for part in known],
        [part.decoder for part in known],
        [part.cross for part in known],
    ]
    return Attentions(*map(_blocks, kinds))


def _blocks(parts: Sequence[Floats | None]) -> Floats | None:
    """Block-diagonal attention (..., target, source) from that of each sentence."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    if len(known) == 1:
        return known[0]
    sizes = [sum(part.shape[axis] for part in known) for axis in (-2, -1)]
    whole = np.zeros((*known[0].shape[:-2], *sizes), np.float32)
    row = column = 0
    for part in known:
        rows, columns = part.shape[-2:]
        whole[..., row : row + rows, column : column + columns] = part
        row, column = row + rows, column + columns
    return whole
