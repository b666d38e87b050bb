"""Translations of texts, assembled from what a search has found for their sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from uwaga.results.attention import Attentions, Floats
from uwaga.results.translation import DraftUse, Hypothesis, Span, Translation
from uwaga.settings import link_model
from uwaga.tokenizers.subwords import Subwords
from uwaga.translator.checks import quality_warnings
from uwaga.translator.plan import Stage
from uwaga.translator.search_sentences import COPIED, SearchedPassage, sentence_text
from uwaga.translator.split import Passage, TranslatedPassage

if TYPE_CHECKING:
    from uwaga.alignment.piece_alignment import PieceAlignment
    from uwaga.settings import LinkModel


def assemble(stage: Stage, searched: SearchedPassage) -> TranslatedPassage:
    """Assemble the translation of a passage: text, scores, alignment, warnings, terms.

    Args:
        stage: the model and the options.
        searched: the search result of each sentence.
    """
    model, passage, lists = stage.model, searched.passage, searched.lists
    made = join_sentences(passage, lists, stage.options.nbest, model.source, model.target)
    pieces: tuple[PieceAlignment, ...] = ()
    if stage.options.alignment:
        links = link_model(model.alignment_head)
        made, pieces = with_word_alignment(made, passage, lists, model.source, model.target, links)
    best = [nbest[0] for nbest in lists]
    found = quality_warnings([sentence.ids for sentence in passage.sentences], best, model.score_stats)
    made = replace(made, warnings=(*made.warnings, *found)) if found else made
    texts = tuple(
        (sentence.copy or "")
        if hypothesis is COPIED
        else sentence_text(hypothesis.tokens, model.target, sentence)
        for sentence, hypothesis in zip(passage.sentences, best, strict=True)
    )
    if stage.terms is not None and stage.terms.last:
        from uwaga.terms.apply import add_term_uses

        made = add_term_uses(made, searched.terms, best, texts)
    return TranslatedPassage(made, passage, texts, pieces)


def join_sentences(
    passage: Passage, lists: Sequence[Sequence[Hypothesis]], nbest: int, source: Subwords, target: Subwords
) -> Translation:
    """Join the n-best lists of sentences into one translation with up to ``nbest - 1`` alternatives.

    The result reads as if it were of one sentence: the end symbol separates the pieces of two sentences, and
    ``token_scores`` and the rows and columns of ``attention`` and ``attentions`` (zero outside each
    sentence's block) are concatenated. ``log_prob`` is the sum and ``score`` the mean over the sentences.
    Sentences that are copied, whose list is :data:`COPIED`, have no tokens and do not count. A text without
    others has score 0.
    """
    ways = [_together(passage, way, source, target) for way in best_ways(lists, nbest)]
    return replace(ways[0], alternatives=tuple(ways[1:])) if len(ways) > 1 else ways[0]


def best_ways(lists: Sequence[Sequence[Hypothesis]], nbest: int) -> list[tuple[Hypothesis, ...]]:
    """Return the ``nbest`` choices of one hypothesis per sentence with the highest total score, best first.

    Exact: a way among the best of all sentences is among the best of the sentences before its last.
    """
    ways: list[_Way] = [_Way(0.0)]
    for hypotheses in lists:
        longer = [_Way(way.score + one.score, way, one) for way in ways for one in hypotheses]
        ways = sorted(longer, key=lambda way: -way.score)[:nbest]
    return [way.hypotheses() for way in ways]


class _Way(NamedTuple):
    """One hypothesis for each sentence so far: the last one, and the way before it."""

    score: float
    before: _Way | None = None
    last: Hypothesis | None = None

    def hypotheses(self) -> tuple[Hypothesis, ...]:
        way, found = self, list[Hypothesis]()
        while way.before is not None and way.last is not None:
            found.append(way.last)
            way = way.before
        return tuple(reversed(found))


def _together(passage: Passage, way: Sequence[Hypothesis], source: Subwords, target: Subwords) -> Translation:
    text = passage.before
    for sentence, hypothesis in zip(passage.sentences, way, strict=True):
        copied = hypothesis is COPIED
        text += (sentence.copy or "") if copied else sentence_text(hypothesis.tokens, target, sentence)
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
        draft=DraftUse.total(one.draft for one in found),
    )


def with_word_alignment(
    translation: Translation,
    passage: Passage,
    lists: Sequence[Sequence[Hypothesis]],
    source: Subwords,
    target: Subwords,
    links: LinkModel | None = None,
) -> tuple[Translation, tuple[PieceAlignment, ...]]:
    """Return a translation and its alternatives with ``alignment``, and the aligned pieces of the best one.

    Args:
        translation: from :func:`join_sentences`.
        passage: its text, split into sentences.
        lists: what it was made of, each hypothesis with its ``alignment``.
        source: tokeniser of the source side.
        target: tokeniser of the target side.
        links: what the ``link_maps`` of the hypotheses are worth; None to link by ``alignment`` alone.
    """
    from uwaga.alignment.piece_alignment import align_words
    from uwaga.alignment.words import word_spans

    made, words = [translation, *translation.alternatives], word_spans(passage.text)
    ways = [
        sentence_alignments(passage, way, source, target)
        for way in best_ways(lists, len(translation.alternatives) + 1)
    ]
    linked = [
        replace(
            one, alignment=align_words(pieces, words, word_spans(one.text), (passage.text, one.text), links)
        )
        for one, pieces in zip(made, ways, strict=True)
    ]
    return replace(linked[0], alternatives=tuple(linked[1:])), ways[0]


def sentence_alignments(
    passage: Passage, way: Sequence[Hypothesis], source: Subwords, target: Subwords
) -> tuple[PieceAlignment, ...]:
    """Align the pieces of each sentence of a translation, copied sentences too, with their source.

    Args:
        passage: the text, split into sentences.
        way: the selected hypothesis of each sentence, with its ``alignment``, or ``COPIED``.
        source: tokeniser of the source side.
        target: tokeniser of the target side.
    """
    from uwaga.alignment.piece_alignment import PieceAlignment
    from uwaga.alignment.piece_spans import piece_spans
    from uwaga.alignment.words import word_spans

    found, at = [], len(passage.before)
    for sentence, hypothesis in zip(passage.sentences, way, strict=True):
        begin, end = sentence.place
        if hypothesis is COPIED:
            text = sentence.copy or ""
            words = [word_spans(passage.text[begin:end]), word_spans(text)]
            sides = [_moved(spans, by) for spans, by in zip(words, (begin, at), strict=True)]
            diagonal = np.eye(len(sides[1]), len(sides[0]), dtype=np.float32)
            found.append(PieceAlignment(sides[0], sides[1], diagonal, True))
        else:
            assert hypothesis.alignment is not None
            text = sentence_text(hypothesis.tokens, target, sentence)
            read = piece_spans(passage.text[begin:end], sentence.ids, source)
            made = piece_spans(text, hypothesis.tokens, target)
            weights, maps = hypothesis.alignment, hypothesis.link_maps
            found.append(PieceAlignment(_moved(read, begin), _moved(made, at), weights, maps=maps))
        at += len(text) + len(sentence.after)
    return tuple(found)


def _moved(spans: Sequence[Span | None], by: int) -> tuple[Span | None, ...]:
    if not by:
        return tuple(spans)
    return tuple([None if span is None else (span[0] + by, span[1] + by) for span in spans])


def _all_blocks(parts: Sequence[Attentions | None]) -> Attentions | None:
    """Return every attention matrix of a text from those of its sentences."""
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
    """Return the block-diagonal attention (..., target, source) of several sentences."""
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
