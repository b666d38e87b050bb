"""What a glossary does to translations: whether its terms are there, what it costs, and what it gains.

    python benchmarks/terms.py CORPUS.tsv[.gz] TRAIN.tsv[.gz] [--model MODEL] [--cases 1000] [--beam 5]
        [--first MODEL]

A line of a corpus is a source and, behind a tab, its reference. Terms are words of the references that are
rare in the training corpus, and their sources the words that go with them most (Dice's coefficient over its
lines): what a user would put into a glossary, made without looking at what the model does.

1. ``forced``: so many cases, a sentence with a word of another sentence's reference each, which the model has
   no reason to say; whether it stands in the translation. With ``--first`` through two models, that one and
   then the other, and nothing else is measured.
2. BLEU without a glossary, and with the sentences' own rare words, forced and soft.
3. Seconds of a plain beam and of the same with the terms, in turns, the median of the rounds; and whether a
   sentence gets the same bits alone as together.
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
"""A term's word stands in so many lines of the training corpus."""
LEAST_DICE = 0.5


def read(path: Path, lines: int | None = None) -> Pairs:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t")[:2] for line in file]
    return [(row[0], row[1]) for row in rows[:lines]]


def words(text: str) -> set[str]:
    return set(WORD.findall(text))


def dictionary(train: Pairs) -> dict[str, str]:
    """From a source word to the rare target word that goes with it, where they go together."""
    sources, targets = Counter[str](), Counter[str]()
    for source, target in train:
        sources.update(words(source))
        targets.update(words(target))
    together: dict[str, Counter[str]] = defaultdict(Counter)
    for source, target in train:
        rare = [word for word in words(target) if RARE <= targets[word] <= COMMON]
        for word in words(source) if rare else ():
            if sources[word] <= COMMON:
                together[word].update(rare)
    found = {}
    for word, others in together.items():
        best, count = max(
            others.items(), key=lambda item: (2 * item[1] / (sources[word] + targets[item[0]]), item)
        )
        if 2 * count / (sources[word] + targets[best]) >= LEAST_DICE:
            found[word] = best
    return found


def own_terms(pairs: Pairs, known: dict[str, str]) -> list[dict[str, str]]:
    """Of each sentence the terms whose translation its reference has."""
    return [
        {word: known[word] for word in sorted(words(source)) if known.get(word) in words(target)}
        for source, target in pairs
    ]


def foreign_terms(pairs: Pairs, count: int) -> list[tuple[str, dict[str, str]]]:
    """So many sentences, each with a word of its own that must become one of another's reference."""
    draws, cases = random.Random(1), list[tuple[str, dict[str, str]]]()
    while len(cases) < count:
        source, target = draws.choice(pairs)[0], draws.choice(pairs)[1]
        of_source, of_target = sorted(words(source)), sorted(words(target))
        if of_source and of_target:
            cases.append((source, {draws.choice(of_source): draws.choice(of_target)}))
    return cases


def satisfied(translator: Translator, cases: list[tuple[str, dict[str, str]]], beam: int) -> int:
    """In how many cases the term stands in the translation as a word."""
    found = 0
    for source, terms in cases:
        made = translator.translate(source, glossary=terms, beam=beam)
        [wanted] = terms.values()
        at_source = len(re.findall(rf"(?<!\w){next(iter(terms))}(?!\w)", source))
        found += len(re.findall(rf"(?<!\w){wanted}(?!\w)", made.text)) >= at_source
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path)
    parser.add_argument("train", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--first", help="a model that translates to the other one's source language")
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--lines", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--threads", type=int, default=0, help="of the engine; 0 for as many as there are cores"
    )
    given = parser.parse_args()
    translator = uwaga.load(given.model, threads=given.threads)
    assert isinstance(translator, Translator)
    way = translator if given.first is None else uwaga.load(given.first).then(translator)
    pairs, known = read(given.corpus, given.lines), dictionary(read(given.train))
    print(f"{way!r}, beam {given.beam}")
    if given.cases:
        cases = foreign_terms(pairs, given.cases)
        print(f"forced: the term is there in {satisfied(way, cases, given.beam)} of {len(cases)} cases")
    if given.first is not None:
        return

    own = own_terms(pairs, known)
    chosen = [at for at, terms in enumerate(own) if terms]
    sources, references = [pairs[at][0] for at in chosen], [pairs[at][1] for at in chosen]
    every = {source: target for terms in own for source, target in terms.items()}
    glossary = Glossary(Term(source, (target,), "benchmark") for source, target in every.items())
    print(f"{len(glossary)} terms, {sum(map(len, own))} times in {len(chosen)} of {len(pairs)} sentences")
    made = {}
    for name, options in (
        ("plain", {}),
        ("forced", {"glossary": glossary}),
        ("soft", {"glossary": glossary, "glossary_mode": "soft"}),
    ):
        made[name] = translator.translate(sources, beam=given.beam, **options)
        score = sacrebleu.corpus_bleu([one.text for one in made[name]], [references]).score
        there = sum(
            target in words(one.text)
            for one, at in zip(made[name], chosen, strict=True)
            for target in own[at].values()
        )
        print(f"{name:7} BLEU {score:5.2f}, terms there {there / sum(map(len, own)):6.1%}")

    alike = sum(
        translator.translate(source, beam=given.beam, glossary=glossary) == one
        for source, one in list(zip(sources, made["forced"], strict=True))[:100]
    )
    print(f"alone as together, to the bit: {alike} of {min(len(sources), 100)}")
    seconds: dict[str, list[float]] = {"plain": [], "forced": [], "soft": []}
    ways = {
        "plain": Request(""),
        "forced": Request("", glossary=glossary),
        "soft": Request("", glossary=glossary, glossary_mode="soft"),
    }
    for _ in range(given.rounds):
        for name, request in ways.items():
            common = replace(request, search={"beam": given.beam})
            began = time.perf_counter()
            list(translator.run(replace(common, text=source) for source in sources))
            seconds[name].append(time.perf_counter() - began)
    for name, each in seconds.items():
        share = [one / plain for one, plain in zip(each, seconds["plain"], strict=True)]
        print(f"{name:7} {statistics.median(each):6.2f} s, {statistics.median(share):.2f} of plain")


if __name__ == "__main__":
    main()
