"""Word links of a text with symbols, as links of the text with what they stand for."""

from __future__ import annotations

from collections.abc import Sequence

from uwaga.alignment.words import word_spans
from uwaga.markup.symbols import Symbol
from uwaga.markup.words import overlapping
from uwaga.results.translation import Span, WordAlignment, noisy_or


def realign(
    alignment: WordAlignment,
    source: tuple[str, str],
    target: tuple[str, str],
    symbols: Sequence[Symbol],
    kept: Sequence[str],
) -> WordAlignment | None:
    """The same links between the words of the final texts; None where these do not fit those before.

    Args:
        alignment: of the texts with symbols.
        source: the source with symbols, and as it was.
        target: the translation with symbols, and as it is.
        symbols: that stand in both.
        kept: what the final texts have beside.
    """
    sides, itself = [], list[dict[int, range]]()
    for (before, after), spans in ((source, alignment.source), (target, alignment.target)):
        places = _along(before, after, symbols, kept)
        if places is None:
            return None
        words = word_spans(after)
        starts = [start for start, _ in words]
        found = [[place for place in places[start:end] if place is not None] for start, end in spans]
        owners = [overlapping(words, starts, one[0][0], one[-1][1]) if one else range(0) for one in found]
        sides.append((tuple(words), owners))
        begins = {number: one.places(before)[:1] for number, one in enumerate(symbols)}
        spots = {number: places[one[0][0]] for number, one in begins.items() if one}
        itself.append(
            {at: overlapping(words, starts, *spot) for at, spot in spots.items() if spot is not None}
        )
    (sources, ours), (targets, theirs) = sides
    links = {(one, two) for here, there in alignment.links for one in ours[here] for two in theirs[there]}
    chances = [
        ((one, two), chance)
        for here, there, chance in alignment.likely
        for one in ours[here]
        for two in theirs[there]
    ]
    for number in itself[0].keys() & itself[1].keys():
        own, its = itself[0][number], itself[1][number]
        links = {(one, two) for one, two in links if one not in own and two not in its}
        chances = [(pair, chance) for pair, chance in chances if pair[0] not in own and pair[1] not in its]
        links.update(zip(own, its, strict=False))
        chances += [(pair, 1.0) for pair in zip(own, its, strict=False)] if alignment.likely else []
    return WordAlignment(sources, targets, tuple(sorted(links)), noisy_or(chances))


def _along(
    before: str, after: str, symbols: Sequence[Symbol], kept: Sequence[str]
) -> list[Span | None] | None:
    """Of each character the place that it has become; None of white space."""
    standing = {place[0]: (place[1], one.tag.text) for one in symbols for place in one.places(before)[:1]}
    found: list[Span | None] = []
    at = to = 0
    while at < len(before):
        if before[at].isspace():
            found.append(None)
            at += 1
            continue
        end, text = standing.get(at, (at + 1, before[at]))
        while not after.startswith(text, to):
            skipped = next((one for one in kept if one and after.startswith(one, to)), None)
            if skipped is None and not after[to : to + 1].isspace():
                return None
            to += len(skipped) if skipped else 1
        found += [(to, to + len(text))] * (end - at)
        at, to = end, to + len(text)
    return found
