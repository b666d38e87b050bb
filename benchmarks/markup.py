"""Tags and placeholders through a translation: what survives, what stands right, and what it costs.

    python benchmarks/markup.py --test test_2016_flickr.en.gz test_2016_flickr.de.gz --train train.en.gz
    python benchmarks/markup.py --test ... --only placeholders --model MODEL_FOLDER

The texts are Multi30k's as published (raw).

``fragments``: 2,000 sentences with generated HTML: nested pairs around one to four words or everything,
``br`` and ``img``, also inside pairs. Well-formed is what an XML parser takes; the text is that of the
translation without tags, white space aside.

``words``: on the hundred pairs of benchmarks/alignments, the reference as a forced target, a pair of tags
around every run of one, two and three words that has a sure link. It is right where it makes as few mistakes
as the best run of target words could: words left out that are surely linked to what is inside, and words
taken in that are linked to the outside alone. By hand-made links instead of the model's (``placing``) it is
the method's own error. Beside it, written anew by what their sources say: bergamot-translator's method
(html.cpp: each target word takes the tags of the source word that it looks at most; right only where these
words stand together, for else the tag is there twice), with the same attention; and Argos Translate's, which
LibreTranslate uses (tags.py: what is inside is translated alone and looked for in the whole; right where it
stands at the right place of the model's own translation, by our alignment, as no person has aligned that).

``placeholders``: 2,000 sentences with one to four of them, each to be found as often as in the source.
``speed``: seconds beside those of the plain path: looked at for placeholders, as HTML, with tags.
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
    """The sentence with nested tags around some of its words, escaped."""
    words = [word.replace("&", "&amp;").replace("<", "&lt;") for word in sentence.split()]

    def dress(part: list[str], depth: int) -> list[str]:
        made, at = list[str](), 0
        while at < len(part):
            size = draw.randint(1, 4)
            inside = part[at : at + size]
            roll = draw.random()
            if roll < 0.25 and depth < 3:
                name = draw.choice("bisuq")
                inner = dress(inside, depth + 1)
                inner[0] = f"<{name}>{inner[0]}"
                inner[-1] += f"</{name}>"
                made += inner
            else:
                made += inside
            if roll > 0.96:
                made[-1] += draw.choice(("<br/>", ' <img src="x.png"/>'))
            at += size
        return made

    text = " ".join(dress(words, 0))
    return f"<p>{text}</p>" if draw.random() < 0.3 else text


def well_formed(text: str) -> bool:
    try:
        expat.ParserCreate().Parse(f"<x>{text}</x>", True)
    except expat.ExpatError:
        return False
    return True


def plain(text: str) -> str:
    found: Fragment = read_html(text)
    return " ".join("".join(strip_tags(inline).text + " " for inline in found.inlines).split())


def fragments(translator: Any, sentences: list[str]) -> dict[str, float]:
    draw = random.Random(7)
    given = [fragment(sentence, draw) for sentence in sentences]
    tags = re.compile(r"<[^>]+>")
    made = [one.text for one in translator.translate(given, format="html")]
    alone = [one.text for one in translator.translate([plain(text) for text in given])]
    count = len(given)
    print(f"{count} fragments, {sum(len(tags.findall(text)) for text in given)} tags")
    return {
        "well": sum(map(well_formed, made)) / count,
        "once": sum(
            Counter(tags.findall(a)) == Counter(tags.findall(b)) for a, b in zip(given, made, strict=True)
        )
        / count,
        "same": sum("".join(plain(a).split()) == "".join(b.split()) for a, b in zip(made, alone, strict=True))
        / count,
    }


def mistakes(inside: set[int], chosen: range | set[int], sure: Any, possible: Any) -> int:
    """Words left out, and words too many."""
    wanted = {target for source, target in sure if source in inside}
    allowed = {target for source, target in possible if source in inside}
    outside = {target for source, target in possible if source not in inside}
    taken = set(chosen)
    return len(wanted - taken) + len((taken & outside) - allowed)


def words(translator: Any, pairs: list[tuple[str, str]], gold: list[Any]) -> dict[str, float]:
    right: Counter[str] = Counter()
    total = found_alone = 0
    aligned = translator.align(pairs)
    asked: list[tuple[str, str]] = []
    for (source, target), links, one in zip(pairs, aligned, gold, strict=True):
        spans = word_spans(source)
        targets = word_spans(target)
        assert len(split_words(target)) == len(targets)
        every = [range(a, b) for a, b in combinations(range(len(targets) + 1), 2)]
        favourite = {there: here for here, there in reversed(links.links)}
        for size in (1, 2, 3):
            for first in range(len(spans) - size + 1):
                inside = set(range(first, first + size))
                if not any(here in inside for here, _ in one.sure):
                    continue
                total += 1
                least = min(mistakes(inside, other, one.sure, one.possible) for other in every)
                start, end = spans[first][0], spans[first + size - 1][1]
                tagged = (
                    source[:start],
                    Tag("open", "<b>"),
                    source[start:end],
                    Tag("close", "</b>"),
                    source[end:],
                )
                made = insert_tags(strip_tags(tagged), target, links)
                chosen = covered(made, target)
                own = WordAlignment(tuple(spans), tuple(targets), tuple(sorted(one.sure)))
                best = covered(insert_tags(strip_tags(tagged), target, own), target)
                right["placing"] += mistakes(inside, best, one.sure, one.possible) <= least
                right["ours"] += mistakes(inside, chosen, one.sure, one.possible) <= least
                copied = {there for there, here in favourite.items() if here in inside}
                together = bool(copied) and max(copied) - min(copied) + 1 == len(copied)
                right["bergamot"] += together and mistakes(inside, copied, one.sure, one.possible) <= least
                if first % 4 == 0:
                    asked.append((source, source[start:end]))
    whole = translator.translate([source for source, _ in asked], alignment=True)
    alone = translator.translate([part for _, part in asked], placeholders=False)
    for (source, part), text, inner in zip(asked, whole, alone, strict=True):
        at = text.text.find(inner.text)
        if at < 0 or not inner.text:
            continue
        found_alone += 1
        here = source.index(part)
        inside = {n for n, (a, b) in enumerate(text.alignment.source) if a >= here and b <= here + len(part)}
        spans = text.alignment.target
        chosen = {n for n, (a, b) in enumerate(spans) if a >= at and b <= at + len(inner.text)}
        every = [range(a, b) for a, b in combinations(range(len(spans) + 1), 2)]
        links = text.alignment.links
        least = min(mistakes(inside, other, links, links) for other in every)
        right["argos"] += mistakes(inside, chosen, links, links) <= least
    print(f"{total} pairs of tags; Argos's method places {found_alone} of {len(asked)}")
    return {
        "right": right["ours"] / total,
        "placing": right["placing"] / total,
        "bergamot": right["bergamot"] / total,
        "argos": right["argos"] / len(asked),
    }


def covered(made: Any, target: str) -> range:
    """The target words between the two tags."""
    before = "".join(part for part in made[: made.index(Tag("open", "<b>"))])
    behind = "".join(part for part in made[made.index(Tag("close", "</b>")) + 1 :])
    spans = word_spans(target)
    inside = [n for n, (a, b) in enumerate(spans) if a >= len(before) and b <= len(target) - len(behind)]
    return range(inside[0], inside[-1] + 1) if inside else range(0)


def placeholders(translator: Any, sentences: list[str]) -> dict[str, float]:
    draw = random.Random(8)
    given, wanted = [], []
    for sentence in sentences:
        parts = sentence.split()
        own = draw.sample(HOLDERS, draw.randint(1, 4))
        for one in own:
            parts.insert(draw.randint(0, max(len(parts) - 1, 0)), one)
        given.append(" ".join(parts))
        wanted.append(own)
    started = time.monotonic()
    made = translator.translate(given)
    seconds = time.monotonic() - started
    alone = sum(any("no symbol" in warning for warning in one.warnings) for one in made)
    good = sum(
        all(one.text.count(text) == given_.count(text) for text in own)
        for one, own, given_ in zip(made, wanted, given, strict=True)
    )
    print(f"{sum(map(len, wanted))} placeholders in {len(given)} sentences, {seconds:.1f} s; ", end="")
    print(f"in {alone} sentences one stands by alignment alone")
    return {"kept": good / len(given)}


def speed(translator: Any, sentences: list[str]) -> dict[str, float]:
    draw = random.Random(7)
    tagged = [fragment(sentence, draw) for sentence in sentences]
    same = [plain(text) for text in tagged]
    ways = {
        "plain": lambda: translator.translate(same, placeholders=False),
        "looked at": lambda: translator.translate(same),
        "html without tags": lambda: translator.translate(same, format="html"),
        "tagged": lambda: translator.translate(tagged, format="html"),
    }
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(3):
        for name, way in ways.items():
            started = time.monotonic()
            way()
            best[name] = min(best[name], time.monotonic() - started)
    return {name: seconds / best["plain"] for name, seconds in best.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--test", nargs=2, type=Path, required=True, help="the test set, both sides")
    parser.add_argument("--train", type=Path, help="more English sentences")
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
        pairs = [(sources[one.line - 1], targets[one.line - 1]) for one in gold]
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
