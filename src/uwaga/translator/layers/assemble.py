"""Assembly of the translations of passages from the hypotheses of their sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from uwaga.results.attention import Attentions, Floats
from uwaga.results.translation import DraftUse, Hypothesis, Span, Translation
from uwaga.settings import link_model
from uwaga.tokenizers.subwords import Subwords
from uwaga.translator.checks import quality_warnings, unknown_word
from uwaga.translator.detokenise import sentence_text
from uwaga.translator.model import Model
from uwaga.translator.plan import Stage
from uwaga.translator.text import Passage, Sentence

if TYPE_CHECKING:
    from uwaga.alignment.piece_alignment import PieceAlignment
    from uwaga.settings import LinkModel


def assemble(stage: Stage, passage: Passage) -> None:
    """Set the translations of a passage and of its sentences from their hypotheses."""
    model, sentences = stage.model, passage.sentences
    word = unknown_word(sentences, stage.options, model.score_stats)
    if word is not None:
        sentences[0].copy, sentences[0].hypotheses = word, []
        warnings = [f"copied: {word!r} is a word that the model does not know"]
    else:
        searched_sentences = [sentence for sentence in sentences if sentence.is_searched]
        warnings = quality_warnings(searched_sentences, model.score_stats)
    translation = join_sentences(passage, model, stage.options.nbest, stage.options.alignment, warnings)
    if stage.terms is not None and stage.terms.last:
        from uwaga.translator.layers.terms import term_uses, with_term_uses

        translation = with_term_uses(translation, term_uses(sentences))
    passage.translation = translation


class Part(NamedTuple):
    """A sentence of a translation, with one of its hypotheses (None for a copied sentence) and its text."""

    sentence: Sentence
    hypothesis: Hypothesis | None
    text: str

    @property
    def score(self) -> float:
        """The score of the hypothesis; 0 for a copied sentence."""
        return 0.0 if self.hypothesis is None else self.hypothesis.score


def join_sentences(
    passage: Passage, model: Model, nbest: int = 1, has_alignment: bool = False, warnings: Sequence[str] = ()
) -> Translation:
    """Join the n-best lists of sentences into one translation with up to ``nbest - 1`` alternatives.

    The result has the form of a single sentence: the end symbol separates the pieces of two sentences, and
    ``token_scores`` and the rows and columns of ``attention`` and ``attentions`` (zero outside each
    sentence's block) are concatenated. ``log_prob`` is the sum and ``score`` the mean over the sentences.
    Copied sentences have no tokens and are ignored. A text of copied sentences has the score 0.

    Args:
        passage: the text, split into sentences. The ``translation`` of each sentence and, with
            ``has_alignment``, the ``pieces`` of the passage are set.
        model: the model.
        nbest: maximum number of translations.
        has_alignment: whether to align the words by the ``alignment`` of the hypotheses.
        warnings: warnings about the first translation, in addition to those of the passage.
    """
    choices = [_parts(sentence, model.target) for sentence in passage.sentences]
    for best, *_ in choices:
        best.sentence.translation = best.text
    translations: list[Translation] = []
    for parts in best_combinations(choices, nbest):
        chain_warnings = () if translations else warnings
        translation = _join_passage(passage, parts, model, (*passage.warnings, *chain_warnings))
        if has_alignment:
            pieces = sentence_alignments(passage, parts, model.source, model.target)
            if not translations:
                passage.pieces = pieces
            translation = _with_word_alignment(translation, pieces, link_model(model.alignment_head))
        translations.append(translation)
    best_translation, *alternatives = translations
    return replace(best_translation, alternatives=tuple(alternatives)) if alternatives else best_translation


def _parts(sentence: Sentence, target: Subwords) -> list[Part]:
    """Return the alternative translations of a sentence as parts, best first."""
    if not sentence.is_searched:
        return [Part(sentence, None, sentence.copy or "")]
    return [
        Part(sentence, hypothesis, sentence_text(hypothesis.tokens, target, sentence.lacks_final_punctuation))
        for hypothesis in sentence.hypotheses
    ]


def best_combinations(choices: Sequence[Sequence[Part]], nbest: int) -> list[tuple[Part, ...]]:
    """Return up to ``nbest`` combinations of one part per sentence: first that of all first parts, then the
    best of the others.

    The first part of a sentence is its translation, which need not have the highest score: it may be the one
    with the terms of a glossary.

    The result is exact, because a best combination without its last part is among the best combinations of
    the earlier sentences.
    """
    if max(map(len, choices), default=1) == 1:
        return [tuple(chain.from_iterable(choices))]
    combinations = [_Combination(0.0)]
    for parts in choices:
        best, *others = [
            _Combination(combination.score + part.score, combination, part)
            for combination in combinations
            for part in parts
        ]
        others.sort(key=lambda combination: -combination.score)
        combinations = [best, *others[: nbest - 1]]
    return [combination.parts() for combination in combinations]


class _Combination(NamedTuple):
    """Parts of the first sentences of a passage: the last part, and the combination of the earlier parts."""

    score: float
    before: _Combination | None = None
    last: Part | None = None

    def parts(self) -> tuple[Part, ...]:
        combination, parts = self, list[Part]()
        while combination.before is not None and combination.last is not None:
            parts.append(combination.last)
            combination = combination.before
        return tuple(reversed(parts))


def _join_passage(
    passage: Passage, parts: Sequence[Part], model: Model, warnings: tuple[str, ...]
) -> Translation:
    source, target = model.source, model.target
    searched_parts = [(part.sentence, part.hypothesis) for part in parts if part.hypothesis is not None]
    hypothesis = _merge_hypotheses([hypothesis for _, hypothesis in searched_parts], target.symbols.end)
    source_ids = list(chain.from_iterable([sentence.ids for sentence, _ in searched_parts]))
    if source_ids and source_ids[-1] == source.symbols.end:
        source_ids.pop()
    return Translation(
        text=passage.before + "".join([part.text + part.sentence.after for part in parts]),
        score=hypothesis.score,
        tokens=tuple(target.pieces(hypothesis.tokens)),
        token_scores=hypothesis.token_scores,
        log_prob=hypothesis.log_prob,
        truncated=hypothesis.truncated,
        source_tokens=tuple(source.pieces(source_ids)),
        attention=hypothesis.attention,
        attentions=hypothesis.attentions,
        source=passage.text,
        warnings=warnings,
        entropies=hypothesis.entropies,
        draft=hypothesis.draft,
    )


def _merge_hypotheses(hypotheses: Sequence[Hypothesis], end: int) -> Hypothesis:
    """Merge the hypotheses of a text's sentences into one; ``end`` is the end symbol."""
    if len(hypotheses) == 1:
        return hypotheses[0]
    tokens: list[int] = []
    for number, hypothesis in enumerate(hypotheses, start=1):
        tokens += hypothesis.tokens
        if number < len(hypotheses) and not hypothesis.truncated:
            tokens.append(end)
    return Hypothesis(
        tokens=tuple(tokens),
        score=math.fsum(hypothesis.score for hypothesis in hypotheses) / max(len(hypotheses), 1),
        log_prob=math.fsum(hypothesis.log_prob for hypothesis in hypotheses),
        token_scores=tuple(chain.from_iterable(hypothesis.token_scores for hypothesis in hypotheses)),
        truncated=any(hypothesis.truncated for hypothesis in hypotheses),
        attention=_block_diagonal([hypothesis.attention for hypothesis in hypotheses]),
        attentions=_join_attentions([hypothesis.attentions for hypothesis in hypotheses]),
        entropies=tuple(chain.from_iterable(hypothesis.entropies for hypothesis in hypotheses)),
        draft=DraftUse.total(hypothesis.draft for hypothesis in hypotheses),
    )


def _with_word_alignment(
    translation: Translation, pieces: Sequence[PieceAlignment], links: LinkModel | None
) -> Translation:
    """Return a translation with its ``alignment``, by a link model or, without one, by attention weights."""
    from uwaga.alignment.piece_alignment import align_words
    from uwaga.alignment.words import word_spans

    texts = translation.source, translation.text
    words = word_spans(translation.source), word_spans(translation.text)
    return replace(translation, alignment=align_words(pieces, *words, texts, links))


def sentence_alignments(
    passage: Passage, parts: Sequence[Part], source: Subwords, target: Subwords
) -> tuple[PieceAlignment, ...]:
    """Return the piece alignment of each sentence of a translation, copied sentences included.

    Args:
        passage: the text, split into sentences.
        parts: the selected hypothesis of each sentence, with its ``alignment``.
        source: tokeniser of the source side.
        target: tokeniser of the target side.
    """
    from uwaga.alignment.piece_alignment import PieceAlignment
    from uwaga.alignment.piece_spans import piece_spans
    from uwaga.alignment.words import word_spans

    alignments, offset = [], len(passage.before)
    for part in parts:
        sentence, hypothesis, text = part
        start, end = sentence.span
        if hypothesis is None:
            source_spans = _shift_spans(word_spans(passage.text[start:end]), start)
            target_spans = _shift_spans(word_spans(text), offset)
            diagonal = np.eye(len(target_spans), len(source_spans), dtype=np.float32)
            alignments.append(PieceAlignment(source_spans, target_spans, diagonal, True))
        else:
            assert hypothesis.alignment is not None
            source_spans = _shift_spans(piece_spans(passage.text[start:end], sentence.ids, source), start)
            target_spans = _shift_spans(piece_spans(text, hypothesis.tokens, target), offset)
            weights, maps = hypothesis.alignment, hypothesis.link_maps
            alignments.append(PieceAlignment(source_spans, target_spans, weights, maps=maps))
        offset += len(text) + len(sentence.after)
    return tuple(alignments)


def _shift_spans(spans: Sequence[Span | None], offset: int) -> tuple[Span | None, ...]:
    if not offset:
        return tuple(spans)
    return tuple([None if span is None else (span[0] + offset, span[1] + offset) for span in spans])


def _join_attentions(parts: Sequence[Attentions | None]) -> Attentions | None:
    """Join the attention matrices of a text's sentences into block-diagonal matrices of the text."""
    recorded_parts = [part for part in parts if part is not None]
    if not recorded_parts:
        return None
    return Attentions(
        _block_diagonal([part.encoder for part in recorded_parts]),
        _block_diagonal([part.decoder for part in recorded_parts]),
        _block_diagonal([part.cross for part in recorded_parts]),
    )


def _block_diagonal(matrices: Sequence[Floats | None]) -> Floats | None:
    """Return a block-diagonal matrix (..., target, source) of the attention of several sentences."""
    given_matrices = [matrix for matrix in matrices if matrix is not None]
    if len(given_matrices) < 2:
        return given_matrices[0] if given_matrices else None
    sizes = [sum(matrix.shape[axis] for matrix in given_matrices) for axis in (-2, -1)]
    blocks = np.zeros((*given_matrices[0].shape[:-2], *sizes), np.float32)
    row = column = 0
    for matrix in given_matrices:
        rows, columns = matrix.shape[-2:]
        blocks[..., row : row + rows, column : column + columns] = matrix
        row, column = row + rows, column + columns
    return blocks
