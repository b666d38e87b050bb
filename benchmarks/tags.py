"""Tags around the right words, and between sentences, with models from English to Portuguese and back.

    python benchmarks/tags.py --enpt MODEL --pten MODEL

The sentences of ``tags/``, written for this benchmark, each have a pair of tags around a word, and the words
that it means in a translation. ``words``: how many of the model's own translations have the tags around
exactly these. ``borders``: 145 texts of three sentences with tags at their borders; right is what the
translations of the sentences alone give with the same tags and blanks.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import uwaga

HERE = Path(__file__).resolve().parent / "tags"
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
LEAST = 0.88


def words(translator: uwaga.Translator, rows: list[list[str]]) -> int:
    made = translator.translate([text for text, _ in rows], format="html")
    right = 0
    for (text, meant), one in zip(rows, made, strict=True):
        found = re.findall(r"<b>(.*?)</b>", one.text)
        if [each.strip(" .,").casefold() for each in found] in [[way.casefold()] for way in meant.split("|")]:
            right += 1
        else:
            print(f"  {text} → {one.text} (not {meant})")
    return right


def borders(translator: uwaga.Translator, sentences: list[str]) -> int:
    alone = [one.text for one in translator.translate(sentences)]
    count = len(sentences)
    picks = [(at % count, (7 * at + 3) % count, (11 * at + 5) % count) for at in range(TEXTS)]
    texts, wanted = (
        [PATTERNS[at % len(PATTERNS)].format(*(side[one] for one in pick)) for at, pick in enumerate(picks)]
        for side in (sentences, alone)
    )
    made = translator.translate(texts, format="html")
    return sum(one.text == text for one, text in zip(made, wanted, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--enpt", required=True)
    parser.add_argument("--pten", required=True)
    given = parser.parse_args()
    held = True
    for name, model in (("en-pt", given.enpt), ("pt-en", given.pten)):
        translator = uwaga.load(model)
        lines = (HERE / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
        rows = [line.split("\t") for line in lines]
        right = words(translator, rows)
        whole = borders(translator, [re.sub("<.*?>", "", text) for text, _ in rows])
        print(f"{name}: {right} of {len(rows)} around the right words; {whole} of {TEXTS} borders")
        held = held and right >= LEAST * len(rows) and whole == TEXTS
    raise SystemExit(0 if held else 1)


if __name__ == "__main__":
    main()
