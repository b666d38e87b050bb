"""Translations of passages, assembled from the hypotheses of their sentences."""

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
from uwaga.translator.checks import quality_warnings, sentence_text
from uwaga.translator.plan import Stage
from uwaga.translator.text import Passage, Sentence

if TYPE_CHECKING:
    from uwaga.alignment.piece_alignment import PieceAlignment
    from uwaga.settings import LinkModel


def assemble(stage: Stage, passage: Passage) -> None:
    """Set the translation of a passage from its hypotheses: text, scores, alignment, warnings, terms.

    Args:
        stage: the model and the options.
        passage: the passage; its sentences get their ``translation``, too.
    """
    model, sentences = stage.model, passage.sentences
    translation = join_sentences(passage, stage.options.nbest, model.source, model.target)
    if stage.options.alignment:
        links = link_model(model.alignment_head)
        translation = with_word_alignment(translation, passage, model.source, model.target, links)
    warnings = quality_warnings(
        [sentence for sentence in sentences if sentence.is_searched], model.score_stats
    )
    if warnings:
        translation = replace(translation, warnings=(*translation.warnings, *warnings))
    for sentence in sentences:
        best = sentence.hypotheses[0] if sentence.is_searched else None
        sentence.translation = hypothesis_text(sentence, best, model.target)
    if stage.terms is not None and stage.terms.last:
        from uwaga.translator.layers.terms import with_term_uses

        translation = with_term_uses(translation, sentences)
    passage.translation = translation


def hypothesis_text(sentence: Sentence, hypothesis: Hypothesis | None, target: Subwords) -> str:
    """Return the text of a sentence's hypothesis; None is the copy."""
    return (sentence.copy or "") if hypothesis is None else sentence_text(hypothesis.tokens, target, sentence)


def join_sentences(passage: Passage, nbest: int, source: Subwords, target: Subwords) -> Translation:
    """Join the n-best lists of sentences into one translation with up to ``nbest - 1`` alternatives.

    The result reads as if it were of one sentence: the end symbol separates the pieces of two sentences, and
    ``token_scores`` and the rows and columns of ``attention`` and ``attentions`` (zero outside each
    sentence's block) are concatenated. ``log_prob`` is the sum and ``score`` the mean over the sentences.
    Sentences that are copied have no tokens and do not count. A text without others has score 0.
    """
    combinations = best_combinations(_lists(passage), nbest)
    first, *alternatives = [_joined(passage, combination, source, target) for combination in combinations]
    return replace(first, alternatives=tuple(alternatives)) if alternatives else first


def _lists(passage: Passage) -> list[Sequence[Hypothesis | None]]:
    """Return the hypotheses of each sentence; None is the copy."""
    return [sentence.hypotheses if sentence.is_searched else (None,) for sentence in passage.sentences]


def best_combinations(
    lists: Sequence[Sequence[Hypothesis | None]], nbest: int
) -> list[tuple[Hypothesis | None, ...]]:
    """Return the ``nbest`` choices of one hypothesis per sentence with the highest total score, best first.

    Exact: a combination among the best of all sentences is among the best of the sentences before its last.
    """
    combinations = [_Combination(0.0)]
    for hypotheses in lists:
        longer = [
            _Combination(combination.score + (0.0 if last is None else last.score), combination, last)
            for combination in combinations
            for last in hypotheses
        ]
        combinations = sorted(longer, key=lambda combination: -combination.score)[:nbest]
    return [combination.hypotheses() for combination in combinations]


class _Combination(NamedTuple):
    """One hypothesis for each sentence so far: the last one, and the combination before it."""

    score: float
    before: _Combination | None = None
    last: Hypothesis | None = None

    def hypotheses(self) -> tuple[Hypothesis | None, ...]:
        combination, hypotheses = self, list[Hypothesis | None]()
        while combination.before is not None:
            hypotheses.append(combination.last)
            combination = combination.before
        return tuple(reversed(hypotheses))


def _joined(
    passage: Passage, combination: Sequence[Hypothesis | None], source: Subwords, target: Subwords
) -> Translation:
    text = passage.before
    searched: list[tuple[Sentence, Hypothesis]] = []
    for sentence, hypothesis in zip(passage.sentences, combination, strict=True):
        text += hypothesis_text(sentence, hypothesis, target) + sentence.after
        if hypothesis is not None:
            searched.append((sentence, hypothesis))
    tokens: list[int] = []
    for number, (_, hypothesis) in enumerate(searched, start=1):
        tokens += hypothesis.tokens
        if number < len(searched) and not hypothesis.truncated:
            tokens.append(target.symbols.end)
    source_ids = [token for sentence, _ in searched for token in sentence.ids]
    if source_ids and source_ids[-1] == source.symbols.end:
        source_ids.pop()
    hypotheses = [hypothesis for _, hypothesis in searched]
    return Translation(
        text=text,
        score=math.fsum(hypothesis.score for hypothesis in hypotheses) / max(len(hypotheses), 1),
        tokens=tuple(target.pieces(tokens)),
        token_scores=tuple(score for hypothesis in hypotheses for score in hypothesis.token_scores),
        log_prob=math.fsum(hypothesis.log_prob for hypothesis in hypotheses),
        truncated=any(hypothesis.truncated for hypothesis in hypotheses),
        source_tokens=tuple(source.pieces(source_ids)),
        attention=_blocks([hypothesis.attention for hypothesis in hypotheses]),
        attentions=_all_blocks([hypothesis.attentions for hypothesis in hypotheses]),
        source=passage.text,
        warnings=passage.warnings,
        entropies=tuple(entropy for hypothesis in hypotheses for entropy in hypothesis.entropies),
        draft=DraftUse.total(hypothesis.draft for hypothesis in hypotheses),
    )


def with_word_alignment(
    translation: Translation,
    passage: Passage,
    source: Subwords,
    target: Subwords,
    links: LinkModel | None = None,
) -> Translation:
    """Return a translation and its alternatives with ``alignment``; set the passage's ``pieces``.

    Args:
        translation: from :func:`join_sentences`.
        passage: its text, split into sentences, each hypothesis with its ``alignment``.
        source: tokeniser of the source side.
        target: tokeniser of the target side.
        links: what the ``link_maps`` of the hypotheses are worth; None to link by ``alignment`` alone.
    """
    from uwaga.alignment.piece_alignment import align_words
    from uwaga.alignment.words import word_spans

    words, aligned = word_spans(passage.text), list[Translation]()
    translations = [translation, *translation.alternatives]
    combinations = best_combinations(_lists(passage), len(translations))
    for number, (hypothesis, combination) in enumerate(zip(translations, combinations, strict=True)):
        pieces = sentence_alignments(passage, combination, source, target)
        if number == 0:
            passage.pieces = pieces
        alignment = align_words(
            pieces, words, word_spans(hypothesis.text), (passage.text, hypothesis.text), links
        )
        aligned.append(replace(hypothesis, alignment=alignment))
    return replace(aligned[0], alternatives=tuple(aligned[1:]))


def sentence_alignments(
    passage: Passage, combination: Sequence[Hypothesis | None], source: Subwords, target: Subwords
) -> tuple[PieceAlignment, ...]:
    """Align the pieces of each sentence of a translation, copied sentences too, with their source.

    Args:
        passage: the text, split into sentences.
        combination: the selected hypothesis of each sentence, with its ``alignment``; None for the copy.
        source: tokeniser of the source side.
        target: tokeniser of the target side.
    """
    from uwaga.alignment.piece_alignment import PieceAlignment
    from uwaga.alignment.piece_spans import piece_spans
    from uwaga.alignment.words import word_spans

    alignments, offset = [], len(passage.before)
    for sentence, hypothesis in zip(passage.sentences, combination, strict=True):
        start, end = sentence.span
        text = hypothesis_text(sentence, hypothesis, target)
        if hypothesis is None:
            sources = _shifted(word_spans(passage.text[start:end]), start)
            targets = _shifted(word_spans(text), offset)
            diagonal = np.eye(len(targets), len(sources), dtype=np.float32)
            alignments.append(PieceAlignment(sources, targets, diagonal, True))
        else:
            assert hypothesis.alignment is not None
            sources = _shifted(piece_spans(passage.text[start:end], sentence.ids, source), start)
            targets = _shifted(piece_spans(text, hypothesis.tokens, target), offset)
            weights, maps = hypothesis.alignment, hypothesis.link_maps
            alignments.append(PieceAlignment(sources, targets, weights, maps=maps))
        offset += len(text) + len(sentence.after)
    return tuple(alignments)


def _shifted(spans: Sequence[Span | None], offset: int) -> tuple[Span | None, ...]:
    if not offset:
        return tuple(spans)
    return tuple([None if span is None else (span[0] + offset, span[1] + offset) for span in spans])


def _all_blocks(parts: Sequence[Attentions | None]) -> Attentions | None:
    """Return every attention matrix of a text from those of its sentences."""
    present = [part for part in parts if part is not None]
    if not present:
        return None
    return Attentions(
        _blocks([part.encoder for part in present]),
        _blocks([part.decoder for part in present]),
        _blocks([part.cross for part in present]),
    )


def _blocks(matrices: Sequence[Floats | None]) -> Floats | None:
    """Return the block-diagonal attention (..., target, source) of several sentences."""
    present = [matrix for matrix in matrices if matrix is not None]
    if len(present) < 2:
        return present[0] if present else None
    sizes = [sum(matrix.shape[axis] for matrix in present) for axis in (-2, -1)]
    blocks = np.zeros((*present[0].shape[:-2], *sizes), np.float32)
    row = column = 0
    for matrix in present:
        rows, columns = matrix.shape[-2:]
        blocks[..., row : row + rows, column : column + columns] = matrix
        row, column = row + rows, column + columns
    return blocks
