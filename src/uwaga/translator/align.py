"""Word alignment by the attention of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, get_args

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
from uwaga.translator.model import Model
from uwaga.translator.text import Sentence, TokenPair

BATCH_SENTENCES = 32
"""Maximum number of sentences whose attention from all heads is in memory at a time."""
DEFAULT_LAYER = -2
"""The penultimate layer, as a layer of :attr:`uwaga.decoder.Decoder.cross_attention`."""


class TokenAlignment(NamedTuple):
    """The attention of each target token of a sentence to each source token.

    ``weights`` (target, source) is the attention of the alignment head; each row sums to 1. ``maps`` (heads,
    target, source) is the attention of all heads of the link model; None without a link model.
    """

    weights: Floats
    maps: Floats | None = None


def add_alignments(
    decoder: Decoder, head: AlignmentHead | None, sentences: Sequence[Sentence], start: int | None = None
) -> None:
    """Set the ``alignment`` and ``link_maps`` of the hypotheses of sentences.

    Args:
        decoder: the model.
        head: the alignment head; None for the mean of the heads of the penultimate layer.
        sentences: the sentences, with their hypotheses.
        start: token that decoding started from, None for the decoder's default.
    """
    pairs = [
        TokenPair(sentence.ids, hypothesis.tokens)
        for sentence in sentences
        for hypothesis in sentence.hypotheses
    ]
    alignments = iter(token_alignments(decoder, head, pairs, start))
    for sentence in sentences:
        sentence.hypotheses = [
            _add_alignment(hypothesis, next(alignments)) for hypothesis in sentence.hypotheses
        ]


def _add_alignment(hypothesis: Hypothesis, tokens: TokenAlignment) -> Hypothesis:
    return replace(hypothesis, alignment=tokens.weights, link_maps=tokens.maps)


def token_alignments(
    decoder: Decoder, head: AlignmentHead | None, pairs: Sequence[TokenPair], start: int | None = None
) -> list[TokenAlignment]:
    """Return the alignment of the tokens of each pair.

    Args:
        decoder: the model.
        head: the alignment head; None for the mean of the heads of the penultimate layer.
        pairs: token ids of sources with end symbols, and of targets without end symbols.
        start: token that decoding starts from, None for the decoder's default.
    """
    if decoder.cross_attention is None:
        raise SettingsError("the model has no source attention (cross-attention), which word alignment needs")
    start_token = decoder.symbols.start if start is None else start
    layer = DEFAULT_LAYER if head is None else head.layer - 1
    head_index = None if head is None or head.head is None else head.head - 1
    is_reading = head is not None and head.step == "reading"
    regression = link_model(head) if decoder.cross_attentions is not None else None
    # The step that reads the last token predicts no token of the target.
    unread_tokens = 0 if is_reading or regression is not None else 1
    sources = [source for source, _ in pairs]
    inputs = [
        [start_token, *target][: max(len(target) + 1 - unread_tokens, 1)][
            : target_limit(decoder, len(source))
        ]
        for source, target in pairs
    ]
    if regression is None:
        matrices = decoder.cross_attention(sources, inputs, layer, head_index) if pairs else []
        return [
            TokenAlignment(_rows(weights, len(target), is_reading))
            for weights, (_, target) in zip(matrices, pairs, strict=True)
        ]
    return [
        TokenAlignment(
            _rows(select_head(cross, layer, head_index), len(target), is_reading),
            _link_maps(cross, regression, len(target)),
        )
        for cross, (_, target) in zip(_all_heads(decoder, sources, inputs), pairs, strict=True)
    ]


def _all_heads(
    decoder: Decoder, sources: Sequence[Sequence[int]], inputs: Sequence[Sequence[int]]
) -> Iterator[Floats]:
    """Yield the attention (layers, heads, target, source) of each sentence."""
    assert decoder.cross_attentions is not None
    for start in range(0, len(sources), BATCH_SENTENCES):
        part = slice(start, start + BATCH_SENTENCES)
        yield from decoder.cross_attentions(sources[part], inputs[part])


def _link_maps(cross: Floats, model: LinkModel, token_count: int) -> Floats:
    """Return the attention (heads, target, source) of the heads that a link model uses."""
    maps = [
        _rows(select_head(cross, layer - 1, head - 1), token_count, step == "reading")
        for layer, head, step in model.heads
    ]
    return np.stack(maps)


def _rows(weights: Floats, token_count: int, is_reading: bool) -> Floats:
    """Return the attention (target, source) of the steps that predict or, if ``is_reading``, read each token.

    If no step can read the last token, the row of the step that predicts it is used instead.
    """
    if not is_reading or not token_count:
        return weights[:token_count]
    rows = weights[1 : token_count + 1]
    return rows if len(rows) == token_count else np.concatenate([rows, weights[-1:]])


def align_pairs(
    decoder: Decoder,
    model: Model,
    pairs: Sequence[tuple[str, str]],
    ids: Sequence[TokenPair],
    start: int | None,
    words: WordKind = "words",
) -> list[WordAlignment]:
    """Return the word alignment of each text and its given translation.

    Args:
        decoder: the decoder that reads the pairs.
        model: the model with its tokenisers.
        pairs: the texts and their translations.
        ids: tokens of the pairs, end symbols included.
        start: token that decoding starts from, None for the decoder's default.
        words: the units to which links refer.
    """
    check_choice("words", words, get_args(WordKind))
    head, pairs_without_end = model.alignment_head, [TokenPair(source, target[:-1]) for source, target in ids]
    alignments = []
    for pair, tokens, weights in zip(
        pairs, pairs_without_end, token_alignments(decoder, head, pairs_without_end, start), strict=True
    ):
        pieces = PieceAlignment(
            tuple(piece_spans(pair[0], tokens.source, model.source)),
            tuple(piece_spans(pair[1], tokens.target, model.target)),
            weights.weights,
            maps=weights.maps,
        )
        spans_by_side = word_spans(pair[0], words), word_spans(pair[1], words)
        alignments.append(align_words([pieces], *spans_by_side, pair, link_model(head)))
    return alignments
