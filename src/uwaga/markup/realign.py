"""Word links of a text with symbols, as links of the text with what they stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from uwaga.alignment.words import word_spans
from uwaga.markup.symbols import Symbol, find_symbols
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
    sides, symbol_words = [], list[dict[str, range]]()
    for (before, after), spans in ((source, alignment.source), (target, alignment.target)):
        at_symbols = {text: found[0] for text, found in find_symbols(symbols, before).items()}
        positions = _map_characters(before, after, symbols, at_symbols, kept)
        if positions is None:
            return None
        words = word_spans(after)
        starts = [start for start, _ in words]
        moved = [[place for place in positions[start:end] if place is not None] for start, end in spans]
        owners = [overlapping(words, starts, own[0][0], own[-1][1]) if own else range(0) for own in moved]
        sides.append((tuple(words), owners))
        symbol_words.append(
            {
                text: overlapping(words, starts, *place)
                for text, (start, _) in at_symbols.items()
                if (place := positions[start]) is not None
            }
        )
    both = [text for text in symbol_words[0] if text in symbol_words[1]]
    taken = [{word for text in both for word in own[text]} for own in symbol_words]
    (sources, ours), (targets, theirs) = (
        (words, [[word for word in own if word not in gone] for own in owners])
        for (words, owners), gone in zip(sides, taken, strict=True)
    )
    links = {(one, two) for here, there in alignment.links for one in ours[here] for two in theirs[there]}
    chances = [
        ((one, two), chance)
        for here, there, chance in alignment.likely
        for one in ours[here]
        for two in theirs[there]
    ]
    for text in both:
        pairs = list(zip(symbol_words[0][text], symbol_words[1][text], strict=False))
        links.update(pairs)
        chances += [(pair, 1.0) for pair in pairs] if alignment.likely else []
    return WordAlignment(sources, targets, tuple(sorted(links)), noisy_or(chances))


def _map_characters(
    before: str,
    after: str,
    symbols: Sequence[Symbol],
    at_symbols: Mapping[str, Span],
    kept: Sequence[str],
) -> list[Span | None] | None:
    """For each character of ``before`` its span in ``after``: None for white space.

    Returns None where ``after`` is not ``before`` with the symbols replaced and the kept pieces inserted.
    """
    replaced = {
        at_symbols[one.text][0]: (at_symbols[one.text][1], one.tag.text)
        for one in symbols
        if one.text in at_symbols
    }
    pieces, lengths = frozenset(kept), sorted({len(one) for one in kept if one})
    positions: list[Span | None] = []
    at = to = 0
    while at < len(before):
        if before[at].isspace():
            positions.append(None)
            at += 1
            continue
        end, text = replaced.get(at, (at + 1, before[at]))
        while not after.startswith(text, to):
            skipped = next((length for length in lengths if after[to : to + length] in pieces), 0)
            if not skipped and not after[to : to + 1].isspace():
                return None
            to += skipped or 1
        positions += [(to, to + len(text))] * (end - at)
        at, to = end, to + len(text)
    return positions
