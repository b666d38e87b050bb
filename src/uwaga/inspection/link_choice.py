"""What the attention of several heads is worth together, learned from links that are known.

These may be our own aligner's, so that no person is needed: it errs by chance, the attention by other chance,
and what both have in common is learned. A second time more of it: what both say is sure then, what one of
them says possible. The lexicon comes from other pairs than the links, for a regression that learned from the
same ones would believe it too much.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from uwaga.alignment.link_evidence import (
    FIRST_ALONE,
    LEXICAL,
    SECOND,
    Evidence,
    first_evidence,
    logistic,
    second_evidence,
    weighed,
    word_maps,
)
from uwaga.alignment.piece_alignment import WordIndex
from uwaga.alignment.piece_spans import piece_spans
from uwaga.alignment.words import WordKind, split_words, word_spans
from uwaga.inspection.head_choice import Links, own_links
from uwaga.results.attention import Floats
from uwaga.settings import AlignmentHead, LinkModel, WordLexicon
from uwaga.translator.aligning import TOGETHER, token_alignments
from uwaga.translator.translator import Translator

HEADS = 16
"""Heads that link words together, at most; a head's two steps count as two."""
FEWEST = 50
"""Pairs that are worth learning from; by fewer the best head goes on alone."""
POSSIBLE = 0.3
"""What a possible link counts beside a sure one."""
LEXICON_FROM = 10_000
"""Pairs that a lexicon is worth learning from, half of them."""
RIDGE = 1.0
STEPS = 25


def known_links(
    pairs: Sequence[tuple[str, str]], most: int, words: WordKind = "words"
) -> tuple[list[tuple[str, str]], list[tuple[Links, Links]], WordLexicon | None]:
    """Some of a corpus' pairs, what our own aligner links in them, and a lexicon of the others.

    Args:
        pairs: texts and their translations.
        most: how many pairs.
        words: what the links count.

    Raises:
        DataError: there is nothing to align.
    """
    from uwaga.alignment import corpus_lexicon

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
    """The best head, with what the best heads link together.

    Args:
        translator: of one model.
        errors: of every head, best first, from :func:`uwaga.inspection.head_choice.head_errors`.
        pairs: texts and their translations.
        gold: of each pair the links that are sure, and those that are possible, the sure ones among them.
        words: what the links count.
        lexicon: what words stand for one another, from other pairs than these.
        again: learn a second time, from what the links and what was learned say together; not of links that
            are known to be right.

    Raises:
        SettingsError: the model has no cross-attention.
        TextTooLongError: a side is longer than the model can take.
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
    size = 2 * len(heads) + FIRST_ALONE + (LEXICAL if lexicon is not None else 0)
    first, second = _regressions(firsts, answers, size)
    if again:
        likely = [logistic(weighed(second_evidence(weighed(one, first)), second)) for one in firsts]
        answers = [_both(*both) for both in zip(likely, answers, strict=True)]
        first, second = _regressions(firsts, answers, size)
    return best.model_copy(update={"links": drawn.model_copy(update={"first": first, "second": second})})


def _regressions(
    firsts: Sequence[Evidence], answers: Sequence[tuple[Evidence, Evidence]], size: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    first = _regression(firsts, answers, size)
    return first, _regression([second_evidence(weighed(one, first)) for one in firsts], answers, SECOND)


def _both(found: Evidence, answers: tuple[Evidence, Evidence]) -> tuple[Evidence, Evidence]:
    """Answers of what was learned and of what it was learned from: sure where both agree."""
    ours, theirs = found > 0.5, answers[0] > 0.5
    return (ours | theirs).astype(np.float64), np.where(ours == theirs, 1.0, POSSIBLE)


def _evidence(
    translator: Translator, head: AlignmentHead, pairs: Sequence[tuple[str, str]], words: WordKind
) -> list[Evidence]:
    """Of each pair (target words, source words, evidence) of the first regression."""
    here = translator.between()
    sources, targets = here.pair_ids(pairs, 1)
    made = token_alignments(here.decoder, head, sources, [row[:-1] for row in targets], here.decoding.start)
    found, lexicon = [], None if head.links is None else head.links.lexicon
    for pair, read, written, (_, maps) in zip(pairs, sources, targets, made, strict=True):
        assert maps is not None
        cut = [word_spans(text, words) for text in pair]
        spans = piece_spans(pair[0], read, here.source), piece_spans(pair[1], written[:-1], here.target)
        owners = [WordIndex(own).of_all(side) for own, side in zip(cut, spans, strict=True)]
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
    """Which pairs of words are linked, and what each counts: (target words, source words) both."""
    linked, counted = np.zeros(shape), np.ones(shape)
    for links, weight in ((possible, POSSIBLE), (sure, 1.0)):
        for source, target in links:
            if target < shape[0] and source < shape[1]:
                linked[target, source], counted[target, source] = 1.0, weight
    return linked, counted


def _regression(
    evidence: Sequence[Evidence], answers: Sequence[tuple[Evidence, Evidence]], size: int
) -> tuple[float, ...]:
    """Weights of a logistic regression with a small ridge, the constant last, by Newton's method."""
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
