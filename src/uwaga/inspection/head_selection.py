"""Selection of the attention heads that align words best.

Heads are ranked by the alignment error rate of their links, against manual links or links of uwaga's aligner.
Several heads are combined by logistic regressions trained on such links. The aligner needs no manual work;
its errors are independent of those of the attention, so the regressions learn what both have in common. In a
second round of training, links predicted by both the aligner and the regressions count as sure, and links
predicted by only one of them as possible. The lexicon is learned from pairs other than those of the links,
because regressions trained on the same pairs would trust it too much.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from uwaga.alignment import align_corpus, corpus_lexicon
from uwaga.alignment.link_evidence import (
    FIRST_WEIGHTS,
    LEXICON_WEIGHTS,
    SECOND_WEIGHTS,
    Evidence,
    first_evidence,
    logistic,
    second_evidence,
    weighted_sum,
    word_maps,
)
from uwaga.alignment.piece_alignment import WordIndex
from uwaga.alignment.piece_spans import piece_spans
from uwaga.alignment.words import WordKind, split_words, word_spans
from uwaga.decoder import target_limit
from uwaga.errors import DataError, SettingsError
from uwaga.results.attention import Floats, select_head
from uwaga.settings import AlignmentHead, LinkModel, WordLexicon
from uwaga.translator import Translator
from uwaga.translator.align import BATCH_SENTENCES, token_alignments
from uwaga.translator.attention import all_attentions
from uwaga.translator.text import TokenPair

Links = AbstractSet[tuple[int, int]]
BATCH_PAIRS = 32
"""Maximum number of pairs whose attention is in memory at the same time."""


def head_errors(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    gold: Sequence[tuple[Links, Links]] | None = None,
    words: WordKind = "words",
    advance: Callable[[int], None] | None = None,
) -> dict[AlignmentHead, float]:
    """Return the alignment error rate of every head and of every layer's mean, best first.

    Args:
        translator: a translator of a single model.
        pairs: texts and their translations, which the model force-decodes.
        gold: (pairs,) sure links and possible links, which include the sure ones. None for the links of
            uwaga's aligner (:func:`uwaga.alignment.align_corpus`); the error is then 1 - F1.
        words: units to which links refer.
        advance: function called with the number of pairs processed since the last call.

    Raises:
        SettingsError: the model has no cross-attention, or is an ensemble.
        DataError: there are no pairs, the numbers of pairs and links differ, or a pair has nothing to align.
        TextTooLongError: a source or a target is too long for the model.
    """
    if not pairs:
        raise DataError("there are no sentence pairs to select a head with")
    if gold is None:
        gold = aligner_links(pairs, words)
    if len(gold) != len(pairs):
        raise DataError(f"there are {len(pairs)} pairs but links for {len(gold)}: give links for every pair")
    model = translator.between()
    counts: dict[AlignmentHead, int] = {}
    links: dict[AlignmentHead, int] = {}
    for batch_start in range(0, len(pairs), BATCH_PAIRS):
        batch = pairs[batch_start : batch_start + BATCH_PAIRS]
        ids = model.pair_ids(batch, batch_start + 1)
        start = model.decoder.symbols.start if model.decoding.start is None else model.decoding.start
        inputs = [
            TokenPair(source, [start, *target][: target_limit(model.decoder, len(source))])
            for source, target in ids
        ]
        cross_attentions = [attentions.cross for attentions in all_attentions(model.decoder, inputs)]
        for index, (pair, cross) in enumerate(zip(batch, cross_attentions, strict=True)):
            if cross is None:
                raise SettingsError("the model has no cross-attention, which word alignment needs")
            sure_links, possible_links = gold[batch_start + index]
            for head, head_links in _all_links(model, pair, ids[index], cross, words):
                counts[head] = (
                    counts.get(head, 0) + len(head_links & sure_links) + len(head_links & possible_links)
                )
                links[head] = links.get(head, 0) + len(head_links) + len(sure_links)
        if advance is not None:
            advance(len(batch))
    errors = {head: 1.0 - counts[head] / links[head] if links[head] else 0.0 for head in counts}
    return dict(sorted(errors.items(), key=lambda item: item[1]))


def aligner_links(pairs: Sequence[tuple[str, str]], words: WordKind = "words") -> list[tuple[Links, Links]]:
    """Return the links that uwaga's aligner finds in a corpus, as both sure and possible links."""
    sources = [split_words(source, words) for source, _ in pairs]
    targets = [split_words(target, words) for _, target in pairs]
    return [(links, links) for links in align_corpus(sources, targets)]


def _all_links(
    translator: Translator, pair: tuple[str, str], ids: TokenPair, cross: Floats, words: WordKind
) -> list[tuple[AlignmentHead, set[tuple[int, int]]]]:
    """Return each head's links in a pair; ``cross`` is (layers, heads, target with end symbol, source)."""
    sides = (pair[0], ids.source, translator.source), (pair[1], ids.target[:-1], translator.target)
    piece_words = [
        [index.overlapping(span) for span in piece_spans(text, text_ids, tokeniser)]
        for (text, text_ids, tokeniser), index in zip(
            sides, [WordIndex(word_spans(text, words)) for text in pair], strict=True
        )
    ]
    links_by_head = []
    for layer, head in _heads(cross):
        best_sources = select_head(cross, layer, head).argmax(axis=-1)  # (target,)
        for step, offset in (("predicting", 0), ("reading", 1)):
            rows = best_sources[np.minimum(np.arange(len(piece_words[1])) + offset, len(best_sources) - 1)]
            links = {
                (source_word, target_word)
                for target_words, source_piece in zip(piece_words[1], rows.tolist(), strict=True)
                for source_word in piece_words[0][source_piece]
                for target_word in target_words
            }
            head_number = None if head is None else head + 1
            links_by_head.append((AlignmentHead(layer=layer + 1, head=head_number, step=step), links))
    return links_by_head


def _heads(cross: Floats) -> list[tuple[int, int | None]]:
    layers, heads = cross.shape[:2]
    mean_head = [None] if heads > 1 else []
    return [(layer, head) for layer in range(layers) for head in [*range(heads), *mean_head]]


MAX_HEADS = 16
"""Maximum number of combined heads; a head counts once for its predicting and once for its reading step."""
MIN_PAIRS = 50
"""Minimum number of pairs to train a combination; with fewer pairs, only the best head is used."""
POSSIBLE_WEIGHT = 0.3
"""Weight of a possible link; the weight of a sure link is 1."""
MIN_LEXICON_PAIRS = 10_000
"""Minimum number of pairs for a lexicon, which is learned from half of them."""
RIDGE_PENALTY = 1.0
MAX_NEWTON_STEPS = 25


def training_links(
    pairs: Sequence[tuple[str, str]], limit: int, words: WordKind = "words"
) -> tuple[list[tuple[str, str]], list[tuple[Links, Links]], WordLexicon | None]:
    """Return sampled pairs, the aligner's links in them, and a lexicon learned from other pairs.

    The lexicon is None if there are fewer than :data:`MIN_LEXICON_PAIRS` pairs.

    Args:
        pairs: texts and their translations.
        limit: maximum number of pairs to return.
        words: units to which links refer.

    Raises:
        DataError: no pair has words on both sides.
    """
    lexicon = None
    if len(pairs) >= MIN_LEXICON_PAIRS:
        texts = [[split_words(text, words) for text in side] for side in zip(*pairs[::2], strict=True)]
        lexicon = corpus_lexicon(texts[0], texts[1])
        pairs = pairs[1::2]
    selection = slice(None, None, max(1, -(-len(pairs) // limit)))
    return list(pairs[selection]), aligner_links(pairs, words)[selection], lexicon


def combine_heads(
    translator: Translator,
    errors: dict[AlignmentHead, float],
    pairs: Sequence[tuple[str, str]],
    gold: Sequence[tuple[Links, Links]],
    words: WordKind = "words",
    lexicon: WordLexicon | None = None,
    retrain: bool = False,
) -> AlignmentHead:
    """Return the best head, with trained weights that combine it with the next best heads.

    Args:
        translator: a translator of a single model.
        errors: error rate of each head, best first, from :func:`head_errors`.
        pairs: texts and their translations.
        gold: (pairs,) sure links and possible links, which include the sure ones.
        words: units to which links refer.
        lexicon: word translation probabilities, learned from other pairs.
        retrain: whether to train a second time, on links weighted by their agreement with the first result;
            not for manual links.

    Raises:
        SettingsError: the model has no cross-attention.
        TextTooLongError: a source or a target is too long for the model.
    """
    best_head = next(iter(errors))
    if len(pairs) < MIN_PAIRS:
        return best_head
    heads = [(head.layer, head.head, head.step) for head in errors if head.head is not None][:MAX_HEADS]
    link_model = LinkModel(heads=tuple(heads), first=(0.0,), second=(0.0,), lexicon=lexicon)
    evidence: list[Evidence] = []
    labels: list[tuple[Evidence, Evidence]] = []
    selected_head = best_head.model_copy(update={"links": link_model})
    for start in range(0, len(pairs), BATCH_SENTENCES):
        part = slice(start, start + BATCH_SENTENCES)
        batch_evidence = _evidence(translator, selected_head, pairs[part], words)
        for pair_evidence, links in zip(batch_evidence, gold[part], strict=True):
            if pair_evidence.size:
                evidence.append(pair_evidence)
                labels.append(_labels(pair_evidence.shape[:2], *links))
    size = 2 * len(heads) + FIRST_WEIGHTS + (LEXICON_WEIGHTS if lexicon is not None else 0)
    first, second = _regressions(evidence, labels, size)
    if retrain:
        predicted_links = [
            logistic(weighted_sum(second_evidence(weighted_sum(pair_evidence, first)), second))
            for pair_evidence in evidence
        ]
        labels = [_merge_labels(*args) for args in zip(predicted_links, labels, strict=True)]
        first, second = _regressions(evidence, labels, size)
    return best_head.model_copy(
        update={"links": link_model.model_copy(update={"first": first, "second": second})}
    )


def _regressions(
    evidence: Sequence[Evidence], labels: Sequence[tuple[Evidence, Evidence]], size: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    coefficients = _regression(evidence, labels, size)
    return coefficients, _regression(
        [second_evidence(weighted_sum(pair_evidence, coefficients)) for pair_evidence in evidence],
        labels,
        SECOND_WEIGHTS,
    )


def _merge_labels(probabilities: Evidence, labels: tuple[Evidence, Evidence]) -> tuple[Evidence, Evidence]:
    """Return the union of predicted and training links, with lower weights where they disagree."""
    predicted_labels, target_labels = probabilities > 0.5, labels[0] > 0.5
    return (predicted_labels | target_labels).astype(np.float64), np.where(
        predicted_labels == target_labels, 1.0, POSSIBLE_WEIGHT
    )


def _evidence(
    translator: Translator, head: AlignmentHead, pairs: Sequence[tuple[str, str]], words: WordKind
) -> list[Evidence]:
    """Return, for each pair, the features of the first regression (target words, source words, features)."""
    model = translator.between()
    ids = [TokenPair(source, target[:-1]) for source, target in model.pair_ids(pairs, 1)]
    alignments = token_alignments(model.decoder, head, ids, model.decoding.start)
    evidence, lexicon = [], None if head.links is None else head.links.lexicon
    for pair, (source_ids, target_ids), (_, maps) in zip(pairs, ids, alignments, strict=True):
        assert maps is not None
        spans_of_words = [word_spans(text, words) for text in pair]
        spans = (
            piece_spans(pair[0], source_ids, model.source),
            piece_spans(pair[1], target_ids, model.target),
        )
        piece_words = [
            WordIndex(text_words).word_ranges_of_pieces(pieces)
            for text_words, pieces in zip(spans_of_words, spans, strict=True)
        ]
        evidence.append(_word_evidence(maps, piece_words, pair, spans_of_words, lexicon))
    return evidence


def _word_evidence(
    maps: Floats,
    piece_words: Sequence[Sequence[range]],
    pair: tuple[str, str],
    spans_of_words: Sequence[list[tuple[int, int]]],
    lexicon: WordLexicon | None,
) -> Evidence:
    maps_of_words = word_maps(maps, piece_words[0], piece_words[1])
    sizes = maps_of_words.shape[:0:-1]
    words = [
        [text[a:b] for a, b in spans[:size]]
        for text, spans, size in zip(pair, spans_of_words, sizes, strict=True)
    ]
    return first_evidence(maps_of_words, words[0], words[1], lexicon) if all(sizes) else np.zeros((0, 0, 0))


def _labels(shape: tuple[int, ...], sure_links: Links, possible_links: Links) -> tuple[Evidence, Evidence]:
    """Return two matrices (target words, source words): 1 for linked words, and the weight of each."""
    is_linked, weights = np.zeros(shape), np.ones(shape)
    for links, weight in ((possible_links, POSSIBLE_WEIGHT), (sure_links, 1.0)):
        for source, target in links:
            if target < shape[0] and source < shape[1]:
                is_linked[target, source], weights[target, source] = 1.0, weight
    return is_linked, weights


def _regression(
    evidence: Sequence[Evidence], labels: Sequence[tuple[Evidence, Evidence]], size: int
) -> tuple[float, ...]:
    """Return the weights of a ridge logistic regression, bias last, fitted by Newton's method."""
    if not evidence:
        return (0.0,) * size
    rows = np.concatenate([table.reshape(-1, table.shape[-1]) for table in evidence])
    rows = np.concatenate([rows, np.ones((len(rows), 1))], axis=1)
    is_linked = np.concatenate([links.ravel() for links, _ in labels])
    pair_weights = np.concatenate([table.ravel() for _, table in labels])
    weights = np.zeros(rows.shape[1])
    for _ in range(MAX_NEWTON_STEPS):
        probabilities = 1.0 / (1.0 + np.exp(-np.clip(rows @ weights, -30.0, 30.0)))
        gradient = rows.T @ (pair_weights * (is_linked - probabilities)) - RIDGE_PENALTY * weights
        hessian = (
            rows * (pair_weights * probabilities * (1.0 - probabilities))[:, None]
        ).T @ rows + RIDGE_PENALTY * np.eye(len(weights))
        step = np.linalg.solve(hessian, gradient)
        weights += step
        if np.abs(step).max() < 1e-4:
            break
    return tuple(round(float(weight), 4) for weight in weights)
