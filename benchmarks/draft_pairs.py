r"""Drafts of real models: the same translations as without, and what they save (M42).

    python benchmarks/draft_pairs.py --data ../shared/data --language-model SmolLM2-135M-Instruct.Q4_1.gguf \
        --smaller smollm2-int4 --shortlist en-de.shortlist
    python benchmarks/draft_pairs.py --data ../shared/data      # the bundled model alone

Sentences of Tatoeba's test set are translated from English to German one at a time, greedily, by each model
alone and with each kind of draft: the translations of the bundled model (for the language model), the tokens
of a smaller model of the same vocabulary, those of a shortlist, the reference translations, and for a text
that grows the last translation. Texts, tokens and scores must be equal to the last bit. The time is that of
the processor; the draft's is included.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

from peers.machine import machine

from uwaga import Translation, Translator

Translate = Callable[[int, str], Translation]


def sentences(data: Path, count: int) -> tuple[list[str], list[str]]:
    """Return English sentences and their German references."""
    with gzip.open(data / "tatoeba" / "test.en-de.tsv.gz", "rt", encoding="utf-8") as lines:
        pairs = [line.rstrip("\n").split("\t")[:2] for line in lines]
    sources, references = zip(*pairs[:count], strict=True)
    return list(sources), list(references)


def timed(translate: Translate, texts: Sequence[str]) -> tuple[float, list[Translation]]:
    """Translate one text after the other; return the processor's seconds and the translations."""
    begun = time.process_time()
    made = [translate(at, text) for at, text in enumerate(texts)]
    return time.process_time() - begun, made


def compared(
    ways: dict[str, Translate], plain: Translate, texts: Sequence[str]
) -> Iterator[tuple[str, dict[str, float]]]:
    """Compare each way with the plain one; yield its name and its figures.

    Raises:
        AssertionError: a translation differs.
    """
    alone, expected = timed(plain, texts)
    for name, translate in ways.items():
        taken, made = timed(translate, texts)
        for one, other in zip(made, expected, strict=True):
            assert replace(one, draft=None) == other, (name, one, other)
        drafts = [one.draft for one in made if one.draft is not None]
        tokens = sum(len(one.token_scores) for one in expected)
        passes = sum(one.draft.passes if one.draft else len(one.token_scores) for one in made)
        proposed = sum(one.proposed for one in drafts)
        yield (
            name,
            {
                "texts": len(texts),
                "accepted": sum(one.accepted for one in drafts) / max(1, proposed),
                "passes": passes / tokens,
                "speed": alone / taken,
            },
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with tatoeba/")
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--language-model", type=Path)
    parser.add_argument("--smaller", type=Path, help="a language model of the same vocabulary")
    parser.add_argument("--shortlist", type=Path, help="for the bundled model (uwaga shortlist)")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    texts, references = sentences(asked.data, asked.sentences)
    beginnings = [part for text in texts for part in accumulate(text.split(), "{} {}".format)]
    print(machine())
    results: dict[str, dict[str, float]] = {}

    def report(ways: dict[str, Translate], plain: Translate, given: Sequence[str] = texts) -> None:
        for name, figures in compared(ways, plain, given):
            results[name] = figures
            print(
                f"{name:46} {figures['texts']:6.0f} equal   accepted {figures['accepted']:6.1%}   "
                f"passes {figures['passes']:5.2f} of a token's   speed {figures['speed']:5.2f}",
                flush=True,
            )

    def way(translator: Translator) -> Translate:
        return lambda at, text: translator.translate(text, beam=1)

    bundled = Translator.load(threads=1)
    last = [""]

    def growing(at: int, text: str) -> Translation:
        made = bundled.retranslate(text, last[0])
        last[0] = made.text
        return made

    report(
        {"references, bundled model": lambda at, text: bundled.translate(text, beam=1, draft=references[at])},
        way(bundled),
    )
    report({"last translation, bundled model": growing}, way(bundled), beginnings)
    if asked.shortlist:
        listed = Translator.load(threads=1, shortlist=asked.shortlist, draft="shortlist")
        report({"shortlist, bundled model": way(listed)}, way(bundled))
    if asked.language_model:
        options = {"threads": 1, "dtype": "int8", "source": "en", "target": "de"}
        model = Translator.load(asked.language_model, **options)
        ways = {"bundled model, language model": way(model.drafted_by(bundled))}
        if asked.smaller:
            smaller = Translator.load(asked.language_model, **options, draft=asked.smaller)
            ways["smaller, language model"] = way(smaller)
        report(ways, way(model))
    if asked.json:
        asked.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
