"""Measure the effect of a glossary: whether its terms occur in translations, its cost, and its gain in BLEU.

    python benchmarks/terms.py CORPUS.tsv[.gz] TRAIN.tsv[.gz] [--model MODEL] [--cases 1000] [--beam 5]
        [--first MODEL]

A line of a corpus contains a source, a tab and its reference. The terms are words of the references that are
rare in the training corpus, and their sources are the words that occur with them most (Dice's coefficient
over the lines): entries that a user might put into a glossary, chosen independently of the model.

1. ``forced``: in each of a number of cases, a sentence has a term whose translation is a word of another
   sentence's reference, which the model would not use. The script counts the translations that contain this
   word. With ``--first``, the sentence is translated by two models, that one first, and nothing else is
   measured.
2. BLEU without a glossary, and with the rare words of the sentence's own reference as terms, forced and soft.
3. Seconds of a search without and with the terms, which take turns, as medians of the rounds; and whether the
   translation of a sentence alone equals that in a batch to the last bit.
"""

from __future__ import annotations

import argparse
import gzip
import random
import re
import statistics
import time
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import sacrebleu

import uwaga
from uwaga import Request, Translator
from uwaga.terms import Glossary, Term

Pairs = list[tuple[str, str]]
WORD = re.compile(r"[^\W\d_]{3,}")
RARE, COMMON = 2, 40
"""Minimum and maximum number of lines of the training corpus that contain the word of a term."""
LEAST_DICE = 0.5


def read(path: Path, lines: int | None = None) -> Pairs:
    open_file = gzip.open if path.suffix == ".gz" else open
    with open_file(path, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t")[:2] for line in file]
    return [(row[0], row[1]) for row in rows[:lines]]


def words(text: str) -> set[str]:
    return set(WORD.findall(text))


def dictionary(train: Pairs) -> dict[str, str]:
    """Return the rare target word that occurs most with each source word, if they occur together often."""
    sources, targets = Counter[str](), Counter[str]()
    for source, target in train:
        sources.update(words(source))
        targets.update(words(target))
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for source, target in train:
        rare = [word for word in words(target) if RARE <= targets[word] <= COMMON]
        for word in words(source) if rare else ():
            if sources[word] <= COMMON:
                counts[word].update(rare)
    translations = {}
    for word, candidates in counts.items():
        best, count = max(
            candidates.items(), key=lambda item: (2 * item[1] / (sources[word] + targets[item[0]]), item)
        )
        if 2 * count / (sources[word] + targets[best]) >= LEAST_DICE:
            translations[word] = best
    return translations


def sentence_terms(pairs: Pairs, known_words: dict[str, str]) -> list[dict[str, str]]:
    """Return for each sentence the terms whose translations are in its reference."""
    return [
        {word: known_words[word] for word in sorted(words(source)) if known_words.get(word) in words(target)}
        for source, target in pairs
    ]


def foreign_terms(pairs: Pairs, count: int) -> list[tuple[str, dict[str, str]]]:
    """Return ``count`` sentences, each with a term whose translation is from the reference of another one."""
    draws, cases = random.Random(1), list[tuple[str, dict[str, str]]]()
    while len(cases) < count:
        source, target = draws.choice(pairs)[0], draws.choice(pairs)[1]
        of_source, of_target = sorted(words(source)), sorted(words(target))
        if of_source and of_target:
            cases.append((source, {draws.choice(of_source): draws.choice(of_target)}))
    return cases


def count_satisfied(translator: Translator, cases: list[tuple[str, dict[str, str]]], beam: int) -> int:
    """Return the number of cases in which the translation contains the term as a word."""
    matched = 0
    for source, terms in cases:
        translation = translator.translate(source, glossary=terms, beam=beam)
        [expected] = terms.values()
        at_source = len(re.findall(rf"(?<!\w){next(iter(terms))}(?!\w)", source))
        first = expected[:1].upper() + expected[1:]  # a sentence begins with a capital
        matched += len(re.findall(rf"(?<!\w){expected}(?!\w)|^{first}(?!\w)", translation.text)) >= at_source
    return matched


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path)
    parser.add_argument("train", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--first", help="model that translates into the source language of --model")
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--lines", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--threads", type=int, default=0, help="number of threads of the engine; 0 for all cores"
    )
    arguments = parser.parse_args()
    translator = uwaga.load(arguments.model, threads=arguments.threads)
    assert isinstance(translator, Translator)
    pipeline = translator if arguments.first is None else uwaga.load(arguments.first).then(translator)
    pairs, known_words = read(arguments.corpus, arguments.lines), dictionary(read(arguments.train))
    print(f"{pipeline!r}, beam {arguments.beam}")
    if arguments.cases:
        cases = foreign_terms(pairs, arguments.cases)
        count = count_satisfied(pipeline, cases, arguments.beam)
        print(f"forced: the term is there in {count} of {len(cases)} cases")
    if arguments.first is not None:
        return

    terms_by_sentence = sentence_terms(pairs, known_words)
    selected = [index for index, terms in enumerate(terms_by_sentence) if terms]
    sources, references = [pairs[index][0] for index in selected], [pairs[index][1] for index in selected]
    all_terms = {source: target for terms in terms_by_sentence for source, target in terms.items()}
    glossary = Glossary(Term(source, (target,), "benchmark") for source, target in all_terms.items())
    print(
        f"{len(glossary)} terms, {sum(map(len, terms_by_sentence))} times in {len(selected)} "
        f"of {len(pairs)} sentences"
    )
    translations = {}
    for name, options in (
        ("plain", {}),
        ("forced", {"glossary": glossary}),
        ("soft", {"glossary": glossary, "glossary_mode": "soft"}),
    ):
        translations[name] = translator.translate(sources, beam=arguments.beam, **options)
        score = sacrebleu.corpus_bleu(
            [translation.text for translation in translations[name]], [references]
        ).score
        matched = sum(
            target in words(translation.text)
            for translation, index in zip(translations[name], selected, strict=True)
            for target in terms_by_sentence[index].values()
        )
        print(f"{name:7} BLEU {score:5.2f}, terms there {matched / sum(map(len, terms_by_sentence)):6.1%}")

    unchanged = sum(
        translator.translate(source, beam=arguments.beam, glossary=glossary) == translation
        for source, translation in list(zip(sources, translations["forced"], strict=True))[:100]
    )
    print(f"alone as together, to the bit: {unchanged} of {min(len(sources), 100)}")
    seconds: dict[str, list[float]] = {"plain": [], "forced": [], "soft": []}
    methods = {
        "plain": Request(""),
        "forced": Request("", glossary=glossary),
        "soft": Request("", glossary=glossary, glossary_mode="soft"),
    }
    for _ in range(arguments.rounds):
        for name, request in methods.items():
            common = replace(request, search={"beam": arguments.beam})
            started = time.perf_counter()
            list(translator.run(replace(common, text=source) for source in sources))
            seconds[name].append(time.perf_counter() - started)
    for name, times in seconds.items():
        share = [duration / plain for duration, plain in zip(times, seconds["plain"], strict=True)]
        print(f"{name:7} {statistics.median(times):6.2f} s, {statistics.median(share):.2f} of plain")


if __name__ == "__main__":
    main()
