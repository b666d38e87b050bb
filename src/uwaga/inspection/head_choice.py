"""Which attention of a model aligns words best: every head and every layer's mean, at both steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from uwaga.alignment.piece_alignment import WordIndex
from uwaga.alignment.piece_spans import piece_spans
from uwaga.alignment.words import WordKind, word_spans
from uwaga.errors import DataError, SettingsError
from uwaga.results.attention import Floats, one_head
from uwaga.settings import AlignmentHead
from uwaga.translator.recording import all_attentions
from uwaga.translator.translator import Translator

Links = AbstractSet[tuple[int, int]]
PART = 32
"""Pairs whose attention is held together."""


def head_errors(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    gold: Sequence[tuple[Links, Links]] | None = None,
    words: WordKind = "words",
    advance: Callable[[int], None] | None = None,
) -> dict[AlignmentHead, float]:
    """The alignment error rate of every head, and of every layer's mean, best first.

    Args:
        translator: of one model.
        pairs: texts and their translations; the model is led along these.
        gold: of each pair the links that are sure, and those that are possible, the sure ones among them.
            None for those of our own aligner, of both directions (:func:`uwaga.alignment.align_corpus`): the
            error is then one less the F1 of both.
        words: what the links count.
        advance: told how many further pairs are done.

    Raises:
        SettingsError: the model has no cross-attention, or is an ensemble.
        DataError: there are no pairs, not as many links as pairs, or a pair has nothing to align.
        TextTooLongError: a side is longer than the model can take.
    """
    if not pairs:
        raise DataError("there is no pair to choose a head by")
    if gold is None:
        gold = own_links(pairs, words)
    if len(gold) != len(pairs):
        raise DataError(f"links of {len(gold)} pairs were given for {len(pairs)} pairs")
    here = translator.between()
    counts: dict[AlignmentHead, int] = {}
    links: dict[AlignmentHead, int] = {}
    for first in range(0, len(pairs), PART):
        part = pairs[first : first + PART]
        sources, targets = here.pair_ids(part, first + 1)
        start = here.decoder.symbols.start if here.decoding.start is None else here.decoding.start
        fed = [[start, *ids][: here.decoder.max_target] for ids in targets]
        seen = [one.cross for one in all_attentions(here.decoder, sources, fed)]
        for number, (pair, cross) in enumerate(zip(part, seen, strict=True)):
            if cross is None:
                raise SettingsError("the model has no attention to a source that could align words")
            sure, possible = gold[first + number]
            for head, found in _all_links(here, pair, sources[number], targets[number], cross, words):
                counts[head] = counts.get(head, 0) + len(found & sure) + len(found & possible)
                links[head] = links.get(head, 0) + len(found) + len(sure)
        if advance is not None:
            advance(len(part))
    errors = {head: 1.0 - counts[head] / links[head] if links[head] else 0.0 for head in counts}
    return dict(sorted(errors.items(), key=lambda item: item[1]))


def own_links(pairs: Sequence[tuple[str, str]], words: WordKind = "words") -> list[tuple[Links, Links]]:
    """What our own aligner links in a corpus, as sure links and possible ones alike."""
    from uwaga.alignment import align_corpus
    from uwaga.alignment.words import split_words

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
    """What each head links in a pair; ``cross`` (layers, heads, target, source) has a row more."""
    sides = (pair[0], source, translator.source), (pair[1], target[:-1], translator.target)
    owners = [
        [index.of(span) for span in piece_spans(text, ids, tokeniser)]
        for (text, ids, tokeniser), index in zip(
            sides, [WordIndex(word_spans(text, words)) for text in pair], strict=True
        )
    ]
    found = []
    for layer, head in _heads(cross):
        best = one_head(cross, layer, head).argmax(axis=-1)  # (target,)
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
