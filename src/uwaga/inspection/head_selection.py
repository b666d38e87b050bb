"""Selection of the attention heads that align words best.

A head is rated by the alignment error rate of its links, against manual links or those of our own aligner.
Several heads are combined by logistic regressions that learn from such links. The aligner needs no manual
work: its errors are independent of those of the attention, so the regression learns what both have in common.
Trained a second time, links that both predict count as sure, and links of only one as possible. The lexicon
comes from other pairs than the links, because a regression trained on the same pairs would trust it too much.
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
from uwaga.translator.align import TOGETHER, token_alignments
from uwaga.translator.attention import all_attentions

Links = AbstractSet[tuple[int, int]]
PART = 32
"""Pairs whose attention is in memory together."""


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
        gold: (pairs,) the sure links and the possible links, which include the sure ones. None for those of
            our own aligner in both directions (:func:`uwaga.alignment.align_corpus`): the error is then 1 -
            F1.
        words: the units that links refer to.
        advance: called with the number of further pairs done.

    Raises:
        SettingsError: the model has no cross-attention, or is an ensemble.
        DataError: there are no pairs, the numbers of pairs and links differ, or a pair has nothing to align.
        TextTooLongError: a side is too long for the model.
    """
    if not pairs:
        raise DataError("no pairs to select a head with")
    if gold is None:
        gold = own_links(pairs, words)
    if len(gold) != len(pairs):
        raise DataError(f"{len(pairs)} pairs but links for {len(gold)}: they must be aligned")
    here = translator.between()
    counts: dict[AlignmentHead, int] = {}
    links: dict[AlignmentHead, int] = {}
    for first in range(0, len(pairs), PART):
        part = pairs[first : first + PART]
        sources, targets = here.pair_ids(part, first + 1)
        start = here.decoder.symbols.start if here.decoding.start is None else here.decoding.start
        fed = [
            [start, *ids][: target_limit(here.decoder, len(source))]
            for source, ids in zip(sources, targets, strict=True)
        ]
        seen = [one.cross for one in all_attentions(here.decoder, sources, fed)]
        for number, (pair, cross) in enumerate(zip(part, seen, strict=True)):
            if cross is None:
                raise SettingsError("the model has no cross-attention that could align words")
            sure, possible = gold[first + number]
            for head, found in _all_links(here, pair, sources[number], targets[number], cross, words):
                counts[head] = counts.get(head, 0) + len(found & sure) + len(found & possible)
                links[head] = links.get(head, 0) + len(found) + len(sure)
        if advance is not None:
            advance(len(part))
    errors = {head: 1.0 - counts[head] / links[head] if links[head] else 0.0 for head in counts}
    return dict(sorted(errors.items(), key=lambda item: item[1]))


def own_links(pairs: Sequence[tuple[str, str]], words: WordKind = "words") -> list[tuple[Links, Links]]:
    """Return the links of our own aligner in a corpus, as both sure and possible links."""
    sources = [split_words(source, words) for source, _ in pairs]
    targets = [split_words(target, words) for _, target in pairs]
    return [(links, links) for links in align_corpus(sources, targets)]


def _all_links(
    translator: Translator,
    pair: tuple[str, str],
    source: Sequence[int],
    target: Sequence[int],
    cross: Floats,
    words: WordKind,
) -> list[tuple[AlignmentHead, set[tuple[int, int]]]]:
    """Return the links of each head in a pair; ``cross`` (layers, heads, target, source) has one row more."""
    sides = (pair[0], source, translator.source), (pair[1], target[:-1], translator.target)
    owners = [
        [index.of(span) for span in piece_spans(text, ids, tokeniser)]
        for (text, ids, tokeniser), index in zip(
            sides, [WordIndex(word_spans(text, words)) for text in pair], strict=True
        )
    ]
    found = []
    for layer, head in _heads(cross):
        best = select_head(cross, layer, head).argmax(axis=-1)  # (target,)
        for step, later in (("predicting", 0), ("reading", 1)):
            rows = best[np.minimum(np.arange(len(owners[1])) + later, len(best) - 1)]
            linked = {
                (here, there)
                for mine, favourite in zip(owners[1], rows.tolist(), strict=True)
                for here in owners[0][favourite]
                for there in mine
            }
            number = None if head is None else head + 1
            found.append((AlignmentHead(layer=layer + 1, head=number, step=step), linked))
    return found


def _heads(cross: Floats) -> list[tuple[int, int | None]]:
    layers, heads = cross.shape[:2]
    several = [None] if heads > 1 else []
    return [(layer, head) for layer in range(layers) for head in [*range(heads), *several]]


HEADS = 16
"""Most heads that are combined; the two steps of a head count as two."""
FEWEST = 50
"""Fewest pairs to train a combination on; with fewer, the best head is used alone."""
POSSIBLE = 0.3
"""Weight of a possible link; a sure one has 1."""
LEXICON_FROM = 10_000
"""Fewest pairs with which a lexicon is learned, from half of them."""
RIDGE = 1.0
STEPS = 25


def known_links(
    pairs: Sequence[tuple[str, str]], most: int, words: WordKind = "words"
) -> tuple[list[tuple[str, str]], list[tuple[Links, Links]], WordLexicon | None]:
    """Return some pairs of a corpus, the links of our own aligner in them, and a lexicon of the other pairs.

    Args:
        pairs: texts and their translations.
        most: number of pairs to return, at most.
        words: the units that links refer to.

    Raises:
        DataError: there is nothing to align.
    """
    lexicon = None
    if len(pairs) >= LEXICON_FROM:
        sides = [[split_words(text, words) for text in side] for side in zip(*pairs[::2], strict=True)]
        lexicon = corpus_lexicon(sides[0], sides[1])
        pairs = pairs[1::2]
    some = slice(None, None, max(1, -(-len(pairs) // most)))
    return list(pairs[some]), own_links(pairs, words)[some], lexicon


def choose_links(
    translator: Translator,
    errors: dict[AlignmentHead, float],
    pairs: Sequence[tuple[str, str]],
    gold: Sequence[tuple[Links, Links]],
    words: WordKind = "words",
    lexicon: WordLexicon | None = None,
    again: bool = False,
) -> AlignmentHead:
    """Return the best head with a trained combination of the best heads.

    Args:
        translator: a translator of a single model.
        errors: the error of each head, best first, from :func:`uwaga.inspection.head_selection.head_errors`.
        pairs: texts and their translations.
        gold: (pairs,) the sure links and the possible links, which include the sure ones.
        words: the units that links refer to.
        lexicon: word translations, learned from other pairs.
        again: train a second time on the agreement of the links with the first result; not for manual links.

    Raises:
        SettingsError: the model has no cross-attention.
        TextTooLongError: a side is too long for the model.
    """
    best = next(iter(errors))
    if len(pairs) < FEWEST:
        return best
    heads = [(one.layer, one.head, one.step) for one in errors if one.head is not None][:HEADS]
    drawn = LinkModel(heads=tuple(heads), first=(0.0,), second=(0.0,), lexicon=lexicon)
    firsts: list[Evidence] = []
    answers: list[tuple[Evidence, Evidence]] = []
    asked = best.model_copy(update={"links": drawn})
    for at in range(0, len(pairs), TOGETHER):
        part = slice(at, at + TOGETHER)
        seen = _evidence(translator, asked, pairs[part], words)
        for found, own in zip(seen, gold[part], strict=True):
            if found.size:
                firsts.append(found)
                answers.append(_answers(found.shape[:2], *own))
    size = 2 * len(heads) + FIRST_WEIGHTS + (LEXICON_WEIGHTS if lexicon is not None else 0)
    first, second = _regressions(firsts, answers, size)
    if again:
        likely = [logistic(weighted_sum(second_evidence(weighted_sum(one, first)), second)) for one in firsts]
        answers = [_both(*both) for both in zip(likely, answers, strict=True)]
        first, second = _regressions(firsts, answers, size)
    return best.model_copy(update={"links": drawn.model_copy(update={"first": first, "second": second})})


def _regressions(
    firsts: Sequence[Evidence], answers: Sequence[tuple[Evidence, Evidence]], size: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    first = _regression(firsts, answers, size)
    return first, _regression([second_evidence(weighted_sum(one, first)) for one in firsts], answers, SECOND_WEIGHTS)


def _both(found: Evidence, answers: tuple[Evidence, Evidence]) -> tuple[Evidence, Evidence]:
    """Merge predicted links with those they were trained on; where both agree they are sure."""
    ours, theirs = found > 0.5, answers[0] > 0.5
    return (ours | theirs).astype(np.float64), np.where(ours == theirs, 1.0, POSSIBLE)


def _evidence(
    translator: Translator, head: AlignmentHead, pairs: Sequence[tuple[str, str]], words: WordKind
) -> list[Evidence]:
    """Return for each pair (target words, source words, evidence), the input of the first regression."""
    here = translator.between()
    sources, targets = here.pair_ids(pairs, 1)
    made = token_alignments(here.decoder, head, sources, [row[:-1] for row in targets], here.decoding.start)
    found, lexicon = [], None if head.links is None else head.links.lexicon
    for pair, read, written, (_, maps) in zip(pairs, sources, targets, made, strict=True):
        assert maps is not None
        cut = [word_spans(text, words) for text in pair]
        spans = piece_spans(pair[0], read, here.source), piece_spans(pair[1], written[:-1], here.target)
        owners = [WordIndex(own).overlapping_all(side) for own, side in zip(cut, spans, strict=True)]
        found.append(_of_words(maps, owners, pair, cut, lexicon))
    return found


def _of_words(
    maps: Floats,
    owners: Sequence[Sequence[range]],
    pair: tuple[str, str],
    cut: Sequence[list[tuple[int, int]]],
    lexicon: WordLexicon | None,
) -> Evidence:
    seen = word_maps(maps, owners[0], owners[1])
    sizes = seen.shape[:0:-1]
    sides = [[text[a:b] for a, b in spans[:size]] for text, spans, size in zip(pair, cut, sizes, strict=True)]
    return first_evidence(seen, sides[0], sides[1], lexicon) if all(sizes) else np.zeros((0, 0, 0))


def _answers(shape: tuple[int, ...], sure: Links, possible: Links) -> tuple[Evidence, Evidence]:
    """Return (target words, source words) which words are linked, and the weights of the pairs."""
    linked, counted = np.zeros(shape), np.ones(shape)
    for links, weight in ((possible, POSSIBLE), (sure, 1.0)):
        for source, target in links:
            if target < shape[0] and source < shape[1]:
                linked[target, source], counted[target, source] = 1.0, weight
    return linked, counted


def _regression(
    evidence: Sequence[Evidence], answers: Sequence[tuple[Evidence, Evidence]], size: int
) -> tuple[float, ...]:
    """Return the weights of a ridge logistic regression, the constant last, fitted by Newton's method."""
    if not evidence:
        return (0.0,) * size
    rows = np.concatenate([one.reshape(-1, one.shape[-1]) for one in evidence])
    rows = np.concatenate([rows, np.ones((len(rows), 1))], axis=1)
    linked = np.concatenate([one.ravel() for one, _ in answers])
    counted = np.concatenate([one.ravel() for _, one in answers])
    weights = np.zeros(rows.shape[1])
    for _ in range(STEPS):
        found = 1.0 / (1.0 + np.exp(-np.clip(rows @ weights, -30.0, 30.0)))
        slope = rows.T @ (counted * (linked - found)) - RIDGE * weights
        curve = (rows * (counted * found * (1.0 - found))[:, None]).T @ rows + RIDGE * np.eye(len(weights))
        step = np.linalg.solve(curve, slope)
        weights += step
        if np.abs(step).max() < 1e-4:
            break
    return tuple(round(float(one), 4) for one in weights)
