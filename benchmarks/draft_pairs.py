"""Check that drafts of real models do not change translations, and measure what they save (M42).

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


def time_translations(translate: Translate, texts: Sequence[str]) -> tuple[float, list[Translation]]:
    """Translate one text after the other; return the processor time in seconds, and the translations."""
    started = time.process_time()
    translations = [translate(index, text) for index, text in enumerate(texts)]
    return time.process_time() - started, translations


def compare_methods(
    methods: dict[str, Translate], plain: Translate, texts: Sequence[str]
) -> Iterator[tuple[str, dict[str, float]]]:
    """Compare each method with the plain one; yield its name and its figures.

    Raises:
        AssertionError: a translation differs.
    """
    plain_seconds, expected = time_translations(plain, texts)
    for name, translate in methods.items():
        seconds, translations = time_translations(translate, texts)
        for translation, reference in zip(translations, expected, strict=True):
            assert replace(translation, draft=None) == reference, (name, translation, reference)
        drafts = [translation.draft for translation in translations if translation.draft is not None]
        tokens = sum(len(translation.token_scores) for translation in expected)
        passes = sum(
            translation.draft.passes if translation.draft else len(translation.token_scores)
            for translation in translations
        )
        proposed = sum(draft.proposed for draft in drafts)
        yield (
            name,
            {
                "texts": len(texts),
                "accepted": sum(draft.accepted for draft in drafts) / max(1, proposed),
                "passes": passes / tokens,
                "speed": plain_seconds / seconds,
            },
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder that contains tatoeba/")
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--language-model", type=Path)
    parser.add_argument("--smaller", type=Path, help="a language model of the same vocabulary")
    parser.add_argument("--shortlist", type=Path, help="shortlist for the bundled model (uwaga shortlist)")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    texts, references = sentences(arguments.data, arguments.sentences)
    beginnings = [part for text in texts for part in accumulate(text.split(), "{} {}".format)]
    print(machine())
    results: dict[str, dict[str, float]] = {}

    def report(methods: dict[str, Translate], plain: Translate, inputs: Sequence[str] = texts) -> None:
        for name, figures in compare_methods(methods, plain, inputs):
            results[name] = figures
            print(
                f"{name:46} {figures['texts']:6.0f} equal   accepted {figures['accepted']:6.1%}   "
                f"passes {figures['passes']:5.2f} of a token's   speed {figures['speed']:5.2f}",
                flush=True,
            )

    def translate_with(translator: Translator) -> Translate:
        return lambda index, text: translator.translate(text, beam=1)

    bundled = Translator.load(threads=1)
    last = [""]

    def growing(index: int, text: str) -> Translation:
        translation = bundled.retranslate(text, last[0])
        last[0] = translation.text
        return translation

    report(
        {
            "references, bundled model": lambda index, text: bundled.translate(
                text, beam=1, draft=references[index]
            )
        },
        translate_with(bundled),
    )
    report({"last translation, bundled model": growing}, translate_with(bundled), beginnings)
    if arguments.shortlist:
        with_shortlist = Translator.load(threads=1, shortlist=arguments.shortlist, draft="shortlist")
        report({"shortlist, bundled model": translate_with(with_shortlist)}, translate_with(bundled))
    if arguments.language_model:
        options = {"threads": 1, "dtype": "int8", "source": "en", "target": "de"}
        model = Translator.load(arguments.language_model, **options)
        translate_methods = {"bundled model, language model": translate_with(model.with_drafter(bundled))}
        if arguments.smaller:
            smaller = Translator.load(arguments.language_model, **options, draft=arguments.smaller)
            translate_methods["smaller, language model"] = translate_with(smaller)
        report(translate_methods, translate_with(model))
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
