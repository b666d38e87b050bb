"""Measure tags and placeholders in translations: how many survive, how many are placed right, and the cost.

    python benchmarks/markup.py --test test_2016_flickr.en.gz test_2016_flickr.de.gz --train train.en.gz
    python benchmarks/markup.py --test ... --only placeholders --model MODEL_FOLDER

The texts are those of Multi30k as published (raw).

``fragments``: 2,000 sentences with generated HTML: nested pairs of tags around one to four words or the whole
sentence, and ``br`` and ``img``, also inside pairs. A translation is well-formed if an XML parser accepts it;
its text must equal the translation without tags, apart from white space.

``words``: on the hundred pairs of benchmarks/alignments, with the reference as a forced target, a pair of
tags is put around every run of one, two and three words that has a sure link. The placement is right if it
has as few mistakes as the best run of target words: missing words with sure links to words inside, and extra
words that are linked only to words outside. With hand-made links instead of those of the model (``placing``),
the mistakes are those of the method. Two other methods are reimplemented from their sources. In
bergamot-translator (html.cpp), each target word takes the tags of the source word with the largest attention;
this is right only if these words are adjacent, as the tag is otherwise repeated. Argos Translate, which
LibreTranslate uses (tags.py), translates the content separately and searches for it in the translation; this
is right if it is at the right place by uwaga's alignment of the model's translation.

``placeholders``: 2,000 sentences with one to four placeholders, each of which must occur as often as in the
source.
``speed``: seconds compared with those of plain text, for texts with possible placeholders, as HTML, and with
tags.
"""

from __future__ import annotations

import argparse
import gzip
import random
import re
import sys
import time
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.parsers import expat

import uwaga
from uwaga.alignment.words import split_words, word_spans
from uwaga.evaluation.alignment_error import check_pairs, read_hand_alignments
from uwaga.markup import Tag
from uwaga.markup.html import read_html
from uwaga.markup.insert_tags import insert_tags
from uwaga.markup.strip_tags import strip_tags
from uwaga.markup.units import Fragment
from uwaga.results.translation import WordAlignment

LINKS = Path(__file__).resolve().parent / "alignments" / "multi30k-test2016.en-de.txt"
HOLDERS = [
    *(
        "{name}",
        "{count}",
        "{{user}}",
        "${HOME}",
        "$PATH",
        "%s",
        "%d",
        "%(n)d",
        "%1$s",
        "{0}",
        "#{id}",
        "{x:.2f}",
    ),
    *("https://example.com/a?b=1", "bob@example.com", "report.txt", "/usr/share/doc/x.md", "C:\\Temp\\a.dll"),
    *("5.5 km", "30 °C", "20%"),
]
BARS = {"well": 1.0, "once": 1.0, "same": 0.99, "right": 0.9, "kept": 1.0}


def lines(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.strip() for line in file]


def fragment(sentence: str, draw: random.Random) -> str:
    """Return an escaped sentence with nested tags around some of its words."""
    words = [word.replace("&", "&amp;").replace("<", "&lt;") for word in sentence.split()]

    def dress(part: list[str], depth: int) -> list[str]:
        parts, position = list[str](), 0
        while position < len(part):
            size = draw.randint(1, 4)
            text = part[position : position + size]
            roll = draw.random()
            if roll < 0.25 and depth < 3:
                name = draw.choice("bisuq")
                inner = dress(text, depth + 1)
                inner[0] = f"<{name}>{inner[0]}"
                inner[-1] += f"</{name}>"
                parts += inner
            else:
                parts += text
            if roll > 0.96:
                parts[-1] += draw.choice(("<br/>", ' <img src="x.png"/>'))
            position += size
        return parts

    text = " ".join(dress(words, 0))
    return f"<p>{text}</p>" if draw.random() < 0.3 else text


def is_well_formed(text: str) -> bool:
    try:
        expat.ParserCreate().Parse(f"<x>{text}</x>", True)
    except expat.ExpatError:
        return False
    return True


def plain(text: str) -> str:
    parsed: Fragment = read_html(text)
    return " ".join("".join(strip_tags(inline).text + " " for inline in parsed.inlines).split())


def fragments(translator: Any, sentences: list[str]) -> dict[str, float]:
    draw = random.Random(7)
    texts = [fragment(sentence, draw) for sentence in sentences]
    tags = re.compile(r"<[^>]+>")
    translations = [translation.text for translation in translator.translate(texts, format="html")]
    plain_translations = [
        translation.text for translation in translator.translate([plain(text) for text in texts])
    ]
    count = len(texts)
    print(f"{count} fragments, {sum(len(tags.findall(text)) for text in texts)} tags")
    return {
        "well": sum(map(is_well_formed, translations)) / count,
        "once": sum(
            Counter(tags.findall(a)) == Counter(tags.findall(b))
            for a, b in zip(texts, translations, strict=True)
        )
        / count,
        "same": sum(
            "".join(plain(a).split()) == "".join(b.split())
            for a, b in zip(translations, plain_translations, strict=True)
        )
        / count,
    }


def mistakes(source_words: set[int], selected: range | set[int], sure: Any, possible: Any) -> int:
    """Return the number of words that are missing from a selection, and of words that do not belong to it."""
    targets = {target for source, target in sure if source in source_words}
    allowed = {target for source, target in possible if source in source_words}
    outside = {target for source, target in possible if source not in source_words}
    selected_targets = set(selected)
    return len(targets - selected_targets) + len((selected_targets & outside) - allowed)


def words(translator: Any, pairs: list[tuple[str, str]], gold: list[Any]) -> dict[str, float]:
    correct: Counter[str] = Counter()
    total = located = 0
    aligned = translator.align(pairs)
    parts: list[tuple[str, str]] = []
    for (source, target), links, alignment in zip(pairs, aligned, gold, strict=True):
        spans = word_spans(source)
        targets = word_spans(target)
        assert len(split_words(target)) == len(targets)
        ranges = [range(a, b) for a, b in combinations(range(len(targets) + 1), 2)]
        favourite = {target_index: source_index for source_index, target_index in reversed(links.links)}
        for size in (1, 2, 3):
            for first in range(len(spans) - size + 1):
                source_words = set(range(first, first + size))
                if not any(source_index in source_words for source_index, _ in alignment.sure):
                    continue
                total += 1
                minimum = min(
                    mistakes(source_words, other, alignment.sure, alignment.possible) for other in ranges
                )
                start, end = spans[first][0], spans[first + size - 1][1]
                tagged = (
                    source[:start],
                    Tag("open", "<b>"),
                    source[start:end],
                    Tag("close", "</b>"),
                    source[end:],
                )
                tagged_target = insert_tags(strip_tags(tagged), target, links)
                selected = covered_words(tagged_target, target)
                manual_alignment = WordAlignment(tuple(spans), tuple(targets), tuple(sorted(alignment.sure)))
                best = covered_words(insert_tags(strip_tags(tagged), target, manual_alignment), target)
                correct["placing"] += (
                    mistakes(source_words, best, alignment.sure, alignment.possible) <= minimum
                )
                correct["ours"] += (
                    mistakes(source_words, selected, alignment.sure, alignment.possible) <= minimum
                )
                copied = {
                    target_index
                    for target_index, source_index in favourite.items()
                    if source_index in source_words
                }
                contiguous = bool(copied) and max(copied) - min(copied) + 1 == len(copied)
                correct["bergamot"] += (
                    contiguous
                    and mistakes(source_words, copied, alignment.sure, alignment.possible) <= minimum
                )
                if first % 4 == 0:
                    parts.append((source, source[start:end]))
    translations = translator.translate([source for source, _ in parts], alignment=True)
    part_translations = translator.translate([part for _, part in parts], placeholders=False)
    for (source, part), text, inner in zip(parts, translations, part_translations, strict=True):
        position = text.text.find(inner.text)
        if position < 0 or not inner.text:
            continue
        located += 1
        part_start = source.index(part)
        source_words = {
            n
            for n, (a, b) in enumerate(text.alignment.source)
            if a >= part_start and b <= part_start + len(part)
        }
        spans = text.alignment.target
        selected = {n for n, (a, b) in enumerate(spans) if a >= position and b <= position + len(inner.text)}
        ranges = [range(a, b) for a, b in combinations(range(len(spans) + 1), 2)]
        links = text.alignment.links
        minimum = min(mistakes(source_words, other, links, links) for other in ranges)
        correct["argos"] += mistakes(source_words, selected, links, links) <= minimum
    print(f"{total} pairs of tags; Argos's method places {located} of {len(parts)}")
    return {
        "right": correct["ours"] / total,
        "placing": correct["placing"] / total,
        "bergamot": correct["bergamot"] / total,
        "argos": correct["argos"] / len(parts),
    }


def covered_words(parts: Any, target: str) -> range:
    """Return the range of target words between the two tags."""
    before = "".join(part for part in parts[: parts.index(Tag("open", "<b>"))])
    suffix = "".join(part for part in parts[parts.index(Tag("close", "</b>")) + 1 :])
    spans = word_spans(target)
    words = [n for n, (a, b) in enumerate(spans) if a >= len(before) and b <= len(target) - len(suffix)]
    return range(words[0], words[-1] + 1) if words else range(0)


def placeholders(translator: Any, sentences: list[str]) -> dict[str, float]:
    draw = random.Random(8)
    texts, expected = [], []
    for sentence in sentences:
        parts = sentence.split()
        symbols = draw.sample(HOLDERS, draw.randint(1, 4))
        for symbol in symbols:
            parts.insert(draw.randint(0, max(len(parts) - 1, 0)), symbol)
        texts.append(" ".join(parts))
        expected.append(symbols)
    started = time.monotonic()
    translations = translator.translate(texts)
    seconds = time.monotonic() - started
    failed = sum(
        any("every symbol" in warning for warning in translation.warnings) for translation in translations
    )
    unchanged = sum(
        all(translation.text.count(text) == given_.count(text) for text in symbols_)
        for translation, symbols_, given_ in zip(translations, expected, texts, strict=True)
    )
    print(f"{sum(map(len, expected))} placeholders in {len(texts)} sentences, {seconds:.1f} s; ", end="")
    print(f"in {failed} sentences one stands by alignment alone")
    return {"kept": unchanged / len(texts)}


def speed(translator: Any, sentences: list[str]) -> dict[str, float]:
    draw = random.Random(7)
    tagged = [fragment(sentence, draw) for sentence in sentences]
    same = [plain(text) for text in tagged]
    methods = {
        "plain": lambda: translator.translate(same, placeholders=False),
        "looked at": lambda: translator.translate(same),
        "html without tags": lambda: translator.translate(same, format="html"),
        "tagged": lambda: translator.translate(tagged, format="html"),
    }
    best = dict.fromkeys(methods, float("inf"))
    for _ in range(3):
        for name, method in methods.items():
            started = time.monotonic()
            method()
            best[name] = min(best[name], time.monotonic() - started)
    return {name: seconds / best["plain"] for name, seconds in best.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--test", nargs=2, type=Path, required=True, help="the source and target files of the test set"
    )
    parser.add_argument("--train", type=Path, help="file of further English sentences")
    parser.add_argument("--model")
    parser.add_argument("--only", choices=("fragments", "words", "placeholders", "speed"))
    parser.add_argument("--sentences", type=int, default=2000)
    options = parser.parse_args()
    translator = uwaga.load(options.model, threads=1)
    sources, targets = lines(options.test[0]), lines(options.test[1])
    texts = (sources + (lines(options.train) if options.train else []))[: options.sentences]
    rows: dict[str, float] = {}
    if options.only in (None, "fragments"):
        rows |= fragments(translator, texts)
    if options.only in (None, "words"):
        gold = read_hand_alignments(LINKS)
        pairs = [(sources[alignment.line - 1], targets[alignment.line - 1]) for alignment in gold]
        check_pairs(gold, sources, targets)
        rows |= words(translator, pairs, gold)
    if options.only in (None, "placeholders"):
        rows |= placeholders(translator, texts)
    if options.only in (None, "speed"):
        rows |= speed(translator, texts[:300])
    for name, value in rows.items():
        bar = f"  bar {BARS[name]:.2f}" if name in BARS else ""
        print(f"{name:20} {value:.4f}{bar}")
    sys.exit(any(rows[name] < bar for name, bar in BARS.items() if name in rows))


if __name__ == "__main__":
    main()
