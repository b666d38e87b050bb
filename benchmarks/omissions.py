"""Measure how well `coverage` finds words that a translation omits.

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
from uwaga.languages.codes import base_language
from uwaga.languages.function_words import function_words
from uwaga.results.translation import Coverage, Hypothesis, Translation
from uwaga.translator.align import add_alignments
from uwaga.translator.layers.assemble import assemble
from uwaga.translator.layers.coverage import add_coverage
from uwaga.translator.plan import make_plan
from uwaga.translator.request import Request
from uwaga.translator.text import Passage, Sentence, TokenPair

CONTENT = 4
"""Minimum number of letters of a content word."""
Pair = tuple[str, str, str]
"""A source, a translation, and the source word that the translation lacks."""


def check(
    translator: uwaga.Translator, pairs: list[Pair], examined: bool | Literal["unaligned"]
) -> list[Coverage]:
    """Return the coverage of given translations."""
    request = Request("", search={"coverage": examined})
    plan = make_plan(translator.models, translator.languages, request, ())
    [stage], model = plan.stages, translator.model
    passages = []
    pair_ids = model.pair_ids([(source, target) for source, target, _ in pairs])
    for (source, _, _), (ids, tokens) in zip(pairs, pair_ids, strict=True):
        [scores] = model.scores([TokenPair(ids, tuple(tokens))])
        hypotheses = [Hypothesis(tuple(tokens[:-1]), 0.0, 0.0, tuple(scores))]
        sentence = Sentence(ids, span=(0, len(source)), text=source, hypotheses=hypotheses)
        add_alignments(model.decoder, model.alignment_head, [sentence], model.decoding.start)
        passages.append(Passage("", [sentence], text=source))
        assemble(stage, passages[-1])
    add_coverage(stage, passages)
    return [passage.result.coverage for passage in passages if passage.result.coverage is not None]


def aligned_words(translation: Translation, word: int) -> list[int]:
    """Return the indices of the translated words to which a source word is aligned."""
    assert translation.alignment is not None
    return [target for source, target in translation.alignment.links if source == word]


def without(text: str, spans: list[tuple[int, int]]) -> str:
    for start, end in reversed(spans):
        text = text[:start].rstrip() + text[end:]
    return text.strip()


def make_damaged_pairs(
    translator: uwaga.Translator, translations: list[Translation], draw: random.Random
) -> tuple[list[Pair], list[Pair]]:
    """Return pairs that lack a word: deleted from the translation, and omitted by the model."""
    deleted, shorter = list[Pair](), list[tuple[Translation, int]]()
    for translation in translations:
        assert translation.alignment is not None
        skipped = function_words(translation.source, base_language(translator.languages[0]))
        words = [
            index
            for index, (start, end) in enumerate(translation.alignment.source)
            if end - start >= CONTENT
            and start not in skipped
            and translation.source[start:end].isalpha()
            and aligned_words(translation, index)
        ]
        if words:
            word = draw.choice(words)
            spans = [translation.alignment.target[target] for target in aligned_words(translation, word)]
            name = translation.source[slice(*translation.alignment.source[word])]
            deleted.append((translation.source, without(translation.text, spans), name))
            shorter.append((translation, word))
    sources = list[str]()
    for translation, word in shorter:
        assert translation.alignment is not None
        sources.append(without(translation.source, [translation.alignment.source[word]]))
    omitted = list[Pair]()
    for (translation, word), left in zip(shorter, translator.translate(sources), strict=True):
        assert translation.alignment is not None
        linked_words = [
            translation.text[slice(*translation.alignment.target[index])][:CONTENT].lower()
            for index in aligned_words(translation, word)
        ]
        if not any(form in left.text.lower() for form in linked_words):
            omitted.append(
                (
                    translation.source,
                    left.text,
                    translation.source[slice(*translation.alignment.source[word])],
                )
            )
    return deleted, omitted


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sources", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--lines", type=int, default=250)
    parser.add_argument("--show", type=int, default=30)
    parser.add_argument(
        "--unaligned", action="store_true", help="examine only words that are not clearly aligned"
    )
    arguments = parser.parse_args()
    examined: bool | Literal["unaligned"] = "unaligned" if arguments.unaligned else True
    lines = arguments.sources.read_text(encoding="utf-8").splitlines()[: arguments.lines]
    translator = uwaga.load(arguments.model, threads=1)
    seconds = []
    for options in ({}, {"coverage": examined}):
        started = time.process_time()
        translations = translator.translate(lines, **options)
        seconds.append(time.process_time() - started)
    flagged = [
        translation
        for translation in translations
        if translation.coverage is not None and translation.coverage.warnings
    ]
    times = f"{seconds[0]:.1f} s of CPU without, {seconds[1]:.1f} s with coverage"
    print(f"own translations: {len(flagged) / len(translations):.1%} of {len(translations)} flagged; {times}")
    draw = random.Random(1)
    for name, pairs in zip(
        ("deleted", "omitted"), make_damaged_pairs(translator, translations, draw), strict=True
    ):
        coverages = check(translator, pairs, examined)
        hits = sum(word in coverage.omitted for coverage, (_, _, word) in zip(coverages, pairs, strict=True))
        false_alarms = sum(len(coverage.omitted) for coverage in coverages) - hits
        print(
            f"{name}: recall {hits / len(pairs):.1%} of {len(pairs)}; others {false_alarms / len(pairs):.2f}"
        )
    for example in draw.sample(flagged, min(arguments.show, len(flagged))):
        print(f"  {'; '.join(example.warnings)}\n    {example.source}\n    {example.text}")


if __name__ == "__main__":
    main()
