"""Test tags around words and between sentences, with models from English to Portuguese and back.

    python benchmarks/tags.py --enpt MODEL --pten MODEL

Each sentence of ``tags/``, written for this benchmark, has a pair of tags around a word, and lists the words
that correspond to it in translations. ``words`` counts the model's translations that have the tags around
exactly these words. ``borders`` translates 145 texts of three sentences with tags at their borders; the
result must equal the translations of the single sentences with the same tags and spaces.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import uwaga

FOLDER = Path(__file__).resolve().parent / "tags"
TEXTS = 145
PATTERNS = (
    "<b>{0}</b> {1} <i>{2}</i>",
    "{0} <b>{1}</b> {2}",
    "{0}<br>{1}<br/>{2}",
    "<a href='x'>{0}</a> <a href='y'>{1}</a> {2}",
    "<b>{0} {1}</b> {2}",
    "{0} <i>{1} {2}</i>",
    "<b>{0}</b> <b>{1}</b> <b>{2}</b>",
    "{0} <img src='x'/> {1} {2}",
)
MIN_ACCURACY = 0.88


def words(translator: uwaga.Translator, rows: list[list[str]]) -> int:
    translations = translator.translate([text for text, _ in rows], format="html")
    correct = 0
    for (text, expected), translation in zip(rows, translations, strict=True):
        marked = re.findall(r"<b>(.*?)</b>", translation.text)
        if [part.strip(" .,").casefold() for part in marked] in [
            [variant.casefold()] for variant in expected.split("|")
        ]:
            correct += 1
        else:
            print(f"  {text} → {translation.text} (not {expected})")
    return correct


def borders(translator: uwaga.Translator, sentences: list[str]) -> int:
    plain_translations = [translation.text for translation in translator.translate(sentences)]
    count = len(sentences)
    picks = [(index % count, (7 * index + 3) % count, (11 * index + 5) % count) for index in range(TEXTS)]
    texts, expected = (
        [
            PATTERNS[index % len(PATTERNS)].format(*(side[choice] for choice in pick))
            for index, pick in enumerate(picks)
        ]
        for side in (sentences, plain_translations)
    )
    translations = translator.translate(texts, format="html")
    return sum(translation.text == text for translation, text in zip(translations, expected, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--enpt", required=True)
    parser.add_argument("--pten", required=True)
    arguments = parser.parse_args()
    passed = True
    for name, model in (("en-pt", arguments.enpt), ("pt-en", arguments.pten)):
        translator = uwaga.load(model)
        lines = (FOLDER / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
        rows = [line.split("\t") for line in lines]
        correct = words(translator, rows)
        unchanged = borders(translator, [re.sub("<.*?>", "", text) for text, _ in rows])
        print(f"{name}: {correct} of {len(rows)} around the right words; {unchanged} of {TEXTS} borders")
        passed = passed and correct >= MIN_ACCURACY * len(rows) and unchanged == TEXTS
    raise SystemExit(0 if passed else 1)


if __name__ == "__main__":
    main()
