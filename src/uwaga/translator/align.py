"""Word alignment by the attention of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import numpy as np

from uwaga.alignment.piece_alignment import PieceAlignment, align_words
from uwaga.alignment.piece_spans import piece_spans
from uwaga.alignment.words import WordKind, word_spans
from uwaga.decoder import Decoder, target_limit
from uwaga.errors import SettingsError
from uwaga.results.attention import Floats, select_head
from uwaga.results.translation import Hypothesis, WordAlignment
from uwaga.settings import AlignmentHead, LinkModel, link_model
from uwaga.settings.options import check_choice
from uwaga.tokenizers.subwords import Subwords

BATCH_SENTENCES = 32
"""Sentences of which the attention of all heads is held together."""
DEFAULT_LAYER = -2
"""A layer, counted from the last as :attr:`uwaga.decoder.Decoder.cross_attention` does."""


def with_alignments(
    decoder: Decoder,
    head: AlignmentHead | None,
    sources: Sequence[Sequence[int]],
    lists: Sequence[Sequence[Hypothesis]],
    start: int | None = None,
) -> list[list[Hypothesis]]:
    """Return hypotheses with their ``alignment`` and ``link_maps``.

    Args:
        decoder: the model.
        head: whose attention aligns; None as for :func:`token_alignments`.
        sources: token ids with their end symbols.
        lists: hypotheses of each source.
        start: token that decoding started from, None for the decoder's own.
    """
    flat = [
        (source, hypothesis.tokens)
        for source, hypotheses in zip(sources, lists, strict=True)
        for hypothesis in hypotheses
    ]
    sides = [source for source, _ in flat], [tokens for _, tokens in flat]
    alignments = iter(token_alignments(decoder, head, *sides, start))
    return [[_aligned(hypothesis, *next(alignments)) for hypothesis in hypotheses] for hypotheses in lists]


def _aligned(hypothesis: Hypothesis, weights: Floats, maps: Floats | None) -> Hypothesis:
    return replace(hypothesis, alignment=weights, link_maps=maps)


def token_alignments(
    decoder: Decoder,
    head: AlignmentHead | None,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    start: int | None = None,
) -> list[tuple[Floats, Floats | None]]:
    """Return the share of each source token in each target token: (target, source), rows sum to 1; and, if
    several heads link words together, (heads, target, source) the same of each, or else None.

    Args:
        decoder: the model.
        head: whose attention aligns; None for the mean of the heads of the last layer but one.
        sources: token ids with their end symbols.
        targets: token ids without theirs.
        start: token that decoding starts from, None for the decoder's own.
    """
    if decoder.cross_attention is None:
        raise SettingsError("this model has no attention to a source that could align words")
    first = decoder.symbols.start if start is None else start
    longest = [target_limit(decoder, len(source)) for source in sources]
    inputs = [[first, *tokens] for tokens in targets]
    layer = DEFAULT_LAYER if head is None else head.layer - 1
    number = None if head is None or head.head is None else head.head - 1
    reading = head is not None and head.step == "reading"
    link_settings = link_model(head)
    if link_settings is not None and decoder.cross_attentions is not None:
        alignments: list[tuple[Floats, Floats | None]] = []
        limited = [row[:limit] for row, limit in zip(inputs, longest, strict=True)]
        for first_row in range(0, len(inputs), BATCH_SENTENCES):
            part = slice(first_row, first_row + BATCH_SENTENCES)
            attentions = decoder.cross_attentions(sources[part], limited[part])
            for cross, tokens in zip(attentions, targets[part], strict=True):
                weights = _rows(select_head(cross, layer, number), len(tokens), reading)
                alignments.append((weights, _link_maps(cross, link_settings, len(tokens))))
        return alignments
    if not reading:
        inputs = [row[: max(len(row) - 1, 1)] for row in inputs]
    inputs = [row[:limit] for row, limit in zip(inputs, longest, strict=True)]
    matrices = decoder.cross_attention(sources, inputs, layer, number) if inputs else []
    return [
        (_rows(weights, len(tokens), reading), None)
        for weights, tokens in zip(matrices, targets, strict=True)
    ]


def _link_maps(cross: Floats, model: LinkModel, tokens: int) -> Floats:
    """Return (heads, tokens, source) attention of the heads that a link model uses."""
    maps = [
        _rows(select_head(cross, layer - 1, head - 1), tokens, step == "reading")
        for layer, head, step in model.heads
    ]
    return np.stack(maps)


def _rows(weights: Floats, tokens: int, reading: bool) -> Floats:
    """Return the rows of the tokens. A token at the longest target that no step may read has the row that
    predicts it.
    """
    if not reading or not tokens:
        return weights[:tokens]
    rows = weights[1 : tokens + 1]
    return rows if len(rows) == tokens else np.concatenate([rows, weights[-1:]])


def align_pairs(
    decoder: Decoder,
    head: AlignmentHead | None,
    pairs: Sequence[tuple[str, str]],
    ids: tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]],
    tokenisers: tuple[Subwords, Subwords],
    start: int | None,
    words: WordKind,
) -> list[WordAlignment]:
    """Link the words of texts with those of given translations.

    Args:
        decoder: the model.
        head: whose attention aligns; None as for :func:`token_alignments`.
        pairs: the texts.
        ids: their tokens, end symbols included.
        tokenisers: the tokenisers of both sides.
        start: token that decoding starts from, None for the decoder's own.
        words: the units that links refer to.
    """
    check_choice("words", words, get_args(WordKind))
    targets = [row[:-1] for row in ids[1]]
    matrices = token_alignments(decoder, head, ids[0], targets, start)
    alignments = []
    link_settings = link_model(head)
    for pair, read, written, (weights, maps) in zip(pairs, ids[0], targets, matrices, strict=True):
        spans = piece_spans(pair[0], read, tokenisers[0]), piece_spans(pair[1], written, tokenisers[1])
        pieces = PieceAlignment(tuple(spans[0]), tuple(spans[1]), weights, maps=maps)
        cut = word_spans(pair[0], words), word_spans(pair[1], words)
        alignments.append(align_words([pieces], *cut, pair, link_settings))
    return alignments
