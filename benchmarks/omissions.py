"""How well `coverage` finds words that a translation omits.

    python benchmarks/omissions.py SOURCES.txt [--model MODEL] [--lines 250] [--show 30] [--unaligned]

Three sets of pairs are checked: the model's own translations, where a flag is a false alarm or a word that
the model did omit (``--show`` prints some, to be judged by a reader); the same with the words removed that a
random content word of the source is aligned to ("deleted"); and fluent translations of the source without a
random content word, beside the whole source ("omitted"). Of the last two, recall is the share of those words
that are flagged, and others are flags on other words per sentence.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path
from typing import Literal

import uwaga
from uwaga.results.translation import Coverage, Hypothesis, Translation
from uwaga.translator.align import with_alignments
from uwaga.translator.assemble import assemble
from uwaga.translator.coverage import with_coverage
from uwaga.translator.plan import make_plan
from uwaga.translator.request import Request
from uwaga.translator.search_sentences import SearchedPassage
from uwaga.translator.split import Passage, Sentence

CONTENT = 4
"""Fewest letters of a content word."""
Pair = tuple[str, str, str]
"""A source, a translation, and the word of the source that it lacks."""


def check(
    translator: uwaga.Translator, pairs: list[Pair], examined: bool | Literal["unaligned"]
) -> list[Coverage]:
    """Return the coverage of given translations."""
    request = Request("", search={"coverage": examined})
    plan = make_plan(translator.models, translator.languages, request, ())
    [stage], model = plan.stages, translator.model
    searched = []
    sources, targets = model.pair_ids([(source, target) for source, target, _ in pairs])
    for (source, _, _), ids, tokens in zip(pairs, sources, targets, strict=True):
        given = [[Hypothesis(tokens[:-1], 0.0, 0.0, ())]]
        [ways] = with_alignments(model.decoder, model.alignment_head, [ids], given, model.decoding.start)
        sentence = Sentence(ids, "", place=(0, len(source)), text=source)
        searched.append(SearchedPassage(Passage("", (sentence,), text=source), [ways], [None]))
    covered = with_coverage(stage, [assemble(stage, one) for one in searched], searched)
    found = [one.translation.coverage for one in covered]
    return [one for one in found if one is not None]


def linked(made: Translation, word: int) -> list[int]:
    """Return the words of a translation that a word of its source is linked to."""
    assert made.alignment is not None
    return [target for source, target in made.alignment.links if source == word]


def without(text: str, spans: list[tuple[int, int]]) -> str:
    for start, end in reversed(spans):
        text = text[:start].rstrip() + text[end:]
    return text.strip()


def damaged(
    translator: uwaga.Translator, made: list[Translation], draw: random.Random
) -> tuple[list[Pair], list[Pair]]:
    """Return pairs that lack a word: deleted from the translation, and omitted by the model."""
    deleted, shorter = list[Pair](), list[tuple[Translation, int]]()
    for one in made:
        assert one.alignment is not None
        words = [
            at
            for at, (start, end) in enumerate(one.alignment.source)
            if end - start >= CONTENT and one.source[start:end].isalpha() and linked(one, at)
        ]
        if words:
            word = draw.choice(words)
            spans = [one.alignment.target[target] for target in linked(one, word)]
            name = one.source[slice(*one.alignment.source[word])]
            deleted.append((one.source, without(one.text, spans), name))
            shorter.append((one, word))
    sources = [without(one.source, [one.alignment.source[word]]) for one, word in shorter]  # type: ignore[union-attr]
    omitted = list[Pair]()
    for (one, word), left in zip(shorter, translator.translate(sources), strict=True):
        assert one.alignment is not None
        own = [one.text[slice(*one.alignment.target[at])][:CONTENT].lower() for at in linked(one, word)]
        if not any(form in left.text.lower() for form in own):
            omitted.append((one.source, left.text, one.source[slice(*one.alignment.source[word])]))
    return deleted, omitted


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sources", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--lines", type=int, default=250)
    parser.add_argument("--show", type=int, default=30)
    parser.add_argument("--unaligned", action="store_true", help="examine words not clearly aligned only")
    given = parser.parse_args()
    examined: bool | Literal["unaligned"] = "unaligned" if given.unaligned else True
    lines = given.sources.read_text(encoding="utf-8").splitlines()[: given.lines]
    translator = uwaga.load(given.model, threads=1)
    seconds = []
    for options in ({}, {"coverage": examined}):
        started = time.process_time()
        made = translator.translate(lines, **options)
        seconds.append(time.process_time() - started)
    flagged = [one for one in made if one.coverage is not None and one.coverage.warnings]
    times = f"{seconds[0]:.1f} s of CPU without, {seconds[1]:.1f} s with coverage"
    print(f"own translations: {len(flagged) / len(made):.1%} of {len(made)} flagged; {times}")
    draw = random.Random(1)
    for name, pairs in zip(("deleted", "omitted"), damaged(translator, made, draw), strict=True):
        found = check(translator, pairs, examined)
        hits = sum(word in one.omitted for one, (_, _, word) in zip(found, pairs, strict=True))
        others = sum(len(one.omitted) for one in found) - hits
        print(f"{name}: recall {hits / len(pairs):.1%} of {len(pairs)}; others {others / len(pairs):.2f}")
    for one in draw.sample(flagged, min(given.show, len(flagged))):
        print(f"  {'; '.join(one.warnings)}\n    {one.source}\n    {one.text}")


if __name__ == "__main__":
    main()
